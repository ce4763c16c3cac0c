/* decode.c - bench cases of decode over ragged caches: attention of a row per sequence, for batches, with full and
 * evicted caches; and the step of a whole layer, with the ratio full / evicted as the gain of eviction. */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "lab/bench/bench.h"

static const char *const names[] = {"attend_decode", "step", NULL};

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
    const int64_t bytes = 2 * c->batch * KV_HEADS * c->len * DIM * lh_dtype_bytes(c->type);
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
    const int64_t entry = 2 * DIM * lh_dtype_bytes(c->type) + 4, entries = c->batch * KV_HEADS * (c->len + c->len / 2);
    if (entries * entry * copies_of(b, c) < lh_device_free_bytes(b->device) / 4 * 3) return 0;
    lh_warn("skipped: decode steps of %lld sequences with %lld entries per head do not fit in memory; reduce "
            "'--context'",
            (long long)c->batch, (long long)c->len);
    return 1;
}

static double cache_bytes(const decode *d, lh_dtype type)
{
    return 2.0 * d->entries * (double)(DIM * lh_dtype_bytes(type));
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

typedef struct step {
    decode *decode;
    lh_gemm_args products[4]; /* queries, keys and values; output; gate and up; down */
} step;

static lh_status call_step(lh_bench *b, void *args, int64_t turn)
{
    const step *s = args;
    LH_TRY(b->ops->gemm(b->stream, &s->products[0]));
    LH_TRY(call_turns(b, s->decode, turn));
    for (int i = 1; i < 4; i++) LH_TRY(b->ops->gemm(b->stream, &s->products[i]));
    return LH_OK;
}

/* Prepares the four products of a step. *bytes: of all weights. Each has separate random inputs; values do not change
 * its time. */
static lh_status make_products(lh_bench *b, step *s, double *bytes)
{
    static const int64_t shapes[4][2] = {{HIDDEN, QKV}, {HIDDEN, HIDDEN}, {HIDDEN, 2 * INNER}, {INNER, HIDDEN}};
    *bytes = 0;
    for (int i = 0; i < 4; i++) {
        const int64_t in = lh_bench_size(b, shapes[i][0], 64), out = lh_bench_size(b, shapes[i][1], 96);
        lh_gemm_args *a = &s->products[i];
        *a = (lh_gemm_args){.type = LH_BF16, .tokens = 1, .out = out, .in = in, .y_ld = out, .x_ld = in, .w_ld = in};
        LH_TRY(lh_bench_normals(b, &a->w, &(lh_bench_normal){LH_BF16, out * in, 0.05f}));
        LH_TRY(lh_bench_normals(b, &a->x, &(lh_bench_normal){LH_BF16, in, 1.0f}));
        LH_TRY(lh_bench_zeros(b, &a->y, out * 4));
        *bytes += (double)(out * in * 2);
    }
    return LH_OK;
}

/* Measures a step with a full and with an evicted cache; adds the ratio of their times, and the ratio of their bytes as
 * its limit. */
static lh_status run_steps(lh_bench *b, decode *d, int64_t context, int64_t budget)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    const decode_case cases[] = {{LH_BF16, 1, context, 0, context}, {LH_BF16, 1, budget, 1, context}};
    double weights, bytes[2], time[2];
    step s = {.decode = d};
    lh_bench_case w = {.name = "step", .type = LH_BF16, .call = call_step, .args = &s};
    if (!lh_bench_wanted(b, w.name) || too_large(b, &cases[0])) goto done;
    LH_TRY_DONE(make_products(b, &s, &weights));
    for (int i = 0; i < 2; i++) {
        const int64_t inner = lh_bench_mark(b);
        LH_TRY_DONE(make_decode(b, d, &cases[i]));
        w.bytes = bytes[i] = weights + cache_bytes(d, LH_BF16);
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
    LH_TRY_DONE(run_steps(b, d, context, budget));
done:
    lh_free(d);
    return st;
}

const lh_bench_group lh_bench_decode = {names, run_decode};
