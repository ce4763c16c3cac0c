/* Laws of memory, streams and events, and what the kernel's files say of a machine. */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/temporary.h"
#include "device/device.h"
#include "device/device_impl.h"
#include "device/machine.h"

static lh_device *device;

static void set_up(void)
{
    ck_assert_int_eq(lh_device_open(&device, &(lh_device_choice){.kind = LH_DEVICE_CPU}), LH_OK);
}

static void tear_down(void)
{
    lh_device_close(device);
    device = NULL;
}

/* Bytes of this process that are in memory. */
static int64_t resident_bytes(void)
{
    long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%lld %lld", &size, &resident), 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

START_TEST(test_usage_is_the_sum_of_what_is_held)
{
    static const int64_t sizes[] = {1, 63, 64, 65, 4096, 262143, 262144, 262145, 2097151, 2097152, 9000001};
    enum { N = sizeof sizes / sizeof *sizes };
    void *blocks[N];
    int64_t sum = 0, by_kind[LH_MEM_KINDS] = {0};
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(lh_device_alloc(device, &blocks[i], sizes[i], (lh_mem)(i % LH_MEM_KINDS)), LH_OK);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], i + 1, (size_t)sizes[i]);
        sum += sizes[i];
        by_kind[i % LH_MEM_KINDS] += sizes[i];
    }
    lh_mem_usage usage = lh_device_usage(device);
    ck_assert_int_eq(usage.now_total, sum);
    ck_assert_int_eq(usage.peak_total, sum);
    for (int k = 0; k < LH_MEM_KINDS; k++) ck_assert_int_eq(usage.now[k], by_kind[k]);
    for (int i = 0; i < N; i++) { /* no block has written into another */
        const unsigned char *p = blocks[i];
        ck_assert_uint_eq(p[0], i + 1);
        ck_assert_uint_eq(p[sizes[i] - 1], i + 1);
    }
    for (int i = 0; i < N; i += 2) lh_device_free(device, blocks[i]), sum -= sizes[i];
    ck_assert_int_eq(lh_device_usage(device).now_total, sum);
    for (int i = 1; i < N; i += 2) lh_device_free(device, blocks[i]);
    usage = lh_device_usage(device);
    ck_assert_int_eq(usage.now_total, 0);
    for (int k = 0; k < LH_MEM_KINDS; k++) {
        ck_assert_int_eq(usage.now[k], 0);
        ck_assert_int_eq(usage.peak[k], by_kind[k]);
    }
}
END_TEST

START_TEST(test_peak_is_the_highest_since_it_was_reset)
{
    void *a, *b;
    ck_assert_int_eq(lh_device_alloc(device, &a, 1000, LH_MEM_KV), LH_OK);
    ck_assert_int_eq(lh_device_alloc(device, &b, 500, LH_MEM_WORK), LH_OK);
    lh_device_free(device, a);
    ck_assert_int_eq(lh_device_usage(device).peak_total, 1500);
    lh_device_reset_peak(device);
    ck_assert_int_eq(lh_device_usage(device).peak_total, 500);
    ck_assert_int_eq(lh_device_usage(device).peak[LH_MEM_KV], 0);
    ck_assert_int_eq(lh_device_alloc(device, &a, 100, LH_MEM_KV), LH_OK);
    ck_assert_int_eq(lh_device_usage(device).peak_total, 600);
    lh_device_free(device, a);
    lh_device_free(device, b);
}
END_TEST

START_TEST(test_zero_bytes_are_nothing)
{
    void *p = &p;
    ck_assert_int_eq(lh_device_alloc(device, &p, 0, LH_MEM_KV), LH_OK);
    ck_assert_ptr_null(p);
    lh_device_free(device, NULL);
    ck_assert_int_eq(lh_device_usage(device).peak_total, 0);
}
END_TEST

