/* Laws of engine/threads.h. OpenMP and oneDNN read the environment when a program starts, so products are computed by
 * this program, called again by its tests. */
#include <check.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "engine/threads.h"
#include "kernels/ops.h"
#include "suite.h"

/* Large enough for oneDNN to divide the product among threads, longer than the products that are computed otherwise. */
enum { TOKENS = 130, IN = 512, OUT = 768, WANTED = 2 };

/* ---- a product ---- */

/* Small integers, so that every sum is exact. */
static uint16_t *numbers(int64_t n, int64_t seed)
{
    uint16_t *x = NULL;
    if (lh_calloc(&x, n, sizeof *x) != LH_OK) abort();
    for (int64_t i = 0; i < n; i++) x[i] = lh_f32_to_bf16((float)((i * 7 + i / 11 + seed) % 9 - 4));
    return x;
}

static lh_status multiply(const lh_ops *ops, const lh_gemm_args *args)
{
    lh_status st = LH_OK;
    lh_device *device = NULL;
    lh_stream *stream = NULL;
    LH_TRY_DONE(lh_device_open(&device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    LH_TRY_DONE(lh_stream_open(&stream, device));
    LH_TRY_DONE(ops->gemm(stream, args));
done:
    if (stream) lh_stream_close(stream);
    lh_device_close(device);
    return st;
}

/* 1: the calling thread's product is that of `ref`. */
static int product_is_right(void)
{
    uint16_t *x = numbers(TOKENS * IN, 1), *w = numbers(OUT * IN, 2);
    float *y = NULL, *want = NULL;
    lh_gemm_args a = {.type = LH_BF16,
                      .tokens = TOKENS,
                      .in = IN,
                      .out = OUT,
                      .x = x,
                      .w = lh_plain_matrix(w, LH_BF16, IN),
                      .x_ld = IN,
                      .y_ld = OUT};
    if (lh_calloc(&y, TOKENS * OUT, sizeof *y) != LH_OK || lh_calloc(&want, TOKENS * OUT, sizeof *want) != LH_OK)
        abort();
    a.y = y;
    int right = multiply(&lh_ops_cpu, &a) == LH_OK;
    a.y = want;
    right = right && multiply(&lh_ops_ref, &a) == LH_OK && memcmp(y, want, TOKENS * OUT * sizeof *y) == 0;
    if (!right) fprintf(stderr, "a product is wrong: %s\n", lh_error_message());
    lh_free(x);
    lh_free(w);
    lh_free(y);
    lh_free(want);
    return right;
}

static int team(void)
{
    int n = 0;
#pragma omp parallel
#pragma omp master
    n = omp_get_num_threads();
    return n;
}

/* ---- the programs that the tests call ---- */

static int plain(lh_threads *threads)
{
    return product_is_right() && omp_get_max_threads() == team() && team() == lh_threads_count(threads);
}

/* Called inside a parallel region, and after it. */
static int nested(lh_threads *threads)
{
    int right = 0;
#pragma omp parallel num_threads(2)
#pragma omp master
    right = lh_threads_enter(threads) == LH_OK && product_is_right() && omp_get_max_threads() == team();
    return right && lh_threads_enter(threads) == LH_OK && lh_threads_count(threads) == WANTED && plain(threads);
}

static void *in_thread(void *arg)
{
    lh_threads *threads = arg;
    return lh_threads_enter(threads) == LH_OK && plain(threads) ? arg : NULL;
}

static int elsewhere(lh_threads *threads)
{
    pthread_t thread;
    void *right = NULL;
    if (pthread_create(&thread, NULL, in_thread, threads) != 0) return 0;
    pthread_join(thread, &right);
    return right && lh_threads_enter(threads) == LH_OK && plain(threads);
}

/* As many threads by default as without places, which the caller says. */
static int unbound(lh_threads *threads)
{
    lh_threads *usual = NULL;
    const char *count = getenv("TEST_THREADS");
    (void)threads;
    int right = lh_threads_open_alone(&usual, 0) == LH_OK && count && lh_threads_count(usual) == atoi(count);
    lh_threads_close(usual);
    return right;
}

static const struct {
    const char *name;
    int (*is_right)(lh_threads *threads);
} programs[] = {{"plain", plain}, {"nested", nested}, {"elsewhere", elsewhere}, {"unbound", unbound}};

/* What the program prints goes to stderr: the standard output is that of oneDNN. */
static int be(const char *name)
{
    lh_threads *threads = NULL;
    int right = lh_threads_open_alone(&threads, WANTED) == LH_OK;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, name) == 0) right = right && programs[i].is_right(threads);
    lh_threads_close(threads);
    return !right;
}

static void check_program(const char *environment, const char *name)
{
    char line[512], self[256];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert_int_gt((int)n, 0);
    self[n] = '\0';
    snprintf(line, sizeof line, "%s '%s' %s", environment, self, name);
    ck_assert_msg(system(line) == 0, "%s", line);
}

/* ---- the laws ---- */

