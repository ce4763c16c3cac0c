/* convert.c - conversion between f32, f16 and bf16 in parallel. The loops have no branches, so that compilers
 * vectorise them; unusable values are found in the same pass. */
#include "import/convert.h"

#include <assert.h>
#include <string.h>

/* Values below which a thread costs more than it saves. */
enum { VALUES_PER_THREAD = 1 << 16, BLOCK = 1024 };

/* Bit patterns of the smallest unusable absolute values: infinity, and 2^64 in types that can hold it. */
enum { F16_LIMIT = 0x7c00, BF16_LIMIT = 0x5f80, F32_LIMIT = 0x5f800000 };

static uint32_t worst_16(const uint16_t *p, int64_t n, int limit)
{
    uint32_t worst = 0;
    for (int64_t i = 0; i < n; i++) worst |= (uint32_t)((p[i] & 0x7fff) >= limit);
    return worst;
}

static uint32_t worst_32(const uint8_t *p, int64_t n)
{
    uint32_t worst = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, p + 4 * i, 4);
        worst |= (uint32_t)((u & 0x7fffffffu) >= F32_LIMIT);
    }
    return worst;
}

static int any_unusable(const void *data, lh_dtype type, int64_t n)
{
    if (type == LH_F32) return worst_32(data, n) != 0;
    return worst_16(data, n, type == LH_F16 ? F16_LIMIT : BF16_LIMIT) != 0;
}

int64_t lh_find_unusable(const void *data, lh_dtype type, int64_t n)
{
    int64_t size = lh_dtype_bytes(type);
    for (int64_t at = 0; at < n; at += BLOCK) {
        const char *block = (const char *)data + at * size;
        int64_t count = n - at < BLOCK ? n - at : BLOCK;
        if (!any_unusable(block, type, count)) continue;
        for (int64_t i = 0; i < count; i++)
            if (any_unusable(block + i * size, type, 1)) return at + i;
    }
    return -1;
}

static void bf16_to_f32(float *dst, const uint16_t *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)src[i] << 16;
        memcpy(&dst[i], &u, 4);
    }
}

/* A multiplication shifts the exponent and gets subnormals right; infinities and NaN are restored. */
static void f16_to_f32(float *dst, const uint16_t *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t h = src[i], u = (h & 0x7fffu) << 13, special = (h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
        float f;
        memcpy(&f, &u, 4);
        f *= 0x1p112f;
        memcpy(&u, &f, 4);
        u |= special | ((h & 0x8000u) << 16);
        memcpy(&dst[i], &u, 4);
    }
}

static void f32_to_bf16(uint16_t *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) dst[i] = lh_f32_to_bf16(src[i]);
}

/* n values, n at most BLOCK where both types are 16 bits wide and differ. */
static void convert_block(void *dst, lh_dtype dst_type, const void *src, lh_dtype src_type, int64_t n)
{
    float wide[BLOCK];
    if (dst_type == src_type)
        memcpy(dst, src, (size_t)(n * lh_dtype_bytes(src_type)));
    else if (src_type == LH_BF16 && dst_type == LH_F32)
        bf16_to_f32(dst, src, n);
    else if (src_type == LH_F16 && dst_type == LH_F32)
        f16_to_f32(dst, src, n);
    else if (src_type == LH_F32 && dst_type == LH_BF16)
        f32_to_bf16(dst, src, n);
    else if (src_type == LH_F16 && dst_type == LH_BF16) {
        f16_to_f32(wide, src, n);
        f32_to_bf16(dst, wide, n);
    } else
        lh_dtype_convert(dst, dst_type, src, src_type, n);
}

/* One row; the index of its first unusable value, or -1. */
static int64_t convert_row(const lh_convert *c, int64_t r)
{
    int64_t in = lh_dtype_bytes(c->src_type), out = lh_dtype_bytes(c->dst_type), bad = -1;
    const char *src = (const char *)c->src + r * c->cols * in;
    char *dst = (char *)c->dst + r * c->ld * out;
    for (int64_t at = 0; at < c->cols; at += BLOCK) {
        int64_t n = c->cols - at < BLOCK ? c->cols - at : BLOCK;
        convert_block(dst + at * out, c->dst_type, src + at * in, c->src_type, n);
        if (bad < 0 && any_unusable(dst + at * out, c->dst_type, n))
            bad = at + lh_find_unusable(dst + at * out, c->dst_type, n);
    }
    return bad;
}

int64_t lh_convert_rows(const lh_convert *given)
{
    lh_convert c = *given;
    int64_t worst = INT64_MAX;
    assert(c.dst_type <= LH_BF16 && c.src_type <= LH_BF16);
    if (c.ld == c.cols && c.cols < BLOCK) { /* vectors and narrow matrices: split into blocks, the remainder first */
        int64_t n = c.rows * c.cols, odd = n % BLOCK, whole = n - odd;
        const lh_convert end = {.dst = (char *)c.dst + whole * lh_dtype_bytes(c.dst_type),
                                .dst_type = c.dst_type,
                                .src = (const char *)c.src + whole * lh_dtype_bytes(c.src_type),
                                .src_type = c.src_type,
                                .cols = odd};
        int64_t at = convert_row(&end, 0);
        if (at >= 0) worst = whole + at;
        c.rows = whole / BLOCK;
        c.ld = c.cols = BLOCK;
    }
#pragma omp parallel for reduction(min : worst) schedule(static) if (c.rows * c.cols > VALUES_PER_THREAD)
    for (int64_t r = 0; r < c.rows; r++) {
        int64_t at = convert_row(&c, r);
        if (at >= 0 && r * c.cols + at < worst) worst = r * c.cols + at;
    }
    return worst == INT64_MAX ? -1 : worst;
}

int64_t lh_find_unusable_block(const lh_format *format, const uint8_t *blocks, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t scales[2] = {0};
        if (format->is_usable && !format->is_usable(blocks + i * format->bytes)) return i;
        memcpy(scales, blocks + i * format->bytes + format->halves_at, (size_t)format->halves * sizeof *scales);
        if (worst_16(scales, 2, F16_LIMIT)) return i;
    }
    return -1;
}
