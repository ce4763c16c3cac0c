/* decode.c - bench cases of decode over ragged caches: attention of a row per sequence, for batches, with full and
 * evicted caches; the products of a layer's step, for 1 to 16 sequences; and the step of a whole layer, with the ratio
 * full / evicted as the gain of eviction. */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "lab/bench/bench.h"

static const char *const names[] = {"attend_decode", "products", "step", NULL};

enum { KV_HEADS = 8, GROUP = 4, HEADS = KV_HEADS * GROUP, DIM = 128, BATCH = 16, BUDGET = 1024 };

/* The layer of an 8B model: hidden size, MLP size, and output rows of the QKV projection. */
enum { HIDDEN = 4096, INNER = 14336, QKV = HIDDEN + 2 * KV_HEADS * DIM };

/* Copies of a batch, used in turn, so that the KV caches are read from memory and not from processor caches. */
enum { COPIES = 16 };
typedef struct decode {
    lh_ragged seqs[COPIES * BATCH];
    int64_t copies;
    double entries; /* of one copy */
    lh_attend_decode_args args;
} decode;

static lh_status call_turns(lh_bench *b, void *args, int64_t turn)
{
    const decode *d = args;
    lh_attend_decode_args a = d->args;
    a.seqs = d->seqs + turn % d->copies * a.batch;
    return b->ops->attend_decode(b->stream, &a);
}

/* The shape of a case. */
typedef struct decode_case {
    lh_dtype type;
    int64_t batch, len, uneven, seen; /* seen: tokens before the row */
} decode_case;

static int64_t copies_of(const lh_bench *b, const decode_case *c)
{
    const int64_t bytes = c->batch * KV_HEADS * c->len * lh_entry_bytes(c->type, DIM);
    const int64_t n = 1 + lh_bench_size(b, INT64_C(128) << 20, 1 << 16) / bytes;
    return n < COPIES ? n : COPIES;
}

static lh_status make_decode(lh_bench *b, decode *d, const decode_case *c)
{
    lh_status st = LH_OK;
    const int64_t ld = HEADS * DIM;
    int32_t *positions = NULL;
    d->copies = copies_of(b, c);
    d->entries = 0;
    d->args = (lh_attend_decode_args){
        .batch = c->batch, .q_ld = ld, .o_ld = ld, .map = {HEADS, GROUP, 0}, .logit = {.scale = 0.1f}};
    LH_TRY_DONE(lh_calloc(&positions, c->batch, sizeof *positions));
    for (int64_t i = 0; i < c->batch; i++) positions[i] = (int32_t)c->seen;
    for (int64_t i = 0; i < d->copies * c->batch; i++) {
        int64_t entries;
        const int64_t deal = c->uneven ? 1 + i % c->batch : 0; /* copies have the same lengths */
        LH_TRY_DONE(lh_bench_fill(b, &d->seqs[i], &(lh_bench_cache){c->type, KV_HEADS, c->len, DIM, deal}, &entries));
        if (i < c->batch) d->entries += (double)entries;
    }
    LH_TRY_DONE(lh_bench_put(b, &d->args.positions, positions, c->batch * 4));
    LH_TRY_DONE(lh_bench_normals(b, &d->args.q, &(lh_bench_normal){LH_F32, c->batch * ld, 1.0f}));
    LH_TRY_DONE(lh_bench_zeros(b, &d->args.o, c->batch * ld * 4));
    LH_TRY_DONE(lh_bench_zeros(b, &d->args.lse, c->batch * HEADS * 4));
done:
    lh_free(positions);
    return st;
}

/* 1 if the caches of a case are too large for this device, with a warning. */
static int too_large(const lh_bench *b, const decode_case *c)
{
    const int64_t entry = lh_entry_bytes(c->type, DIM) + 4, entries = c->batch * KV_HEADS * (c->len + c->len / 2);
    if (entries * entry * copies_of(b, c) < lh_device_free_bytes(b->device) / 4 * 3) return 0;
    lh_warn("skipped: decode steps of %lld sequences with %lld entries per head do not fit in memory; reduce "
            "'--context'",
            (long long)c->batch, (long long)c->len);
    return 1;
}

static double cache_bytes(const decode *d, lh_dtype type)
{
    return d->entries * (double)lh_entry_bytes(type, DIM);
}

