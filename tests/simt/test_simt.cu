/* Laws of the emulated device: what it runs, and which faults it sees. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"

#include "device_case.cuh"

/* ---- what it runs ---- */

static __global__ void sums_kernel(int *sums, int *before)
{
    __shared__ int room[32];
    int x = (int)(threadIdx.x * 3 + blockIdx.x), all = lh_block_sum(x, room), total;
    int earlier = lh_block_before(x, room, &total);
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] = all == total && all == lh_block_max(all, room) ? all : -1;
    before[i] = earlier;
}

START_TEST(test_blocks_add_up_and_scan)
{
    enum { BLOCKS = 5, THREADS = 192, N = BLOCKS * THREADS };
    int sums[N], before[N], *on = device_array<int>(N), *off = device_array<int>(N);
    run(dim3(BLOCKS), THREADS, 0, sums_kernel, on, off);
    fetch(sums, on, N);
    fetch(before, off, N);
    for (int b = 0; b < BLOCKS; b++) {
        int sum = 0;
        for (int t = 0; t < THREADS; t++) {
            ck_assert_int_eq(before[b * THREADS + t], sum);
            sum += t * 3 + b;
        }
        for (int t = 0; t < THREADS; t++) ck_assert_int_eq(sums[b * THREADS + t], sum);
    }
}
END_TEST

/* Number n of matrix i is 64 i + n; rows lie in shared memory from the last to the first. */
static __global__ void matrices_kernel(unsigned *out)
{
    __shared__ __align__(16) unsigned short rows[32][8];
    unsigned words[4];
    for (int n = 0; n < 8; n++) rows[31 - threadIdx.x][n] = (unsigned short)(8 * threadIdx.x + n);
    __syncthreads();
    lh_load_matrices(words, rows[31 - threadIdx.x]);
    for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = words[i];
}

START_TEST(test_lanes_get_their_words_of_four_matrices)
{
    unsigned words[128], *on = device_array<unsigned>(128);
    run(dim3(1), 32, 0, matrices_kernel, on);
    fetch(words, on, 128);
    for (unsigned lane = 0; lane < 32; lane++) {
        for (unsigned i = 0; i < 4; i++) {
            unsigned low = 64 * i + 8 * (lane / 4) + 2 * (lane % 4);
            ck_assert_uint_eq(words[4 * lane + i], low | (low + 1) << 16);
        }
    }
}
END_TEST

/* The last block adds what all have left; a counter tells which one it is. */
static __global__ void last_block_kernel(int *parts, unsigned *counter, int *out)
{
    __shared__ int is_last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = (int)blockIdx.x + 1;
        __threadfence();
        is_last = atomicAdd(counter, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last || threadIdx.x) return;
    *out = 0;
    for (unsigned i = 0; i < gridDim.x; i++) *out += parts[i];
}

START_TEST(test_the_last_block_sees_all_others)
{
    int out, *parts = device_array<int>(40), *sum = device_array<int>(1);
    unsigned *counter = device_array<unsigned>(1);
    cudaMemsetAsync(counter, 0, sizeof *counter, stream);
    run(dim3(40), 64, 0, last_block_kernel, parts, counter, sum);
    fetch(&out, sum, 1);
    ck_assert_int_eq(out, 40 * 41 / 2);
}
END_TEST

static __global__ void count_kernel(int *x)
{
    if (threadIdx.x == 0) *x += 1;
}

START_TEST(test_a_graph_does_its_work_again_and_again)
{
    int x = 7, *on = device_array<int>(1);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaMemcpyAsync(on, &x, sizeof x, cudaMemcpyHostToDevice, stream);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    run(dim3(1), 32, 0, count_kernel, on);
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(cudaGraphLaunch(exec, stream), cudaSuccess);
    fetch(&x, on, 1);
    ck_assert_int_eq(x, 10);
    ck_assert_int_eq(cudaGraphExecDestroy(exec), cudaSuccess);
}
END_TEST

