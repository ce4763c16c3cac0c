/* Laws of the scratch stack: what a dry run takes of it is all that a run takes, at the same addresses. */
#include "exec/scratch.h"

#include "exec/exec.h"
#include "suite.h"

enum { BLOCK = 64 };

static lh_counting on;
static lh_scratch scratch;

static const lh_exec *open_stack(int64_t reserved)
{
    ck_assert_int_eq(lh_counting_open(&on, LH_DEVICE_CPU, 0, 1), LH_OK);
    scratch = (lh_scratch){0};
    on.exec.scratch = &scratch;
    ck_assert_int_eq(lh_scratch_reserve(&on.exec, reserved), LH_OK);
    return &on.exec;
}

static void close_stack(void)
{
    ck_assert_int_eq(lh_scratch_reserve(&on.exec, 0), LH_OK);
    ck_assert(lh_device_usage(on.device).now_total == 0);
    lh_counting_close(&on);
}

static int64_t peak(void)
{
    return lh_device_usage(on.device).peak[LH_MEM_WORK];
}

/* A job: two arrays, of which the second is temporary, and a third in its place. */
static void work(const lh_exec *x, char *at[3])
{
    at[0] = lh_scratch_alloc(x, 1);
    const int64_t mark = lh_scratch_mark(x);
    at[1] = lh_scratch_alloc(x, 3 * BLOCK);
    lh_scratch_release(x, mark);
    at[2] = lh_scratch_alloc(x, BLOCK + 1);
    lh_scratch_release(x, 0);
}

START_TEST(test_a_dry_run_shows_what_a_run_takes)
{
    char *first[3], *again[3];
    const lh_exec *x = open_stack(0);
    work(x, first);
    const int64_t bytes = peak();
    ck_assert_int_eq(bytes, 4 * BLOCK);
    ck_assert(lh_device_usage(on.device).now_total == 0);
    ck_assert_int_eq(lh_scratch_reserve(x, bytes), LH_OK);
    work(x, first);
    work(x, again);
    for (int i = 0; i < 3; i++) ck_assert_ptr_eq(first[i], again[i]);
    ck_assert(first[1] == first[0] + BLOCK && first[2] == first[1]);
    ck_assert_int_eq(peak(), bytes);
    close_stack();
}
END_TEST

START_TEST(test_more_than_is_reserved_is_there_until_it_is_released)
{
    const lh_exec *x = open_stack(2 * BLOCK);
    char *a = lh_scratch_alloc(x, BLOCK);
    const int64_t mark = lh_scratch_mark(x);
    char *b = lh_scratch_alloc(x, 2 * BLOCK), *c = lh_scratch_alloc(x, BLOCK);
    ck_assert(a && b && c && !lh_scratch_alloc(x, 0));
    ck_assert_int_eq(lh_device_usage(on.device).now[LH_MEM_WORK], 5 * BLOCK);
    lh_scratch_release(x, mark);
    ck_assert_int_eq(lh_device_usage(on.device).now[LH_MEM_WORK], 2 * BLOCK);
    ck_assert_ptr_eq((char *)lh_scratch_alloc(x, BLOCK), a + BLOCK);
    lh_scratch_release(x, 0);
    close_stack();
}
END_TEST

START_TEST(test_a_failure_is_latched_and_leaves_the_stack_as_it_was)
{
    const lh_exec *x = open_stack(BLOCK);
    lh_device_set_limit(on.device, 2 * BLOCK);
    ck_assert(!lh_scratch_alloc(x, 3 * BLOCK));
    ck_assert_int_eq(lh_exec_take(x), LH_ENOMEM);
    ck_assert(lh_scratch_mark(x) == 0 && lh_scratch_alloc(x, BLOCK));
    lh_scratch_release(x, 0);
    ck_assert_int_eq(lh_scratch_reserve(x, 3 * BLOCK), LH_ENOMEM);
    ck_assert(lh_device_usage(on.device).now_total == 0);
    close_stack();
}
END_TEST

int main(void)
{
    return suite_run("scratch", (const TTest *const[]){test_a_dry_run_shows_what_a_run_takes,
                                                       test_more_than_is_reserved_is_there_until_it_is_released,
                                                       test_a_failure_is_latched_and_leaves_the_stack_as_it_was, NULL});
}
