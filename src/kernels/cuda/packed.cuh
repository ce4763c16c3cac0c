/* packed.cuh - blocks of packed weights (kernels/packed.h) in the registers of a warp. Half a warp has a block, a lane
 * one of its 16 rows: a load of 4 bytes by every lane is a whole line of two blocks, and no number changes lanes. */
#ifndef LH_KERNELS_CUDA_PACKED_CUH
#define LH_KERNELS_CUDA_PACKED_CUH

#include "kernels/cuda/gemm.cuh"

extern "C" {
#include "kernels/packed.h"
}

enum { LH_BLOCK_WORDS = LH_PACKED_COLS / 4 };

/* A format as a type: the numbers of lh_format. */
template <int BITS_, int ZERO_, int VALUES_, int GROUP_>
struct lh_few_bits {
    enum {
        BITS = BITS_, /* also words of a row in a block: a word in each line of codes */
        ZERO = ZERO_,
        GROUPS = LH_PACKED_COLS / GROUP_,
        SOURCE = VALUES_ / LH_PACKED_COLS,
        IS_SUPER = SOURCE > 1,
        MINIMA = ZERO == 0,
        HAS_TABLE = BITS == 4 && ZERO == 128 /* lh_iq4_codes */
    };
    static __device__ __forceinline__ lh_packing packing(void)
    {
        return lh_packing_of(BITS_, ZERO_, VALUES_, GROUP_, NULL);
    }
};

/* X(format), every format with codes of at least 4 bits. */
#define LH_FEW_BITS(X)             \
    X(lh_few_bits<8, 128, 32, 32>) \
    X(lh_few_bits<4, 8, 32, 32>)   \
    X(lh_few_bits<4, 0, 32, 32>)   \
    X(lh_few_bits<5, 16, 32, 32>)  \
    X(lh_few_bits<5, 0, 32, 32>)   \
    X(lh_few_bits<4, 0, 256, 32>)  \
    X(lh_few_bits<5, 0, 256, 32>)  \
    X(lh_few_bits<6, 32, 256, 16>) \
    X(lh_few_bits<4, 128, 32, 32>) \
    X(lh_few_bits<4, 128, 256, 32>)

template <typename F>
static inline int lh_is_format(const lh_format *f)
{
    return f->bits == F::BITS && f->zero == F::ZERO && f->values == F::SOURCE * LH_PACKED_COLS;
}

/* The stored numbers of a row in a block. */
template <typename F>
struct lh_row_block {
    unsigned word[F::BITS];
    uint16_t d, m;
    int8_t scale[F::GROUPS], minimum;
};

static __device__ __forceinline__ unsigned lh_load_word_once(const void *p)
{
#ifdef LH_SIMT
    return *(const unsigned *)p;
#else
    unsigned x;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(x) : "l"(p));
    return x;
#endif
}

/* to[i] = this lane's row in its block of pair i of a group, for pairs from block n on: a multiple of 2 PAIRS, and
 * blocks count from the first of a source block, in which the group begins at block `lead`. Blocks outside [first, end)
 * are 0. One address serves all pairs, which follow each other within a source block. */
template <typename F, int PAIRS>
static __device__ __forceinline__ void lh_load_pairs(lh_row_block<F> (&to)[PAIRS], const uint8_t *group, int lead,
                                                     int first, int end, int n)
{
    static_assert(F::SOURCE == 1 || F::SOURCE % (2 * PAIRS) == 0, "pairs lie in one source block");
    const lh_packing p = F::packing();
    const int row = lh_lane() % LH_PACKED_ROWS, parity = lh_lane() / LH_PACKED_ROWS;
    const uint8_t *head = group + lh_codes_at(&p, lead, max(n / F::SOURCE * F::SOURCE - lead, 0)) - p.header - p.head;
    const uint8_t *codes = group + lh_codes_at(&p, lead, n + parity - lead);
#pragma unroll
    for (int i = 0; i < PAIRS; i++, codes += p.header + 2 * p.codes) {
        const int b = n + 2 * i + parity, is_second = parity && b > lead;
        const uint8_t *scales = codes - is_second * p.codes - p.header + parity * p.scales;
        const uint16_t *halves = (const uint16_t *)(F::IS_SUPER ? head : scales);
        to[i] = {};
        if (b < first || b >= end) continue;
#pragma unroll
        for (int j = 0; j < F::BITS; j++) to[i].word[j] = lh_load_word_once(codes + j * LH_LINE + 4 * row);
        to[i].d = __ldg(halves + row);
        if (F::MINIMA) to[i].m = __ldg(halves + LH_PACKED_ROWS + row);
#pragma unroll
        for (int g = 0; g < F::GROUPS && F::IS_SUPER; g++)
            to[i].scale[g] = (int8_t)__ldg(scales + g * LH_PACKED_ROWS + row);
        if (F::IS_SUPER && F::MINIMA) to[i].minimum = (int8_t)__ldg(scales + F::GROUPS * LH_PACKED_ROWS + row);
    }
}

