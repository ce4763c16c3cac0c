/* Laws of the collectives, at any number of ranks, with messages cut into pieces of any size and through the memory
 * that ranks of one host share. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/comm_impl.h"
#include "mpi_check.h"

/* Pieces so small that every message is cut, odd ones, what is usual between hosts, and what is usual on one. */
static const int64_t pieces[] = {1, 7, 64, 1000, 1 << 30, 0};
static const int64_t counts[] = {0, 1, 2, 3, 17, 256, 2049, 20011, 70001, 600077};
enum { PIECES = sizeof pieces / sizeof *pieces, COUNTS = sizeof counts / sizeof *counts };

/* The byte at i of what rank r sends. */
static uint8_t byte_of(int r, int64_t i)
{
    return (uint8_t)(r * 53 + i * 7 + (i >> 8) * 3 + 1);
}

static void fill(uint8_t *p, int r, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) p[i] = byte_of(r, i);
}

static int holds(const uint8_t *p, int r, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (p[i] != byte_of(r, i)) return 0;
    return 1;
}

static void *room(int64_t bytes)
{
    void *p = NULL;
    mt_try(lh_calloc(&p, bytes, 1));
    return p;
}

/* Every loop test runs once for each of the pieces. */
static lh_comm *comm_with(int piece)
{
    lh_comm_mpi_set_piece(mt_comm(), pieces[piece]);
    return mt_comm();
}

/* Skips what would be millions of messages of one byte. */
static int too_many(int64_t bytes, int64_t piece)
{
    return piece && bytes / piece > 600;
}

START_TEST(test_allreduce_is_exact_on_integers_and_near_on_floats)
{
    lh_comm *comm = comm_with(_i);
    int n = mt_size(), rank = mt_rank();
    for (int c = 0; c < COUNTS; c++) {
        int64_t count = too_many(counts[c], pieces[_i]) ? 257 : counts[c], *wide = room(count * 8);
        int32_t *narrow = room(count * 4);
        float *real = room(count * 4);
        uint16_t *half = room(count * 2);
        for (int64_t i = 0; i < count; i++) {
            half[i] = lh_f32_to_bf16((float)((rank + 1) * (i % 12)));
            wide[i] = (INT64_C(1) << 40) * (rank + 1) + i;
            narrow[i] = (int32_t)((rank + i) % n * 10 - i);
            real[i] = (float)(rank + 1) * (float)i;
        }
        int64_t sent = lh_comm_sent_bytes(comm);
        mt_try(lh_comm_allreduce(comm, wide, count, LH_I64, LH_SUM));
        mt_try(lh_comm_allreduce(comm, narrow, count, LH_I32, LH_MAX));
        mt_try(lh_comm_allreduce(comm, real, count, LH_F32, LH_SUM));
        mt_try(lh_comm_allreduce(comm, half, count, LH_BF16, LH_SUM));
        mt_check(lh_comm_sent_bytes(comm) - sent == (n > 1 ? 18 * count : 0), "sent bytes are off by something");
        double ranks = n * (n + 1) / 2.0;
        for (int64_t i = 0; i < count; i++) {
            mt_check(wide[i] == (INT64_C(1) << 40) * (int64_t)ranks + n * i, "sum at %lld of %lld", (long long)i,
                     (long long)count);
            mt_check(narrow[i] == (n - 1) * 10 - i, "maximum at %lld of %lld", (long long)i, (long long)count);
            mt_check(real[i] == (float)(ranks * (double)i), "float at %lld: %g", (long long)i, real[i]);
            mt_check(lh_bf16_to_f32(half[i]) == (float)(ranks * (double)(i % 12)), "bf16 at %lld: %g", (long long)i,
                     lh_bf16_to_f32(half[i]));
            narrow[i] = (int32_t)((rank + i) % n * 10 - i);
        }
        mt_try(lh_comm_allreduce(comm, narrow, count, LH_I32, LH_MIN));
        for (int64_t i = 0; i < count; i++) mt_check(narrow[i] == -i, "minimum at %lld", (long long)i);
        lh_free(wide);
        lh_free(narrow);
        lh_free(real);
        lh_free(half);
    }
    mt_end();
}
END_TEST

