/* vector.cuh - numbers of a row four at a time: one access of 16 bytes (f32), 8 (bf16) or 4 (codes of q8) if the row is
 * aligned, else one by one. The arithmetic is the same either way, so bits do not depend on the alignment of a row. */
#ifndef LH_KERNELS_CUDA_VECTOR_CUH
#define LH_KERNELS_CUDA_VECTOR_CUH

#include "kernels/cuda/warp.cuh"

typedef struct lh_four {
    float at[4];
} lh_four;

/* Numbers moved in one access, 4 or 1, in rows that begin at p + t * ld. NULL: 4. */
static inline int lh_width(const void *p, int64_t ld, lh_dtype type)
{
    return (uintptr_t)p % (uintptr_t)(4 * lh_dtype_bytes(type)) == 0 && ld % 4 == 0 ? 4 : 1;
}

/* Rows of `cols` numbers: a thread has fours of a row, threads along the row (x), rows along y. Kernels loop with
 * strides in both. */
static inline lh_shape lh_fours_shape(int64_t rows, int64_t cols)
{
    const int64_t most = 256, most_rows = 65535;
    int64_t fours = (cols + 3) / 4, threads = fours < most ? (fours + LH_WARP - 1) / LH_WARP * LH_WARP : most;
    if (rows <= 0 || cols <= 0) return lh_shape{dim3(0, 0), LH_WARP, 0};
    return lh_shape{dim3(lh_blocks(fours, threads), (unsigned)(rows < most_rows ? rows : most_rows)), (int)threads, 0};
}

/* The numbers p[0 .. 3], with 0 from n on. */
static __device__ __forceinline__ lh_four lh_get4(const float *p, int64_t n, int width)
{
    lh_four x = {{0, 0, 0, 0}};
    if (width == 4 && n >= 4) {
        float4 all = *(const float4 *)p;
        return {{all.x, all.y, all.z, all.w}};
    }
    for (int j = 0; j < 4; j++)
        if (j < n) x.at[j] = p[j];
    return x;
}

/* The two bf16 numbers in a word, the first in its lower half. */
static __device__ __forceinline__ float lh_low(unsigned word)
{
    return __uint_as_float(word << 16);
}
static __device__ __forceinline__ float lh_high(unsigned word)
{
    return __uint_as_float(word & 0xffff0000u);
}
static __device__ __forceinline__ unsigned lh_word(float low, float high)
{
    __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    unsigned word;
    memcpy(&word, &two, sizeof word);
    return word;
}

static __device__ __forceinline__ lh_four lh_get4(const __nv_bfloat16 *p, int64_t n, int width)
{
    lh_four x = {{0, 0, 0, 0}};
    if (width == 4 && n >= 4) {
        uint2 all = *(const uint2 *)p;
        return {{lh_low(all.x), lh_high(all.x), lh_low(all.y), lh_high(all.y)}};
    }
    for (int j = 0; j < 4; j++)
        if (j < n) x.at[j] = lh_number(p[j]);
    return x;
}

static __device__ __forceinline__ lh_four lh_get4(const int8_t *p, int64_t n, int width)
{
    lh_four x = {{0, 0, 0, 0}};
    if (width == 4 && n >= 4) {
        const unsigned all = *(const unsigned *)p;
        for (int j = 0; j < 4; j++) x.at[j] = (float)(int8_t)(all >> 8 * j);
        return x;
    }
    for (int j = 0; j < 4; j++)
        if (j < n) x.at[j] = (float)p[j];
    return x;
}

