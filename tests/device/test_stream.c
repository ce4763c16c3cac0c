/* Laws of what is enqueued: host memory that may go at once, and work that is recorded and run again. On the host's own
 * memory and, where there is one, on a device. */
#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/mem.h"
#include "device/device.h"

enum { N = 1000 };

static lh_device *device;
static lh_stream *stream;

/* The kind number `i`; 0 when there is no device of it. */
static int set_up(int i)
{
    lh_device_found found;
    lh_device_find((lh_device_kind)i, &found);
    if (!found.count) return 0;
    ck_assert_int_eq(lh_device_open(&device, &(lh_device_choice){.kind = (lh_device_kind)i}), LH_OK);
    ck_assert_int_eq(lh_stream_open(&stream, device), LH_OK);
    return 1;
}

static void tear_down(void)
{
    lh_stream_close(stream);
    lh_device_close(device);
}

static void *new_numbers(int64_t n)
{
    void *p = NULL;
    ck_assert_int_eq(lh_device_alloc(device, &p, n * (int64_t)sizeof(int32_t), LH_MEM_WORK), LH_OK);
    return p;
}

static void fetch(int32_t *to, const int32_t *from, int64_t n)
{
    ck_assert_int_eq(lh_stream_copy(stream, to, from, n * (int64_t)sizeof *to, LH_COPY_TO_HOST), LH_OK);
    ck_assert_int_eq(lh_stream_sync(stream), LH_OK);
}

/* More than is kept between two waits, from one small array that is written over and over. */
START_TEST(test_what_is_put_may_go_at_once)
{
    enum { TIMES = 300 };
    if (!set_up(_i)) return;
    int32_t *on = new_numbers((int64_t)TIMES * N), *got = NULL, numbers[N];
    ck_assert_int_eq(lh_calloc(&got, (int64_t)TIMES * N, sizeof *got), LH_OK);
    for (int i = 0; i < TIMES; i++) {
        int64_t n = i % 7 ? N : N - 3; /* some sizes that do not fit */
        for (int t = 0; t < N; t++) numbers[t] = i * N + t;
        ck_assert_int_eq(lh_stream_put(stream, on + (int64_t)i * N, numbers, n * (int64_t)sizeof *numbers), LH_OK);
        memset(numbers, 0xee, sizeof numbers);
    }
    fetch(got, on, (int64_t)TIMES * N);
    for (int i = 0; i < TIMES; i++)
        for (int t = 0; t < (i % 7 ? N : N - 3); t++) ck_assert_int_eq(got[(int64_t)i * N + t], i * N + t);
    lh_free(got);
    lh_device_free(device, on);
    tear_down();
}
END_TEST

START_TEST(test_recorded_work_is_done_each_time_it_is_run)
{
    if (!set_up(_i)) return;
    if (!lh_device_records(device)) {
        tear_down();
        return;
    }
    int32_t *a = new_numbers(N), *b = new_numbers(N), numbers[N] = {0}, got[N];
    lh_graph *graph = NULL;
    ck_assert_int_eq(lh_stream_zero(stream, a, sizeof numbers), LH_OK);
    ck_assert_int_eq(lh_stream_zero(stream, b, sizeof numbers), LH_OK);
    ck_assert_int_eq(lh_stream_record(stream), LH_OK);
    ck_assert_int_eq(lh_stream_copy(stream, b, a, sizeof numbers, LH_COPY_ON_DEVICE), LH_OK);
    ck_assert_int_eq(lh_stream_zero(stream, a, 4), LH_OK);
    ck_assert_int_eq(lh_stream_recorded(stream, &graph), LH_OK);
    ck_assert_int_eq(lh_graph_nodes(graph), 2);
    for (int run = 1; run < 4; run++) {
        for (int t = 0; t < N; t++) numbers[t] = run * N + t;
        ck_assert_int_eq(lh_stream_put(stream, a, numbers, sizeof numbers), LH_OK);
        fetch(got, b, N);
        ck_assert_int_eq(got[7], run > 1 ? (run - 1) * N + 7 : 0); /* recording did nothing, nor does waiting */
        ck_assert_int_eq(lh_graph_run(graph), LH_OK);
        fetch(got, b, N);
        for (int t = 0; t < N; t++) ck_assert_int_eq(got[t], run * N + t);
        fetch(got, a, N);
        ck_assert_int_eq(got[0], 0);
    }
    lh_graph_close(graph);
    lh_device_free(device, a);
    lh_device_free(device, b);
    tear_down();
}
END_TEST

