#include <math.h>
#include <string.h>

#include "cases.h"
#include "rig.h"

typedef struct product {
    int64_t tokens, out, in, gap; /* gap: ld beyond the row, differently for y, x and w */
    lh_dtype type;
    lh_order order;
    int adds;
    const float *x, *w, *bias; /* host; [tokens, in + gap], [out, in + 2 gap] */
} product;

static product make_product(lot *m, int64_t tokens, int64_t out, int64_t in)
{
    const int64_t gaps[] = {0, 1, 2, 8};
    product p = {.tokens = tokens, .out = out, .in = in, .gap = gaps[(tokens + out + in) % 4], .type = LH_F32};
    p.x = lot_normals(m, tokens * (in + p.gap), 1.0f, 1);
    p.w = lot_normals(m, out * (in + 2 * p.gap), 1.0f, 2);
    if ((tokens + in) % 2) p.bias = lot_normals(m, out, 10.0f, 3);
    return p;
}

/* y: [tokens, out + 3 gap], the gaps as they were; with `adds` it begins with normals. */
static float *multiply(lot *m, rig *g, const product *p)
{
    int64_t x_count = p->tokens * (p->in + p->gap), w_count = p->out * (p->in + 2 * p->gap);
    int64_t y_ld = p->out + 3 * p->gap, y_bytes = p->tokens * y_ld * 4, size = lh_dtype_bytes(p->type);
    const void *x = p->x, *w = p->w;
    float *host = lot_new(m, y_bytes),
          *y = p->adds ? rig_put(g, lot_normals(m, p->tokens * y_ld, 10.0f, 4), y_bytes) : rig_new(g, y_bytes);
    if (p->type == LH_BF16) {
        x = lot_bf16(m, x, x_count);
        w = lot_bf16(m, w, w_count);
    }
    RUN(g, gemm, .y = y, .x = rig_put(g, x, x_count * size),
        .w = lh_plain_matrix(rig_put(g, w, w_count * size), p->type, p->in + 2 * p->gap), .type = p->type,
        .bias = p->bias ? rig_put(g, p->bias, p->out * 4) : NULL, .tokens = p->tokens, .out = p->out, .in = p->in,
        .y_ld = y_ld, .x_ld = p->in + p->gap, .order = p->order, .adds = p->adds);
    rig_get(g, host, y, y_bytes);
    rig_reset(g);
    return host;
}

/* f32 sums of n products of normals: partial sums are about sqrt(n) large, and each addition is off by half a unit of
 * the last place of one, so a chain is off by about n * 2^-25, and 5 times that among many thousands; blocked sums do
 * better. */
static tolerance sum_tolerance(int64_t n)
{
    return (tolerance){1e-6, 3e-6 * sqrt((double)n + 1) + 1.5e-7 * (double)n};
}

START_TEST(test_gemm_of_small_whole_numbers_is_exact)
{
    const float x[2 * 3] = {1, 2, 3, -4, 5, 6}, w[4 * 3] = {1, 0, 0, 0, 1, 0, 2, -1, 0.5f, 1, 1, 1};
    const float bias[4] = {100, 200, 300, 400}, want[2 * 4] = {101, 202, 301.5f, 406, 96, 205, 290, 407};
    for (int b = 0; rig_backend(b); b++) {
        for (int kind = 0; kind < 4; kind++) {
            lot m = {0};
            rig g;
            rig_open(&g, rig_backend(b));
            product p = {.tokens = 2, .out = 4, .in = 3, .x = x, .w = w, .bias = bias};
            p.type = kind & 1 ? LH_BF16 : LH_F32;
            p.order = kind & 2 ? LH_ORDER_FIXED : LH_ORDER_ANY;
            check_same(multiply(&m, &g, &p), want, sizeof want, "gemm, %s", g.ops->name);
            rig_close(&g);
            lot_end(&m);
        }
    }
}
END_TEST