START_TEST(test_allgather_gives_every_rank_all_blocks)
{
    lh_comm *comm = comm_with(_i);
    int n = mt_size(), rank = mt_rank();
    for (int c = 0; c < COUNTS; c++) {
        int64_t bytes = too_many(counts[c], pieces[_i]) ? 555 : counts[c];
        uint8_t *own = room(bytes), *all = room(bytes * n + 1), *again = room(bytes * n);
        fill(own, rank, bytes);
        all[bytes * n] = 0xee;
        int64_t sent = lh_comm_sent_bytes(comm);
        mt_try(lh_comm_allgather(comm, bytes ? own : NULL, bytes ? all : NULL, bytes));
        mt_check(lh_comm_sent_bytes(comm) - sent == (n > 1 ? bytes : 0), "sent bytes");
        for (int r = 0; r < n; r++)
            mt_check(holds(all + r * bytes, r, bytes), "block %d of %lld bytes", r, (long long)bytes);
        mt_check(all[bytes * n] == 0xee, "wrote behind the last of %lld bytes", (long long)bytes);
        fill(again + rank * bytes, rank, bytes);
        mt_try(lh_comm_allgather(comm, again + rank * bytes, again, bytes));
        mt_check(memcmp(again, all, (size_t)(bytes * n)) == 0, "in place is not the same");
        lh_free(own);
        lh_free(all);
        lh_free(again);
    }
    mt_end();
}
END_TEST

/* Ragged blocks with gaps between them, some empty, in an order that is not that of the ranks. */
static int64_t lay_out(int64_t round, int64_t piece, int64_t *bytes, int64_t *at)
{
    int n = mt_size();
    int64_t end = 3;
    for (int k = 0; k < n; k++) {
        int r = (int)((k + round) % n);
        bytes[r] = counts[(r * 31 + round * 17) % COUNTS];
        if ((r + round) % 3 == 0) bytes[r] = 0;
        if (too_many(bytes[r], piece)) bytes[r] = 555;
        at[r] = end;
        end += bytes[r] + 5;
    }
    return end;
}

START_TEST(test_ragged_gathers_fill_their_blocks_and_nothing_else)
{
    lh_comm *comm = comm_with(_i);
    int n = mt_size(), rank = mt_rank();
    int64_t *bytes = room(8 * n), *at = room(8 * n);
    for (int64_t round = 0; round < 12; round++) {
        int64_t end = lay_out(round, pieces[_i], bytes, at);
        int root = (int)(round % n), in_place = round % 2 == 1;
        uint8_t *own = room(bytes[rank]), *all = room(end), *some = room(end);
        memset(all, 0xee, (size_t)end);
        memset(some, 0xee, (size_t)end);
        fill(own, rank, bytes[rank]);
        fill(all + at[rank], rank, in_place ? bytes[rank] : 0);
        if (rank == root) fill(some + at[rank], rank, in_place ? bytes[rank] : 0);
        int64_t sent = lh_comm_sent_bytes(comm);
        mt_try(lh_comm_allgatherv(comm, in_place ? all + at[rank] : own, all, bytes, at));
        mt_try(lh_comm_gatherv(comm, root, in_place && rank == root ? some + at[rank] : own, rank == root ? some : NULL,
                               bytes, at));
        mt_check(lh_comm_sent_bytes(comm) - sent == (n > 1 ? bytes[rank] * (rank == root ? 1 : 2) : 0), "sent bytes");
        for (int r = 0; r < n; r++) mt_check(holds(all + at[r], r, bytes[r]), "block %d, round %d", r, (int)round);
        mt_check(rank != root || memcmp(all, some, (size_t)end) == 0, "the root has something else than all");
        for (int r = 0; r < n; r++) memset(all + at[r], 0xee, (size_t)bytes[r]);
        for (int64_t i = 0; i < end; i++) mt_check(all[i] == 0xee, "gap at %lld was written", (long long)i);
        lh_free(own);
        lh_free(all);
        lh_free(some);
    }
    memset(bytes, 0, 8 * (size_t)n);
    mt_try(lh_comm_allgatherv(comm, NULL, NULL, bytes, bytes));
    mt_try(lh_comm_gatherv(comm, n - 1, NULL, NULL, bytes, bytes));
    lh_free(bytes);
    lh_free(at);
    mt_end();
}
END_TEST

