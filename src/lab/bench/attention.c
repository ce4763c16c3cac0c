/* attention.c - bench cases of prefill attention over blocks of query rows, and of the statistics that policies observe
 * (row LSE and column statistics). */
#include <stdio.h>

#include "lab/bench/bench.h"

static const char *const names[] = {"attend_block", "column_stats", "row_lse", NULL};

LH_BENCH_CALL(attend_block)
LH_BENCH_CALL(column_stats)
LH_BENCH_CALL(row_lse)

typedef struct attend_case {
    lh_dtype type;
    int64_t kv_heads, group, dim, tokens, len;
    int64_t window; /* 0: none */
    float softcap;  /* 0: none */
} attend_case;

/* Inputs of attention, with memory for all results. */
typedef struct attend_data {
    const attend_case *shape;
    lh_ragged kv;
    float *q, *o, *lse, *stats;
    int32_t *positions;
} attend_data;

static void name_shape(char out[112], const char *what, const attend_case *c, int64_t rows)
{
    int n = snprintf(out, 112, "%s%s %lld/%lld x %lld, %lld rows of %lld", what, lh_dtype_name(c->type),
                     (long long)(c->kv_heads * c->group), (long long)c->kv_heads, (long long)c->dim, (long long)rows,
                     (long long)c->len);
    if (c->window) n += snprintf(out + n, 112 - (size_t)n, ", window of %lld", (long long)c->window);
    if (c->softcap > 0) snprintf(out + n, 112 - (size_t)n, ", soft cap of %g", (double)c->softcap);
}

/* Number of (row, entry) pairs under the causal mask and the window; the rows are the last entries. */
static double pairs_of(const attend_case *c, int64_t rows)
{
    double pairs = 0;
    for (int64_t r = c->len - rows; r < c->len; r++)
        pairs += (double)(c->window && c->window < r + 1 ? c->window : r + 1);
    return pairs;
}

static lh_logit logit_of(const attend_case *c)
{
    return (lh_logit){.scale = 0.1f, .softcap = c->softcap, .window = c->window};
}

/* The last `rows` rows observe the cache: the chunk of a prompt (policies that observe all rows), an observation
 * window, or the row of a decode step. *all_s: median time of all statistics. */
static lh_status run_observed(lh_bench *b, const attend_data *data, int64_t rows, double *all_s)
{
    const attend_case *c = data->shape;
    const int64_t heads = c->kv_heads * c->group, ld = heads * c->dim, skip = c->tokens - rows;
    const lh_slot_floats each = {.at = data->stats, .starts = data->kv.offset, .step = 3, .next = 1};
    lh_column_stats_args sums = {.sums = each,
                                 .rows = {.q = data->q + skip * ld,
                                          .positions = data->positions + skip,
                                          .kv = &data->kv,
                                          .map = {heads, c->group, 0},

                                          .logit = logit_of(c),
                                          .rows = rows,
                                          .q_ld = ld},
                                 .lse = data->lse + skip * heads,
                                 .lse_ld = heads,
                                 .parts = 1,
                                 .cols = c->len};
    lh_column_stats_args all = sums;
    lh_row_lse_args lse = {.lse = data->lse + skip * heads, .rows = sums.rows};
    all.squares = all.counts = each;
    all.squares.at++;
    all.counts.at += 2;
    lh_bench_case w[] = {{.name = "row_lse", .call = call_row_lse, .args = &lse},
                         {.name = "column_stats", .call = call_column_stats, .args = &sums},
                         {.name = "column_stats", .call = call_column_stats, .args = &all}};
    const char *const what[] = {"", "sums, ", "all, "};
    for (int i = 0; i < 3; i++) {
        name_shape(w[i].shape, what[i], c, rows);
        w[i].type = c->type;
        w[i].flops = 2.0 * pairs_of(c, rows) * (double)ld;
        w[i].bytes = rows == 1 ? (double)(c->kv_heads * c->len * c->dim * lh_dtype_bytes(c->type)) : 0;
        LH_TRY(lh_bench_run(b, &w[i], all_s));
    }
    return LH_OK;
}

/* Adds the time of observing all rows relative to attention. */
static lh_status compare_observed(lh_bench *b, const attend_case *c, double all_s, double attend_s)
{
    char shape[112];
    if (all_s <= 0 || attend_s <= 0) return LH_OK;
    name_shape(shape, "", c, c->tokens);
    return lh_bench_figure(b->result, "time of column_stats, relative to attend_block", shape,
                           (const double[]){all_s / attend_s, 0});
}