START_TEST(test_fixed_gemm_is_one_fused_chain_then_the_bias)
{
    for (int b = 0; rig_backend(b); b++) {
        lot m = {0};
        rig g;
        rig_open(&g, rig_backend(b));
        product p = make_product(&m, 4, 3, 101);
        p.order = LH_ORDER_FIXED;
        ck_assert_ptr_nonnull(p.bias);
        const float *y = multiply(&m, &g, &p);
        for (int64_t t = 0; t < p.tokens; t++) {
            for (int64_t o = 0; o < p.out; o++) {
                float sum = 0;
                for (int64_t i = 0; i < p.in; i++)
                    sum = fmaf(p.x[t * (p.in + p.gap) + i], p.w[o * (p.in + 2 * p.gap) + i], sum);
                ck_assert(y[t * (p.out + 3 * p.gap) + o] == sum + p.bias[o]);
            }
        }
        rig_close(&g);
        lot_end(&m);
    }
}
END_TEST

START_TEST(test_gemm_over_nothing_gives_the_bias_or_zero)
{
    const float bias[3] = {1, -2, 3}, zero[3] = {0};
    for (int b = 0; rig_backend(b); b++) {
        for (int kind = 0; kind < 8; kind++) {
            lot m = {0};
            rig g;
            rig_open(&g, rig_backend(b));
            product p = {.tokens = 2, .out = 3, .in = 0, .x = zero, .w = zero, .bias = kind & 4 ? bias : NULL};
            p.type = kind & 1 ? LH_BF16 : LH_F32;
            p.order = kind & 2 ? LH_ORDER_FIXED : LH_ORDER_ANY;
            const float *y = multiply(&m, &g, &p), *want = p.bias ? bias : zero;
            for (int t = 0; t < 2; t++) check_same(y + 3 * t, want, 12, "gemm over nothing, %s", g.ops->name);
            rig_close(&g);
            lot_end(&m);
        }
    }
}
END_TEST