static __device__ __forceinline__ float lh_half(uint16_t half)
{
#ifdef LH_SIMT
    return lh_f16_to_f32(half);
#else
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
#endif
}

/* The scale of group g of the columns, and the number that is added to values, -0 if the format has no minima. All
 * products are exact. */
template <typename F>
static __device__ __forceinline__ float lh_row_scale(const lh_row_block<F> &x, int g)
{
    return F::IS_SUPER ? lh_half(x.d) * (float)x.scale[g] : lh_half(x.d);
}
template <typename F>
static __device__ __forceinline__ float lh_row_offset(const lh_row_block<F> &x)
{
    if (!F::MINIMA) return -0.0f;
    return F::IS_SUPER ? -lh_half(x.m) * (float)x.minimum : lh_half(x.m);
}

/* The number that is subtracted from the codes of lh_codes_of: codes with a zero of 128 come without it. */
template <typename F>
static __host__ __device__ constexpr int lh_zero_of(void)
{
    return F::ZERO == 128 ? 0 : (int)F::ZERO;
}

/* Codes 4 n to 4 n + 3 of the table, without their zero, signed bytes. */
static __host__ __device__ constexpr unsigned lh_table_word(int n)
{
    const uint8_t code[16] = {LH_IQ4_CODES};
    return (code[4 * n] | code[4 * n + 1] << 8 | code[4 * n + 2] << 16 | (unsigned)code[4 * n + 3] << 24) ^ 0x80808080u;
}

/* The signed bytes of the table that the bytes of `index` ask for. */
static __device__ __forceinline__ unsigned lh_look_up(unsigned index)
{
    const unsigned pairs = index | index >> 4, which = (pairs & 0x77) | (pairs >> 8 & 0x7700);
    const unsigned lower = __byte_perm(lh_table_word(0), lh_table_word(1), which);
    const unsigned upper = __byte_perm(lh_table_word(2), lh_table_word(3), which);
    const unsigned is_upper = (index >> 3 & 0x01010101u) * 0xff;
    return (lower & ~is_upper) | (upper & is_upper);
}

/* The codes of columns 4 j to 4 j + 3, signed bytes. */
template <typename F>
static __device__ __forceinline__ unsigned lh_codes_of(const lh_row_block<F> &x, int j)
{
    if constexpr (F::BITS == 8) {
        return x.word[j] ^ 0x80808080u;
    } else {
        const lh_packing p = F::packing();
        const lh_word_place at = lh_word_at(&p, j);
        const unsigned nibbles = x.word[at.nibbles] >> at.nibble & 0x0f0f0f0fu;
        if (F::HAS_TABLE) return lh_look_up(nibbles);
        if (F::BITS == 4) return nibbles;
        return nibbles | (x.word[at.uppers] >> at.upper & (F::BITS == 5 ? 0x01010101u : 0x03030303u)) << 4;
    }
}

/* gemm of matrices that are not all plain, and expert_gemm of packed ones. gemm_packed.cu */
lh_status lh_gemm_packed(lh_stream *stream, const lh_gemm_args *a);
lh_status lh_expert_gemm_packed(lh_stream *stream, const lh_expert_gemm_args *a);

#endif
