/* Messages between two ranks: of any length, in order, while collectives go on. */
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "mpi_check.h"

enum { ROUNDS = 7 };
static const int64_t lengths[ROUNDS] = {1, 8, 4096, 100, 70001, 3 << 20, 5};

static char byte_of(int from, int round, int64_t i)
{
    return (char)(from * 53 + round * 11 + i * 7 + (i >> 8));
}

/* Posts all messages to everybody. */
static void post_all(lh_comm *comm, int round)
{
    char *text = NULL;
    mt_try(lh_calloc(&text, lengths[round], 1));
    for (int64_t i = 0; i < lengths[round]; i++) text[i] = byte_of(mt_rank(), round, i);
    for (int to = 0; to < mt_size(); to++)
        if (to != mt_rank()) mt_try(lh_comm_post(comm, to, text, lengths[round]));
    memset(text, 0, (size_t)lengths[round]); /* it was copied */
    lh_free(text);
}

/* Takes a message; returns 1 if one was there. seen: [size] how many each rank has sent. */
static int take_one(lh_comm *comm, int *seen)
{
    int from;
    int64_t bytes;
    char *text = NULL;
    mt_try(lh_comm_arrived(comm, &from, &bytes));
    if (from < 0) return 0;
    const int round = seen[from]++;
    mt_check(round < ROUNDS && bytes == lengths[round], "message %d of rank %d has %d bytes", round, from, (int)bytes);
    mt_try(lh_calloc(&text, bytes, 1));
    mt_try(lh_comm_take(comm, from, text, bytes));
    int64_t wrong = 0;
    for (int64_t i = 0; i < bytes; i++) wrong += text[i] != byte_of(from, round, i);
    mt_check(wrong == 0, "message %d of rank %d: %d bytes differ", round, from, (int)wrong);
    lh_free(text);
    return 1;
}

START_TEST(test_messages_arrive_in_order_beside_collectives)
{
    lh_comm *comm = mt_comm();
    int seen[8] = {0}, taken = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t one = 1;
        post_all(comm, round);
        mt_try(lh_comm_allreduce(comm, &one, 1, LH_I64, LH_SUM));
        mt_check(one == mt_size(), "a collective gave %d", (int)one);
    }
    while (taken < ROUNDS * (mt_size() - 1)) {
        taken += take_one(comm, seen);
        usleep(100);
    }
    mt_check(!take_one(comm, seen), "there is one more");
    mt_try(lh_comm_barrier(comm));
    mt_end();
}
END_TEST

START_TEST(test_a_long_message_arrives_while_its_sender_waits)
{
    enum { LONG = 3000000 };
    lh_comm *comm = mt_comm();
    char *text = NULL;
    int from = -1;
    int64_t bytes = 0;
    mt_try(lh_calloc(&text, LONG, 1));
    if (mt_rank() == 0) {
        for (int64_t i = 0; i < LONG; i++) text[i] = byte_of(0, 1, i);
        mt_try(lh_comm_post(comm, 1, text, LONG));
    } else if (mt_rank() == 1) {
        usleep(50000); /* the sender is in the barrier */
        while (from < 0) mt_try(lh_comm_arrived(comm, &from, &bytes));
        mt_check(from == 0 && bytes == LONG, "%d bytes of rank %d", (int)bytes, from);
        mt_try(lh_comm_take(comm, 0, text, LONG));
        for (int64_t i = 0; i < LONG; i++) mt_check(text[i] == byte_of(0, 1, i), "byte %d", (int)i);
    }
    mt_try(lh_comm_barrier(comm));
    lh_free(text);
    mt_end();
}
END_TEST

START_TEST(test_a_part_of_the_ranks_has_messages_of_its_own)
{
    lh_comm *part = NULL;
    int from;
    int64_t bytes;
    mt_try(lh_comm_split(mt_comm(), mt_rank() % 2, &part));
    if (lh_comm_size(part) > 1) {
        char word = (char)mt_rank();
        if (lh_comm_rank(part) > 0) mt_try(lh_comm_post(part, 0, &word, 1));
        for (int left = lh_comm_rank(part) ? 0 : lh_comm_size(part) - 1; left > 0;) {
            mt_try(lh_comm_arrived(mt_comm(), &from, &bytes));
            mt_check(from < 0, "the world has a message of its part");
            mt_try(lh_comm_arrived(part, &from, &bytes));
            if (from < 0) continue;
            mt_try(lh_comm_take(part, from, &word, 1));
            mt_check(bytes == 1 && word == mt_rank() + 2 * from, "rank %d sent %d", from, word);
            left--;
        }
    }
    mt_try(lh_comm_barrier(mt_comm()));
    lh_comm_close(part);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("messages");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_messages_arrive_in_order_beside_collectives);
    tcase_add_test(all, test_a_long_message_arrives_while_its_sender_waits);
    tcase_add_test(all, test_a_part_of_the_ranks_has_messages_of_its_own);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
