/* Messages above 2^31 bytes, as they are: MPI counts in int. Takes a minute and 9 GiB, so it runs with LONGHAUL_LONG=1
 * only; shorter pieces are tested in test_collectives. */
#include <stdio.h>
#include <stdlib.h>

#include "device/device_impl.h"
#include "mpi_check.h"

enum { STRIDE = 999983 }; /* looks at every so many elements: a prime, so every piece is met at odd places */

static const int64_t OVER = (INT64_C(1) << 31) + 12345;

/* NULL on all ranks when the machine has no room. */
static int32_t *room(int64_t bytes)
{
    int64_t fits = lh_machine_free_bytes("") > INT64_C(9) << 30;
    mt_try(lh_comm_bcast(mt_comm(), 0, &fits, sizeof fits));
    int32_t *p = fits ? malloc((size_t)bytes) : NULL;
    if (!p && mt_rank() == 0) printf("skipped: less than 9 GiB are free\n");
    return p;
}

static int32_t element(int r, int64_t i)
{
    return (int32_t)(i % 1000003) + r;
}

START_TEST(test_long_allreduce)
{
    int64_t count = OVER / 4;
    int n = mt_size();
    int32_t *x = room(4 * count);
    if (x) {
        for (int64_t i = 0; i < count; i++) x[i] = element(mt_rank(), i);
        mt_try(lh_comm_allreduce(mt_comm(), x, count, LH_I32, LH_SUM));
        for (int64_t i = 0; i < count; i += STRIDE)
            mt_check(x[i] == n * element(0, i) + n * (n - 1) / 2, "element %lld", (long long)i);
        mt_check(x[count - 1] == n * element(0, count - 1) + n * (n - 1) / 2, "the last element");
    }
    free(x);
    mt_end();
}
END_TEST

START_TEST(test_long_broadcast)
{
    int64_t count = OVER / 4;
    int32_t *x = room(4 * count);
    if (x) {
        for (int64_t i = 0; i < count; i++) x[i] = mt_rank() == 0 ? element(5, i) : 0;
        mt_try(lh_comm_bcast(mt_comm(), 0, x, 4 * count));
        for (int64_t i = 0; i < count; i += STRIDE) mt_check(x[i] == element(5, i), "element %lld", (long long)i);
        mt_check(x[count - 1] == element(5, count - 1), "the last element");
    }
    free(x);
    mt_end();
}
END_TEST

/* Blocks in place: one that is long, one that lies after it. */
START_TEST(test_long_gathers)
{
    int64_t bytes[64] = {0}, at[64] = {0}, last = mt_size() - 1;
    bytes[0] = OVER / 4 * 4;
    for (int64_t r = 1; r <= last; r++) {
        bytes[r] = 4 * (1000 + r);
        at[r] = at[r - 1] + bytes[r - 1];
    }
    for (int way = 0; way < 2; way++) {
        int32_t *x = room(at[last] + bytes[last]);
        if (!x) continue;
        int32_t *own = x + at[mt_rank()] / 4;
        for (int64_t i = 0; i < bytes[mt_rank()] / 4; i++) own[i] = element(mt_rank(), i);
        if (way == 0)
            mt_try(lh_comm_allgatherv(mt_comm(), own, x, bytes, at));
        else
            mt_try(lh_comm_gatherv(mt_comm(), (int)last, own, x, bytes, at));
        for (int64_t r = 0; r <= last && (way == 0 || mt_rank() == last); r++)
            for (int64_t i = 0; i < bytes[r] / 4; i += r == 0 ? STRIDE : 1)
                mt_check(x[at[r] / 4 + i] == element((int)r, i), "element %lld of block %d", (long long)i, (int)r);
        free(x);
    }
    mt_end();
}
END_TEST

int main(void)
{
    if (!getenv("LONGHAUL_LONG")) {
        printf("skipped: set LONGHAUL_LONG=1\n");
        return 0;
    }
    Suite *suite = suite_create("long messages");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_long_allreduce);
    tcase_add_test(all, test_long_broadcast);
    tcase_add_test(all, test_long_gathers);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
