/* Laws of the emulation of compute capability 9.0: bulk and tensor copies, mbarriers, products of warpgroups; and which
 * faults it sees. */
#include <signal.h>

#include "device_case.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/cuda/wgmma.cuh"

/* ---- bulk and tensor copies ---- */

enum { BULK_N = 512, BULK_THREADS = 64 };

/* A warp copies pieces of 512 numbers in two stages, the other one adds them up: a thread a number of each 32. */
static __global__ void ring_kernel(float *sums, const float *x, int pieces)
{
    __shared__ __align__(16) float stages[2][BULK_N];
    __shared__ uint64_t full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) lh_mbarrier_init(full + i, 1), lh_mbarrier_init(empty + i, LH_WARP);
        lh_mbarrier_fence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int n = 0; n < pieces; n++) {
            if (n > 1) lh_mbarrier_wait(empty + n % 2, (n / 2 - 1) % 2);
            lh_mbarrier_expect(full + n % 2, sizeof stages[0]);
            lh_bulk_copy(stages[n % 2], x + n * BULK_N, sizeof stages[0] / 2, full + n % 2);
            lh_bulk_copy_hint(stages[n % 2] + BULK_N / 2, x + n * BULK_N + BULK_N / 2, sizeof stages[0] / 2,
                              full + n % 2, lh_evict_first());
        }
    } else if (threadIdx.x >= LH_WARP) {
        float sum = 0;
        for (int n = 0; n < pieces; n++) {
            lh_mbarrier_wait(full + n % 2, n / 2 % 2);
            for (int i = lh_lane(); i < BULK_N; i += LH_WARP) sum += stages[n % 2][i];
            lh_mbarrier_arrive(empty + n % 2);
        }
        sums[lh_lane()] = sum;
    }
}

START_TEST(test_a_ring_of_bulk_copies_brings_every_number_once)
{
    enum { PIECES = 7 };
    float x[PIECES * BULK_N], sums[LH_WARP], *on = device_array<float>(PIECES * BULK_N), *out = device_array<float>(32);
    for (int i = 0; i < PIECES * BULK_N; i++) x[i] = (float)(i % 1000);
    cudaMemcpyAsync(on, x, sizeof x, cudaMemcpyHostToDevice, stream);
    run(dim3(3), BULK_THREADS, 0, ring_kernel, out, (const float *)on, (int)PIECES);
    fetch(sums, out, LH_WARP);
    for (int lane = 0; lane < LH_WARP; lane++) {
        float sum = 0;
        for (int i = lane; i < PIECES * BULK_N; i += LH_WARP) sum += x[i];
        ck_assert_float_eq(sums[lane], sum);
    }
}
END_TEST

/* A box of 8 columns, 3 rows and 2 planes from (4, -1, 1) on. */
static __global__ void box_kernel(unsigned short *out, const __grid_constant__ CUtensorMap map)
{
    __shared__ __align__(1024) unsigned short box[2 * 3 * 8];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        lh_mbarrier_init(&bar, 1);
        lh_mbarrier_fence();
        lh_mbarrier_expect(&bar, sizeof box);
        lh_tensor_copy(box, &map, 4, -1, 1, &bar);
    }
    __syncthreads();
    lh_mbarrier_wait(&bar, 0);
    for (int i = (int)threadIdx.x; i < 2 * 3 * 8; i += (int)blockDim.x) out[i] = box[i];
}

START_TEST(test_a_box_of_a_tensor_is_0_outside)
{
    unsigned short x[2][5][16], box[2][3][8], *on = device_array<unsigned short>(2 * 5 * 16),
                                              *out = device_array<unsigned short>(2 * 3 * 8);
    const cuuint64_t dims[] = {10, 5, 2}, strides[] = {32, 5 * 32};
    const cuuint32_t boxes[] = {8, 3, 2}, steps[] = {1, 1, 1};
    CUtensorMap map;
    for (int i = 0; i < 2 * 5 * 16; i++) (&x[0][0][0])[i] = (unsigned short)(i + 1);
    cudaMemcpyAsync(on, x, sizeof x, cudaMemcpyHostToDevice, stream);
    ck_assert_int_eq(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, on, dims, strides, boxes, steps,
                                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                     CUDA_SUCCESS);
    run(dim3(1), 32, 0, box_kernel, out, map);
    fetch(&box[0][0][0], out, 2 * 3 * 8);
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 3; y++)
            for (int i = 0; i < 8; i++)
                ck_assert_uint_eq(box[z][y][i], z == 0 && y > 0 && i < 6 ? x[1][y - 1][4 + i] : 0);
}
END_TEST

