/* Products with f8_e4m3 weights are those of plain weights with the same values. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "cases.h"
#include "kernels/packed.h"
#include "packed_case.h"

enum { TOKENS, ROWS, BLOCKS, FIRST, PHASE, TYPE, FIXED, ADDS, BIAS, THREADS };
static const dimension kinds[] = {
    [TOKENS] = {"tokens", 12, {1, 1, 2, 3, 4, 5, 7, 9, 16, 25, 64, 70}},
    [ROWS] = {"rows", 6, {1, 5, 16, 33, 70, 150}},
    [BLOCKS] = {"blocks of 32 columns", 6, {1, 2, 7, 16, 31, 68}},
    [FIRST] = {"first block", 4, {0, 0, 1, 9}},
    [PHASE] = {"cut blocks", 3, {0, 1, 3}},
    [TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [FIXED] = {"order", 2, {LH_ORDER_ANY, LH_ORDER_FIXED}, {"any", "fixed"}},
    [ADDS] = {"adds", 2, {0, 1}},
    [BIAS] = {"bias", 2, {0, 1}},
    [THREADS] = {"threads", 3, {1, 2, 5}},
};
enum { CASES = 120 };

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

/* Weights of usual size: scales of any size overflow. Successive blocks have the same scale, or not. */
static source_blocks make_blocks(lot *m, int64_t rows, int64_t cols, uint64_t seed)
{
    source_blocks b = blocks_make(m, lh_format_named("f8_e4m3"), rows, (cols + 127) / 128 * 128, seed);
    for (int64_t n = 0; n < rows * b.row_bytes / LH_F8_BYTES; n++) {
        const uint64_t drawn = (uint64_t)n / (1 + seed % 3);
        const float size = 0x1p-12f * (1 + (float)draw(seed, drawn, 999) / 999),
                    scale = draw(seed + 1, drawn, 9) ? size : 0;
        memcpy(b.data + n * LH_F8_BYTES, &scale, sizeof scale);
    }
    return b;
}

/* y, [tokens, rows + 3], of case n. */
static float *multiply(lot *m, rig *g, const lh_matrix *w, int64_t out, int n)
{
    const lh_dtype type = (lh_dtype)kind(TYPE, n);
    const int64_t in = kind(BLOCKS, n) * 32, tokens = kind(TOKENS, n), y_ld = out + 3, x_ld = in + n % 4;
    const int64_t count = tokens * x_ld, bytes = tokens * y_ld * 4;
    const void *x = lot_normals(m, count, 1.0f, 20 + (uint64_t)n);
    const int adds = kind(FIXED, n) == LH_ORDER_ANY && kind(ADDS, n);
    float *host = lot_new(m, bytes), *y = adds ? rig_put(g, lot_normals(m, tokens * y_ld, 1.0f, 4), bytes) : NULL;
    if (!adds) y = rig_new(g, bytes);
    if (type == LH_BF16) x = lot_bf16(m, x, count);
    RUN(g, gemm, .y = y, .x = rig_put(g, x, count * lh_dtype_bytes(type)), .type = type, .w = *w,
        .bias = kind(BIAS, n) ? rig_put(g, lot_normals(m, out, 1.0f, 5), out * 4) : NULL, .tokens = tokens, .out = out,
        .in = in, .y_ld = y_ld, .x_ld = x_ld, .order = (lh_order)kind(FIXED, n), .adds = adds);
    rig_get(g, host, y, bytes);
    return host;
}

/* The bits of a product of plain numbers are defined in the fixed order; without it, the kernels of `ref` and of `cpu`,
 * this one up to 64 tokens, are the same for both. */
static int has_the_same_kernel(const rig *g, int n)
{
    return kind(FIXED, n) == LH_ORDER_FIXED || (g->ops->device == LH_DEVICE_CPU && kind(TOKENS, n) <= 64);
}

START_TEST(test_products_are_those_of_plain_weights)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < CASES; n += rig_step(&g)) {
            lot m = {0};
            const lh_dtype type = (lh_dtype)kind(TYPE, n);
            const int64_t rows = kind(ROWS, n), in = kind(BLOCKS, n) * 32, first = kind(FIRST, n) * 32,
                          skip = kind(PHASE, n) * 32, y_ld = rows + 3, tokens = kind(TOKENS, n);
            const source_blocks source = make_blocks(&m, rows, skip + first + in + 64, 700 + (uint64_t)n);
            const lh_matrix w = lh_matrix_from(blocks_pack(&g, &source, skip, first + in + 64), first);
            const float *values = blocks_values(&m, &source);
            char *plain = lot_new(&m, rows * in * lh_dtype_bytes(type));
            for (int64_t r = 0; r < rows; r++)
                lh_dtype_convert(plain + r * in * lh_dtype_bytes(type), type, values + r * source.cols + skip + first,
                                 LH_F32, in);
            const lh_matrix same = lh_plain_matrix(rig_put(&g, plain, rows * in * lh_dtype_bytes(type)), type, in);
            omp_set_num_threads((int)kind(THREADS, n));
            const float *want = multiply(&m, &g, &same, rows, n), *got = multiply(&m, &g, &w, rows, n);
            if (has_the_same_kernel(&g, n)) check_same(got, want, tokens * y_ld * 4, "gemm, %s", g.ops->name);
            for (int64_t i = 0; i < tokens * y_ld; i++)
                if (i % y_ld < rows)
                    ck_assert_msg(fabsf(got[i] - want[i]) <= 1e-4f * (4 + fabsf(want[i])), "%s, case %d: %g, not %g",
                                  g.ops->name, n, got[i], want[i]);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* OCP 8-bit Floating Point Specification, E4M3. */
START_TEST(test_codes_are_e4m3)
{
    for (int code = 0; code < 256; code++) {
        const int exponent = code >> 3 & 15, fraction = code & 7;
        const float size = exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
        const float want = code & 128 ? -size : size, have = lh_e4m3_to_f32((uint8_t)code);
        ck_assert_int_eq(lh_e4m3_is_nan((uint8_t)code), exponent == 15 && fraction == 7);
        if (lh_e4m3_is_nan((uint8_t)code)) continue;
        ck_assert_msg(memcmp(&have, &want, 4) == 0, "%d: %g, not %g", code, have, want);
        ck_assert_int_eq(lh_f32_to_e4m3(want), code);
        if ((code & 127) == 126) continue;
        const float next = lh_e4m3_to_f32((uint8_t)(code + 1)), middle = (want + next) / 2;
        ck_assert_int_eq(lh_f32_to_e4m3(middle), code + code % 2); /* ties to even */
        ck_assert_int_eq(lh_f32_to_e4m3(nextafterf(middle, want)), code);
        ck_assert_int_eq(lh_f32_to_e4m3(nextafterf(middle, next)), code + 1);
    }
    ck_assert_int_eq(lh_f32_to_e4m3(1e9f), 0x7e);
    ck_assert_int_eq(lh_f32_to_e4m3(-1e9f), 0xfe);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_products_are_those_of_plain_weights, test_codes_are_e4m3, NULL};
    return rig_run("kernels/f8", tests);
}