START_TEST(test_broadcast_reaches_everyone_from_any_root)
{
    lh_comm *comm = comm_with(_i);
    int n = mt_size();
    for (int root = 0; root < n; root++)
        for (int c = 0; c < COUNTS; c++) {
            int64_t bytes = too_many(counts[c], pieces[_i]) ? 555 : counts[c];
            uint8_t *p = room(bytes);
            if (mt_rank() == root) fill(p, root, bytes);
            int64_t sent = lh_comm_sent_bytes(comm);
            mt_try(lh_comm_bcast(comm, root, p, bytes));
            mt_check(lh_comm_sent_bytes(comm) - sent == (n > 1 && mt_rank() == root ? bytes : 0), "sent bytes");
            mt_check(holds(p, root, bytes), "%lld bytes from rank %d", (long long)bytes, root);
            lh_free(p);
        }
    mt_try(lh_comm_barrier(comm));
    mt_end();
}
END_TEST

/* One after the other, with ranks that are late now and then: none reads what a later one has sent. */
START_TEST(test_collectives_in_a_row_keep_apart)
{
    enum { MOST = 300000 };
    lh_comm *comm = comm_with(_i);
    int n = mt_size(), rank = mt_rank();
    int64_t *bytes = room(8 * n), *at = room(8 * n);
    uint8_t *own = room(MOST), *all = room((int64_t)MOST * n);
    for (int round = 0; round < 60; round++) {
        const int root = round % n, salt = round * 11;
        const int64_t length = round % 10 == 9 && !too_many(MOST, pieces[_i]) ? MOST : 100 + round;
        for (int r = 0; r < n; r++) bytes[r] = length - r, at[r] = r * (int64_t)MOST;
        if ((round * 7 + rank * 5) % 9 == 0) usleep(300);
        fill(own, rank + salt, length);
        mt_try(lh_comm_allgather(comm, own, all, length));
        for (int r = 0; r < n; r++) mt_check(holds(all + r * length, r + salt, length), "round %d", round);
        mt_try(lh_comm_gatherv(comm, root, own, all, bytes, at));
        fill(own, root + salt + 1, rank == root ? length : 0);
        mt_try(lh_comm_bcast(comm, root, own, length));
        mt_check(holds(own, root + salt + 1, length), "broadcast in round %d", round);
        for (int r = 0; r < n && rank == root; r++)
            mt_check(holds(all + at[r], r + salt, bytes[r]), "block %d in round %d", r, round);
        int32_t *numbers = (int32_t *)own;
        const int64_t count = length / 4 * (1 + round % 3 * 20) <= MOST / 4 ? length / 4 * (1 + round % 3 * 20) : 1;
        for (int64_t i = 0; i < count; i++) numbers[i] = (int32_t)(rank * round + i);
        mt_try(lh_comm_allreduce(comm, numbers, count, LH_I32, LH_MAX));
        for (int64_t i = 0; i < count; i++)
            mt_check(numbers[i] == (n - 1) * round + i, "maximum at %lld in round %d", (long long)i, round);
        if (round % 4 == 1) mt_try(lh_comm_barrier(comm));
    }
    lh_free(bytes);
    lh_free(at);
    lh_free(own);
    lh_free(all);
    mt_end();
}
END_TEST

static double own_seconds(void)
{
    struct rusage of;
    getrusage(RUSAGE_THREAD, &of);
    return (double)(of.ru_utime.tv_sec + of.ru_stime.tv_sec) +
           (double)(of.ru_utime.tv_usec + of.ru_stime.tv_usec) * 1e-6;
}