/* What a kernel with one copy of 64 bytes does wrong. */
typedef enum bulk_fault { NO_WAIT, NOT_MADE, NO_FENCE, NO_COPY, ODD_BYTES, ODD_PLACE, TWO_ARRIVALS } bulk_fault;

static __global__ void bulk_fault_kernel(float *out, const float *x, bulk_fault fault)
{
    __shared__ __align__(16) float room[32];
    __shared__ uint64_t bar;
    bar = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        if (fault != NOT_MADE) lh_mbarrier_init(&bar, 1);
        if (fault != NO_FENCE) lh_mbarrier_fence();
        lh_mbarrier_expect(&bar, 64);
        if (fault == TWO_ARRIVALS) lh_mbarrier_arrive(&bar), lh_mbarrier_arrive(&bar);
        if (fault != NO_COPY) lh_bulk_copy(room + (fault == ODD_PLACE), x, fault == ODD_BYTES ? 56 : 64, &bar);
    }
    __syncthreads();
    if (fault != NO_WAIT) lh_mbarrier_wait(&bar, 0);
    out[threadIdx.x] = room[threadIdx.x % 16];
}

START_TEST(test_a_bulk_copy_that_breaks_a_rule_is_a_fault)
{
    float *x = device_array<float>(32);
    run(dim3(1), 32, 0, bulk_fault_kernel, x, (const float *)x, (bulk_fault)_i);
    cudaStreamSynchronize(stream);
}
END_TEST

/* The reader does not wait, another thread does. */
static __global__ void early_kernel(float *out, const float *x)
{
    __shared__ __align__(16) float room[32];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        lh_mbarrier_init(&bar, 1);
        lh_mbarrier_fence();
        lh_mbarrier_expect(&bar, sizeof room);
        lh_bulk_copy(room, x, sizeof room, &bar);
    }
    __syncthreads();
    if (threadIdx.x < 32) out[threadIdx.x] = room[threadIdx.x];
    __syncthreads();
    lh_mbarrier_wait(&bar, 0);
}

START_TEST(test_numbers_under_way_are_no_numbers)
{
    float x[32] = {0}, *on = device_array<float>(32);
    cudaMemsetAsync(on, 0, sizeof x, stream);
    run(dim3(1), 64, 0, early_kernel, on, (const float *)on);
    fetch(x, on, 32);
    for (int i = 0; i < 32; i++) ck_assert(isnan(x[i]));
}
END_TEST

/* ---- products of warpgroups ---- */

/* a [64, 64] and b [64, N] are small integers, so every product is exact. */
static __host__ __device__ float number_of(int row, int col)
{
    return (float)((row * 7 + col * 3) % 9 - 4);
}

/* How a kernel with one product of two warpgroups' rows goes wrong. */
typedef enum product_fault { WELL, UNFENCED, NOT_WAITED, READ_EARLY, UNORDERED } product_fault;

