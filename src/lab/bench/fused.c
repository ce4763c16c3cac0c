/* fused.c - bench cases of fused operations, on a layer of the 8B shape: in decode steps of one and four sequences,
 * and of a chunk of a prompt. */
#include <stdio.h>

#include "lab/bench/bench.h"

static const char *const names[] = {"norm_gemm", "gemm_convert", "rope_append", NULL};

enum { HIDDEN = 4096, INNER = 14336, HEADS = 32, KV_HEADS = 8, DIM = 128, QKV = (HEADS + 2 * KV_HEADS) * DIM };

/* The weights, [INNER * 2, HIDDEN], are used in turn: `out` rows of them a call, so that they come from memory. */
typedef struct norm_case {
    lh_norm_gemm_args args;
    int64_t rows;
} norm_case;

static lh_status call_norm_gemm(lh_bench *b, void *args, int64_t turn)
{
    const norm_case *c = args;
    lh_norm_gemm_args a = c->args;
    a.gemm.w.data = (const char *)a.gemm.w.data + turn % (c->rows / a.gemm.out) * a.gemm.out * a.gemm.in * 2;
    return b->ops->norm_gemm(b->stream, &a);
}

static lh_status run_norm_gemm(lh_bench *b, int64_t tokens, int is_gated)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b), in = lh_bench_size(b, HIDDEN, 64), half = lh_bench_size(b, INNER, 96);
    const int64_t out = is_gated ? 2 * half : lh_bench_size(b, QKV, 96);
    norm_case c = {.rows = 2 * half};
    lh_bench_case w = {.name = "norm_gemm", .type = LH_BF16, .call = call_norm_gemm, .args = &c};
    c.args.norm = (lh_rmsnorm_args){
        .y_type = LH_BF16, .tokens = tokens, .heads = 1, .dim = in, .x_ld = in, .y_ld = in, .eps = 1e-5f};
    c.args.gemm = (lh_gemm_args){.type = LH_BF16,
                                 .tokens = tokens,
                                 .out = out,
                                 .in = in,
                                 .y_ld = out,
                                 .x_ld = in,
                                 .w = lh_plain_matrix(NULL, LH_BF16, in)};
    LH_TRY_DONE(lh_bench_normals(b, &c.args.norm.x, &(lh_bench_normal){LH_F32, tokens * in, 1.0f}));
    LH_TRY_DONE(lh_bench_normals(b, &c.args.norm.w, &(lh_bench_normal){LH_F32, in, 1.0f}));
    LH_TRY_DONE(lh_bench_zeros(b, &c.args.norm.y, tokens * in * 2));
    LH_TRY_DONE(lh_bench_normals(b, &c.args.gemm.w.data, &(lh_bench_normal){LH_BF16, c.rows * in, 0.05f}));
    LH_TRY_DONE(lh_bench_zeros(b, &c.args.gemm.y, tokens * out * 4));
    c.args.gemm.x = c.args.norm.y;
    if (is_gated) {
        c.args.gated = (lh_gated_args){.y_type = LH_BF16,
                                       .gate = c.args.gemm.y,
                                       .up = c.args.gemm.y + half,
                                       .tokens = tokens,
                                       .dim = half,
                                       .y_ld = half,
                                       .ld = out};
        LH_TRY_DONE(lh_bench_zeros(b, &c.args.gated.y, tokens * half * 2));
    }
    w.flops = 2.0 * (double)(tokens * in * out);
    w.bytes = tokens <= 64 ? (double)(in * out * 2) : 0;
    snprintf(w.shape, sizeof w.shape, "bf16 %lld x %lld -> %lld%s", (long long)tokens, (long long)in,
             (long long)(is_gated ? half : out), is_gated ? ", gated" : "");
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
done:
    lh_bench_drop(b, mark);
    return st;
}

/* ---- the output projection of a chunk, rounded for the sum over ranks ---- */

LH_BENCH_CALL(gemm_convert)

