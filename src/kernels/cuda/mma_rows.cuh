/* mma_rows.cuh - rows of a cache, eight numbers at a time, for the tensor cores. */
#ifndef LH_KERNELS_CUDA_MMA_ROWS_CUH
#define LH_KERNELS_CUDA_MMA_ROWS_CUH

#include "kernels/cuda/mma_parts.cuh"

/* Rows of `dim` numbers. wide: they begin at multiples of 16 bytes, and dim is a multiple of 8 (16 in 8 bits). */
typedef struct lh_form {
    int dim, wide;
} lh_form;

static inline lh_form lh_form_of(const lh_ragged *kv)
{
    uintptr_t at = (uintptr_t)kv->k | (uintptr_t)kv->v | (uintptr_t)kv->parent.k | (uintptr_t)kv->parent.v;
    const int64_t whole = kv->type == LH_Q8 ? 16 : 8;
    return lh_form{(int)kv->head_dim, kv->head_dim % whole == 0 && at % 16 == 0};
}

static __device__ __forceinline__ void lh_zero(lh_eight<__nv_bfloat16> *e)
{
    e->w = make_uint4(0, 0, 0, 0);
}
static __device__ __forceinline__ void lh_zero(lh_eight<float> *e)
{
    e->x = e->y = make_float4(0, 0, 0, 0);
}
static __device__ __forceinline__ void lh_zero(lh_eight<int8_t> *e)
{
    e->w = make_uint2(0, 0);
}

static __device__ __forceinline__ void lh_take(lh_eight<__nv_bfloat16> *e, const __nv_bfloat16 *at)
{
    e->w = *(const uint4 *)at;
}
static __device__ __forceinline__ void lh_take(lh_eight<float> *e, const float *at)
{
    e->x = *(const float4 *)at;
    e->y = *(const float4 *)(at + 4);
}
static __device__ __forceinline__ void lh_take(lh_eight<int8_t> *e, const int8_t *at)
{
    e->w = *(const uint2 *)at;
}

/* The first n of eight numbers, one by one, then zeros. */
static __device__ inline void lh_take_some(lh_eight<__nv_bfloat16> *e, const __nv_bfloat16 *at, int n)
{
    const unsigned short *bits = (const unsigned short *)at;
    unsigned w[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = (2 * i < n ? bits[2 * i] : 0u) | (2 * i + 1 < n ? (unsigned)bits[2 * i + 1] << 16 : 0u);
    e->w = make_uint4(w[0], w[1], w[2], w[3]);
}
static __device__ inline void lh_take_some(lh_eight<float> *e, const float *at, int n)
{
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = i < n ? at[i] : 0.0f;
    e->x = make_float4(x[0], x[1], x[2], x[3]);
    e->y = make_float4(x[4], x[5], x[6], x[7]);
}
static __device__ inline void lh_take_some(lh_eight<int8_t> *e, const int8_t *at, int n)
{
    unsigned w[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++) w[i / 4] |= i < n ? (unsigned)(uint8_t)at[i] << 8 * (i % 4) : 0u;
    e->w = make_uint2(w[0], w[1]);
}

/* The next eight numbers of a row with `left` numbers left, then zeros. */
template <typename T>
static __device__ __forceinline__ void lh_load(lh_eight<T> *e, const T *at, int left, int wide)
{
    lh_zero(e);
    if (left <= 0) return;
    if (wide)
        lh_take(e, at);
    else
        lh_take_some(e, at, left);
}

#endif
