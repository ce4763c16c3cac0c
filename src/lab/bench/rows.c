/* rows.c - bench cases of operations on rows: those between the products of a layer (norms, RoPE, activations,
 * appending to the cache), and those on logits. */
#include <stdio.h>

#include "lab/bench/bench.h"

static const char *const names[] = {
    "embed", "rmsnorm",    "squares", "convert",      "rope",     "append",     "put_rows",          "gated",
    "add",   "sum_shards", "softcap", "check_finite", "penalise", "top_logits", "sum_probabilities", "random_weights",
    NULL};

LH_BENCH_CALL(embed)
LH_BENCH_CALL(rmsnorm)
LH_BENCH_CALL(squares)
LH_BENCH_CALL(convert)
LH_BENCH_CALL(rope)
LH_BENCH_CALL(append)
LH_BENCH_CALL(put_rows)
LH_BENCH_CALL(gated)
LH_BENCH_CALL(add)
LH_BENCH_CALL(sum_shards)
LH_BENCH_CALL(softcap)
LH_BENCH_CALL(check_finite)
LH_BENCH_CALL(penalise)
LH_BENCH_CALL(top_logits)
LH_BENCH_CALL(sum_probabilities)
LH_BENCH_CALL(random_weights)

enum { DIM = 2048, HEAD = 64, SHARDS = 4, FIRST = 1000, TOP = 50, MOST = 1024 };

typedef struct rows {
    int64_t tokens, vocab;
    float *x, *y, *w, *parts, *logits, *other, *values;
    void *gates; /* bf16, [tokens, 2 DIM] */
    int32_t *positions, *indices;
    uint32_t *seen;
    int64_t *sum;
} rows;

static lh_status make_rows(lh_bench *b, rows *r)
{
    r->tokens = lh_bench_size(b, 512, 16);
    r->vocab = lh_bench_size(b, 1 << 17, 512);
    LH_TRY(lh_bench_normals(b, &r->x, &(lh_bench_normal){LH_F32, r->tokens * DIM, 1.0f}));
    LH_TRY(lh_bench_normals(b, &r->y, &(lh_bench_normal){LH_F32, r->tokens * DIM, 1.0f}));
    LH_TRY(lh_bench_normals(b, &r->gates, &(lh_bench_normal){LH_BF16, r->tokens * 2 * DIM, 1.0f}));
    LH_TRY(lh_bench_normals(b, &r->w, &(lh_bench_normal){LH_F32, DIM, 1.0f}));
    LH_TRY(lh_bench_normals(b, &r->parts, &(lh_bench_normal){LH_F32, SHARDS * r->tokens * DIM, 1.0f}));
    LH_TRY(lh_bench_normals(b, &r->logits, &(lh_bench_normal){LH_F32, r->vocab, 3.0f}));
    LH_TRY(lh_bench_zeros(b, &r->other, r->vocab * 4));
    LH_TRY(lh_bench_zeros(b, &r->values, MOST * 4));
    LH_TRY(lh_bench_zeros(b, &r->indices, MOST * 4));
    LH_TRY(lh_bench_bytes(b, (uint8_t **)&r->seen, r->vocab / 8, 0x11));
    LH_TRY(lh_bench_zeros(b, &r->sum, 8));
    LH_TRY(lh_bench_positions(b, &r->positions, FIRST, r->tokens));
    return LH_OK;
}

static lh_status run_one(lh_bench *b, const rows *r, lh_bench_case w, const char *what)
{
    snprintf(w.shape, sizeof w.shape, "%lld x %d%s", (long long)r->tokens, DIM, what);
    return lh_bench_run(b, &w, NULL);
}