static const char *const environments[] = {"OMP_THREAD_LIMIT=1",       "OMP_DYNAMIC=true OMP_THREAD_LIMIT=5",
                                           "OMP_MAX_ACTIVE_LEVELS=0",  "OMP_NUM_THREADS=7",
                                           "OMP_PROC_BIND=true",       "DNNL_MAX_CPU_ISA=AVX2",
                                           "ONEDNN_MAX_CPU_ISA=SSE41", "DNNL_MAX_CPU_ISA=AVX512_CORE"};
enum { ENVIRONMENTS = sizeof environments / sizeof *environments };

START_TEST(test_products_are_right_whatever_the_environment_says_of_teams_and_instructions)
{
    check_program(environments[_i], "plain");
}
END_TEST

START_TEST(test_products_are_right_inside_a_parallel_region_and_after_it)
{
    check_program("", "nested");
    check_program("OMP_MAX_ACTIVE_LEVELS=2", "nested");
}
END_TEST

START_TEST(test_products_are_right_in_another_thread)
{
    check_program("", "elsewhere");
    check_program("OMP_NUM_THREADS=5 OMP_DYNAMIC=true", "elsewhere");
}
END_TEST

START_TEST(test_the_default_counts_the_cores_of_all_places)
{
    static const char *const bindings[] = {"OMP_PROC_BIND=true", "OMP_PROC_BIND=spread OMP_PLACES=cores"};
    lh_threads *threads = NULL;
    char environment[128];
    ck_assert_int_eq(lh_threads_open_alone(&threads, 0), LH_OK);
    for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++) {
        snprintf(environment, sizeof environment, "TEST_THREADS=%lld %s", (long long)lh_threads_count(threads),
                 bindings[i]);
        check_program(environment, "unbound");
    }
    lh_threads_close(threads);
}
END_TEST

START_TEST(test_the_default_is_the_least_of_cores_quota_and_what_openmp_is_asked_for)
{
    static const struct {
        lh_thread_limits limits;
        int64_t threads;
        const char *source;
    } cases[] = {
        {{8, 0, NULL}, 8, "8 cores"},
        {{0.5, 0, NULL}, 1, "0.5 cores"},
        {{8.0 / 3 * 3, 0, "0"}, 8, "8 cores"},
        {{8, 1.5, NULL}, 1, "a CPU quota of 1.5 cores"},
        {{8, 2, NULL}, 2, "a CPU quota of 2 cores"},
        {{8, 0.25, NULL}, 1, "a CPU quota of 0.25 cores"},
        {{2, 4, NULL}, 2, "2 cores"},
        {{8, 4, "3"}, 3, "OMP_NUM_THREADS=3"},
        {{8, 4, "1,2"}, 1, "OMP_NUM_THREADS=1,2"},
        {{8, 4, "6"}, 4, "a CPU quota of 4 cores"},
        {{8, 0, "many"}, 8, "8 cores"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[LH_THREADS_SOURCE];
        const int64_t threads = lh_threads_default(&cases[i].limits, source);
        ck_assert_msg(threads == cases[i].threads && strcmp(source, cases[i].source) == 0, "case %zu: %lld, '%s'", i,
                      (long long)threads, source);
    }
}
END_TEST

START_TEST(test_a_number_of_threads_that_cannot_be_is_refused)
{
    static const int64_t numbers_of_threads[] = {-1, 1025, 100000, INT64_MAX, INT64_MIN};
    lh_threads *threads = NULL;
    for (size_t i = 0; i < sizeof numbers_of_threads / sizeof *numbers_of_threads; i++) {
        ck_assert_int_eq(lh_threads_open_alone(&threads, numbers_of_threads[i]), LH_EUSAGE);
        ck_assert_ptr_null(threads);
        ck_assert_msg(strstr(lh_error_message(), "between 1 and 1024"), "%s", lh_error_message());
    }
}
END_TEST

START_TEST(test_a_fork_without_the_threads_of_its_parent_is_refused)
{
    lh_threads *threads = NULL, *of_child = NULL;
    int status = 0;
    ck_assert_int_eq(lh_threads_open_alone(&threads, WANTED), LH_OK);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(lh_threads_open_alone(&of_child, WANTED) != LH_EUSAGE || !strstr(lh_error_message(), "is a fork of"));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    lh_threads_close(threads);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1) return be(argv[1]);
    Suite *suite = suite_create("threads");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, test_products_are_right_whatever_the_environment_says_of_teams_and_instructions, 0,
                        ENVIRONMENTS);
    tcase_add_test(all, test_products_are_right_inside_a_parallel_region_and_after_it);
    tcase_add_test(all, test_products_are_right_in_another_thread);
    tcase_add_test(all, test_the_default_counts_the_cores_of_all_places);
    tcase_add_test(all, test_the_default_is_the_least_of_cores_quota_and_what_openmp_is_asked_for);
    tcase_add_test(all, test_a_number_of_threads_that_cannot_be_is_refused);
    tcase_add_test(all, test_a_fork_without_the_threads_of_its_parent_is_refused);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