static lh_status run_attend(lh_bench *b, decode *d, const decode_case *c)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    lh_bench_case w = {.name = "attend_decode", .type = c->type, .call = call_turns, .args = d};
    if (!lh_bench_wanted(b, w.name) || too_large(b, c)) goto done;
    LH_TRY_DONE(make_decode(b, d, c));
    w.bytes = cache_bytes(d, c->type);
    w.flops = 4.0 * d->entries * GROUP * DIM;
    snprintf(w.shape, sizeof w.shape, "%s %d/%d x %d, batch %lld, %s %lld", lh_dtype_name(c->type), HEADS, KV_HEADS,
             DIM, (long long)c->batch, c->uneven ? "about" : "all", (long long)c->len);
    if (c->seen >= 2 * c->len)
        snprintf(w.shape + strlen(w.shape), sizeof w.shape - strlen(w.shape), " of %lld", (long long)c->seen);
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
done:
    lh_bench_drop(b, mark);
    return st;
}

/* ---- the step of a layer ---- */

/* The products of a layer as a step runs them: norm, queries, keys and values; output projection; norm, gate and up;
 * down. decode: attention between them; NULL: none. */
typedef struct step {
    decode *decode;
    lh_norm_gemm_args qkv, gate_up;
    lh_gemm_args o, down;
    double bytes; /* of the weights */
} step;

static lh_status call_step(lh_bench *b, void *args, int64_t turn)
{
    const step *s = args;
    LH_TRY(b->ops->norm_gemm(b->stream, &s->qkv));
    if (s->decode) LH_TRY(call_turns(b, s->decode, turn));
    LH_TRY(b->ops->gemm(b->stream, &s->o));
    LH_TRY(b->ops->norm_gemm(b->stream, &s->gate_up));
    return b->ops->gemm(b->stream, &s->down);
}

/* A product of `tokens` rows with random weights; its bytes are added to the step's. x NULL: the product allocates its
 * activations. */
static lh_status make_product(lh_bench *b, step *s, lh_gemm_args *a, const int64_t shape[3])
{
    const int64_t tokens = shape[0], in = shape[1], out = shape[2];
    const void *x = a->x;
    float *y = a->y;
    *a = (lh_gemm_args){.type = LH_BF16,
                        .tokens = tokens,
                        .out = out,
                        .in = in,
                        .y_ld = out,
                        .x_ld = in,
                        .w = lh_plain_matrix(NULL, LH_BF16, in)};
    a->adds = y != NULL;
    a->x = x;
    a->y = y;
    LH_TRY(lh_bench_normals(b, &a->w.data, &(lh_bench_normal){LH_BF16, out * in, 0.02f}));
    if (!x) LH_TRY(lh_bench_normals(b, &a->x, &(lh_bench_normal){LH_BF16, tokens * in, 1.0f}));
    if (!y) LH_TRY(lh_bench_zeros(b, &a->y, tokens * out * 4));
    s->bytes += (double)(out * in * 2);
    return LH_OK;
}

/* A product of the normed rows x, [tokens, in]. */
static lh_status make_normed(lh_bench *b, step *s, lh_norm_gemm_args *a, const float *x, const int64_t shape[3])
{
    const int64_t tokens = shape[0], in = shape[1];
    a->norm = (lh_rmsnorm_args){
        .x = x, .y_type = LH_BF16, .tokens = tokens, .heads = 1, .dim = in, .x_ld = in, .y_ld = in, .eps = 1e-5f};
    LH_TRY(lh_bench_normals(b, &a->norm.w, &(lh_bench_normal){LH_F32, in, 1.0f}));
    LH_TRY(lh_bench_zeros(b, &a->norm.y, tokens * in * 2));
    a->gemm.x = a->norm.y;
    return make_product(b, s, &a->gemm, shape);
}

static lh_status make_step(lh_bench *b, step *s, int64_t tokens)
{
    const int64_t hidden = lh_bench_size(b, HIDDEN, 64), inner = lh_bench_size(b, INNER, 96);
    const int64_t qkv = lh_bench_size(b, QKV, 96);
    float *x;
    s->bytes = 0;
    LH_TRY(lh_bench_normals(b, &x, &(lh_bench_normal){LH_F32, tokens * hidden, 1.0f}));
    s->o.y = s->down.y = x;
    LH_TRY(make_normed(b, s, &s->qkv, x, (const int64_t[]){tokens, hidden, qkv}));
    LH_TRY(make_product(b, s, &s->o, (const int64_t[]){tokens, hidden, hidden}));
    LH_TRY(make_normed(b, s, &s->gate_up, x, (const int64_t[]){tokens, hidden, 2 * inner}));
    lh_gated_args *gated = &s->gate_up.gated;
    *gated = (lh_gated_args){.y_type = LH_BF16,
                             .gate = s->gate_up.gemm.y,
                             .up = s->gate_up.gemm.y + inner,
                             .tokens = tokens,
                             .dim = inner,
                             .y_ld = inner,
                             .ld = 2 * inner};
    LH_TRY(lh_bench_zeros(b, &gated->y, tokens * inner * 2));
    s->down.x = gated->y;
    return make_product(b, s, &s->down, (const int64_t[]){tokens, inner, hidden});
}