static lh_status run_tokens(lh_bench *b, const rows *r)
{
    const double n = (double)(r->tokens * DIM);
    lh_rmsnorm_args norm = {.y = r->y,
                            .y_type = LH_BF16,
                            .x = r->x,
                            .w = r->w,
                            .tokens = r->tokens,
                            .heads = 1,
                            .dim = DIM,
                            .x_ld = DIM,
                            .y_ld = DIM,
                            .eps = 1e-5f};
    lh_rope_args rope = {.x = r->x,
                         .positions = r->positions,
                         .inv_freq = r->w,
                         .tokens = r->tokens,
                         .heads = DIM / HEAD,
                         .dim = HEAD,
                         .rotary = HEAD,
                         .ld = DIM,
                         .scale = 1};
    lh_gated_args silu = {.y = r->y,
                          .y_type = LH_BF16,
                          .gate = r->x,
                          .up = r->x,
                          .tokens = r->tokens,
                          .dim = DIM,
                          .y_ld = DIM,
                          .ld = DIM};
    lh_gated_args gelu = silu, of_product = silu;
    lh_squares_args squares = {
        .y = r->y, .x = r->x, .tokens = r->tokens, .heads = DIM / HEAD, .dim = HEAD, .x_ld = DIM, .y_ld = DIM / HEAD};
    lh_add_args add = {.y = r->y, .x = r->x, .tokens = r->tokens, .dim = DIM, .y_ld = DIM, .x_ld = DIM};
    gelu.gate_kind = LH_GATE_GELU;
    of_product.x_type = LH_BF16;
    of_product.gate = r->gates;
    of_product.up = (const char *)r->gates + DIM * 2;
    of_product.ld = 2 * DIM;
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "rmsnorm", .call = call_rmsnorm, .bytes = 6 * n, .args = &norm},
                   " to bf16"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "squares", .call = call_squares, .bytes = 4 * n, .args = &squares},
                   ", heads of 64"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "rope", .call = call_rope, .bytes = 8 * n, .args = &rope},
                   ", heads of 64"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "gated", .call = call_gated, .bytes = 10 * n, .args = &silu},
                   " silu to bf16"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "gated", .call = call_gated, .bytes = 10 * n, .args = &gelu},
                   " gelu to bf16"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "gated", .call = call_gated, .bytes = 6 * n, .args = &of_product},
                   " silu of bf16"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "add", .call = call_add, .bytes = 12 * n, .args = &add}, ""));
    return LH_OK;
}

/* Row copies: embedding lookup, type conversion, joining shards, writing into the query ring; rows that are drawn. */
static lh_status run_moves(lh_bench *b, const rows *r)
{
    const double n = (double)(r->tokens * DIM);
    lh_embed_args embed = {.y = r->y,
                           .table = lh_plain_matrix(r->parts, LH_F32, DIM),
                           .ids = r->positions,
                           .tokens = r->tokens,
                           .dim = DIM,
                           .first = FIRST,
                           .rows = r->tokens,
                           .scale = 1};
    lh_convert_args convert = {
        .dst = r->y, .src = r->x, .dst_type = LH_BF16, .rows = r->tokens, .cols = DIM, .dst_ld = DIM, .src_ld = DIM};
    lh_sum_shards_args sum = {.y = r->y, .parts = r->parts, .shards = SHARDS, .count = r->tokens * DIM};
    lh_put_rows_args put = {.ring = r->y,
                            .x = r->x,
                            .positions = r->positions,
                            .tokens = r->tokens,
                            .rows = r->tokens,
                            .width = DIM,
                            .x_ld = DIM};
    lh_random_weights_args drawn = {
        .y = r->y, .y_type = LH_BF16, .stored = LH_BF16, .rows = r->tokens, .cols = DIM, .step = DIM, .scale = 1};
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "embed", .call = call_embed, .bytes = 8 * n, .args = &embed}, ""));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "convert", .call = call_convert, .bytes = 6 * n, .args = &convert},
                   " to bf16"));
    LH_TRY(run_one(
        b, r,
        (lh_bench_case){.name = "sum_shards", .call = call_sum_shards, .bytes = 4 * (SHARDS + 1) * n, .args = &sum},
        ", 4 shards"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "put_rows", .call = call_put_rows, .bytes = 8 * n, .args = &put}, ""));
    LH_TRY(run_one(
        b, r, (lh_bench_case){.name = "random_weights", .call = call_random_weights, .bytes = 2 * n, .args = &drawn},
        " bf16"));
    return LH_OK;
}

/* ---- appending; the cache is emptied before every call ---- */

typedef struct appended {
    lh_append_args args;
    lh_ragged kv;
} appended;

static lh_status empty_again(lh_bench *b, void *args)
{
    const appended *c = args;
    return lh_stream_zero(b->stream, c->kv.len, c->kv.heads * (int64_t)sizeof *c->kv.len);
}

static lh_status call_appended(lh_bench *b, void *args, int64_t turn)
{
    return call_append(b, &((appended *)args)->args, turn);
}

/* To entries of a type. */
static lh_status run_append(lh_bench *b, const rows *r, lh_dtype type)
{
    const double n = (double)(r->tokens * DIM);
    char what[64];
    appended c = {
        .args = {.batch = 1, .tokens = r->tokens, .ld = DIM, .k = r->x, .v = r->parts, .positions = r->positions}};
    c.args.seqs = &c.kv;
    LH_TRY(lh_bench_fill(b, &c.kv, &(lh_bench_cache){type, DIM / HEAD, r->tokens, HEAD, 0}, NULL));
    snprintf(what, sizeof what, " to %s, heads of 64", lh_dtype_name(type));
    LH_TRY(run_one(b, r,
                   (lh_bench_case){.name = "append",
                                   .call = call_appended,
                                   .before = empty_again,
                                   .bytes = 8 * n + n / HEAD * (double)lh_entry_bytes(type, HEAD),
                                   .args = &c},
                   what));
    return LH_OK;
}