START_TEST(test_recorded_work_neither_waits_nor_allocates_nor_reads_the_host)
{
    if (!set_up(_i)) return;
    if (!lh_device_records(device)) {
        tear_down();
        return;
    }
    int32_t *a = new_numbers(N), number = 1;
    void *p = NULL;
    ck_assert_int_eq(lh_stream_record(stream), LH_OK);
    ck_assert_int_eq(lh_stream_sync(stream), LH_EINTERNAL);
    ck_assert_int_eq(lh_device_alloc(device, &p, 100, LH_MEM_WORK), LH_EINTERNAL);
    ck_assert_int_eq(lh_stream_put(stream, a, &number, sizeof number), LH_EINTERNAL);
    ck_assert_int_eq(lh_stream_recorded(stream, NULL), LH_OK); /* and it goes on as before */
    ck_assert_int_eq(lh_stream_put(stream, a, &number, sizeof number), LH_OK);
    ck_assert_int_eq(lh_stream_sync(stream), LH_OK);
    lh_device_free(device, a);
    tear_down();
}
END_TEST

START_TEST(test_recorded_work_keeps_its_workspace_until_it_is_closed)
{
    if (!set_up(_i)) return;
    if (!lh_device_records(device)) {
        tear_down();
        return;
    }
    enum { COUNTERS = 10, BYTES = N * (int)sizeof(int32_t) };
    int32_t *scratch = NULL, *grown = NULL, numbers[N], got[N], *out = new_numbers(N);
    uint32_t *counters = NULL;
    lh_graph *graphs[2] = {NULL};
    for (int t = 0; t < N; t++) numbers[t] = t;
    ck_assert_int_eq(lh_stream_counters(stream, &counters, COUNTERS), LH_OK);
    ck_assert_int_eq(lh_stream_scratch(stream, &scratch, BYTES), LH_OK);
    ck_assert_int_eq(lh_stream_put(stream, scratch, numbers, BYTES), LH_OK);
    for (int g = 0; g < 2; g++) {
        ck_assert_int_eq(lh_stream_record(stream), LH_OK);
        ck_assert_int_eq(lh_stream_scratch(stream, &scratch, BYTES), LH_OK);
        ck_assert_int_eq(lh_stream_copy(stream, out, scratch, BYTES, LH_COPY_ON_DEVICE), LH_OK);
        ck_assert_int_eq(lh_stream_recorded(stream, &graphs[g]), LH_OK);
    }
    const int64_t before = lh_device_usage(device).now_total;
    const int64_t more = 3 * BYTES + 5 * COUNTERS * (int64_t)sizeof *counters;
    ck_assert_int_eq(lh_stream_scratch(stream, &grown, 3 * BYTES), LH_OK);
    ck_assert_int_eq(lh_stream_counters(stream, &counters, 5 * COUNTERS), LH_OK);
    ck_assert_ptr_ne(grown, scratch);
    ck_assert_int_eq(lh_stream_zero(stream, grown, 3 * BYTES), LH_OK);
    for (int g = 0; g < 2; g++) {
        ck_assert_int_eq(lh_device_usage(device).now_total, before + more);
        ck_assert_int_eq(lh_stream_zero(stream, out, BYTES), LH_OK);
        ck_assert_int_eq(lh_graph_run(graphs[g]), LH_OK);
        fetch(got, out, N);
        ck_assert_mem_eq(got, numbers, sizeof got);
        lh_graph_close(graphs[g]);
    }
    ck_assert_int_eq(lh_device_usage(device).now_total, BYTES + more);
    ck_assert_int_eq(lh_stream_scratch(stream, &scratch, 5 * BYTES), LH_OK); /* and nobody holds the last one */
    ck_assert_int_eq(lh_device_usage(device).now_total, 3 * BYTES + more);
    lh_device_free(device, out);
    tear_down();
}
END_TEST

/* What a thread does with a device on which another one records. */
static void *take_and_give_back(void *self)
{
    lh_stream *own = NULL;
    void *p = NULL;
    (void)self;
    ck_assert_int_eq(lh_stream_open(&own, device), LH_OK);
    ck_assert_int_eq(lh_device_alloc(device, &p, N, LH_MEM_WORK), LH_OK);
    ck_assert_int_eq(lh_stream_zero(own, p, N), LH_OK);
    lh_device_free(device, p);
    lh_stream_close(own);
    return NULL;
}

