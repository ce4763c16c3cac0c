/* Products with weights of few bits are the integer sums of gemm's definition, in the same bits on every backend,
 * wherever the columns lie and however many tokens or matrices there are. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "cases.h"
#include "kernels/packed.h"
#include "packed_case.h"

enum { FORMAT, TOKENS, ROWS, BLOCKS, FIRST, PHASE, TYPE, FIXED, ADDS, BIAS, THREADS };
static const dimension kinds[] = {
    [FORMAT] = {"format",
                10,
                {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs"}},
    [TOKENS] = {"tokens", 12, {1, 2, 3, 4, 5, 7, 9, 12, 13, 16, 25, 40}},
    [ROWS] = {"rows", 5, {1, 15, 16, 33, 70}},
    [BLOCKS] = {"blocks of 32 columns", 5, {1, 2, 7, 16, 31}},
    [FIRST] = {"first block", 4, {0, 0, 1, 9}},
    [PHASE] = {"cut blocks", 3, {0, 1, 5}},
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

/* Source blocks of case n, in which the columns of the product begin at column skip + first. */
typedef struct packed_case {
    source_blocks source;
    int64_t skip, first, cols;
} packed_case;

static packed_case make_case(lot *m, int n)
{
    const lh_format *format = packed_format((int)kind(FORMAT, n));
    packed_case c = {
        .skip = kind(PHASE, n) * 32 % format->values, .first = kind(FIRST, n) * 32, .cols = kind(BLOCKS, n) * 32};
    const int64_t cols = c.skip + c.first + c.cols + 64; /* some follow */
    c.source = blocks_make(m, format, kind(ROWS, n), (cols + format->values - 1) / format->values * format->values,
                           700 + (uint64_t)n);
    return c;
}

static lh_matrix pack_case(rig *g, const packed_case *c)
{
    lh_matrix w = blocks_pack(g, &c->source, c->skip, c->first + c->cols + 64);
    w.first = c->first;
    return w;
}

/* Numbers of very different size, a block of zeros and a block of tiny numbers among them. */
static float *activations(lot *m, int64_t tokens, int64_t cols, uint64_t seed)
{
    float *x = lot_normals(m, tokens * cols, 1.0f, seed);
    for (int64_t i = 0; i < tokens * cols; i++) {
        const int64_t block = draw(seed, (uint64_t)(i / 32), 12);
        if (block == 0) x[i] = 0;
        if (block == 1) x[i] *= 1e-35f;
        if (block == 2 && i % 32 == 7) x[i] *= 1000;
    }
    return x;
}

/* y, [tokens, rows + 3], of case n, with padding as it was. */
static float *multiply(lot *m, rig *g, const packed_case *c, const lh_matrix *w, int n)
{
    const lh_dtype type = (lh_dtype)kind(TYPE, n);
    const int64_t tokens = kind(TOKENS, n), out = c->source.rows, y_ld = out + 3, x_ld = c->cols + n % 4;
    const int64_t count = tokens * x_ld, bytes = tokens * y_ld * 4;
    const void *x = activations(m, tokens, x_ld, 20 + (uint64_t)n);
    const int adds = kind(FIXED, n) == LH_ORDER_ANY && kind(ADDS, n);
    float *host = lot_new(m, bytes), *y = adds ? rig_put(g, lot_normals(m, tokens * y_ld, 1.0f, 4), bytes) : NULL;
    if (!adds) y = rig_new(g, bytes);
    if (type == LH_BF16) x = lot_bf16(m, x, count);
    RUN(g, gemm, .y = y, .x = rig_put(g, x, count * lh_dtype_bytes(type)), .type = type, .w = *w,
        .bias = kind(BIAS, n) ? rig_put(g, lot_normals(m, out, 1.0f, 5), out * 4) : NULL, .tokens = tokens, .out = out,
        .in = c->cols, .y_ld = y_ld, .x_ld = x_ld, .order = (lh_order)kind(FIXED, n), .adds = adds);
    rig_get(g, host, y, bytes);
    return host;
}