/* d [64, N] = 2 a b: once with a and the transposed b in shared memory, once with a in registers and b. */
template <int N>
static __global__ void product_kernel(float *out, product_fault fault)
{
    enum { TILE = 64 * 128 };
    unsigned char *raw = lh_shared(), *a = raw + (0u - lh_shared_address(raw)) % 1024, *b = a + TILE,
                  *across = b + N * 128;
    const int lane = lh_lane(), row = lh_warp() * 16 + lane / 4;
    float d[N / 2];
    for (int n = (int)threadIdx.x; n < 64 * 64; n += 128)
        ((__nv_bfloat16 *)lh_tile_piece(a, TILE, n / 64, n % 64 / 8))[n % 8] =
            __float2bfloat16_rn(number_of(n / 64, n % 64));
    for (int n = (int)threadIdx.x; n < 64 * N; n += 128) {
        const int k = n / N, col = n % N;
        ((__nv_bfloat16 *)lh_tile_piece(b, N * 128, col, k / 8))[k % 8] = __float2bfloat16_rn(number_of(k, col));
        ((__nv_bfloat16 *)lh_tile_piece(across, TILE, k, col / 8))[col % 8] = __float2bfloat16_rn(number_of(k, col));
    }
    if (fault != UNORDERED) lh_async_fence();
    __syncthreads();
    if (fault != UNFENCED) lh_wgmma_fence();
    unsigned words[4][4];
    for (int i = 0; i < 4; i++) {
        lh_wgmma(d, lh_wgmma_matrix(lh_shared_address(a) + 32 * i, 16, 1024),
                 lh_wgmma_matrix(lh_shared_address(b) + 32 * i, 16, 1024), i > 0);
        for (int j = 0; j < 4; j++) {
            const int k = 16 * i + lane % 4 * 2 + j / 2 * 8;
            words[i][j] = __float_as_uint(number_of(row + j % 2 * 8, k)) >> 16 |
                          (__float_as_uint(number_of(row + j % 2 * 8, k + 1)) & 0xffff0000u);
        }
    }
    for (int i = 0; i < 4; i++) lh_wgmma(d, words[i], lh_wgmma_matrix(lh_shared_address(across) + 2048 * i, TILE, 1024));
    lh_wgmma_commit();
    if (fault == NOT_WAITED) return;
    if (fault == READ_EARLY) out[threadIdx.x] = d[0];
    lh_wgmma_wait<0>();
    if (fault == READ_EARLY) return;
    for (int i = 0; i < N / 2; i++) out[(row + i % 4 / 2 * 8) * N + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

template <int N>
static void check_product(void)
{
    static float d[64 * N];
    float *on = device_array<float>(64 * N);
    run(dim3(1), 128, 1024 + 64 * 128 + 2 * N * 128, product_kernel<N>, on, WELL);
    fetch(d, on, 64 * N);
    for (int row = 0; row < 64; row++)
        for (int col = 0; col < N; col++) {
            float sum = 0;
            for (int k = 0; k < 64; k++) sum += number_of(row, k) * number_of(k, col);
            ck_assert_float_eq(d[row * N + col], 2 * sum);
        }
}

START_TEST(test_a_warpgroup_multiplies_matrices)
{
    check_product<64>();
    check_product<128>();
    check_product<256>();
}
END_TEST

START_TEST(test_sums_are_no_numbers_before_the_wait)
{
    float x[128], *on = device_array<float>(128);
    run(dim3(1), 128, 40960, product_kernel<64>, on, READ_EARLY);
    fetch(x, on, 128);
    for (int i = 0; i < 128; i++) ck_assert(isnan(x[i]));
}
END_TEST

#if defined(__SANITIZE_THREAD__) /* the instrumentation that sees ordinary stores */
START_TEST(test_a_product_of_stores_that_are_not_ordered_is_a_fault)
{
    run(dim3(1), 128, 40960, product_kernel<64>, device_array<float>(64 * 64), UNORDERED);
    cudaStreamSynchronize(stream);
}
END_TEST
#endif

START_TEST(test_a_product_that_breaks_a_rule_is_a_fault)
{
    run(dim3(1), 128, 40960, product_kernel<64>, device_array<float>(64 * 64), (product_fault)_i);
    cudaStreamSynchronize(stream);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("async");
    TCase *tc = tcase_create("async");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, test_a_ring_of_bulk_copies_brings_every_number_once);
    tcase_add_test(tc, test_a_box_of_a_tensor_is_0_outside);
    tcase_add_test(tc, test_numbers_under_way_are_no_numbers);
    tcase_add_test(tc, test_a_warpgroup_multiplies_matrices);
    tcase_add_test(tc, test_sums_are_no_numbers_before_the_wait);
#if defined(__SANITIZE_THREAD__)
    tcase_add_test_raise_signal(tc, test_a_product_of_stores_that_are_not_ordered_is_a_fault, SIGABRT);
#endif
    tcase_add_loop_test_raise_signal(tc, test_a_product_that_breaks_a_rule_is_a_fault, SIGABRT, UNFENCED,
                                     NOT_WAITED + 1);
    tcase_add_loop_test_raise_signal(tc, test_a_bulk_copy_that_breaks_a_rule_is_a_fault, SIGABRT, NO_WAIT,
                                     TWO_ARRIVALS + 1);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