static lh_status run_gemm_convert(lh_bench *b, int64_t tokens)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b), in = lh_bench_size(b, HIDDEN, 64);
    lh_gemm_convert_args a = {
        .gemm = {.type = LH_BF16,
                 .tokens = tokens,
                 .out = in,
                 .in = in,
                 .y_ld = in,
                 .x_ld = in,
                 .w = lh_plain_matrix(NULL, LH_BF16, in)},
        .convert = {.dst_type = LH_BF16, .src_type = LH_F32, .rows = tokens, .cols = in, .dst_ld = in, .src_ld = in}};
    lh_bench_case w = {.name = "gemm_convert", .type = LH_BF16, .call = call_gemm_convert, .args = &a};
    LH_TRY_DONE(lh_bench_normals(b, &a.gemm.x, &(lh_bench_normal){LH_BF16, tokens * in, 1.0f}));
    LH_TRY_DONE(lh_bench_normals(b, &a.gemm.w.data, &(lh_bench_normal){LH_BF16, in * in, 0.05f}));
    LH_TRY_DONE(lh_bench_zeros(b, &a.gemm.y, tokens * in * 4));
    LH_TRY_DONE(lh_bench_zeros(b, &a.convert.dst, tokens * in * 2));
    a.convert.src = a.gemm.y;
    w.flops = 2.0 * (double)(tokens * in * in);
    snprintf(w.shape, sizeof w.shape, "bf16 %lld x %lld -> %lld", (long long)tokens, (long long)in, (long long)in);
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
done:
    lh_bench_drop(b, mark);
    return st;
}

/* ---- appending; the cache is emptied before every call ---- */

typedef struct append_case {
    lh_rope_append_args args;
    lh_ragged kv;
} append_case;

static lh_status empty_again(lh_bench *b, void *args)
{
    const append_case *c = args;
    return lh_stream_zero(b->stream, c->kv.len, c->kv.heads * (int64_t)sizeof *c->kv.len);
}

static lh_status call_rope_append(lh_bench *b, void *args, int64_t turn)
{
    (void)turn;
    return b->ops->rope_append(b->stream, &((const append_case *)args)->args);
}

static lh_status run_rope_append(lh_bench *b, int64_t tokens)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    append_case c = {.args = {.append = {.batch = 1, .tokens = tokens, .ld = QKV}}};
    lh_bench_case w = {.name = "rope_append", .call = call_rope_append, .before = empty_again, .args = &c};
    lh_rope_args *q = &c.args.q;
    int32_t *positions;
    *q = (lh_rope_args){.tokens = tokens, .heads = HEADS, .dim = DIM, .rotary = DIM, .ld = QKV, .scale = 1};
    LH_TRY_DONE(lh_bench_positions(b, &positions, 0, tokens));
    LH_TRY_DONE(lh_bench_normals(b, &q->x, &(lh_bench_normal){LH_F32, tokens * QKV, 1.0f}));
    LH_TRY_DONE(lh_bench_normals(b, &q->inv_freq, &(lh_bench_normal){LH_F32, DIM / 2, 1.0f}));
    LH_TRY_DONE(lh_bench_fill(b, &c.kv, &(lh_bench_cache){LH_BF16, KV_HEADS, tokens, DIM, 0}, NULL));
    q->positions = c.args.append.positions = positions;
    c.args.k = *q;
    c.args.k.x += HEADS * DIM;
    c.args.k.heads = KV_HEADS;
    c.args.append.seqs = &c.kv;
    c.args.append.k = c.args.k.x;
    c.args.append.v = c.args.k.x + KV_HEADS * DIM;
    w.bytes = (double)(tokens * DIM) * (8 * HEADS + 16 * KV_HEADS);
    snprintf(w.shape, sizeof w.shape, "bf16 %lld x %d/%d x %d", (long long)tokens, HEADS, KV_HEADS, DIM);
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
done:
    lh_bench_drop(b, mark);
    return st;
}

static lh_status run_fused(lh_bench *b)
{
    const int64_t tokens[] = {1, 4, lh_bench_size(b, 512, 16)};
    for (int i = 0; i < 3; i++) {
        LH_TRY(run_norm_gemm(b, tokens[i], 0));
        LH_TRY(run_norm_gemm(b, tokens[i], 1));
        LH_TRY(run_rope_append(b, tokens[i]));
    }
    LH_TRY(run_gemm_convert(b, tokens[2]));
    return LH_OK;
}

const lh_bench_group lh_bench_fused = {names, run_fused};
