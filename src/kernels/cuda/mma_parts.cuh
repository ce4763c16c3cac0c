/* mma_parts.cuh - numbers for the tensor cores: bf16, codes of q8, which are exact in bf16, or f32 as sums of bf16
 * parts (mma.cuh). */
#ifndef LH_KERNELS_CUDA_MMA_PARTS_CUH
#define LH_KERNELS_CUDA_MMA_PARTS_CUH

#include "kernels/cuda/mma.cuh"

#define LH_UPPER 0xffff0000u

/* Parts of a number of type T. */
template <typename T>
struct lh_parts {
    enum { COUNT = 1 };
};
template <>
struct lh_parts<float> {
    enum { COUNT = 3 };
};

/* Two numbers in a word, the first one in the lower half: rounded to bf16. */
static __device__ __forceinline__ unsigned lh_round_pair(float x, float y)
{
#ifdef LH_SIMT
    return (unsigned)__float2bfloat16_rn(x).bits | (unsigned)__float2bfloat16_rn(y).bits << 16;
#else
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
    return word;
#endif
}

/* The parts of two numbers; one part: rounded. */
template <int PARTS>
static __device__ __forceinline__ void lh_cut_pair(unsigned word[PARTS], float x, float y)
{
    if constexpr (PARTS == 1) {
        word[0] = lh_round_pair(x, y);
    } else {
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            word[p] = __byte_perm(__float_as_uint(x), __float_as_uint(y), 0x7632);
            x = __fadd_rn(x, -__uint_as_float(__float_as_uint(x) & LH_UPPER));
            y = __fadd_rn(y, -__uint_as_float(__float_as_uint(y) & LH_UPPER));
        }
    }
}

/* c += a b of numbers in parts; rest gets the small products. */
template <int A_PARTS, int B_PARTS>
static __device__ __forceinline__ void lh_mma_parts(float c[4], float rest[4], const unsigned a[A_PARTS][4],
                                                    const unsigned b[B_PARTS][2])
{
#pragma unroll
    for (int order = 2; order > 0; order--) {
#pragma unroll
        for (int part = 0; part < A_PARTS; part++)
            if (order >= part && order - part < B_PARTS) lh_mma(rest, a[part], b[order - part]);
    }
    lh_mma(c, a[0], b[0]);
}

template <int N>
static __device__ __forceinline__ void lh_add_all(float *x, const float *y)
{
#pragma unroll
    for (int n = 0; n < N; n++) x[n] += y[n];
}

/* Eight numbers of a row as they are stored. */
template <typename T>
struct lh_eight;
template <>
struct lh_eight<__nv_bfloat16> {
    uint4 w;
};
template <>
struct lh_eight<float> {
    float4 x, y;
};
template <>
struct lh_eight<int8_t> { /* codes of q8 */
    uint2 w;
};

static __device__ __forceinline__ unsigned lh_of(uint4 w, int i)
{
    return i == 0 ? w.x : i == 1 ? w.y : i == 2 ? w.z : w.w;
}

static __device__ __forceinline__ float lh_of(const lh_eight<float> &e, int i)
{
    float4 half = i < 4 ? e.x : e.y;
    return i % 4 == 0 ? half.x : i % 4 == 1 ? half.y : i % 4 == 2 ? half.z : half.w;
}

/* Numbers 2 i and 2 i + 1 of eight. */
static __device__ __forceinline__ void lh_cut_along(unsigned word[1], const lh_eight<__nv_bfloat16> &e, int i)
{
    word[0] = lh_of(e.w, i);
}
static __device__ __forceinline__ void lh_cut_along(unsigned word[3], const lh_eight<float> &e, int i)
{
    lh_cut_pair<3>(word, lh_of(e, 2 * i), lh_of(e, 2 * i + 1));
}

/* Number i of two rows. */
static __device__ __forceinline__ void lh_cut_across(unsigned word[1], const lh_eight<__nv_bfloat16> &a,
                                                     const lh_eight<__nv_bfloat16> &b, int i)
{
    word[0] = __byte_perm(lh_of(a.w, i / 2), lh_of(b.w, i / 2), i % 2 ? 0x7632 : 0x5410);
}
static __device__ __forceinline__ void lh_cut_across(unsigned word[3], const lh_eight<float> &a,
                                                     const lh_eight<float> &b, int i)
{
    lh_cut_pair<3>(word, lh_of(a, i), lh_of(b, i));
}

/* The codes in bytes 0 and 2 of a word as bf16 numbers; the other bytes are ignored. The lower 7 bits, as the mantissa
 * of 128, and -128, or -256 for a negative code. */
static __device__ __forceinline__ unsigned lh_code_pair(unsigned codes)
{
    const unsigned upper = (codes & 0x007f007fu) | 0x43004300u, lower = (codes & 0x00800080u) | 0xc300c300u;
#ifdef LH_SIMT
    return lh_round_pair(__uint_as_float(upper << 16) + __uint_as_float(lower << 16),
                         __uint_as_float(upper & LH_UPPER) + __uint_as_float(lower & LH_UPPER));
#else
    unsigned sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(upper), "r"(0x3f803f80u) /* 1, 1 */, "r"(lower));
    return sum;
#endif
}
static __device__ __forceinline__ void lh_cut_along(unsigned word[1], const lh_eight<int8_t> &e, int i)
{
    word[0] = lh_code_pair(__byte_perm(i < 2 ? e.w.x : e.w.y, 0, i % 2 ? 0x0302 : 0x0100));
}
static __device__ __forceinline__ void lh_cut_across(unsigned word[1], const lh_eight<int8_t> &a,
                                                     const lh_eight<int8_t> &b, int i)
{
    const unsigned low = i < 4 ? a.w.x : a.w.y, high = i < 4 ? b.w.x : b.w.y;
    word[0] = lh_code_pair(__byte_perm(low, high, (unsigned)(i % 4 | (4 + i % 4) << 8)));
}

#endif
