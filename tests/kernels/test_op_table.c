/* What LONGHAUL_TEST_TABLE gets of tests that pass, fail, crash and take too long. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/temporary.h"
#include "rig.h"
#include "suite.h"

/* y += x on `cpu`, and a comparison whose only number is off by `off` times its tolerance. */
static void add_once(float off)
{
    rig g;
    const float x[3] = {1, 2, 3}, want[3] = {1, 2, 3 + off * 0x1p-10f};
    float got[3];
    rig_open(&g, lh_ops_find("cpu"));
    float *y = rig_put(&g, (const float[3]){0}, sizeof got);
    RUN(&g, add, .y = y, .x = rig_put(&g, x, sizeof x), .tokens = 1, .dim = 3);
    rig_get(&g, got, y, sizeof got);
    check_near(got, want, 3, (tolerance){0, 0x1p-10}, "add");
    rig_close(&g);
}

static void run_and_raise(int signal)
{
    rig g;
    float x[2] = {1, 2};
    rig_open(&g, lh_ops_find("cpu"));
    RUN(&g, softcap, .x = rig_put(&g, x, sizeof x), .count = 2, .cap = 1);
    raise(signal);
}

START_TEST(passes_nearly)
{
    add_once(0.5f);
}
END_TEST

START_TEST(passes)
{
    add_once(0);
}
END_TEST

START_TEST(fails)
{
    add_once(4);
}
END_TEST

START_TEST(crashes)
{
    run_and_raise(SIGSEGV);
}
END_TEST

START_TEST(hangs)
{
    run_and_raise(SIGSTOP);
}
END_TEST

START_TEST(is_of_ref_alone)
{
    rig g;
    float x[2] = {1, 2};
    rig_open(&g, &lh_ops_ref);
    RUN(&g, sum_shards, .y = rig_new(&g, 8), .parts = rig_put(&g, x, 8), .shards = 1, .count = 2);
    rig_close(&g);
}
END_TEST

/* The table of a program with these tests, and its exit code. */
static int table_of(const TTest *const *tests, char text[1024])
{
    char path[TEMPORARY_BYTES];
    int fd = mkstemp(temporary_name(path, "/tmp")), status = 0;
    ck_assert_int_ge(fd, 0);
    pid_t child = fork();
    if (child == 0) {
        setenv("LONGHAUL_TEST_TABLE", path, 1);
        setenv("CK_TIMEOUT_MULTIPLIER", "0.01", 1);
        unsetenv("LONGHAUL_CPU_ISA");
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        exit(rig_run("table", tests));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ssize_t n = read(fd, text, 1023);
    close(fd);
    unlink(path);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    return WEXITSTATUS(status);
}

START_TEST(test_calls_comparisons_and_the_worst_error_are_counted_over_all_tests)
{
    char text[1024];
    const TTest *const tests[] = {passes, passes_nearly, passes, is_of_ref_alone, NULL};
    ck_assert_int_eq(table_of(tests, text), 0);
    ck_assert_str_eq(text, "add\t3\t9\t0.5\tok\n");
}
END_TEST

START_TEST(test_a_test_that_fails_crashes_or_hangs_is_its_last_operations)
{
    char text[1024];
    const TTest *const failing[] = {fails, passes, NULL}, *const crashing[] = {passes, crashes, NULL},
                       *const hanging[] = {hangs, passes, NULL};
    ck_assert_int_eq(table_of(failing, text), 1);
    ck_assert_str_eq(text, "add\t2\t6\t4\tfailed\n");
    ck_assert_int_eq(table_of(crashing, text), 1);
    ck_assert_str_eq(text, "add\t1\t3\t0\tok\nsoftcap\t1\t0\t0\tfailed\n");
    ck_assert_int_eq(table_of(hanging, text), 1);
    ck_assert_str_eq(text, "add\t1\t3\t0\tok\nsoftcap\t1\t0\t0\tfailed\n");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_calls_comparisons_and_the_worst_error_are_counted_over_all_tests,
                                  test_a_test_that_fails_crashes_or_hangs_is_its_last_operations, NULL};
    return suite_run("kernels/op_table", tests);
}