START_TEST(test_other_threads_take_memory_while_one_records)
{
    if (!set_up(_i)) return;
    if (!lh_device_records(device)) {
        tear_down();
        return;
    }
    int32_t *a = new_numbers(N), got[N];
    pthread_t other;
    lh_graph *graph = NULL;
    ck_assert_int_eq(lh_stream_record(stream), LH_OK);
    ck_assert_int_eq(pthread_create(&other, NULL, take_and_give_back, NULL), 0);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* in which it would fail */
    ck_assert_int_eq(lh_stream_zero(stream, a, N * (int64_t)sizeof *a), LH_OK);
    ck_assert_int_eq(lh_stream_recorded(stream, &graph), LH_OK);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_int_eq(lh_graph_run(graph), LH_OK);
    fetch(got, a, N);
    for (int t = 0; t < N; t++) ck_assert_int_eq(got[t], 0);
    lh_graph_close(graph);
    lh_device_free(device, a);
    tear_down();
}
END_TEST

/* ---- waits ---- */

/* Asked during waits: how often, and what it says. */
typedef struct question {
    int asked;
    lh_status answer;
} question;

static void nothing(void *self)
{
    (void)self;
}

static lh_status ask(void *self)
{
    question *q = self;
    q->asked++;
    return q->answer;
}

static int64_t sleeps_so_far(void)
{
    struct rusage of;
    ck_assert_int_eq(getrusage(RUSAGE_THREAD, &of), 0);
    return of.ru_nvcsw;
}

/* More pieces of work than a wait turns before it might rest, and some that take long. */
static void enqueue_work(void *p, int64_t bytes)
{
    for (int i = 0; i < 10000; i++) ck_assert_int_eq(lh_stream_zero(stream, p, 64), LH_OK);
    for (int i = 0; i < 20; i++) ck_assert_int_eq(lh_stream_zero(stream, p, bytes), LH_OK);
}

START_TEST(test_a_wait_with_questions_does_not_sleep_and_ends_with_a_failure)
{
    enum { BYTES = 64 << 20, SLEEPS = 100 };
    if (!set_up(_i)) return;
    if (!lh_device_records(device)) {
        tear_down();
        return;
    }
    void *p = NULL;
    question q = {0};
    ck_assert_int_eq(lh_device_alloc(device, &p, BYTES, LH_MEM_WORK), LH_OK);
    lh_stream_watch(stream, &(lh_stream_waiter){&q, nothing, ask, nothing});
    enqueue_work(p, BYTES);
    int64_t before = sleeps_so_far();
    ck_assert_int_eq(lh_stream_sync(stream), LH_OK);
    ck_assert_int_lt(sleeps_so_far() - before, SLEEPS);
    ck_assert_int_gt(q.asked, 0);
    q.answer = LH_ECOMM;
    enqueue_work(p, BYTES);
    ck_assert_int_eq(lh_stream_sync(stream), LH_ECOMM);
    lh_stream_watch(stream, NULL);
    ck_assert_int_eq(lh_stream_sync(stream), LH_OK);
    lh_device_free(device, p);
    tear_down();
}
END_TEST

START_TEST(test_host_memory_for_copies_is_not_counted)
{
    if (!set_up(_i)) return;
    int64_t before = lh_device_usage(device).now_total;
    void *p = NULL, *none = &none;
    ck_assert_int_eq(lh_device_alloc_host(device, &p, 5000), LH_OK);
    memset(p, 1, 5000);
    ck_assert_int_eq((intptr_t)p % 64, 0);
    ck_assert_int_eq(lh_device_usage(device).now_total, before);
    lh_device_free_host(device, p);
    ck_assert_int_eq(lh_device_alloc_host(device, &none, 0), LH_OK);
    ck_assert_ptr_null(none);
    lh_device_free_host(device, NULL);
    tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_what_is_put_may_go_at_once,
                                  test_recorded_work_is_done_each_time_it_is_run,
                                  test_recorded_work_neither_waits_nor_allocates_nor_reads_the_host,
                                  test_recorded_work_keeps_its_workspace_until_it_is_closed,
                                  test_other_threads_take_memory_while_one_records,
                                  test_a_wait_with_questions_does_not_sleep_and_ends_with_a_failure,
                                  test_host_memory_for_copies_is_not_counted,
                                  NULL};
    Suite *suite = suite_create("device/stream");
    TCase *laws = tcase_create("laws");
    for (int i = 0; tests[i]; i++) tcase_add_loop_test(laws, tests[i], 0, LH_DEVICE_KINDS);
    suite_add_tcase(suite, laws);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
