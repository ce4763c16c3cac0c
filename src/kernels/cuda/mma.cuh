/* mma.cuh - products of small matrices on the tensor cores, of bf16 numbers and of f32 numbers as sums of bf16 parts.
 *
 * An f32 number is the sum of three bf16 numbers, exactly: its upper 8 bits, the next 8 and the last 8. The product of
 * two such sums, but for the terms that are below 2^-24 of it, is six products of bf16 (one of two bf16 numbers, three
 * of an f32 and a bf16 number): close to f32 arithmetic, at a multiple of its rate. A number that is infinite or NaN
 * becomes NaN.
 *
 * In an m16n8k16 product lane 4 g + t holds rows g and g + 8 of the first matrix and column g of the second, of both
 * k = 2 t, 2 t + 1 (a word) and 2 t + 8, 2 t + 9 (a word); and of the result rows g and g + 8, columns 2 t, 2 t + 1.
 * Which number of a row is called k does not matter, as long as both matrices say the same: so a lane takes 8 numbers
 * of a row that lie together (16 bytes of bf16), which are its words of two products. */
#ifndef LH_KERNELS_CUDA_MMA_CUH
#define LH_KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/warp.cuh"

/* c += a b. c: [row g: columns 2 t, 2 t + 1; row g + 8]; a: [row g, row g + 8; the same 8 further on in k]. */
static __device__ __forceinline__ void lh_mma(float c[4], const unsigned a[4], const unsigned b[2])
{
#ifdef LH_SIMT
    simt_mma_bf16(c, a, b);
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Of a matrix of 8 x 8 bf16 numbers, lane 4 g + t having 2 t and 2 t + 1 of row g: those of column g. */
static __device__ __forceinline__ unsigned lh_transposed(unsigned word)
{
#ifdef LH_SIMT
    return simt_transposed(word);
#else
    unsigned y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(word));
    return y;
#endif
}

/* ---- copies from device to shared memory that go on while others compute ---- */

/* 16 bytes, of which the first `bytes` (0 to 16) are copied and the others become 0. Both at multiples of 16. */
static __device__ __forceinline__ void lh_copy_async(void *shared, const void *src, int bytes)
{
#ifdef LH_SIMT
    simt_copy_async(shared, src, bytes);
#else
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(bytes) : "memory");
#endif
}

/* What was begun since the last commit is a group. */
static __device__ __forceinline__ void lh_copy_commit(void)
{
#ifdef LH_SIMT
    simt_copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits for this thread's groups but for the last LEFT. */
template <int LEFT>
static __device__ __forceinline__ void lh_copy_wait(void)
{
#ifdef LH_SIMT
    simt_copy_wait(LEFT);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

/* ---- numbers in parts ---- */

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

/* ---- rows of a cache ---- */

/* Rows of `dim` numbers. wide: they begin at multiples of 16 bytes and dim is one of 8. */
typedef struct lh_form {
    int dim, wide;
} lh_form;

static inline lh_form lh_form_of(const lh_ragged *kv)
{
    uintptr_t at = (uintptr_t)kv->k | (uintptr_t)kv->v;
    return lh_form{(int)kv->head_dim, kv->head_dim % 8 == 0 && at % 16 == 0};
}

static __device__ __forceinline__ void lh_zero(lh_eight<__nv_bfloat16> *e)
{
    e->w = make_uint4(0, 0, 0, 0);
}
static __device__ __forceinline__ void lh_zero(lh_eight<float> *e)
{
    e->x = e->y = make_float4(0, 0, 0, 0);
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

/* The first n of eight, one by one; 0 after them. */
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

/* The next eight of a row of which `left` are left; 0 after its end. */
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
