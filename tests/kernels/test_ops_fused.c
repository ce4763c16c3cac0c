#include <math.h>

#include "cases.h"
#include "device/counts.h"
#include "rig.h"

enum { TOKENS, OUT, IN, TYPE, GATES, ORDER, NORM, EXTRA, PAD };
static const dimension kinds[] = {
    [TOKENS] = {"tokens", 9, {1, 2, 3, 4, 5, 8, 9, 17, 0}},
    [OUT] = {"outputs", 6, {1, 2, 7, 48, 66, 257}},
    [IN] = {"inputs", 6, {1, 8, 64, 577, 1160, 5000}},
    [TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [GATES] = {"gate", 4, {-1, LH_GATE_SILU, LH_GATE_GELU_TANH, LH_GATE_GELU}, {"none", "silu", "gelu_tanh", "gelu"}},
    [ORDER] = {"order", 4, {LH_ORDER_ANY, LH_ORDER_ANY, LH_ORDER_ANY, LH_ORDER_FIXED}},
    [NORM] = {"norm", 4, {1, 1, 1, 0}},
    [EXTRA] = {"bias, and added", 4, {0, 1, 2, 3}},
    [PAD] = {"padding", 3, {0, 1, 8}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

/* Numbers, f32 or rounded to bf16, on the device. */
static void *put_numbers(lot *m, rig *g, const float *x, lh_dtype type, int64_t count)
{
    const void *numbers = type == LH_F32 ? (const void *)x : lot_bf16(m, x, count);
    return rig_put(g, numbers, count * lh_dtype_bytes(type));
}

/* Numbers on the device, as f32. */
static float *numbers_of(lot *m, rig *g, const void *on, lh_dtype type, int64_t count)
{
    void *host = lot_new(m, count * lh_dtype_bytes(type));
    float *out = lot_new(m, count * 4);
    rig_get(g, host, on, count * lh_dtype_bytes(type));
    lh_dtype_convert(out, LH_F32, host, type, count);
    return out;
}

/* What a call leaves: y of the product, or what the gate makes of it. */
static const float *norm_gemm(lot *m, rig *g, int n, int64_t *count)
{
    int64_t tokens = kind(TOKENS, n), in = kind(IN, n), pad = kind(PAD, n), size, x_ld = in + pad, y_ld;
    int is_gated = kind(GATES, n) >= 0, extra = (int)kind(EXTRA, n);
    int64_t out = is_gated ? 2 * kind(OUT, n) : kind(OUT, n);
    lh_dtype type = (lh_dtype)kind(TYPE, n), gated_type = n % 3 ? LH_BF16 : LH_F32;
    lh_order order = (lh_order)kind(ORDER, n);
    size = lh_dtype_bytes(type);
    y_ld = out + pad;
    const float *x = lot_normals(m, tokens * x_ld, 3.0f, 1), *w = lot_normals(m, out * in, 1.0f / sqrtf((float)in), 2);
    lh_norm_gemm_args a = {.norm = {.y = rig_new(g, tokens * in * size),
                                    .y_type = type,
                                    .x = rig_put(g, x, tokens * x_ld * 4),
                                    .w = kind(NORM, n) ? rig_put(g, lot_normals(m, in, 1.0f, 3), in * 4) : NULL,
                                    .tokens = tokens,
                                    .heads = 1,
                                    .dim = in,
                                    .x_ld = x_ld,
                                    .y_ld = in,
                                    .eps = 1e-5f,
                                    .offset = 0.5f},
                           .gemm = {.y = rig_put(g, lot_normals(m, tokens * y_ld, 1.0f, 4), tokens * y_ld * 4),
                                    .w = lh_plain_matrix(put_numbers(m, g, w, type, out * in), type, in),
                                    .type = type,
                                    .bias = extra & 1 ? rig_put(g, lot_normals(m, out, 1.0f, 5), out * 4) : NULL,
                                    .tokens = tokens,
                                    .out = out,
                                    .in = in,
                                    .y_ld = y_ld,
                                    .x_ld = in,
                                    .order = order,
                                    .adds = (extra & 2) && !is_gated && order == LH_ORDER_ANY}};
    a.gemm.x = a.norm.y;
    if (kind(NORM, n) && n % 5 == 0) { /* an addend of bf16, added in place */
        a.norm.addend = put_numbers(m, g, lot_normals(m, tokens * x_ld, 2.0f, 6), LH_BF16, tokens * x_ld);
        a.norm.addend_type = LH_BF16;
        a.norm.sum = (float *)a.norm.x;
    }
    *count = tokens * y_ld;
    if (is_gated) {
        int64_t half = out / 2, ld = half + pad;
        *count = tokens * ld;
        a.gated =
            (lh_gated_args){.y = rig_put(g, lot_new(m, tokens * ld * 4), tokens * ld * lh_dtype_bytes(gated_type)),
                            .y_type = gated_type,
                            .gate = a.gemm.y,
                            .up = a.gemm.y + half,
                            .tokens = tokens,
                            .dim = half,
                            .y_ld = ld,
                            .ld = y_ld,
                            .gate_kind = (lh_gate)kind(GATES, n)};
    }
    RUN_ARGS(g, norm_gemm, &a);
    const float *got = numbers_of(m, g, is_gated ? a.gated.y : a.gemm.y, is_gated ? gated_type : LH_F32, *count);
    rig_reset(g);
    return got;
}

/* Outputs are normals, gated ones their products. In bf16 an input that lies between two numbers may become either one,
 * now and then: a 2^-8th of one of the terms; and gates may be rounded before they are applied. */
START_TEST(test_norm_gemm_of_every_backend_is_that_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 432; n++) {
            lot m = {0};
            int64_t count;
            const float *want = norm_gemm(&m, &ref, n, &count), *got = norm_gemm(&m, &mine, n, &count);
            int is_f32 = kind(TYPE, n) == LH_F32, is_rounded = kind(GATES, n) >= 0 && n % 3;
            tolerance tol = {is_rounded || !is_f32 ? 0x1p-7 : 1e-5, is_f32 ? 1e-4 : 0.03};
            check_near(got, want, count, tol, "norm_gemm, %s", mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

static int64_t launches(const rig *g)
{
    const lh_count *counts;
    int64_t sum = 0, n = lh_device_counts(g->device, &counts);
    for (int64_t i = 0; i < n; i++) sum += counts[i].kind == LH_COUNT_KERNEL ? counts[i].times : 0;
    return sum;
}

/* y: [tokens, out] of rows of 4,096 numbers with bf16 weights, as in decode steps of a few sequences. */
static float *norm_gemm_of_4096(lot *m, rig *g, int64_t tokens, int64_t out)
{
    const int64_t in = 4096;
    float *y = rig_new(g, tokens * out * 4), *host = lot_new(m, tokens * out * 4);
    void *normed = rig_new(g, tokens * in * 2);
    const void *w = rig_put(g, lot_bf16(m, lot_normals(m, out * in, 1 / 64.0f, 3), out * in), out * in * 2);
    lh_norm_gemm_args a = {.norm = {.y = normed,
                                    .y_type = LH_BF16,
                                    .x = rig_put(g, lot_normals(m, tokens * in, 100.0f, 1), tokens * in * 4),
                                    .w = rig_put(g, lot_normals(m, in, 1.0f, 2), in * 4),
                                    .tokens = tokens,
                                    .heads = 1,
                                    .dim = in,
                                    .x_ld = in,
                                    .y_ld = in,
                                    .eps = 1e-5f},
                           .gemm = {.y = y,
                                    .x = normed,
                                    .w = lh_plain_matrix(w, LH_BF16, in),
                                    .type = LH_BF16,
                                    .tokens = tokens,
                                    .out = out,
                                    .in = in,
                                    .y_ld = out,
                                    .x_ld = in}};
    RUN_ARGS(g, norm_gemm, &a);
    rig_get(g, host, y, tokens * out * 4);
    return host;
}

START_TEST(test_up_to_two_rows_of_4096_are_normed_and_multiplied_in_one_kernel)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int64_t tokens = 1; tokens <= 4; tokens++) {
            lot m = {0};
            const int64_t out = 140, before = launches(&mine);
            const float *got = norm_gemm_of_4096(&m, &mine, tokens, out),
                        *want = norm_gemm_of_4096(&m, &ref, tokens, out);
            const tolerance tol = {0x1p-7, 0.03};
            ck_assert_int_le(launches(&mine) - before, tokens <= 2 ? 1 : 2);
            check_near(got, want, tokens * out, tol, "%d rows, %s", (int)tokens, mine.ops->name);
            rig_reset(&ref);
            rig_reset(&mine);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* ---- products in another format ---- */

/* Returns the rows of the other format, padding included. */
static const float *gemm_convert(lot *m, rig *g, int n, int64_t *count)
{
    const int64_t tokens = kind(TOKENS, n), in = kind(IN, n), out = kind(OUT, n), pad = kind(PAD, n), ld = out + pad;
    const lh_dtype type = (lh_dtype)kind(TYPE, n), to = n % 4 ? LH_BF16 : LH_F32;
    const lh_order order = (lh_order)kind(ORDER, n);
    const int extra = (int)kind(EXTRA, n);
    const float *x = lot_normals(m, tokens * in, 1.0f, 1), *w = lot_normals(m, out * in, 1.0f / sqrtf((float)in), 2);
    lh_gemm_convert_args a = {
        .gemm = {.y = rig_put(g, lot_normals(m, tokens * out, 1.0f, 4), tokens * out * 4),
                 .x = put_numbers(m, g, x, type, tokens * in),
                 .w = lh_plain_matrix(put_numbers(m, g, w, type, out * in), type, in),
                 .type = type,
                 .bias = extra & 1 ? rig_put(g, lot_normals(m, out, 1.0f, 5), out * 4) : NULL,
                 .tokens = tokens,
                 .out = out,
                 .in = in,
                 .y_ld = out,
                 .x_ld = in,
                 .order = order,
                 .adds = (extra & 2) && order == LH_ORDER_ANY},
        .convert = {.dst = put_numbers(m, g, lot_normals(m, tokens * ld, 1.0f, 6), to, tokens * ld),
                    .dst_type = to,
                    .src_type = LH_F32,
                    .rows = tokens,
                    .cols = out,
                    .dst_ld = ld,
                    .src_ld = out}};
    a.convert.src = a.gemm.y;
    RUN_ARGS(g, gemm_convert, &a);
    *count = tokens * ld;
    const float *got = numbers_of(m, g, a.convert.dst, to, *count);
    rig_reset(g);
    return got;
}

/* In f32 sums over up to 5,000 products of normals, of variance 1 together; rounded to bf16 neighbours may come out. */
START_TEST(test_gemm_convert_of_every_backend_is_that_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 144; n++) {
            lot m = {0};
            int64_t count;
            const float *want = gemm_convert(&m, &ref, n, &count), *got = gemm_convert(&m, &mine, n, &count);
            check_near(got, want, count, (tolerance){n % 4 ? 0x1p-7 : 1e-5, 2e-5}, "gemm_convert, %s", mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* ---- norms, rotation, appending ---- */

enum { NEW, BATCH, Q_HEADS, KV_HEADS, DIM, ROTARY, NORMS, ROTATES, TYPES, GAP };
static const dimension appends[] = {
    [NEW] = {"new tokens", 4, {1, 1, 2, 9}},
    [BATCH] = {"sequences", 4, {1, 2, 5, 26}},
    [Q_HEADS] = {"query heads", 4, {0, 1, 6, 9}},
    [KV_HEADS] = {"KV heads", 4, {1, 2, 3, 9}},
    [DIM] = {"head_dim", 7, {2, 20, 64, 80, 96, 128, 256}},
    [ROTARY] = {"rotary", 3, {1, 1, 2}, {"all", "all", "half"}},
    [NORMS] = {"norms", 4, {0, 0, 1, 2}, {"none", "none", "of heads", "of rows"}},
    [ROTATES] = {"keys", 3, {1, 1, 0}, {"rotated", "rotated", "as they are"}},
    [TYPES] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [GAP] = {"padding", 4, {0, 1, 2, 4}},
};

static int64_t of(int which, int n)
{
    return case_value(&appends[which], n);
}

/* What a call leaves of sequence 0 and of the last one, and of the rows. */
typedef struct appended {
    float *rows, *k[2], *v[2];
    int64_t *len[2], count, numbers[2], heads;
} appended;

static appended rope_append(lot *m, rig *g, int n)
{
    enum { MOST = 26, HEADS = 9 };
    const int64_t tokens = of(NEW, n), batch = of(BATCH, n), q_heads = of(Q_HEADS, n), kv_heads = of(KV_HEADS, n),
                  dim = of(DIM, n), rows = batch * tokens, parts = q_heads + kv_heads;
    const int64_t ld = (q_heads + 2 * kv_heads) * dim + of(GAP, n), rotary = of(ROTARY, n) == 1 ? dim : dim / 4 * 2;
    const int norms = (int)of(NORMS, n);
    cache seqs[MOST];
    lh_ragged on[MOST];
    float *inv_freq = lot_new(m, dim * 4), *squares = lot_new(m, rows * parts * 4);
    int32_t *positions = lot_new(m, rows * 4);
    for (int64_t r = 0; r < rows; r++) positions[r] = (int32_t)draw(3, (uint64_t)(r + n), 100000);
    for (int64_t i = 0; i < rows * parts; i++) squares[i] = 0.5f + (float)draw(4, (uint64_t)i, 100);
    for (int64_t i = 0; i < rotary / 2; i++) inv_freq[i] = (float)pow(10000.0, -2.0 * (double)i / (double)rotary);
    for (int64_t b = 0; b < batch; b++) {
        int64_t len[HEADS];
        for (int64_t h = 0; h < HEADS; h++) len[h] = draw(5, (uint64_t)(b * HEADS + h), 7);
        cache_make(m, &seqs[b],
                   &(cache_spec){.heads = kv_heads,
                                 .head_dim = dim,
                                 .slack = tokens + 1,
                                 .last = 9,
                                 .len = len,
                                 .type = (lh_dtype)of(TYPES, n),
                                 .order = b % 2 ? CACHE_GAPS : CACHE_SLOTS,
                                 .bias = 1,
                                 .seed = (uint64_t)b});
        on[b] = rig_cache(g, &seqs[b]);
    }
    float *q = rig_put(g, lot_normals(m, rows * ld, 2.0f, 6), rows * ld * 4), *k = q + q_heads * dim;
    const lh_rmsnorm_args norm = {.y_type = LH_F32,
                                  .tokens = rows,
                                  .dim = dim,
                                  .x_ld = ld,
                                  .y_ld = ld,
                                  .eps = 1e-6f,
                                  .w_ld = norms == 2 ? dim : 0,
                                  .squares = norms == 2 ? rig_put(g, squares, rows * parts * 4) : NULL,
                                  .parts = norms == 2 ? parts : 0,
                                  .squares_ld = parts};
    lh_rope_append_args a = {
        .q_norm = norm,
        .k_norm = norm,
        .q = {.x = q,
              .positions = rig_put(g, positions, rows * 4),
              .inv_freq = rig_put(g, inv_freq, dim * 4),
              .tokens = rows,
              .heads = q_heads,
              .dim = dim,
              .rotary = rotary,
              .ld = ld,
              .scale = 1.19f},
        .append = {.seqs = on, .batch = batch, .tokens = tokens, .ld = ld, .k = k, .v = k + kv_heads * dim}};
    a.append.positions = a.q.positions;
    a.append.leaves_len = n % 3 == 0;
    a.q_norm.x = a.q_norm.y = q;
    a.k_norm.x = a.k_norm.y = k;
    a.q_norm.w = rig_put(g, lot_normals(m, HEADS * dim, 1.0f, 7), HEADS * dim * 4);
    a.k_norm.w = rig_put(g, lot_normals(m, HEADS * dim, 1.0f, 8), HEADS * dim * 4);
    a.q_norm.heads = norms ? q_heads : 0;
    a.k_norm.heads = norms ? kv_heads : 0;
    a.k = a.q;
    a.k.x = k;
    if (n % 2) a.q.scaling = (lh_query_scaling){.beta = 0.2f, .positions = 900};
    a.k.heads = of(ROTATES, n) ? kv_heads : 0;
    RUN_ARGS(g, rope_append, &a);
    appended out = {.count = rows * ld, .heads = kv_heads};
    out.rows = lot_new(m, out.count * 4);
    rig_get(g, out.rows, q, out.count * 4);
    for (int i = 0; i < 2; i++) {
        const int64_t b = i ? batch - 1 : 0;
        out.numbers[i] = seqs[b].slots * dim;
        out.k[i] = numbers_of(m, g, on[b].k, on[b].type, out.numbers[i]);
        out.v[i] = numbers_of(m, g, on[b].v, on[b].type, out.numbers[i]);
        out.len[i] = lot_new(m, kv_heads * 8);
        rig_get(g, out.len[i], on[b].len, kv_heads * 8);
    }
    rig_reset(g);
    return out;
}

START_TEST(test_rope_append_of_every_backend_is_that_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 168; n += rig_step(&mine)) {
            lot m = {0};
            const appended want = rope_append(&m, &ref, n), got = rope_append(&m, &mine, n);
            const tolerance tol = {2e-6, 1e-5}, stored = {of(TYPES, n) == LH_F32 ? 2e-6 : 0x1p-7, 1e-5};
            check_near(got.rows, want.rows, want.count, tol, "rows, %s", mine.ops->name);
            for (int i = 0; i < 2; i++) {
                check_near(got.k[i], want.k[i], want.numbers[i], stored, "keys, %s", mine.ops->name);
                check_near(got.v[i], want.v[i], want.numbers[i], stored, "values, %s", mine.ops->name);
                check_same(got.len[i], want.len[i], want.heads * 8, "lengths, %s", mine.ops->name);
            }
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_norm_gemm_of_every_backend_is_that_of_ref,
                                  test_gemm_convert_of_every_backend_is_that_of_ref,
                                  test_up_to_two_rows_of_4096_are_normed_and_multiplied_in_one_kernel,
                                  test_rope_append_of_every_backend_is_that_of_ref, NULL};
    return rig_run("kernels/fused", tests);
}