START_TEST(test_a_stream_waits_for_the_event_as_it_was_recorded)
{
    int x = 1, y = 2, *on = device_array<int>(1), *pinned;
    cudaStream_t other;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&other, 0);
    cudaEventCreateWithFlags(&event, 0);
    cudaMemcpyAsync(on, &x, sizeof x, cudaMemcpyHostToDevice, stream);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(other, event, 0);
    cudaMemcpyAsync(on, &y, sizeof y, cudaMemcpyHostToDevice, stream); /* after the record */
    cudaMallocHost((void **)&pinned, sizeof *pinned);
    cudaMemcpyAsync(pinned, on, sizeof x, cudaMemcpyDeviceToHost, other);
    cudaStreamSynchronize(other);
    ck_assert_int_eq(*pinned, 1);
    cudaStreamSynchronize(stream); /* y is read */
    cudaFreeHost(pinned);
    cudaEventDestroy(event);
    cudaStreamDestroy(other);
}
END_TEST

START_TEST(test_pageable_memory_is_read_when_the_copy_is_done)
{
    int x = 1, got, *on = device_array<int>(1);
    cudaMemcpyAsync(on, &x, sizeof x, cudaMemcpyHostToDevice, stream);
    x = 2; /* too early */
    fetch(&got, on, 1);
    ck_assert_int_eq(got, 2);
}
END_TEST

START_TEST(test_work_is_under_way_while_somebody_asks)
{
    int *on = device_array<int>(1), asked = 0;
    for (int i = 0; i < 3; i++) cudaMemsetAsync(on, i, sizeof *on, stream);
    while (cudaStreamQuery(stream) == cudaErrorNotReady) asked++;
    ck_assert_int_eq(asked, 2);
}
END_TEST

/* ---- which faults it sees ---- */

START_TEST(test_a_stream_that_waits_for_captured_work_is_a_fault)
{
    cudaStream_t other;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&other, 0);
    cudaEventCreateWithFlags(&event, 0);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(other, event, 0);
}
END_TEST

START_TEST(test_the_host_cannot_touch_device_memory)
{
    int *on = device_array<int>(4);
    cudaMemsetAsync(on, 0, 16, stream);
    cudaStreamSynchronize(stream);
    *(volatile int *)on = 1;
}
END_TEST

START_TEST(test_work_is_not_done_before_somebody_waits)
{
    int *pinned, *on = device_array<int>(1);
    cudaMallocHost((void **)&pinned, sizeof *pinned);
    *pinned = 5;
    cudaMemsetAsync(on, 0, sizeof *on, stream);
    cudaMemcpyAsync(pinned, on, sizeof *on, cudaMemcpyDeviceToHost, stream);
    ck_assert_int_eq(*pinned, 5);
    cudaStreamSynchronize(stream);
    ck_assert_int_eq(*pinned, 0);
    cudaFreeHost(pinned);
}
END_TEST