START_TEST(test_limit_is_kept_to_the_byte)
{
    lh_device *small = NULL;
    void *a = NULL, *b = NULL;
    ck_assert_int_eq(lh_device_open(&small, &(lh_device_choice){.kind = LH_DEVICE_CPU, .limit_bytes = 1000}), LH_OK);
    ck_assert_int_eq(lh_device_alloc(small, &a, 600, LH_MEM_WEIGHTS), LH_OK);
    ck_assert_int_eq(lh_device_alloc(small, &b, 401, LH_MEM_KV), LH_ENOMEM);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "the cache"));
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "limit"));
    ck_assert_ptr_null(b);
    ck_assert_int_eq(lh_device_usage(small).now_total, 600);
    ck_assert_int_eq(lh_device_alloc(small, &b, 400, LH_MEM_KV), LH_OK);
    lh_device_free(small, a);
    lh_device_free(small, b);
    lh_device_close(small);
}
END_TEST

START_TEST(test_more_than_the_machine_has_is_refused)
{
    void *p = NULL;
    ck_assert_int_eq(lh_device_alloc(device, &p, lh_device_free_bytes(device) * 2, LH_MEM_KV), LH_ENOMEM);
    ck_assert_int_eq(lh_device_alloc(device, &p, INT64_MAX, LH_MEM_KV), LH_ENOMEM);
    lh_device *wide = NULL; /* a limit above what there is does not make more memory */
    ck_assert_int_eq(lh_device_open(&wide, &(lh_device_choice){.kind = LH_DEVICE_CPU, .limit_bytes = INT64_MAX}),
                     LH_OK);
    ck_assert_int_eq(lh_device_alloc(wide, &p, lh_device_free_bytes(wide) * 2, LH_MEM_KV), LH_ENOMEM);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "are free on the device"));
    lh_device_close(wide);
}
END_TEST

START_TEST(test_freed_blocks_go_back_to_the_machine)
{
    static const int64_t size = 96 << 20;
    void *p = NULL, *many[64];
    int64_t before = resident_bytes();
    ck_assert_int_eq(lh_device_alloc(device, &p, size, LH_MEM_KV), LH_OK);
    memset(p, 1, (size_t)size);
    ck_assert_int_ge(resident_bytes() - before, size * 9 / 10);
    lh_device_free(device, p);
    for (int i = 0; i < 64; i++) {
        ck_assert_int_eq(lh_device_alloc(device, &many[i], 1 << 20, LH_MEM_KV), LH_OK);
        memset(many[i], 1, 1 << 20);
    }
    for (int i = 0; i < 63; i++) lh_device_free(device, many[i]); /* one stays on top */
    ck_assert_int_lt(resident_bytes() - before, 16 << 20);
    lh_device_free(device, many[63]);
}
END_TEST

START_TEST(test_closing_with_memory_held_is_our_fault)
{
    void *p;
    ck_assert_int_eq(lh_device_alloc(device, &p, 10, LH_MEM_KV), LH_OK);
    lh_device_close(device);
}
END_TEST

static void *churn(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    for (int i = 0; i < 2000; i++) {
        void *p = NULL;
        int64_t bytes = 1 + rand_r(&seed) % 300000;
        if (lh_device_alloc(device, &p, bytes, LH_MEM_WORK) != LH_OK) return arg;
        memset(p, 1, (size_t)(bytes < 64 ? bytes : 64));
        lh_device_free(device, p);
    }
    return NULL;
}

START_TEST(test_threads_share_a_device)
{
    pthread_t threads[4];
    unsigned seeds[4] = {1, 2, 3, 4};
    void *failed;
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(lh_device_usage(device).now_total, 0);
}
END_TEST