/* The products alone, of `tokens` sequences. */
static lh_status run_products(lh_bench *b, int64_t tokens)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    step s = {0};
    lh_bench_case w = {.name = "products", .type = LH_BF16, .call = call_step, .args = &s};
    if (!lh_bench_wanted(b, w.name)) goto done;
    LH_TRY_DONE(make_step(b, &s, tokens));
    w.bytes = s.bytes;
    w.flops = (double)tokens * s.bytes;
    snprintf(w.shape, sizeof w.shape, "bf16, a layer of 8B, %lld sequence%s", (long long)tokens,
             tokens == 1 ? "" : "s");
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
done:
    lh_bench_drop(b, mark);
    return st;
}

/* Measures a step with a full and with an evicted cache; adds the ratio of their times, and the ratio of their bytes as
 * its limit. */
static lh_status run_steps(lh_bench *b, decode *d, int64_t context, int64_t budget)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    const decode_case cases[] = {{LH_BF16, 1, context, 0, context}, {LH_BF16, 1, budget, 1, context}};
    double bytes[2], time[2];
    step s = {.decode = d};
    lh_bench_case w = {.name = "step", .type = LH_BF16, .call = call_step, .args = &s};
    if (!lh_bench_wanted(b, w.name) || too_large(b, &cases[0])) goto done;
    LH_TRY_DONE(make_step(b, &s, 1));
    for (int i = 0; i < 2; i++) {
        const int64_t inner = lh_bench_mark(b);
        LH_TRY_DONE(make_decode(b, d, &cases[i]));
        w.bytes = bytes[i] = s.bytes + cache_bytes(d, LH_BF16);
        snprintf(w.shape, sizeof w.shape, "bf16, a layer of 8B, %s %lld of %lld", i ? "about" : "all",
                 (long long)cases[i].len, (long long)context);
        LH_TRY_DONE(lh_bench_run(b, &w, &time[i]));
        lh_bench_drop(b, inner);
    }
    if (time[0] <= 0 || time[1] <= 0) goto done;
    snprintf(w.shape, sizeof w.shape, "a layer of 8B, %lld and about %lld entries per head", (long long)context,
             (long long)budget);
    LH_TRY_DONE(lh_bench_figure(b->result, "pay-off of a step", w.shape,
                                (const double[]){time[0] / time[1], bytes[0] / bytes[1]}));
done:
    lh_bench_drop(b, mark);
    return st;
}

static lh_status run_decode(lh_bench *b)
{
    lh_status st = LH_OK;
    const int device = lh_device_kind_of(b->device) != LH_DEVICE_CPU;
    const int64_t chosen = b->request->context, usual = lh_bench_size(b, device ? 131072 : 8192, 256);
    const int64_t context = chosen ? chosen : usual, most = lh_bench_size(b, BUDGET, 32);
    const int64_t budget = most < context ? most : context;
    decode *d = NULL;
    LH_TRY_DONE(lh_calloc(&d, 1, sizeof *d));
    LH_TRY_DONE(run_attend(b, d, &(decode_case){LH_F32, 1, context, 0, context}));
    for (int64_t batch = 1; batch <= BATCH; batch *= 2) {
        LH_TRY_DONE(run_attend(b, d, &(decode_case){LH_BF16, batch, context, 0, context}));
        LH_TRY_DONE(run_attend(b, d, &(decode_case){LH_BF16, batch, context, 1, context + context / 2}));
        LH_TRY_DONE(
            run_attend(b, d, &(decode_case){LH_BF16, batch, budget, 1, context > 2 * budget ? context : 2 * budget}));
    }
    for (int64_t batch = 1; batch <= BATCH; batch *= BATCH)
        LH_TRY_DONE(run_attend(b, d, &(decode_case){LH_Q8, batch, context, 0, context}));
    for (int64_t tokens = 1; tokens <= BATCH; tokens *= 4) LH_TRY_DONE(run_products(b, tokens));
    LH_TRY_DONE(run_steps(b, d, context, budget));
done:
    lh_free(d);
    return st;
}

const lh_bench_group lh_bench_decode = {names, run_decode};
