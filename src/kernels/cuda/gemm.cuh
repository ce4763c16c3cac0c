/* gemm.cuh - the kernels of a matrix product with weights [out, in]. None is called without tokens, outputs or
 * inputs. */
#ifndef LH_KERNELS_CUDA_GEMM_CUH
#define LH_KERNELS_CUDA_GEMM_CUH

#include "kernels/cuda/warp.cuh"

extern "C" {
#include "kernels/elementwise.h"
}

/* Returns 1 if the weights are one matrix of plain numbers. */
static inline int lh_gemm_is_plain(const lh_gemm_args *a)
{
    return a->w.format->is_plain && !a->w.next;
}

/* Returns 1 if rows of x are multiples of 16 bytes. */
static inline int lh_gemm_x_is_wide(const lh_gemm_args *a)
{
    const int64_t each = 16 / lh_dtype_bytes(a->type);
    return (uintptr_t)a->x % 16 == 0 && a->in % each == 0 && (a->tokens == 1 || a->x_ld % each == 0);
}

/* Returns 1 if rows of x and w are. */
static inline int lh_gemm_is_wide(const lh_gemm_args *a)
{
    const int64_t each = 16 / lh_dtype_bytes(a->type);
    return lh_gemm_x_is_wide(a) && (uintptr_t)a->w.data % 16 == 0 && (a->out == 1 || a->w.ld % each == 0);
}

/* Weights are read once: loads of 16 bytes that bypass L1, which is for x. */
static __device__ __forceinline__ uint4 lh_load_once(const void *p)
{
#ifdef LH_SIMT
    return *(const uint4 *)p;
#else
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(p));
    return x;
#endif
}

/* y[t,o] of the product. Where the order is free it is added in L2, so that no thread waits for y; L2 takes numbers
 * below the normal ones as 0. */
static __device__ __forceinline__ void lh_gemm_put(const lh_gemm_args &a, int64_t t, int64_t o, float product)
{
    float *y = a.y + t * a.y_ld + o;
    if (!a.adds)
        *y = product;
    else if (a.order == LH_ORDER_FIXED)
        *y += product;
    else
        atomicAdd(y, product);
}

/* The same through a gate. */
static __device__ __forceinline__ void lh_gated_put(const lh_gated_args &a, int64_t t, int64_t o, float gate, float up)
{
    float y = lh_gate_of(gate, a.gate_kind) * up;
    if (a.y_type == LH_F32)
        lh_put((float *)a.y + t * a.y_ld + o, y);
    else
        lh_put((__nv_bfloat16 *)a.y + t * a.y_ld + o, y);
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

/* Few tokens with weights of any type and alignment: maximum tokens of a block, f32 and bf16. gemm_small.cu */
enum { LH_SMALL_F32 = 8, LH_SMALL_BF16 = 4 };
lh_status lh_gemm_small(lh_stream *stream, const lh_gemm_args *a);

/* Few tokens of bf16 numbers in wide rows: maximum tokens; with a norm in the same kernel. gemm_stream.cu */
enum { LH_STREAM_TOKENS = 16, LH_STREAM_NORM_TOKENS = 2 };

/* Returns 1 if lh_gemm_stream computes the product. */
int lh_gemm_streams(const lh_gemm_args *a);

/* The same for a product that streams, and its norm. */
int lh_norm_streams(const lh_stream *stream, const lh_norm_gemm_args *a);

/* norm_gemm as operation `name`: without a norm if norm.x is NULL, without a gate if gated.y is NULL. Values lie after
 * the gates that they multiply: gemm.out is twice gated.dim. gemm.y of a gated product is not written. */
lh_status lh_gemm_stream(lh_stream *stream, const char *name, const lh_norm_gemm_args *a);

/* One chain of fused multiply-adds for each number. gemm.cu */
lh_status lh_gemm_fixed(lh_stream *stream, const lh_gemm_args *a);

#endif
