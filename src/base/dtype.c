/* dtype.c - names and sizes of element types, and conversion between f32 and f16 by integer arithmetic. */
#include "base/dtype.h"

#include <assert.h>
#include <math.h>

static const struct {
    const char *name;
    int64_t bytes;
} types[LH_DTYPES] = {
    [LH_F32] = {"f32", 4}, [LH_F16] = {"f16", 2}, [LH_BF16] = {"bf16", 2}, [LH_I32] = {"i32", 4},
    [LH_I64] = {"i64", 8}, [LH_U8] = {"u8", 1},   [LH_Q8] = {"q8", 1},
};

const char *lh_dtype_name(lh_dtype type)
{
    return types[type].name;
}

int64_t lh_dtype_bytes(lh_dtype type)
{
    return types[type].bytes;
}

int lh_dtype_find(const char *name, lh_dtype *out)
{
    for (int i = 0; i < LH_DTYPES; i++) {
        if (strcmp(types[i].name, name) == 0) {
            *out = (lh_dtype)i;
            return 1;
        }
    }
    return 0;
}

uint16_t lh_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (a < 0x38800000u) {                                   /* below 2^-14: a multiple of 2^-24 */
        if (a < 0x33000000u) return sign;                    /* below 2^-25 */
        uint32_t frac = (a & 0x7fffffu) | 0x800000u, shift = 126u - (a >> 23);
        uint32_t half = 1u << (shift - 1), low = frac & ((1u << shift) - 1u), q = frac >> shift;
        if (low > half || (low == half && (q & 1u))) q++;
        return (uint16_t)(sign | q);
    }
    uint32_t r = a + 0xfffu + ((a >> 13) & 1u);
    return (uint16_t)(sign | ((r - 0x38000000u) >> 13));
}

uint8_t lh_f32_to_e4m3(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    const uint32_t sign = (u >> 24) & 0x80u, a = u & 0x7fffffffu;
    if (a >= 0x43e00000u) return (uint8_t)(sign | 0x7eu);                                  /* 448 */
    if (a < 0x3c800000u) return (uint8_t)(sign | (uint32_t)(int)rintf(fabsf(f) * 0x1p9f)); /* below 2^-6 */
    return (uint8_t)(sign | ((a + 0x7ffffu + ((a >> 20) & 1u) - 0x3c000000u) >> 20));
}

static float load(const void *p, lh_dtype type, int64_t i)
{
    switch (type) {
    case LH_F16: return lh_f16_to_f32(((const uint16_t *)p)[i]);
    case LH_BF16: return lh_bf16_to_f32(((const uint16_t *)p)[i]);
    default: return ((const float *)p)[i];
    }
}

static void store(void *p, lh_dtype type, int64_t i, float f)
{
    switch (type) {
    case LH_F16: ((uint16_t *)p)[i] = lh_f32_to_f16(f); break;
    case LH_BF16: ((uint16_t *)p)[i] = lh_f32_to_bf16(f); break;
    default: ((float *)p)[i] = f; break;
    }
}

void lh_dtype_convert(void *dst, lh_dtype dst_type, const void *src, lh_dtype src_type, int64_t n)
{
    assert(dst_type <= LH_BF16 && src_type <= LH_BF16);
    if (dst_type == src_type) {
        memmove(dst, src, (size_t)(n * types[dst_type].bytes));
        return;
    }
    for (int64_t i = 0; i < n; i++) store(dst, dst_type, i, load(src, src_type, i));
}
