/* gemm.cuh - the kernels of a matrix product with weights [out, in]. None is called without tokens, outputs or
 * inputs. */
#ifndef LH_KERNELS_CUDA_GEMM_CUH
#define LH_KERNELS_CUDA_GEMM_CUH

#include "kernels/cuda/warp.cuh"

extern "C" {
#include "kernels/elementwise.h"
}

/* Returns 1 if rows of x and w are multiples of 16 bytes. */
static inline int lh_gemm_is_wide(const lh_gemm_args *a)
{
    int64_t each = 16 / lh_dtype_bytes(a->type);
    return ((uintptr_t)a->x | (uintptr_t)a->w) % 16 == 0 && a->in % each == 0 &&
           (a->tokens == 1 || a->x_ld % each == 0) && (a->out == 1 || a->w_ld % each == 0);
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

/* y[t,o] of the product. */
static __device__ __forceinline__ void lh_gemm_put(const lh_gemm_args &a, int64_t t, int64_t o, float product)
{
    float *y = a.y + t * a.y_ld + o;
    *y = a.adds ? *y + product : product;
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

/* Maximum tokens: the time is dominated by reading the weights once. gemm_small.cu */
enum { LH_SMALL_F32 = 8, LH_SMALL_BF16 = 4 };
lh_status lh_gemm_small(lh_stream *stream, const lh_gemm_args *a);

/* Maximum tokens, of bf16 numbers in wide rows. gemm_small.cu */
enum { LH_SMALL_MMA_TOKENS = 16 };
lh_status lh_gemm_small_mma(lh_stream *stream, const lh_gemm_args *a);

/* The same with a gate: a->out is twice gated->dim, gates first, and a->y is not written. */
lh_status lh_gated_small_mma(lh_stream *stream, const lh_gemm_args *a, const lh_gated_args *gated);

/* One chain of fused multiply-adds for each number. gemm.cu */
lh_status lh_gemm_fixed(lh_stream *stream, const lh_gemm_args *a);

#endif