/* Of ranks on one host: the core is for others, above all for the rank that is late. */
START_TEST(test_a_rank_that_waits_long_sleeps)
{
    lh_comm *comm = comm_with(PIECES - 1);
    int n = mt_size(), late = n - 1;
    int64_t *bytes = room(8 * n), *at = room(8 * n), *all = room(8 * n), sum = 1;
    for (int r = 0; r < n; r++) bytes[r] = 8, at[r] = 8 * r;
    for (int kind = 0; kind < 6; kind++) {
        const double before = own_seconds();
        if (mt_rank() == late) usleep(200000);
        if (kind == 0) mt_try(lh_comm_barrier(comm));
        if (kind == 1) mt_try(lh_comm_bcast(comm, late, all, 8));
        if (kind == 2) mt_try(lh_comm_allreduce(comm, &sum, 1, LH_I64, LH_SUM));
        if (kind == 3) mt_try(lh_comm_allgather(comm, &sum, all, 8));
        if (kind == 4) mt_try(lh_comm_allgatherv(comm, &sum, all, bytes, at));
        if (kind == 5) mt_try(lh_comm_gatherv(comm, 0, &sum, all, bytes, at));
        mt_check(own_seconds() - before < 0.1, "a wait of 0.2 s took %.3f s of a core", own_seconds() - before);
    }
    lh_free(bytes);
    lh_free(at);
    lh_free(all);
    mt_end();
}
END_TEST

/* Replicas x TP group, as --tp makes them: every group works on its own, and ranks keep their order. */
START_TEST(test_split_makes_groups_that_do_not_hear_each_other)
{
    lh_comm *world = comm_with(_i), *group = NULL, *half = NULL;
    int n = mt_size(), rank = mt_rank();
    for (int tp = 1; tp <= n; tp++) {
        int64_t sum = rank, expected = 0;
        int first = rank / tp * tp, size = n - first < tp ? n - first : tp;
        mt_try(lh_comm_split(world, rank / tp, &group));
        mt_check(lh_comm_size(group) == size, "group of %d ranks, not %d", lh_comm_size(group), size);
        mt_check(lh_comm_rank(group) == rank - first, "rank %d of its group", lh_comm_rank(group));
        mt_check(lh_comm_local_rank(group) == lh_comm_local_rank(world), "local rank changed");
        mt_check(lh_comm_local_size(group) == n, "%d ranks on this host", lh_comm_local_size(group));
        for (int r = first; r < first + size; r++) expected += r;
        mt_try(lh_comm_allreduce(group, &sum, 1, LH_I64, LH_SUM));
        mt_check(sum == expected, "sum %d of a group, not %d", (int)sum, (int)expected);
        mt_check(lh_comm_sent_bytes(group) == (size > 1 ? 8 : 0), "sent bytes");
        mt_try(lh_comm_split(group, lh_comm_rank(group) % 2, &half)); /* groups can be split again */
        sum = 1;
        mt_try(lh_comm_allreduce(half, &sum, 1, LH_I64, LH_SUM));
        mt_check(sum == lh_comm_size(half), "%d ranks in a half", (int)sum);
        lh_status st = LH_OK; /* a failure is the group's own */
        if (rank == 0) st = lh_fail(LH_EFILE, __FILE__, __LINE__, "only the first group");
        mt_expect(lh_comm_agree(group, st), rank / tp == 0 ? LH_EFILE : LH_OK);
        lh_comm_close(half);
        lh_comm_close(group);
    }
    mt_end();
}
END_TEST

START_TEST(test_reversed_colors_order_groups_by_rank)
{
    lh_comm *group = NULL;
    uint8_t order[64] = {0}, own = (uint8_t)mt_rank();
    mt_try(lh_comm_split(mt_comm(), 1000 - mt_rank() % 2, &group));
    mt_try(lh_comm_allgather(group, &own, order, 1));
    for (int r = 0; r < lh_comm_size(group); r++)
        mt_check(order[r] == mt_rank() % 2 + 2 * r, "rank %d stands at %d", order[r], r);
    lh_comm_close(group);
    mt_end();
}
END_TEST