static lh_status run_case(lh_bench *b, const attend_case *c)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b), heads = c->kv_heads * c->group, ld = heads * c->dim;
    double attend_s = 0, all_s = 0, window_s;
    attend_data data = {.shape = c};
    const lh_bench_cache cache = {c->type, c->kv_heads, c->len, c->dim, 0};
    LH_TRY_DONE(lh_bench_fill(b, &data.kv, &cache, NULL));
    LH_TRY_DONE(lh_bench_normals(b, &data.q, &(lh_bench_normal){LH_F32, c->tokens * ld, 1.0f}));
    LH_TRY_DONE(lh_bench_zeros(b, &data.o, c->tokens * ld * 4));
    LH_TRY_DONE(lh_bench_zeros(b, &data.lse, c->tokens * heads * 4));
    LH_TRY_DONE(lh_bench_zeros(b, &data.stats, c->kv_heads * c->len * 3 * 4));
    LH_TRY_DONE(lh_bench_positions(b, &data.positions, c->len - c->tokens, c->tokens));
    lh_bench_case block = {.name = "attend_block",
                           .type = c->type,
                           .call = call_attend_block,
                           .flops = 4.0 * pairs_of(c, c->tokens) * (double)ld,
                           .args = &(lh_attend_block_args){.o = data.o,
                                                           .lse = data.lse,
                                                           .q = data.q,
                                                           .positions = data.positions,
                                                           .kv = &data.kv,
                                                           .map = {heads, c->group, 0},
                                                           .logit = logit_of(c),
                                                           .tokens = c->tokens,
                                                           .q_ld = ld,
                                                           .o_ld = ld,
                                                           .most = c->len,
                                                           .order = LH_ORDER_ANY}};
    /* The few rows of a question are bound by the bytes of the cache. */
    if (c->tokens <= 16) block.bytes = (double)(c->kv_heads * c->len * lh_entry_bytes(c->type, c->dim));
    name_shape(block.shape, "", c, c->tokens);
    LH_TRY_DONE(lh_bench_run(b, &block, &attend_s));
    if (c->type == LH_Q8) goto done; /* statistics read entries that were converted before */
    LH_TRY_DONE(run_observed(b, &data, c->tokens, &all_s));
    LH_TRY_DONE(compare_observed(b, c, all_s, attend_s));
    if (c->tokens > 32) LH_TRY_DONE(run_observed(b, &data, 32, &window_s));
done:
    lh_bench_drop(b, mark);
    return st;
}

static lh_status run_sized(lh_bench *b, attend_case c, lh_dtype type)
{
    c.type = type;
    c.tokens = lh_bench_size(b, c.tokens, 40);
    c.len = lh_bench_size(b, c.len, 64);
    c.window = lh_bench_size(b, c.window, 24);
    return run_case(b, &c);
}

static lh_status run_attention(lh_bench *b)
{
    static const attend_case cases[] = {{LH_F32, 3, 3, 64, 512, 512, 0, 0},   {LH_F32, 3, 3, 64, 2048, 2048, 0, 0},
                                        {LH_F32, 3, 3, 64, 512, 8192, 0, 0},  {LH_F32, 8, 4, 128, 2048, 2048, 0, 0},
                                        {LH_F32, 8, 4, 128, 512, 8192, 0, 0}, {LH_F32, 3, 3, 64, 20, 4096, 0, 0},
                                        {LH_F32, 3, 3, 64, 1, 8192, 0, 0},    {LH_F32, 8, 4, 128, 1, 32768, 0, 0},
                                        {LH_F32, 8, 4, 128, 4, 32768, 0, 0}};
    /* Whole prompts, chunks of long prompts, a window, a soft cap, other head sizes, and short questions. */
    static const attend_case of_gpus[] = {
        {LH_BF16, 8, 4, 128, 8192, 8192, 0, 0},   {LH_BF16, 8, 4, 128, 16384, 16384, 0, 0},
        {LH_BF16, 8, 4, 128, 4096, 8192, 0, 0},   {LH_BF16, 8, 4, 128, 4096, 16384, 0, 0},
        {LH_BF16, 8, 4, 128, 4096, 32768, 0, 0},  {LH_BF16, 8, 4, 128, 4096, 32768, 4096, 0},
        {LH_BF16, 8, 4, 128, 4096, 16384, 0, 50}, {LH_BF16, 8, 4, 64, 4096, 16384, 0, 0},
        {LH_BF16, 8, 2, 256, 4096, 16384, 0, 0},  {LH_BF16, 8, 4, 128, 512, 131072, 0, 0},
        {LH_BF16, 8, 4, 128, 16, 131072, 0, 0},   {LH_BF16, 8, 4, 128, 4, 131072, 0, 0}};
    /* Questions and blocks of new tokens: prompts read their entries before these become q8. */
    static const attend_case of_q8[] = {{LH_Q8, 8, 4, 128, 4, 32768, 0, 0}, {LH_Q8, 8, 4, 128, 128, 8192, 0, 0}};
    const int on_gpu = lh_device_kind_of(b->device) == LH_DEVICE_CUDA;
    for (lh_dtype type = LH_F32; type <= LH_BF16; type += LH_BF16 - LH_F32)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) LH_TRY(run_sized(b, cases[i], type));
    for (size_t i = 0; i < sizeof of_q8 / sizeof *of_q8; i++) LH_TRY(run_sized(b, of_q8[i], LH_Q8));
    for (size_t i = 0; on_gpu && i < sizeof of_gpus / sizeof *of_gpus; i++) LH_TRY(run_sized(b, of_gpus[i], LH_BF16));
    return LH_OK;
}

const lh_bench_group lh_bench_attention = {names, run_attention};