START_TEST(test_stream_copies_and_latches_its_first_failure)
{
    lh_stream *stream = NULL;
    char a[100], b[100];
    ck_assert_int_eq(lh_stream_open(&stream, device), LH_OK);
    ck_assert_ptr_eq(lh_stream_device(stream), device);
    memset(a, 7, sizeof a);
    ck_assert_int_eq(lh_stream_zero(stream, b, sizeof b), LH_OK);
    ck_assert_int_eq(lh_stream_copy(stream, b + 1, a, 50, LH_COPY_TO_DEVICE), LH_OK);
    ck_assert_int_eq(lh_stream_copy(stream, b, b + 1, 50, LH_COPY_ON_DEVICE), LH_OK);
    ck_assert_int_eq(lh_stream_copy(stream, NULL, NULL, 0, LH_COPY_TO_HOST), LH_OK);
    ck_assert_int_eq(lh_stream_sync(stream), LH_OK);
    for (int i = 0; i < 51; i++) ck_assert_int_eq(b[i], 7);
    for (int i = 51; i < 100; i++) ck_assert_int_eq(b[i], 0);
    lh_stream_latch(stream, LH_OK);
    ck_assert_int_eq(lh_stream_status(stream), LH_OK);
    lh_stream_latch(stream, lh_fail(LH_EINTERNAL, __FILE__, __LINE__, "the first"));
    lh_stream_latch(stream, lh_fail(LH_ENOMEM, __FILE__, __LINE__, "the second"));
    lh_error_clear();
    ck_assert_int_eq(lh_stream_sync(stream), LH_OK); /* the device itself is well */
    ck_assert_int_eq(lh_stream_status(stream), LH_EINTERNAL);
    ck_assert_int_eq(lh_stream_take(stream), LH_EINTERNAL);
    ck_assert_str_eq(lh_error_message(), "the first");
    ck_assert_int_eq(lh_stream_take(stream), LH_OK);
    lh_stream_close(stream);
}
END_TEST

START_TEST(test_scratch_grows_and_is_counted_once)
{
    lh_stream *stream = NULL;
    void *small, *same, *large;
    ck_assert_int_eq(lh_stream_open(&stream, device), LH_OK);
    ck_assert_int_eq(lh_stream_scratch(stream, &small, 1000), LH_OK);
    ck_assert_int_eq(lh_stream_scratch(stream, &same, 10), LH_OK);
    ck_assert_ptr_eq(same, small);
    ck_assert_int_eq(lh_stream_scratch(stream, &large, 5000), LH_OK);
    memset(large, 1, 5000);
    ck_assert_int_eq(lh_device_usage(device).now[LH_MEM_WORK], 5000);
    ck_assert_int_eq(lh_device_usage(device).peak[LH_MEM_WORK], 5000);
    lh_stream_close(stream);
    ck_assert_int_eq(lh_device_usage(device).now_total, 0);
}
END_TEST

START_TEST(test_events_measure_time)
{
    lh_stream *stream = NULL;
    lh_event *first = NULL, *last = NULL;
    double seconds = -1;
    ck_assert_int_eq(lh_stream_open(&stream, device), LH_OK);
    ck_assert_int_eq(lh_event_open(&first, device), LH_OK);
    ck_assert_int_eq(lh_event_open(&last, device), LH_OK);
    ck_assert_int_eq(lh_event_record(first, stream), LH_OK);
    usleep(20000);
    ck_assert_int_eq(lh_event_record(last, stream), LH_OK);
    ck_assert_int_eq(lh_event_seconds(first, last, &seconds), LH_OK);
    ck_assert(seconds >= 0.02 && seconds < 5);
    lh_event_close(first);
    lh_event_close(last);
    lh_stream_close(stream);
}
END_TEST

START_TEST(test_kinds_have_names)
{
    lh_device_kind kind;
    lh_device_found found;
    for (int k = 0; k < LH_DEVICE_KINDS; k++) {
        ck_assert(lh_device_kind_find(lh_device_kind_name((lh_device_kind)k), &kind));
        ck_assert_int_eq(kind, k);
        lh_device_find((lh_device_kind)k, &found);
        ck_assert_int_gt((int)strlen(found.text), 0);
    }
    ck_assert(!lh_device_kind_find("abacus", &kind));
    ck_assert_int_eq(lh_device_kind_of(device), LH_DEVICE_CPU);
    lh_device_find(LH_DEVICE_CPU, &found);
    ck_assert_int_eq(found.count, 1);
    ck_assert_ptr_nonnull(strstr(lh_device_name(device), " core"));
    ck_assert_ptr_eq(strstr(found.text, lh_device_name(device)), found.text);
}
END_TEST

