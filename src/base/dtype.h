/* dtype.h - element types, and the two 16-bit floats. Conversions round to nearest even and keep NaN. */
#ifndef LH_BASE_DTYPE_H
#define LH_BASE_DTYPE_H

#include <stdint.h>
#include <string.h>

#include "base/both.h"

/* LH_Q8: signed codes of 8 bits, which with a scale for each row of them are numbers (kernels/q8.h). */
typedef enum lh_dtype { LH_F32, LH_F16, LH_BF16, LH_I32, LH_I64, LH_U8, LH_Q8, LH_DTYPES } lh_dtype;

/* "f32", "f16", "bf16", "i32", "i64", "u8", "q8". */
const char *lh_dtype_name(lh_dtype type);
int64_t lh_dtype_bytes(lh_dtype type);

/* The type called `name` in *out and 1, or 0 if there is none. */
int lh_dtype_find(const char *name, lh_dtype *out);

static inline float lh_bf16_to_f32(uint16_t b)
{
    uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint16_t lh_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u); /* NaN stays NaN */
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static LH_BOTH inline float lh_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 0x1fu, frac = h & 0x3ffu;
    uint32_t u = sign | ((exp == 0x1f ? 0xffu : exp + 112) << 23) | (frac << 13);
    float f = (float)frac * 0x1p-24f; /* exact; zero and subnormals */
    if (exp) memcpy(&f, &u, sizeof f);
    return exp || !sign ? f : -f;
}

uint16_t lh_f32_to_f16(float f);

/* A float of 8 bits (E4M3): 4 of exponent, bias 7, and 3 of fraction; no infinities. NaN: 0x7f and 0xff. */
static LH_BOTH inline int lh_e4m3_is_nan(uint8_t code)
{
    return (code & 0x7f) == 0x7f;
}

/* Of a number: the bits are those of an f16 with an exponent that is 8 too small. */
static LH_BOTH inline float lh_e4m3_to_f32(uint8_t code)
{
    return lh_f16_to_f32((uint16_t)((code & 0x80) << 8 | (code & 0x7f) << 7)) * 256;
}

/* Numbers above 448, the largest one, become 448. */
uint8_t lh_f32_to_e4m3(float f);

/* dst[i] = src[i] for n elements, between any two of f32, f16 and bf16. May alias only if the types are equal. */
void lh_dtype_convert(void *dst, lh_dtype dst_type, const void *src, lh_dtype src_type, int64_t n);

#endif