START_TEST(test_ranks_know_who_they_are)
{
    lh_comm *comm = mt_comm();
    int rank, size, expected = mt_size() > 1;
    mt_check(lh_comm_launched(&rank, &size) == 1 || mt_size() == 1, "no launcher was seen");
    mt_check(rank == mt_rank() && size == mt_size(), "launched as %d of %d", rank, size);
    mt_check(strcmp(lh_comm_name(comm), expected ? "mpi" : "self") == 0, "called %s", lh_comm_name(comm));
    mt_check(lh_comm_local_rank(comm) == mt_rank(), "local rank %d", lh_comm_local_rank(comm)); /* one host here */
    mt_check(strlen(lh_comm_host(comm)) > 0, "no name of the host");
    mt_end();
}
END_TEST

/* The ranks of every other number, while the world of all ranks goes on. */
START_TEST(test_a_communicator_of_the_program_is_a_world_of_its_ranks)
{
    lh_comm *comm = NULL;
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Errhandler before = MPI_ERRHANDLER_NULL, after = MPI_ERRHANDLER_NULL;
    int running = 0, rank = mt_rank(), parity = rank % 2, size = (mt_size() - parity + 1) / 2;
    int64_t sum = rank, expected = 0;
    MPI_Initialized(&running);
    if (!running) {
        mt_expect(lh_comm_open_mpi_on(&comm, &half, 60), LH_ECOMM);
        mt_check(strstr(lh_error_message(), "MPI_Init") != NULL, "'%s'", lh_error_message());
    } else {
        mt_expect(lh_comm_open_mpi_on(&comm, &half, 60), LH_EUSAGE);
        MPI_Comm_split(MPI_COMM_WORLD, parity, rank, &half);
        MPI_Comm_set_errhandler(half, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_get_errhandler(half, &before);
        mt_try(lh_comm_open_mpi_on(&comm, &half, 60));
        mt_check(lh_comm_size(comm) == size && lh_comm_rank(comm) == rank / 2, "rank %d of %d", lh_comm_rank(comm),
                 lh_comm_size(comm));
        mt_check(lh_comm_local_size(comm) == size, "%d ranks on this host", lh_comm_local_size(comm));
        for (int r = parity; r < mt_size(); r += 2) expected += r;
        mt_try(lh_comm_allreduce(comm, &sum, 1, LH_I64, LH_SUM));
        mt_check(sum == expected, "sum %d, not %d", (int)sum, (int)expected);
        lh_comm_close(comm);
        MPI_Comm_get_errhandler(half, &after);
        mt_check(before == after, "its errors are handled otherwise");
        MPI_Comm_free(&half);
        MPI_Initialized(&running);
        mt_check(running, "MPI has ended");
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("collectives");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, test_allreduce_is_exact_on_integers_and_near_on_floats, 0, PIECES);
    tcase_add_loop_test(all, test_allgather_gives_every_rank_all_blocks, 0, PIECES);
    tcase_add_loop_test(all, test_ragged_gathers_fill_their_blocks_and_nothing_else, 0, PIECES);
    tcase_add_loop_test(all, test_broadcast_reaches_everyone_from_any_root, 0, PIECES);
    tcase_add_loop_test(all, test_collectives_in_a_row_keep_apart, 0, PIECES);
    tcase_add_test(all, test_a_rank_that_waits_long_sleeps);
    tcase_add_loop_test(all, test_split_makes_groups_that_do_not_hear_each_other, 0, PIECES);
    tcase_add_test(all, test_reversed_colors_order_groups_by_rank);
    tcase_add_test(all, test_ranks_know_who_they_are);
    tcase_add_test(all, test_a_communicator_of_the_program_is_a_world_of_its_ranks);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