/* A tree like / with the files that a kernel would show. */
static char root[TEMPORARY_BYTES];

static void make_root(void)
{
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(root, "/tmp")));
}

static void remove_root(void)
{
    char *command = NULL;
    ck_assert_int_eq(lh_asprintf(&command, "rm -r '%s'", root), LH_OK);
    ck_assert_int_eq(system(command), 0);
    lh_free(command);
}

static void put(const char *path, const char *text)
{
    char *full = NULL;
    ck_assert_int_eq(lh_asprintf(&full, "%s/%s", root, path), LH_OK);
    for (char *c = full + strlen(root) + 1; (c = strchr(c, '/')) != NULL; c++) {
        *c = '\0';
        mkdir(full, 0777);
        *c = '/';
    }
    FILE *f = fopen(full, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    lh_free(full);
}

START_TEST(test_free_memory_without_groups_is_what_is_available)
{
    put("proc/meminfo", "MemTotal:  2000 kB\nMemFree:  10 kB\nMemAvailable:    1000 kB\n");
    ck_assert_int_eq(lh_machine_free_bytes(root), 1000 * 1024);
    put("proc/self/cgroup", "0::/user.slice\n");
    put("sys/fs/cgroup/user.slice/memory.max", "max\n");
    put("sys/fs/cgroup/user.slice/memory.current", "900000\n");
    ck_assert_int_eq(lh_machine_free_bytes(root), 1000 * 1024);
}
END_TEST

START_TEST(test_free_memory_is_the_least_over_parents_in_version_2)
{
    put("proc/meminfo", "MemAvailable: 1000000 kB\n");
    put("proc/self/cgroup", "0::/job/step/task\n");
    put("sys/fs/cgroup/job/step/task/memory.max", "max\n");
    put("sys/fs/cgroup/job/memory.max", "5000000\n");
    put("sys/fs/cgroup/job/memory.current", "3000000\n");
    put("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 400000\nactive_file 100000\n");
    ck_assert_int_eq(lh_machine_free_bytes(root), 2500000);
    put("sys/fs/cgroup/job/step/memory.max", "1000\n");
    put("sys/fs/cgroup/job/step/memory.current", "2000\n"); /* over its limit: nothing is left, not less */
    ck_assert_int_eq(lh_machine_free_bytes(root), 0);
}
END_TEST

START_TEST(test_free_memory_respects_version_1)
{
    put("proc/meminfo", "MemAvailable: 1000000 kB\n");
    put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/abc\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "8000000\n"); /* the container's own, at the mount point */
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    put("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 200000\ntotal_active_file 0\n");
    ck_assert_int_eq(lh_machine_free_bytes(root), 7200000);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* how version 1 says no limit */
    ck_assert_int_eq(lh_machine_free_bytes(root), INT64_C(1024000000));
}
END_TEST

static void check_quota(double cores, const char *group)
{
    lh_cpu_quota quota;
    struct stat folder;
    char *path = NULL;
    lh_cpu_quota_find(root, &quota);
    ck_assert_msg(quota.cores == cores, "%g cores are not %g", quota.cores, cores);
    if (!group) return;
    ck_assert_int_eq(lh_asprintf(&path, "%s/%s", root, group), LH_OK);
    ck_assert_int_eq(stat(path, &folder), 0);
    ck_assert(quota.device == (uint64_t)folder.st_dev && quota.inode == (uint64_t)folder.st_ino);
    lh_free(path);
}

