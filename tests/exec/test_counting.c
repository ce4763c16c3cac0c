/* Laws of the execution context that only counts: more memory than there is, nothing done, peers that say the same. */
#include "exec/exec.h"
#include "exec/heads.h"
#include "suite.h"

static const int64_t HUGE_BYTES = INT64_C(1) << 50;

START_TEST(test_memory_is_counted_and_not_there)
{
    lh_counting c;
    void *a = NULL, *b = NULL, *none = &c;
    ck_assert_int_eq(lh_counting_open(&c, LH_DEVICE_CUDA, 0, 1), LH_OK);
    ck_assert_int_eq(lh_device_alloc(c.device, &a, HUGE_BYTES, LH_MEM_KV), LH_OK);
    ck_assert_int_eq(lh_device_alloc(c.device, &b, 100, LH_MEM_WORK), LH_OK);
    ck_assert_int_eq(lh_device_alloc(c.device, &none, 0, LH_MEM_WORK), LH_OK);
    ck_assert(a && !none && (char *)b - (char *)a >= HUGE_BYTES); /* blocks do not overlap */
    lh_device_free(c.device, a);
    lh_mem_usage usage = lh_device_usage(c.device);
    ck_assert(usage.peak_total == HUGE_BYTES + 100 && usage.now_total == 100 && usage.now[LH_MEM_KV] == 0);
    lh_device_free(c.device, b);
    lh_counting_close(&c);
}
END_TEST

START_TEST(test_nothing_is_done_and_nothing_fails)
{
    lh_counting c;
    float *x = NULL, host = 3;
    ck_assert_int_eq(lh_counting_open(&c, LH_DEVICE_CPU, 0, 1), LH_OK);
    ck_assert_int_eq(lh_device_alloc(c.device, &x, HUGE_BYTES, LH_MEM_WORK), LH_OK);
    ck_assert_int_eq(lh_ops_check(c.exec.ops), LH_OK);
    LH_RUN(&c.exec, softcap, .x = x, .count = HUGE_BYTES / (int64_t)sizeof *x, .cap = 30);
    lh_exec_zero(&c.exec, x, HUGE_BYTES);
    lh_exec_fetch(&c.exec, &host, x, sizeof host);
    lh_exec_allreduce(&c.exec, x, 1000, LH_F32, LH_SUM);
    ck_assert_int_eq(lh_exec_agree(&c.exec), LH_OK);
    ck_assert(host == 3); /* as the host had it */
    lh_device_free(c.device, x);
    lh_counting_close(&c);
}
END_TEST

START_TEST(test_peers_send_what_this_rank_sends)
{
    lh_counting c;
    int64_t own[] = {7, 9}, all[6] = {0}, bytes[] = {8, 16, 24}, at[] = {0, 8, 24}, least = 5;
    ck_assert_int_eq(lh_counting_open(&c, LH_DEVICE_CPU, 1, 3), LH_OK);
    ck_assert(lh_comm_rank(c.exec.comm) == 1 && lh_comm_size(c.exec.comm) == 3);
    ck_assert_int_eq(lh_comm_allgatherv(c.exec.comm, own, all, bytes, at), LH_OK);
    const int64_t expected[] = {7, 7, 9, 7, 9, 7};
    for (int i = 0; i < 6; i++) ck_assert_int_eq(all[i], expected[i]);
    ck_assert_int_eq(lh_comm_allreduce(c.exec.comm, &least, 1, LH_I64, LH_MIN), LH_OK);
    ck_assert_int_eq(least, 5);
    LH_LATCH(&c.exec, LH_ENOMEM);
    ck_assert_int_eq(lh_exec_agree(&c.exec), LH_ENOMEM); /* all ranks fail as this one does */
    lh_counting_close(&c);
}
END_TEST

/* The second rank of a group counts no KV head, and sends no length. */
START_TEST(test_heads_of_peers_are_as_long_as_those_of_any_rank)
{
    for (int rank = 0; rank < 4; rank++) {
        lh_counting c;
        lh_heads heads;
        lh_gather gather;
        const int64_t own[] = {70};
        int64_t all[2] = {0};
        ck_assert_int_eq(lh_counting_open(&c, LH_DEVICE_CPU, rank, 4), LH_OK);
        ck_assert_int_eq(lh_heads_of(&heads, 8, 2, rank, 4), LH_OK);
        ck_assert_int_eq(lh_gather_init(&gather, 4), LH_OK);
        ck_assert_int_eq(heads.counted_count, rank % 2 ? 0 : 1);
        ck_assert_int_eq(lh_gather_lens(&gather, &heads, c.exec.comm, own, all), LH_OK);
        ck_assert(all[0] == 70 && all[1] == 70);
        lh_gather_clear(&gather);
        lh_counting_close(&c);
    }
}
END_TEST

int main(void)
{
    return suite_run("counting", (const TTest *const[]){test_memory_is_counted_and_not_there,
                                                        test_nothing_is_done_and_nothing_fails,
                                                        test_peers_send_what_this_rank_sends,
                                                        test_heads_of_peers_are_as_long_as_those_of_any_rank, NULL});
}