START_TEST(test_copies_stay_in_one_block)
{
    int host[8] = {0}, *on = device_array<int>(4);
    ck_assert_int_eq(cudaMemcpyAsync(on, host, 17, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpyAsync(host, on + 3, 5, cudaMemcpyDeviceToHost, stream), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpyAsync(host, host, 4, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpyAsync(on, host, 16, cudaMemcpyHostToDevice, stream), cudaSuccess);
}
END_TEST

static __global__ void shared_kernel(int *last)
{
    unsigned *words = (unsigned *)lh_shared();
    words[blockDim.x + threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *last = (int)words[2 * blockDim.x - 1];
}

/* Of the 99 KiB of smaller devices 2 are left to static memory. */
START_TEST(test_more_shared_memory_than_the_device_has_is_refused)
{
    int last, *on = device_array<int>(1);
    run(dim3(1), 64, 225 << 10, shared_kernel, on);
    fetch(&last, on, 1);
    ck_assert_int_eq(last, 63);
    ck_assert_int_eq(setenv("LONGHAUL_SIMT_SHARED", "101376", 1), 0);
    run(dim3(1), 64, 97 << 10, shared_kernel, on);
    simt_shape shape = {dim3(1), dim3(64), (97 << 10) + 1};
    ck_assert_int_eq(simt_launch(stream, "test", shape, [=] { shared_kernel(on); }), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaFuncSetAttribute(shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 98 << 10),
                     cudaErrorInvalidValue);
    struct cudaDeviceProp prop;
    ck_assert_int_eq(cudaGetDeviceProperties(&prop, 0), cudaSuccess);
    ck_assert_uint_eq(prop.sharedMemPerBlockOptin, 99 << 10);
}
END_TEST

static __global__ void half_barrier_kernel(int *x)
{
    if (threadIdx.x < 32) __syncthreads();
    if (threadIdx.x >= 32) lh_warp_sum(*x);
    if (threadIdx.x >= 32) __syncthreads();
}

START_TEST(test_threads_at_different_barriers_are_a_fault)
{
    run(dim3(1), 64, 0, half_barrier_kernel, device_array<int>(1));
    cudaStreamSynchronize(stream);
}
END_TEST

/* ---- kernels that start early ---- */

static __global__ void fill_kernel(float *y, float x)
{
    lh_let_next_start();
    lh_wait_before();
    y[threadIdx.x] = x;
}

typedef enum early_fault { NO_FAULT, LOADS, COPIES, BULK_COPIES, STORES, NO_WAIT_IN_A_BLOCK } early_fault;

/* y = w + x: w is there before the step, x comes from the kernel before. */
static __global__ void early_kernel(float *y, const float *w, const float *x, early_fault fault)
{
    __shared__ __align__(16) float4 room[32];
    __shared__ uint64_t bar;
    const float own = w[threadIdx.x];
    float early = 0;
    lh_let_next_start();
    if (fault == LOADS) early = x[threadIdx.x];
    if (fault == STORES) y[threadIdx.x] = early;
    if (fault == COPIES) lh_copy_async(&room[threadIdx.x], x, 16);
    if (fault == BULK_COPIES && threadIdx.x == 0) {
        lh_mbarrier_init(&bar, 1);
        lh_mbarrier_fence();
        lh_mbarrier_expect(&bar, 16);
        lh_bulk_copy(room, x, 16, &bar);
    }
    if (fault == NO_WAIT_IN_A_BLOCK && blockIdx.x == 1) return;
    lh_wait_before();
    y[threadIdx.x] = own + x[threadIdx.x] + 0 * early;
}

template <typename... A>
static void run_early(dim3 blocks, void (*kernel)(A...), A... args)
{
    simt_shape shape = {blocks, dim3(32), 0, true};
    ck_assert_int_eq(simt_launch(stream, "early", shape, [=] { kernel(args...); }), cudaSuccess);
}

/* Two kernels that start early, the first after a copy, in a graph that runs twice: y = 1 + 2. */
static float chain_of_two(early_fault fault)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float *w = device_array<float>(32), *x = device_array<float>(32), *y = device_array<float>(32), got[32];
    run(dim3(1), 32, 0, fill_kernel, w, 1.0f);
    cudaMemsetAsync(y, 0, 4 * 32, stream); /* an edge: w may be loaded early after it */
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    run_early(dim3(1), fill_kernel, x, 2.0f);
    run_early(dim3(2), early_kernel, y, (const float *)w, (const float *)x, fault);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 2; i++) cudaGraphLaunch(exec, stream);
    fetch(got, y, 32);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    return got[31];
}

START_TEST(test_kernels_that_wait_may_start_early)
{
    ck_assert(chain_of_two(NO_FAULT) == 3);
}
END_TEST

START_TEST(test_an_early_kernel_that_breaks_a_rule_is_a_fault)
{
    chain_of_two((early_fault)_i);
}
END_TEST

#if defined(__SANITIZE_THREAD__)
/* An event is no order between two kernels: a captured graph has no node for it. A plain kernel is in the chain. */
START_TEST(test_an_event_ends_no_chain)
{
    cudaEvent_t event;
    float *x = device_array<float>(32), *y = device_array<float>(32);
    cudaEventCreateWithFlags(&event, 0);
    run(dim3(1), 32, 0, fill_kernel, x, 2.0f);
    cudaEventRecord(event, stream);
    run_early(dim3(1), early_kernel, y, (const float *)x, (const float *)x, NO_FAULT);
    cudaStreamSynchronize(stream);
}
END_TEST
#endif

static __global__ void half_warp_kernel(int *x)
{
    if (threadIdx.x < 16) *x = lh_warp_sum((int)threadIdx.x);
}

START_TEST(test_half_a_warp_is_a_fault)
{
    run(dim3(1), 32, 0, half_warp_kernel, device_array<int>(1));
    cudaStreamSynchronize(stream);
}
END_TEST

static __global__ void race_kernel(int *out)
{
    __shared__ int turned[64];
    turned[threadIdx.x] = (int)threadIdx.x;
    out[threadIdx.x] = turned[63 - threadIdx.x]; /* a barrier is missing */
}

START_TEST(test_a_missing_barrier_shows)
{
    int x[64], wrong = 0, *on = device_array<int>(64);
    run(dim3(1), 64, 0, race_kernel, on);
    fetch(x, on, 64);
    for (int i = 0; i < 64; i++) wrong += x[i] != 63 - i;
    ck_assert_int_gt(wrong, 0);
}
END_TEST

/* ---- CUB ---- */

/* Sorted by bits 8 to 39: below them lies the order that stays, above them what counts for nothing. */
START_TEST(test_a_device_sort_is_stable_and_by_the_bits_asked_for)
{
    enum { N = 200, BEGIN = 8, END = 40 };
    uint64_t keys[N];
    size_t bytes = 0, less;
    uint64_t *on = device_array<uint64_t>(2 * N);
    cub::DoubleBuffer<uint64_t> both(on, on + N);
    const int64_t n = N;
    for (uint64_t i = 0; i < N; i++) keys[i] = i * 37 % 5 << END | i * 29 % 7 << BEGIN | i;
    ck_assert_int_eq(cudaMemcpyAsync(on, keys, sizeof keys, cudaMemcpyHostToDevice, stream), cudaSuccess);
    ck_assert_int_eq(cub::DeviceRadixSort::SortKeys(NULL, bytes, both, n, BEGIN, END, stream), cudaSuccess);
    char *room = device_array<char>((int64_t)bytes);
    less = bytes - 1;
    ck_assert_int_eq(cub::DeviceRadixSort::SortKeys(room, less, both, n, BEGIN, END, stream), cudaErrorInvalidValue);
    ck_assert_int_eq(cub::DeviceRadixSort::SortKeys(room, bytes, both, n, BEGIN, END, stream), cudaSuccess);
    fetch(keys, both.Current(), N);
    for (int i = 1; i < N; i++) {
        const uint64_t before = keys[i - 1] >> BEGIN & 0xffffffff, own = keys[i] >> BEGIN & 0xffffffff;
        ck_assert(before < own || (before == own && (keys[i - 1] & 0xff) < (keys[i] & 0xff)));
        ck_assert_uint_eq(keys[i] >> END, (keys[i] & 0xff) * 37 % 5);
    }
}
END_TEST

START_TEST(test_a_device_sort_within_one_buffer_is_a_fault)
{
    size_t bytes = 1 << 20;
    uint64_t *on = device_array<uint64_t>(100);
    cub::DoubleBuffer<uint64_t> both(on, on + 49);
    cub::DeviceRadixSort::SortKeys(device_array<char>(1 << 20), bytes, both, (int64_t)50, 0, 64, stream);
}
END_TEST

enum { PAIR_THREADS = 64, PAIR_EACH = 4, PAIRS = PAIR_THREADS * PAIR_EACH };

/* Sorts `times` times; a barrier in between is missing. */
static __global__ void pairs_kernel(int *out, int times)
{
    typedef cub::BlockRadixSort<uint32_t, PAIR_THREADS, PAIR_EACH, int32_t> sort;
    __shared__ sort::TempStorage room;
    uint32_t keys[PAIR_EACH];
    int32_t values[PAIR_EACH];
    for (int j = 0; j < PAIR_EACH; j++) {
        values[j] = (int)threadIdx.x * PAIR_EACH + j;
        keys[j] = (uint32_t)values[j] % 3;
    }
    for (int n = 0; n < times; n++) sort(room).SortDescendingBlockedToStriped(keys, values);
    for (int j = 0; j < PAIR_EACH; j++) out[j * PAIR_THREADS + threadIdx.x] = values[j];
}

/* Keys descend, of equal ones the values ascend. */
START_TEST(test_a_block_sorts_pairs_and_keeps_its_room_until_a_barrier)
{
    int x[PAIRS], lost = PAIRS, *on = device_array<int>(PAIRS);
    bool there[PAIRS] = {};
    run(dim3(1), PAIR_THREADS, 0, pairs_kernel, on, 1);
    fetch(x, on, PAIRS);
    for (int i = 1; i < PAIRS; i++) ck_assert(x[i - 1] % 3 > x[i] % 3 || (x[i - 1] % 3 == x[i] % 3 && x[i - 1] < x[i]));
    run(dim3(1), PAIR_THREADS, 0, pairs_kernel, on, 2);
    fetch(x, on, PAIRS);
    for (int i = 0; i < PAIRS; i++) there[x[i]] = true;
    for (int i = 0; i < PAIRS; i++) lost -= there[i];
    ck_assert_int_gt(lost, 0);
}
END_TEST

/* ---- what it counts ---- */

extern "C" {
#include "device/counts.h"
int64_t lh_cuda_counts(const lh_count **counts);
}

/* So far. */
static lh_count counted(lh_count_kind kind, const char *name)
{
    const lh_count *all;
    int64_t n = lh_cuda_counts(&all);
    for (int64_t i = 0; i < n; i++)
        if (all[i].kind == kind && strcmp(all[i].name, name) == 0) return all[i];
    return lh_count{};
}

START_TEST(test_the_host_waits_once_for_work)
{
    int x[96], *on = device_array<int>(96), *pinned;
    ck_assert_int_eq(cudaMallocHost((void **)&pinned, sizeof x), cudaSuccess);
    run(dim3(1), 32, 0, count_kernel, on);
    cudaStreamSynchronize(stream);
    cudaStreamSynchronize(stream); /* for nothing */
    ck_assert_int_eq(counted(LH_COUNT_WAIT, "stream").times, 1);
    cudaMemcpyAsync(pinned, on, sizeof x, cudaMemcpyDeviceToHost, stream);
    ck_assert_int_eq(counted(LH_COUNT_WAIT, "stream").times, 1);
    cudaStreamSynchronize(stream);
    ck_assert_int_eq(counted(LH_COUNT_WAIT, "stream").times, 2);
    fetch(x, on, 96); /* waits by itself */
    ck_assert_int_eq(counted(LH_COUNT_WAIT, "stream").times, 2);
    ck_assert_int_eq(counted(LH_COUNT_WAIT, "pageable copy").times, 1);
    ck_assert_int_eq(counted(LH_COUNT_COPY, "to host").times, 2);
    ck_assert_int_eq(counted(LH_COUNT_COPY, "to host").loaded, 2 * sizeof x);
    cudaFreeHost(pinned);
}
END_TEST

START_TEST(test_replayed_kernels_count)
{
    int *on = device_array<int>(96);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    run(dim3(1), 32, 0, count_kernel, on);
    run(dim3(1), 32, 0, count_kernel, on);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    ck_assert_int_eq(counted(LH_COUNT_KERNEL, "test").times, 0);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(cudaGraphLaunch(exec, stream), cudaSuccess);
    ck_assert_int_eq(counted(LH_COUNT_KERNEL, "test").times, 6);
    ck_assert_int_eq(counted(LH_COUNT_GRAPH, "replay").times, 3);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
}
END_TEST

#if defined(__SANITIZE_THREAD__) /* the instrumentation that counts bytes */
/* Every thread adds a number that all blocks read and one of its own, out of shared memory. */
static __global__ void traffic_kernel(float4 *y, const float4 *x, const float *w)
{
    __shared__ float4 room[64];
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    room[63 - threadIdx.x] = x[i];
    __syncthreads();
    float4 own = room[63 - threadIdx.x];
    y[i] = make_float4(own.x + w[0], own.y + w[0], own.z + w[1], own.w + w[1]);
}

/* A byte of every 64. */
static __global__ void sparse_kernel(unsigned char *x)
{
    x[64 * threadIdx.x] |= 1;
}

static __global__ void async_kernel(float *y, const float *x)
{
    __shared__ float4 room[32];
    simt_copy_async(&room[threadIdx.x], x + 4 * threadIdx.x, 16);
    simt_copy_commit();
    simt_copy_wait(0);
    if (threadIdx.x == 0) y[0] = room[0].x;
}

/* 64 bytes, which 32 threads read. */
static __global__ void bulk_kernel(float *y, const float *x)
{
    __shared__ __align__(16) float room[16];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        lh_mbarrier_init(&bar, 1);
        lh_mbarrier_fence();
        lh_mbarrier_expect(&bar, sizeof room);
        lh_bulk_copy(room, x, sizeof room, &bar);
    }
    __syncthreads();
    lh_mbarrier_wait(&bar, 0);
    y[threadIdx.x] = room[threadIdx.x % 16];
}