/* Keys and values of new entries, and entries that operations other than attention read. */
static lh_status run_q8(lh_bench *b, const rows *r)
{
    const int64_t count = r->tokens * DIM / HEAD;
    const double to = (double)(count * (HEAD * 5 + 4)), from = (double)(count * (HEAD * 3 + 4));
    float *scales;
    LH_TRY(lh_bench_zeros(b, &scales, count * (int64_t)sizeof *scales));
    lh_convert_args keys = {.dst = r->y,
                            .src = r->x,
                            .dst_scale = scales,
                            .dst_type = LH_Q8,
                            .are_keys = 1,
                            .rows = count,
                            .cols = HEAD,
                            .dst_ld = HEAD,
                            .src_ld = HEAD};
    lh_convert_args values = keys, back = keys;
    values.are_keys = 0;
    back.dst = r->parts;
    back.dst_type = LH_BF16;
    back.src = r->y;
    back.src_type = LH_Q8;
    back.src_scale = scales;
    const struct {
        const char *what;
        const lh_convert_args *args;
        double bytes;
    } cases[] = {{" to q8, keys of 64", &keys, to},
                 {" to q8, values of 64", &values, to},
                 {" of q8 to bf16, keys of 64", &back, from}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_convert_args args = *cases[i].args;
        const lh_bench_case c = {.name = "convert", .call = call_convert, .bytes = cases[i].bytes, .args = &args};
        LH_TRY(run_one(b, r, c, cases[i].what));
    }
    return run_append(b, r, LH_Q8);
}

/* ---- sampling: operations on logits ---- */

static lh_status run_top(lh_bench *b, const rows *r, int64_t k)
{
    lh_top_logits_args top = {.values = r->values,
                              .indices = r->indices,
                              .x = r->logits,
                              .rows = 1,
                              .cols = r->vocab,
                              .ld = r->vocab,
                              .k = k < r->vocab ? k : r->vocab};
    lh_bench_case c = {.name = "top_logits", .call = call_top_logits, .bytes = 4.0 * (double)r->vocab, .args = &top};
    snprintf(c.shape, sizeof c.shape, "%lld of %lld", (long long)top.k, (long long)r->vocab);
    return lh_bench_run(b, &c, NULL);
}

static lh_status run_logits(lh_bench *b, const rows *r)
{
    const double n = (double)r->vocab;
    lh_softcap_args softcap = {r->logits, r->vocab, 1e6f};
    lh_check_finite_args finite = {r->indices, r->logits, r->vocab};
    lh_penalise_args penalise = {.y = r->other, .x = r->logits, .seen = r->seen, .count = r->vocab, .penalty = 1.1};
    lh_sum_probabilities_args sum = {r->sum, r->logits, r->vocab, lh_probabilities_of(12.0f, 0.7, r->vocab)};
    lh_bench_case cases[] = {
        {.name = "softcap", .call = call_softcap, .bytes = 8 * n, .args = &softcap},
        {.name = "check_finite", .call = call_check_finite, .bytes = 4 * n, .args = &finite},
        {.name = "penalise", .call = call_penalise, .bytes = 8 * n + n / 8, .args = &penalise},
        {.name = "sum_probabilities", .call = call_sum_probabilities, .bytes = 4 * n, .args = &sum},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(cases[i].shape, sizeof cases[i].shape, "%lld", (long long)r->vocab);
        LH_TRY(lh_bench_run(b, &cases[i], NULL));
    }
    LH_TRY(run_top(b, r, TOP));
    LH_TRY(run_top(b, r, MOST));
    return LH_OK;
}

static lh_status run_rows(lh_bench *b)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    rows r = {0};
    LH_TRY_DONE(make_rows(b, &r));
    LH_TRY_DONE(run_tokens(b, &r));
    LH_TRY_DONE(run_moves(b, &r));
    LH_TRY_DONE(run_append(b, &r, LH_BF16));
    LH_TRY_DONE(run_logits(b, &r));
    LH_TRY_DONE(run_q8(b, &r));
done:
    lh_bench_drop(b, mark);
    return st;
}

const lh_bench_group lh_bench_rows = {names, run_rows};
