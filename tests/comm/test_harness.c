/* mpi_check.h itself: what fails on the last rank fails everywhere and is told once, by rank 0. CTest expects the
 * failure and its message. */
#include "mpi_check.h"

START_TEST(test_fails_on_the_last_rank)
{
    mt_check(mt_rank() != mt_size() - 1, "one is not %d", 2);
    mt_check(mt_rank() != mt_size() - 1, "only the first failure is told");
    mt_end();
}
END_TEST

START_TEST(test_that_follows_passes)
{
    int64_t one = 1;
    mt_try(lh_comm_allreduce(mt_comm(), &one, 1, LH_I64, LH_SUM));
    mt_check(one == mt_size(), "%d", (int)one);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("harness");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_fails_on_the_last_rank);
    tcase_add_test(all, test_that_follows_passes);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
