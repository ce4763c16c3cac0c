/* gemm_small.cuh - products of a few tokens with large weights, as in decoding: the time is that for reading the
 * weights. A block has LH_SMALL_ROWS rows of them and its warps take turns along the rows, 512 bytes per row and turn,
 * 16 per lane, so that every lane has many loads of weights in flight, and one per token of x, which is in L1; with one
 * or two tokens two turns together. A lane sums its part of all LH_SMALL_ROWS x TOKENS outputs, then lanes and then
 * warps are reduced. Bytes: out * in * 2 or 4. */
#ifndef LH_KERNELS_CUDA_GEMM_SMALL_CUH
#define LH_KERNELS_CUDA_GEMM_SMALL_CUH

#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/vector.cuh"

enum { LH_SMALL_ROWS = 4, LH_SMALL_WARPS = 4, LH_SMALL_THREADS = LH_SMALL_WARPS * LH_WARP };

/* 16 bytes of a row, as words of one f32 or two bf16 numbers. */
struct lh_pack {
    unsigned word[4];
};

static __device__ __forceinline__ lh_pack lh_pack_of(uint4 x)
{
    return {{x.x, x.y, x.z, x.w}};
}

/* The same for rows that are not aligned to 16 bytes or end in between: number by number, 0 from n on. */
static __device__ lh_pack lh_gather(const float *p, int64_t n)
{
    lh_pack x = {};
    for (int j = 0; j < 4; j++) x.word[j] = j < n ? __float_as_uint(p[j]) : 0;
    return x;
}
static __device__ lh_pack lh_gather(const __nv_bfloat16 *p, int64_t n)
{
    lh_pack x = {};
    for (int j = 0; j < 4; j++)
        x.word[j] = lh_word(2 * j < n ? lh_number(p[2 * j]) : 0, 2 * j + 1 < n ? lh_number(p[2 * j + 1]) : 0);
    return x;
}

static __device__ __forceinline__ float lh_dot(unsigned x, unsigned w, float sum, float)
{
    return fmaf(__uint_as_float(x), __uint_as_float(w), sum);
}
static __device__ __forceinline__ float lh_dot(unsigned x, unsigned w, float sum, __nv_bfloat16)
{
    return fmaf(lh_high(x), lh_high(w), fmaf(lh_low(x), lh_low(w), sum));
}

/* Adds sum[0 .. N - 1] over the lanes. Halves are exchanged, so that a lane soon holds few numbers: the result is
 * number lane / (32 / N), in sum[0]. N: a power of two <= 32. */
template <int N, int WITH = LH_WARP / 2>
static __device__ __forceinline__ void lh_join_lanes(float *sum)
{
    constexpr int LEFT = N * WITH / LH_WARP; /* after this turn; 0: there was one number before */
    int is_upper = lh_lane() & WITH;
#pragma unroll
    for (int i = 0; i < LEFT; i++) {
        float gives = is_upper ? sum[i] : sum[i + LEFT], keeps = is_upper ? sum[i + LEFT] : sum[i];
        sum[i] = keeps + __shfl_xor_sync(LH_ALL, gives, WITH);
    }
    if (LEFT == 0) sum[0] += __shfl_xor_sync(LH_ALL, sum[0], WITH);
    if constexpr (WITH > 1) lh_join_lanes<N, WITH / 2>(sum);
}

/* 16 bytes of a row. IS_WIDE: rows are whole pieces of 16 bytes. */
template <int IS_WIDE, typename T>
static __device__ __forceinline__ lh_pack lh_weights_of(const T *p, int64_t n)
{
    return IS_WIDE ? lh_pack_of(lh_load_once(p)) : lh_gather(p, n);
}
template <int IS_WIDE, typename T>
static __device__ __forceinline__ lh_pack lh_tokens_of(const T *p, int64_t n)
{
    return IS_WIDE ? lh_pack_of(*(const uint4 *)p) : lh_gather(p, n);
}

template <typename T, int TOKENS>
struct lh_small_rows {
    const T *w[LH_SMALL_ROWS], *x[TOKENS];
    int64_t in;
};

/* TURNS turns from column i on: loads all of them, then multiplies. sum: [TOKENS, LH_SMALL_ROWS]. */
template <typename T, int TOKENS, int IS_WIDE, int TURNS>
static __device__ __forceinline__ void lh_add_turns(float (&sum)[LH_SMALL_ROWS * TOKENS],
                                                    const lh_small_rows<T, TOKENS> &f, int64_t i)
{
    constexpr int STEP = LH_SMALL_THREADS * (16 / (int)sizeof(T));
    lh_pack ws[TURNS][LH_SMALL_ROWS], xs[TURNS][TOKENS];
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        int64_t at = i + k * STEP;
#pragma unroll
        for (int r = 0; r < LH_SMALL_ROWS; r++) ws[k][r] = lh_weights_of<IS_WIDE>(f.w[r] + at, f.in - at);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) xs[k][t] = lh_tokens_of<IS_WIDE>(f.x[t] + at, f.in - at);
    }
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int n = 0; n < LH_SMALL_ROWS * TOKENS; n++)
                sum[n] = lh_dot(xs[k][n / LH_SMALL_ROWS].word[j], ws[k][n % LH_SMALL_ROWS].word[j], sum[n], T());
        }
    }
}

/* Output threadIdx.x of [TOKENS, LH_SMALL_ROWS], for the first threads of warp 0; 0 for other threads. */
template <int IS_WIDE, typename T, int TOKENS>
static __device__ __forceinline__ float lh_small_product(const lh_small_rows<T, TOKENS> &f)
{
    constexpr int N = LH_SMALL_ROWS * TOKENS, EACH = 16 / (int)sizeof(T), STEP = LH_SMALL_THREADS * EACH,
                  TURNS = TOKENS <= 2 ? 2 : 1;
    __shared__ float parts[LH_SMALL_WARPS][N];
    int64_t i = (int64_t)threadIdx.x * EACH;
    float sum[N] = {}, y = 0.0f;
    for (; i + (TURNS - 1) * STEP < f.in; i += TURNS * STEP) lh_add_turns<T, TOKENS, IS_WIDE, TURNS>(sum, f, i);
    for (; i < f.in; i += STEP) lh_add_turns<T, TOKENS, IS_WIDE, 1>(sum, f, i);
    lh_join_lanes<N>(sum);
    if (lh_lane() % (LH_WARP / N) == 0) parts[lh_warp()][lh_lane() / (LH_WARP / N)] = sum[0];
    __syncthreads();
    for (int k = 0; k < LH_SMALL_WARPS && threadIdx.x < N; k++) y += parts[k][threadIdx.x];
    return y;
}

#endif