START_TEST(test_kernels_touch_so_many_bytes)
{
    enum { BLOCKS = 3, N = BLOCKS * 64 * 4 };
    float *x = device_array<float>(N), *y = device_array<float>(N), *w = device_array<float>(2);
    run(dim3(BLOCKS), 64, 0, traffic_kernel, (float4 *)y, (const float4 *)x, (const float *)w);
    lh_count c = counted(LH_COUNT_KERNEL, "test"), more;
    ck_assert_int_eq(c.loaded, N * 4 + 32); /* w is one sector, once */
    ck_assert_int_eq(c.stored, N * 4);
    run(dim3(1), 32, 0, sparse_kernel, (unsigned char *)x);
    more = counted(LH_COUNT_KERNEL, "test");
    ck_assert_int_eq(more.loaded - c.loaded, 32 * 32);
    ck_assert_int_eq(more.stored - c.stored, 32 * 32);
    run(dim3(1), 32, 0, async_kernel, y, (const float *)x);
    c = counted(LH_COUNT_KERNEL, "test");
    ck_assert_int_eq(c.loaded - more.loaded, 32 * 16);
    ck_assert_int_eq(c.stored - more.stored, 32);
    run(dim3(1), 32, 0, bulk_kernel, y, (const float *)x);
    more = counted(LH_COUNT_KERNEL, "test");
    ck_assert_int_eq(more.loaded - c.loaded, 64);
    ck_assert_int_eq(more.stored - c.stored, 32 * 4);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("simt");
    TCase *tc = tcase_create("simt");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, test_blocks_add_up_and_scan);
    tcase_add_test(tc, test_lanes_get_their_words_of_four_matrices);
    tcase_add_test(tc, test_the_last_block_sees_all_others);
    tcase_add_test(tc, test_a_graph_does_its_work_again_and_again);
    tcase_add_test(tc, test_a_stream_waits_for_the_event_as_it_was_recorded);
    tcase_add_test(tc, test_pageable_memory_is_read_when_the_copy_is_done);
    tcase_add_test(tc, test_work_is_under_way_while_somebody_asks);
    tcase_add_test(tc, test_work_is_not_done_before_somebody_waits);
    tcase_add_test(tc, test_copies_stay_in_one_block);
    tcase_add_test(tc, test_a_missing_barrier_shows);
    tcase_add_test(tc, test_a_device_sort_is_stable_and_by_the_bits_asked_for);
    tcase_add_test(tc, test_a_block_sorts_pairs_and_keeps_its_room_until_a_barrier);
    tcase_add_test(tc, test_more_shared_memory_than_the_device_has_is_refused);
    tcase_add_test(tc, test_the_host_waits_once_for_work);
    tcase_add_test(tc, test_replayed_kernels_count);
