/* Operations on rows of numbers: what lies between the products of a layer. */
#include <stdio.h>

#include "bench/bench_impl.h"

static const char *const names[] = {"rmsnorm", "rope", "gated", "add", "softcap", "top_logits", NULL};

LH_BENCH_CALL(rmsnorm)
LH_BENCH_CALL(rope)
LH_BENCH_CALL(gated)
LH_BENCH_CALL(add)
LH_BENCH_CALL(softcap)
LH_BENCH_CALL(top_logits)

enum { DIM = 2048, HEAD = 64, TOP = 50 };

typedef struct rows {
    int64_t tokens, vocab;
    float *x, *y, *w, *logits, *values;
    int32_t *positions, *indices;
} rows;

static lh_status make(lh_bench *b, rows *r)
{
    lh_status st = LH_OK;
    r->tokens = lh_bench_size(b, 512, 16);
    r->vocab = lh_bench_size(b, 1 << 17, 512);
    LH_TRY(lh_bench_normals(b, &r->x, &(lh_bench_normal){LH_F32, r->tokens * DIM, 1.0f}));
    LH_TRY(lh_bench_normals(b, &r->y, &(lh_bench_normal){LH_F32, r->tokens * DIM, 1.0f}));
    LH_TRY(lh_bench_normals(b, &r->w, &(lh_bench_normal){LH_F32, DIM, 1.0f}));
    LH_TRY(lh_bench_normals(b, &r->logits, &(lh_bench_normal){LH_F32, r->vocab, 3.0f}));
    LH_TRY(lh_bench_zeros(b, &r->values, TOP * 4));
    LH_TRY(lh_bench_zeros(b, &r->indices, TOP * 4));
    LH_TRY(lh_bench_positions(b, &r->positions, 1000, r->tokens));
done:
    return st;
}

static lh_status run_one(lh_bench *b, const rows *r, lh_bench_case w, const char *what)
{
    snprintf(w.shape, sizeof w.shape, "%lld x %d%s", (long long)r->tokens, DIM, what);
    return lh_bench_run(b, &w, NULL);
}

static lh_status run_tokens(lh_bench *b, const rows *r)
{
    lh_status st = LH_OK;
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
    lh_gated_args gelu = silu;
    lh_add_args add = {.y = r->y, .x = r->x, .tokens = r->tokens, .dim = DIM, .y_ld = DIM, .x_ld = DIM};
    gelu.gate_kind = LH_GATE_GELU;
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "rmsnorm", .call = call_rmsnorm, .bytes = 6 * n, .args = &norm},
                   " to bf16"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "rope", .call = call_rope, .bytes = 8 * n, .args = &rope},
                   ", heads of 64"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "gated", .call = call_gated, .bytes = 10 * n, .args = &silu},
                   " silu to bf16"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "gated", .call = call_gated, .bytes = 10 * n, .args = &gelu},
                   " gelu to bf16"));
    LH_TRY(run_one(b, r, (lh_bench_case){.name = "add", .call = call_add, .bytes = 12 * n, .args = &add}, ""));
done:
    return st;
}

static lh_status run_logits(lh_bench *b, const rows *r)
{
    lh_status st = LH_OK;
    lh_softcap_args softcap = {r->logits, r->vocab, 1e6f};
    lh_top_logits_args top = {.values = r->values,
                              .indices = r->indices,
                              .x = r->logits,
                              .rows = 1,
                              .cols = r->vocab,
                              .ld = r->vocab,
                              .k = TOP};
    lh_bench_case cap = {.name = "softcap", .call = call_softcap, .bytes = 8.0 * (double)r->vocab, .args = &softcap};
    lh_bench_case most = {.name = "top_logits", .call = call_top_logits, .bytes = 4.0 * (double)r->vocab, .args = &top};
    snprintf(cap.shape, sizeof cap.shape, "%lld", (long long)r->vocab);
    snprintf(most.shape, sizeof most.shape, "%d of %lld", TOP, (long long)r->vocab);
    LH_TRY(lh_bench_run(b, &cap, NULL));
    LH_TRY(lh_bench_run(b, &most, NULL));
done:
    return st;
}

static lh_status run(lh_bench *b)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    rows r = {0};
    LH_TRY(make(b, &r));
    LH_TRY(run_tokens(b, &r));
    LH_TRY(run_logits(b, &r));
done:
    lh_bench_drop(b, mark);
    return st;
}

const lh_bench_group lh_bench_rows = {names, run};