START_TEST(test_gemm_of_every_backend_is_that_of_ref)
{
    const int64_t tokens[] = {0, 1, 2, 5, 9, 16, 17, 64, 129}, outs[] = {0, 1, 7, 48, 257};
    const int64_t ins[] = {1, 3, 16, 64, 577, 1160};
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 9 * 5 * 6 * 6; n++) {
            lot m = {0};
            product p = make_product(&m, tokens[n % 9], outs[n / 9 % 5], ins[n / 45 % 6]);
            p.type = n / 270 % 2 ? LH_BF16 : LH_F32;
            p.order = n / 540 == 1 ? LH_ORDER_FIXED : LH_ORDER_ANY;
            p.adds = n / 540 == 2;
            const float *want = multiply(&m, &ref, &p), *got = multiply(&m, &mine, &p);
            tolerance tol = p.order == LH_ORDER_FIXED ? (tolerance){0, 0} : sum_tolerance(p.in);
            check_near(got, want, p.tokens * (p.out + 3 * p.gap), tol, "gemm %lld x %lld x %lld, %s, order %d, %s",
                       (long long)p.tokens, (long long)p.out, (long long)p.in, lh_dtype_name(p.type), p.order,
                       mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* Rows of a down projection: all activations of two tokens leave room for two stages of weights, those of one for
 * three, and 7,160 is no multiple of the columns that warps share. On the 4 multiprocessors of the emulated device 3
 * tokens and more have tiles of 16, 16, 32, 32 and 16 rows, several a block in the last two cases. */
START_TEST(test_gemm_of_long_rows_is_that_of_ref)
{
    const struct {
        int64_t tokens, out, in;
    } cases[] = {{1, 90, 14336},  {2, 90, 14336}, {1, 33, 7160}, {2, 130, 7160}, {4, 40, 7160},
                 {16, 140, 7160}, {9, 100, 1160}, {3, 256, 200}, {16, 560, 264}};
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
            lot m = {0};
            product p = make_product(&m, cases[n].tokens, cases[n].out, cases[n].in);
            p.gap = 0;
            p.type = LH_BF16;
            p.adds = 1;
            const float *want = multiply(&m, &ref, &p), *got = multiply(&m, &mine, &p);
            check_near(got, want, p.tokens * p.out, sum_tolerance(p.in), "gemm %d x %d -> %d, %s", (int)p.tokens,
                       (int)p.in, (int)p.out, mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

enum { TOKENS, DIM, Y_PAD, X_PAD, SHARDS, COUNT };
static const dimension kinds[] = {
    [TOKENS] = {"tokens", 6, {0, 1, 2, 3, 4, 5}},
    [DIM] = {"dim", 12, {0, 1, 2, 13, 14, 15, 26, 28, 39, 40, 52, 54}},
    [Y_PAD] = {"padding of y", 2, {0, 3}},
    [X_PAD] = {"padding of x", 4, {0, 1, 2, 3}},
    [SHARDS] = {"shards", 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    [COUNT] = {"elements", 12, {0, 1, 4, 9, 16, 25, 64, 100, 225, 441, 900, 1521}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

START_TEST(test_add_adds_in_place_and_leaves_the_gaps)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 30; n++) {
            lot m = {0};
            int64_t tokens = kind(TOKENS, n), dim = kind(DIM, n), y_ld = dim + kind(Y_PAD, n),
                    x_ld = dim + kind(X_PAD, n);
            const float *y = lot_normals(&m, tokens * y_ld, 1.0f, 1), *x = lot_normals(&m, tokens * x_ld, 1.0f, 2);
            float *got = lot_new(&m, tokens * y_ld * 4), *want = lot_copy(&m, y, tokens * y_ld * 4);
            float *on = rig_put(&g, y, tokens * y_ld * 4);
            const lh_dtype type = n % 2 ? LH_BF16 : LH_F32;
            const uint16_t *rounded = lot_bf16(&m, x, tokens * x_ld);
            for (int64_t t = 0; t < tokens; t++) {
                for (int64_t i = 0; i < dim; i++)
                    want[t * y_ld + i] += n % 2 ? lh_bf16_to_f32(rounded[t * x_ld + i]) : x[t * x_ld + i];
            }
            RUN(&g, add, .y = on,
                .x = n % 2 ? rig_put(&g, rounded, tokens * x_ld * 2) : rig_put(&g, x, tokens * x_ld * 4),
                .x_type = type, .tokens = tokens, .dim = dim, .y_ld = y_ld, .x_ld = x_ld);
            rig_get(&g, got, on, tokens * y_ld * 4);
            check_same(got, want, tokens * y_ld * 4, "add, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* In f32 a different order gives different bits: with parts of sizes far apart nearly every sum shows it. */
START_TEST(test_shards_are_added_in_their_order)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 40; n++) {
            lot m = {0};
            int64_t shards = kind(SHARDS, n), count = kind(COUNT, n);
            float *parts = lot_normals(&m, shards * count, 1.0f, 5), *got = lot_new(&m, count * 4);
            float *want = lot_new(&m, count * 4), *y = rig_new(&g, count * 4);
            for (int64_t r = 0; r < shards; r++) {
                for (int64_t i = 0; i < count; i++) {
                    parts[r * count + i] *= r % 3 ? 1.0f : 1000.0f;
                    want[i] = r ? want[i] + parts[r * count + i] : parts[i];
                }
            }
            RUN(&g, sum_shards, .y = y, .parts = rig_put(&g, parts, shards * count * 4), .shards = shards,
                .count = count);
            rig_get(&g, got, y, count * 4);
            check_same(got, want, count * 4, "sum_shards, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_gemm_of_small_whole_numbers_is_exact,     test_fixed_gemm_is_one_fused_chain_then_the_bias,
        test_gemm_over_nothing_gives_the_bias_or_zero, test_gemm_of_every_backend_is_that_of_ref,
        test_gemm_of_long_rows_is_that_of_ref,         test_add_adds_in_place_and_leaves_the_gaps,
        test_shards_are_added_in_their_order,          NULL};
    return rig_run("kernels/linear", tests);
}