#if defined(__SANITIZE_THREAD__)
    tcase_add_test(tc, test_kernels_touch_so_many_bytes);
    tcase_add_loop_test_raise_signal(tc, test_an_early_kernel_that_breaks_a_rule_is_a_fault, SIGABRT, LOADS,
                                     NO_WAIT_IN_A_BLOCK + 1);
    tcase_add_test_raise_signal(tc, test_an_event_ends_no_chain, SIGABRT);
#endif
    tcase_add_test(tc, test_kernels_that_wait_may_start_early);
    tcase_add_loop_test_raise_signal(tc, test_an_early_kernel_that_breaks_a_rule_is_a_fault, SIGABRT,
                                     NO_WAIT_IN_A_BLOCK, NO_WAIT_IN_A_BLOCK + 1);
    tcase_add_test_raise_signal(tc, test_the_host_cannot_touch_device_memory, SIGSEGV);
    tcase_add_test_raise_signal(tc, test_a_stream_that_waits_for_captured_work_is_a_fault, SIGABRT);
    tcase_add_test_raise_signal(tc, test_a_device_sort_within_one_buffer_is_a_fault, SIGABRT);
    tcase_add_test_raise_signal(tc, test_threads_at_different_barriers_are_a_fault, SIGABRT);
    tcase_add_test_raise_signal(tc, test_half_a_warp_is_a_fault, SIGABRT);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