/* p[0 .. min(n, 4) - 1] = x. */
static __device__ __forceinline__ void lh_put4(float *p, lh_four x, int64_t n, int width)
{
    if (width == 4 && n >= 4) {
        *(float4 *)p = make_float4(x.at[0], x.at[1], x.at[2], x.at[3]);
        return;
    }
    for (int j = 0; j < 4; j++)
        if (j < n) p[j] = x.at[j];
}
static __device__ __forceinline__ void lh_put4(__nv_bfloat16 *p, lh_four x, int64_t n, int width)
{
    if (width == 4 && n >= 4) {
        *(uint2 *)p = make_uint2(lh_word(x.at[0], x.at[1]), lh_word(x.at[2], x.at[3]));
        return;
    }
    for (int j = 0; j < 4; j++)
        if (j < n) lh_put(p + j, x.at[j]);
}
/* x: codes. */
static __device__ __forceinline__ void lh_put4(int8_t *p, lh_four x, int64_t n, int width)
{
    if (width == 4 && n >= 4) {
        unsigned all = 0;
        for (int j = 0; j < 4; j++) all |= (unsigned)(uint8_t)(int8_t)x.at[j] << 8 * j;
        *(unsigned *)p = all;
        return;
    }
    for (int j = 0; j < 4; j++)
        if (j < n) p[j] = (int8_t)x.at[j];
}

/* ---- 16 bytes at a time ---- */

/* Returns 1 if rows that begin at p + t * ld are aligned to 16 bytes. */
static inline int lh_is_wide(const void *p, int64_t ld, lh_dtype type)
{
    return ((uintptr_t)p | (uintptr_t)(ld * lh_dtype_bytes(type))) % 16 == 0;
}

/* Numbers in 16 bytes. */
template <typename T>
static __host__ __device__ constexpr int lh_wide(void)
{
    return 16 / (int)sizeof(T);
}

static __device__ __forceinline__ void lh_unpack(float (&x)[4], float4 v)
{
    x[0] = v.x;
    x[1] = v.y;
    x[2] = v.z;
    x[3] = v.w;
}
static __device__ __forceinline__ void lh_unpack(float (&x)[8], uint4 v)
{
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = lh_low(words[i]);
        x[2 * i + 1] = lh_high(words[i]);
    }
}

/* x = the numbers in the 16 bytes at p, which is aligned to them. */
static __device__ __forceinline__ void lh_load_wide(float (&x)[4], const float *p)
{
    lh_unpack(x, *(const float4 *)p);
}
static __device__ __forceinline__ void lh_load_wide(float (&x)[8], const __nv_bfloat16 *p)
{
    lh_unpack(x, *(const uint4 *)p);
}

/* The same for numbers that are read once: the first to leave the caches. */
static __device__ __forceinline__ void lh_load_streaming(float (&x)[4], const float *p)
{
    lh_unpack(x, __ldcs((const float4 *)p));
}
static __device__ __forceinline__ void lh_load_streaming(float (&x)[8], const __nv_bfloat16 *p)
{
    lh_unpack(x, __ldcs((const uint4 *)p));
}

/* x = p[0 .. n - 1], padded with zeros; any p; n may be negative or larger than x. */
template <typename T, int N>
static __device__ __forceinline__ void lh_load_some(float (&x)[N], const T *p, int64_t n)
{
    if (n >= N && (uintptr_t)p % 16 == 0) {
        lh_load_wide(x, p);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = i < n ? lh_number(p[i]) : 0.0f;
}

/* p[0 .. N - 1] = x, in accesses of up to 16 bytes; p is aligned to min(16, the bytes of x). */
template <int N>
static __device__ __forceinline__ void lh_store_wide(float *p, const float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i += 4) *(float4 *)(p + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
}
static __device__ __forceinline__ void lh_store_wide(__nv_bfloat16 *p, const float (&x)[4])
{
    *(uint2 *)p = make_uint2(lh_word(x[0], x[1]), lh_word(x[2], x[3]));
}
static __device__ __forceinline__ void lh_store_wide(__nv_bfloat16 *p, const float (&x)[8])
{
    *(uint4 *)p = make_uint4(lh_word(x[0], x[1]), lh_word(x[2], x[3]), lh_word(x[4], x[5]), lh_word(x[6], x[7]));
}

#endif