START_TEST(test_products_of_every_backend_are_those_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < CASES; n++) {
            lot m = {0};
            packed_case c = make_case(&m, n);
            const lh_matrix w = pack_case(&ref, &c), w2 = pack_case(&mine, &c);
            omp_set_num_threads((int)kind(THREADS, n));
            const float *want = multiply(&m, &ref, &c, &w, n), *got = multiply(&m, &mine, &c, &w2, n);
            check_same(got, want, kind(TOKENS, n) * (c.source.rows + 3) * 4, "gemm, %s", mine.ops->name);
            rig_reset(&ref);
            rig_reset(&mine);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* 0.5 / 16255 * max|x| * sum|w| of each block, and f32's error of a chain of n sums. */
static double bound(const float *w, const float *x, int64_t cols)
{
    double rounding = 0, size = 0;
    for (int64_t i = 0; i < cols; i += 32) {
        double max = 0, sum = 0;
        for (int64_t c = i; c < i + 32; c++) max = fmax(max, fabs(x[c])), sum += fabs(w[c]);
        rounding += 0.5001 / 16255 * max * sum;
        size += max * sum;
    }
    return rounding + size * 6e-8 * (double)(cols / 32 + 4) * 2;
}

START_TEST(test_products_are_within_the_bound_of_rounded_activations)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int f = 0; packed_format(f); f++) {
            lot m = {0};
            const int64_t rows = 20, cols = 1024, tokens = 6;
            const source_blocks source = blocks_make(&m, packed_format(f), rows, cols, 90);
            const float *w = blocks_values(&m, &source), *x = activations(&m, tokens, cols, 91);
            float *y = rig_new(&g, tokens * rows * 4), *got = lot_new(&m, tokens * rows * 4);
            RUN(&g, gemm, .y = y, .x = rig_put(&g, x, tokens * cols * 4), .w = blocks_pack(&g, &source, 0, cols),
                .tokens = tokens, .out = rows, .in = cols, .y_ld = rows, .x_ld = cols);
            rig_get(&g, got, y, tokens * rows * 4);
            for (int64_t t = 0; t < tokens; t++) {
                for (int64_t o = 0; o < rows; o++) {
                    double sum = 0, allowed = bound(w + o * cols, x + t * cols, cols);
                    for (int64_t i = 0; i < cols; i++) sum += (double)w[o * cols + i] * x[t * cols + i];
                    ck_assert_msg(fabs(got[t * rows + o] - sum) <= allowed, "%s, %s: %g, not %g +- %g", g.ops->name,
                                  source.format->name, got[t * rows + o], sum, allowed);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Of any rank's columns: whether they are columns of the whole matrix or packed by themselves. */
START_TEST(test_columns_of_a_shard_have_the_bits_of_the_whole_matrix)
{
    const int64_t cuts[] = {0, 96, 256, 288, 640, 672, 1024};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int f = 0; packed_format(f); f++) {
            lot m = {0};
            const int64_t rows = 37, cols = 1024, tokens = 3;
            const source_blocks source = blocks_make(&m, packed_format(f), rows, cols, 60 + (uint64_t)f);
            const float *x = rig_put(&g, lot_normals(&m, tokens * cols, 1.0f, 61), tokens * cols * 4);
            const lh_matrix whole = blocks_pack(&g, &source, 0, cols);
            float *got[2] = {lot_new(&m, tokens * rows * 4), lot_new(&m, tokens * rows * 4)};
            for (int s = 0; s + 1 < (int)(sizeof cuts / sizeof *cuts); s++) {
                const lh_matrix ways[2] = {lh_matrix_from(whole, cuts[s]),
                                           blocks_pack(&g, &source, cuts[s], cuts[s + 1] - cuts[s])};
                for (int i = 0; i < 2; i++) {
                    float *y = rig_new(&g, tokens * rows * 4);
                    RUN(&g, gemm, .y = y, .x = x + cuts[s], .w = ways[i], .tokens = tokens, .out = rows,
                        .in = cuts[s + 1] - cuts[s], .y_ld = rows, .x_ld = cols, .order = LH_ORDER_FIXED);
                    rig_get(&g, got[i], y, tokens * rows * 4);
                }
                check_same(got[1], got[0], tokens * rows * 4, "shard %d of %s, %s", s, source.format->name,
                           g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Three matrices in one product, plain ones of the type of x among them, have the bits of three products. */
START_TEST(test_matrices_that_follow_each_other_are_products_of_their_own)
{
    enum { PARTS = 4 };
    const int64_t rows[PARTS] = {17, 32, 5, 40}, cols = 256, tokens = 9, all = 94;
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int f = 0; packed_format(f); f++) {
            lot m = {0};
            lh_matrix w[PARTS];
            const float *x = rig_put(&g, lot_normals(&m, tokens * cols, 1.0f, 61), tokens * cols * 4);
            const float *bias = rig_put(&g, lot_normals(&m, all, 1.0f, 62), all * 4);
            float *y = rig_new(&g, tokens * all * 4), *each = rig_new(&g, tokens * all * 4);
            float *got = lot_new(&m, tokens * all * 4), *want = lot_new(&m, tokens * all * 4);
            for (int p = 0; p < PARTS; p++) {
                const source_blocks source =
                    blocks_make(&m, packed_format((f + p) % 8), rows[p], cols, 60 + (uint64_t)p);
                w[p] = blocks_pack(&g, &source, 0, cols);
                if (p == f % 5)
                    w[p] = lh_plain_matrix(rig_put(&g, blocks_values(&m, &source), rows[p] * cols * 4), LH_F32, cols);
                w[p].rows = rows[p];
            }
            for (int64_t p = 0, first = 0; p < PARTS; first += rows[p], p++)
                RUN(&g, gemm, .y = each + first, .x = x, .bias = bias + first, .w = w[p], .tokens = tokens,
                    .out = rows[p], .in = cols, .y_ld = all, .x_ld = cols, .order = LH_ORDER_FIXED);
            for (int p = 0; p + 1 < PARTS; p++) w[p].next = &w[p + 1];
            RUN(&g, gemm, .y = y, .x = x, .bias = bias, .w = w[0], .tokens = tokens, .out = all, .in = cols,
                .y_ld = all, .x_ld = cols, .order = LH_ORDER_FIXED);
            rig_get(&g, got, y, tokens * all * 4);
            rig_get(&g, want, each, tokens * all * 4);
            check_same(got, want, tokens * all * 4, "products from format %d on, %s", f, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_a_number_that_is_not_finite_makes_its_row_nan)
{
    const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int f = 0; packed_format(f); f++) {
            lot m = {0};
            if (packed_format(f)->by_rows) continue; /* products of plain numbers */
            const source_blocks source = blocks_make(&m, packed_format(f), 16, 256, 60);
            float *x = lot_normals(&m, 2 * 256, 1.0f, 61), *y = rig_new(&g, 2 * 16 * 4), got[2 * 16];
            x[256 + 100] = wrong[f % 3];
            RUN(&g, gemm, .y = y, .x = rig_put(&g, x, 2 * 256 * 4), .w = blocks_pack(&g, &source, 0, 256), .tokens = 2,
                .out = 16, .in = 256, .y_ld = 16, .x_ld = 256);
            rig_get(&g, got, y, sizeof got);
            for (int o = 0; o < 16; o++) {
                ck_assert_msg(isfinite(got[o]), "%s, %s: a finite row", g.ops->name, source.format->name);
                ck_assert_msg(isnan(got[16 + o]), "%s, %s: a row with %g", g.ops->name, source.format->name,
                              x[256 + 100]);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_rows_of_a_table_of_few_bits_are_embeddings)
{
    const int32_t ids[] = {3, 40, 7, 39, 0, 22, 100};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int f = 0; packed_format(f); f++) {
            lot m = {0};
            const int64_t rows = 37, first = 3, dim = 288, tokens = 7;
            const source_blocks source = blocks_make(&m, packed_format(f), rows, 512, 60);
            const float *values = blocks_values(&m, &source);
            float *y = rig_new(&g, tokens * dim * 4), *got = lot_new(&m, tokens * dim * 4);
            float *want = lot_new(&m, tokens * dim * 4);
            for (int64_t i = 0; i < tokens * dim; i++) {
                const int64_t row = ids[i / dim] - first;
                want[i] = row >= 0 && row < rows ? 0.5f * values[row * 512 + i % dim] : 0.0f;
            }
            RUN(&g, embed, .y = y, .table = blocks_pack(&g, &source, 0, dim), .ids = rig_put(&g, ids, sizeof ids),
                .tokens = tokens, .dim = dim, .first = first, .rows = rows, .scale = 0.5f);
            rig_get(&g, got, y, tokens * dim * 4);
            check_same(got, want, tokens * dim * 4, "embed of %s, %s", source.format->name, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Every expert is packed by itself; its assignments have the bits of a gemm. */
START_TEST(test_products_of_experts_have_the_bits_of_gemm)
{
    enum { EXPERTS = 3, ROWS_OF_EXPERT = 21, COLS = 256, ASSIGNMENTS = 10 };
    const int32_t first[EXPERTS + 1] = {0, 3, 3, ASSIGNMENTS};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int f = 0; packed_format(f); f++) {
            lot m = {0};
            const int64_t step = lh_packed_bytes(packed_format(f), ROWS_OF_EXPERT, 0, COLS) + 128;
            const float *x = rig_put(&g, lot_normals(&m, ASSIGNMENTS * COLS, 1.0f, 61), ASSIGNMENTS * COLS * 4);
            float *y = rig_new(&g, ASSIGNMENTS * ROWS_OF_EXPERT * 4),
                  *each = rig_new(&g, ASSIGNMENTS * ROWS_OF_EXPERT * 4);
            float got[ASSIGNMENTS * ROWS_OF_EXPERT], want[ASSIGNMENTS * ROWS_OF_EXPERT];
            char *data = rig_new(&g, EXPERTS * step);
            lh_matrix w = {.data = data, .format = packed_format(f), .ld = COLS, .step = step};
            for (int e = 0; e < EXPERTS; e++) {
                const source_blocks source = blocks_make(&m, w.format, ROWS_OF_EXPERT, COLS, 60 + (uint64_t)e);
                lh_matrix one = w;
                one.data = data + e * step;
                RUN(&g, pack_weights, .dst = data + e * step, .src = source.data, .format = w.format,
                    .rows = ROWS_OF_EXPERT, .cols = COLS);
                RUN(&g, gemm, .y = each + first[e] * ROWS_OF_EXPERT, .x = x + first[e] * COLS, .w = one,
                    .tokens = first[e + 1] - first[e], .out = ROWS_OF_EXPERT, .in = COLS, .y_ld = ROWS_OF_EXPERT,
                    .x_ld = COLS);
            }
            lh_routes r = {.tokens = ASSIGNMENTS, .top_k = 1, .experts = EXPERTS};
            r.first = rig_put(&g, first, sizeof first);
            RUN(&g, expert_gemm, .y = y, .x = x, .w = w, .routes = r, .out = ROWS_OF_EXPERT, .in = COLS,
                .y_ld = ROWS_OF_EXPERT, .x_ld = COLS);
            rig_get(&g, got, y, sizeof got);
            rig_get(&g, want, each, sizeof want);
            check_same(got, want, sizeof got, "expert_gemm of %s, %s", w.format->name, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_products_of_every_backend_are_those_of_ref,
                                  test_products_are_within_the_bound_of_rounded_activations,
                                  test_columns_of_a_shard_have_the_bits_of_the_whole_matrix,
                                  test_matrices_that_follow_each_other_are_products_of_their_own,
                                  test_a_number_that_is_not_finite_makes_its_row_nan,
                                  test_rows_of_a_table_of_few_bits_are_embeddings,
                                  test_products_of_experts_have_the_bits_of_gemm,
                                  NULL};
    return rig_run("kernels/packed", tests);
}