START_TEST(test_quota_is_the_least_over_parents_in_version_2)
{
    check_quota(0, NULL); /* without /proc/self/cgroup */
    put("proc/self/cgroup", "0::/job/step\n");
    check_quota(0, NULL);
    put("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    check_quota(0, NULL);
    put("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    check_quota(1.5, "sys/fs/cgroup/job");
    put("sys/fs/cgroup/cpu.max", "400000 100000\n");
    check_quota(1.5, "sys/fs/cgroup/job");
    put("sys/fs/cgroup/job/step/cpu.max", "25000 50000\n");
    check_quota(0.5, "sys/fs/cgroup/job/step");
}
END_TEST

START_TEST(test_quota_of_a_container_is_at_its_mount_point)
{
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/cpu.max", "200000 100000\n");
    check_quota(2, "sys/fs/cgroup");
    put("proc/self/cgroup", "0::/docker/of-the-host\n");
    check_quota(2, "sys/fs/cgroup");
}
END_TEST

START_TEST(test_quota_respects_version_1_and_both_versions)
{
    put("proc/self/cgroup", "7:cpuset:/s\n5:cpuacct,cpu:/docker/abc\n4:cpuacct:/x\n0::/docker/abc\n");
    put("sys/fs/cgroup/cpuset/s/cpu.cfs_quota_us", "1000\n"); /* of another controller */
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    check_quota(0, NULL);
    put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "300000\n");
    put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "200000\n");
    check_quota(1.5, "sys/fs/cgroup/cpu/docker/abc");
    put("sys/fs/cgroup/cpuacct,cpu/docker/cpu.cfs_quota_us", "130000\n");
    check_quota(1.3, "sys/fs/cgroup/cpuacct,cpu/docker");
    put("sys/fs/cgroup/unified/docker/cpu.max", "110000 100000\n");
    check_quota(1.1, "sys/fs/cgroup/unified/docker");
}
END_TEST

START_TEST(test_processor_has_a_name_also_without_one)
{
    char name[64];
    lh_machine_cpu_name(root, name, sizeof name);
    ck_assert_int_gt((int)strlen(name), 0);
    put("proc/cpuinfo", "processor : 0\nmodel name\t: A very good one\nmodel name\t: Another\n");
    lh_machine_cpu_name(root, name, sizeof name);
    ck_assert_str_eq(name, "A very good one");
    ck_assert_int_ge(lh_machine_cores(), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *memory = tcase_create("memory"), *fault = tcase_create("fault"), *machine = tcase_create("machine");
    tcase_add_checked_fixture(memory, set_up, tear_down);
    tcase_add_test(memory, test_usage_is_the_sum_of_what_is_held);
    tcase_add_test(memory, test_peak_is_the_highest_since_it_was_reset);
    tcase_add_test(memory, test_zero_bytes_are_nothing);
    tcase_add_test(memory, test_limit_is_kept_to_the_byte);
    tcase_add_test(memory, test_more_than_the_machine_has_is_refused);
    tcase_add_test(memory, test_freed_blocks_go_back_to_the_machine);
    tcase_add_test(memory, test_threads_share_a_device);
    tcase_add_test(memory, test_stream_copies_and_latches_its_first_failure);
    tcase_add_test(memory, test_scratch_grows_and_is_counted_once);
    tcase_add_test(memory, test_events_measure_time);
    tcase_add_test(memory, test_kinds_have_names);
    suite_add_tcase(suite, memory);
    tcase_add_checked_fixture(fault, set_up, NULL);
    tcase_add_test_raise_signal(fault, test_closing_with_memory_held_is_our_fault, SIGABRT);
    suite_add_tcase(suite, fault);
    tcase_add_checked_fixture(machine, make_root, remove_root);
    tcase_add_test(machine, test_free_memory_without_groups_is_what_is_available);
    tcase_add_test(machine, test_free_memory_is_the_least_over_parents_in_version_2);
    tcase_add_test(machine, test_free_memory_respects_version_1);
    tcase_add_test(machine, test_quota_is_the_least_over_parents_in_version_2);
    tcase_add_test(machine, test_quota_of_a_container_is_at_its_mount_point);
    tcase_add_test(machine, test_quota_respects_version_1_and_both_versions);
    tcase_add_test(machine, test_processor_has_a_name_also_without_one);
    suite_add_tcase(suite, machine);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
