/* bench_ops - how fast the operations of the `cpu` backend are here, beside the multiply-add rate and the read
 * bandwidth of this machine, measured in the same run. For developers; not a test.
 *
 *     bench_ops [WORD…]     only the cases whose names contain one of the words
 *
 * OMP_NUM_THREADS and LONGHAUL_CPU_ISA are respected. Data are random; weights and caches that are read once are larger
 * than the caches of the processor. Rates are those of the fastest call; the median
 * time stands beside it, and is much larger where others use the machine. */
#include <stdio.h>

#include "bench.h"

/* ---- gemm ---- */

typedef struct gemm_case {
    lh_gemm_args args;
    int64_t copies, turn; /* of the weights, which are used in turn */
} gemm_case;

static lh_status call_gemm(bench *b, void *args)
{
    gemm_case *c = args;
    lh_gemm_args a = c->args;
    a.w = (const char *)a.w + c->turn++ % c->copies * a.out * a.in * lh_dtype_bytes(a.type);
    return lh_ops_cpu.gemm(b->stream, &a);
}

static void bench_gemm(bench *b, const int64_t shape[3], lh_dtype type, lh_order order)
{
    int64_t tokens = shape[0], in = shape[1], out = shape[2], bytes = out * in * lh_dtype_bytes(type);
    gemm_case c = {.copies = tokens <= 64 ? 1 + (128 << 20) / bytes : 1};
    bench_work w = {.call = call_gemm, .args = &c};
    snprintf(w.name, sizeof w.name, "gemm %s%s %d x %d -> %d", lh_dtype_name(type),
             order == LH_ORDER_FIXED ? " fixed" : "", (int)tokens, (int)in, (int)out);
    if (!bench_wanted(b, w.name)) return;
    w.flops = tokens > 1 ? 2.0 * (double)tokens * (double)in * (double)out : 0;
    w.bytes = tokens <= 64 ? (double)bytes : 0;
    c.args = (lh_gemm_args){.y = bench_zeros(b, tokens * out * 4),
                            .x = bench_normals(b, type, tokens * in, 1.0f),
                            .w = bench_normals(b, type, out * in * c.copies, 1.0f),
                            .type = type,
                            .tokens = tokens,
                            .out = out,
                            .in = in,
                            .y_ld = out,
                            .x_ld = in,
                            .w_ld = in,
                            .order = order};
    bench_run(b, &w);
    bench_drop(b, c.args.y);
    bench_drop(b, (void *)c.args.x);
    bench_drop(b, (void *)c.args.w);
}

/* ---- attention ---- */

typedef struct attend_case {
    lh_dtype type;
    int64_t kv_heads, group, dim, tokens, len;
} attend_case;

static lh_status call_block(bench *b, void *args)
{
    return lh_ops_cpu.attend_block(b->stream, args);
}

static lh_status call_decode(bench *b, void *args)
{
    return lh_ops_cpu.attend_decode(b->stream, args);
}

static lh_status call_columns(bench *b, void *args)
{
    return lh_ops_cpu.column_stats(b->stream, args);
}

static lh_status call_row_lse(bench *b, void *args)
{
    return lh_ops_cpu.row_lse(b->stream, args);
}

static void name_attend(char *out, const char *what, const attend_case *c)
{
    snprintf(out, 96, "%s %s %d/%d x %d, %d rows of %d", what, lh_dtype_name(c->type), (int)(c->kv_heads * c->group),
             (int)c->kv_heads, (int)c->dim, (int)c->tokens, (int)c->len);
}

/* What is attended to, with room for all results. */
typedef struct attend_data {
    const attend_case *shape;
    lh_ragged kv;
    float *q, *o, *lse, *stats;
    int32_t *positions;
} attend_data;

/* The last `rows` rows observe the cache: as the chunks of a prompt do under policies that look at all rows, as windows
 * do, and as the row of a decode step does. */
static void bench_observed(bench *b, const attend_data *data, int64_t rows)
{
    const attend_case *c = data->shape;
    int64_t heads = c->kv_heads * c->group, ld = heads * c->dim, skip = c->tokens - rows;
    double pairs = (double)rows * (double)c->len - (double)(rows * (rows - 1)) / 2;
    lh_slot_floats each = {.at = data->stats, .starts = data->kv.offset, .step = 3, .next = 1};
    lh_column_stats_args sums = {.sums = each,
                                 .rows = {.q = data->q + skip * ld,
                                          .positions = data->positions + skip,
                                          .kv = &data->kv,
                                          .map = {heads, c->group, 0},
                                          .logit = {.scale = 0.1f},
                                          .rows = rows,
                                          .q_ld = ld},
                                 .lse = data->lse + skip * heads,
                                 .lse_ld = heads,
                                 .parts = 1,
                                 .cols = c->len};
    lh_column_stats_args all = sums;
    all.squares = all.counts = each;
    all.squares.at++;
    all.counts.at += 2;
    lh_row_lse_args lse = {.lse = data->lse, .rows = sums.rows};
    bench_work w[] = {{.call = call_columns, .args = &sums},
                      {.call = call_columns, .args = &all},
                      {.call = call_row_lse, .args = &lse}};
    const char *names[] = {"column_stats sums", "column_stats all", "row_lse"};
    attend_case shape = *c;
    shape.tokens = rows;
    for (int i = 0; i < 3; i++) {
        name_attend(w[i].name, names[i], &shape);
        w[i].flops = rows > 1 ? 2.0 * pairs * (double)ld : 0;
        w[i].bytes = rows == 1 ? (double)(c->kv_heads * c->len * c->dim * lh_dtype_bytes(c->type)) : 0;
        bench_run(b, &w[i]);
    }
}

static void bench_attention(bench *b, const attend_case *c)
{
    int64_t heads = c->kv_heads * c->group, ld = heads * c->dim, entries = c->kv_heads * c->len;
    double rows = (double)c->tokens, pairs = rows * (double)c->len - rows * (rows - 1) / 2;
    bench_work block = {.call = call_block, .flops = 4.0 * pairs * (double)ld};
    bench_work decode = {.call = call_decode, .bytes = 2.0 * (double)(entries * c->dim * lh_dtype_bytes(c->type))};
    name_attend(block.name, "attend_block", c);
    name_attend(decode.name, "attend_decode", c);
    attend_data data = {.shape = c,
                        .kv = bench_cache(b, c->type, (const int64_t[]){c->kv_heads, c->len, c->dim}),
                        .q = bench_normals(b, LH_F32, c->tokens * ld, 1.0f),
                        .o = bench_zeros(b, c->tokens * ld * 4),
                        .lse = bench_zeros(b, c->tokens * heads * 4),
                        .stats = bench_zeros(b, entries * 3 * 4),
                        .positions = bench_zeros(b, c->tokens * 4)};
    for (int64_t t = 0; t < c->tokens; t++) data.positions[t] = (int32_t)(c->len - c->tokens + t);
    lh_attend_block_args block_args = {.o = data.o,
                                       .lse = data.lse,
                                       .q = data.q,
                                       .positions = data.positions,
                                       .kv = &data.kv,
                                       .map = {heads, c->group, 0},
                                       .logit = {.scale = 0.1f},
                                       .tokens = c->tokens,
                                       .q_ld = ld,
                                       .o_ld = ld};
    lh_attend_decode_args decode_args = {.o = data.o,
                                         .lse = data.lse,
                                         .q = data.q,
                                         .positions = data.positions + c->tokens - 1,
                                         .seqs = &data.kv,
                                         .batch = 1,
                                         .q_ld = ld,
                                         .o_ld = ld,
                                         .map = block_args.map,
                                         .logit = block_args.logit};
    block.args = &block_args;
    decode.args = &decode_args;
    bench_run(b, &block);
    if (c->tokens == 1) bench_run(b, &decode);
    bench_observed(b, &data, c->tokens);
    if (c->tokens > 32) bench_observed(b, &data, 32);
    bench_drop(b, data.q);
    bench_drop(b, data.o);
    bench_drop(b, data.lse);
    bench_drop(b, data.stats);
    bench_drop(b, data.positions);
    bench_cache_drop(b, &data.kv);
}

/* ---- rows and scores ---- */

#define CALL(op)                                     \
    static lh_status call_##op(bench *b, void *args) \
    {                                                \
        return lh_ops_cpu.op(b->stream, args);       \
    }
CALL(rmsnorm)
CALL(rope)
CALL(gated)
CALL(add)
CALL(softcap)
CALL(top_logits)
CALL(pool)
CALL(histogram)
CALL(select_top)
CALL(compact)

static void run(bench *b, bench_work w, const char *name)
{
    snprintf(w.name, sizeof w.name, "%s", name);
    bench_run(b, &w);
}

static void bench_rows(bench *b)
{
    enum { T = 512, DIM = 2048, N = T * DIM, HEADS = 32, VOCAB = 1 << 17 };
    float *x = bench_normals(b, LH_F32, N, 1.0f), *y = bench_normals(b, LH_F32, N, 1.0f),
          *w = bench_normals(b, LH_F32, DIM, 1.0f);
    float *logits = bench_normals(b, LH_F32, VOCAB, 3.0f), values[64];
    int32_t *positions = bench_zeros(b, T * 4), indices[64];
    for (int t = 0; t < T; t++) positions[t] = 1000 + t;
    run(b,
        (bench_work){.call = call_rmsnorm,
                     .bytes = 6.0 * N,
                     .args = &(lh_rmsnorm_args){.y = y,
                                                .y_type = LH_BF16,
                                                .x = x,
                                                .w = w,
                                                .tokens = T,
                                                .heads = 1,
                                                .dim = DIM,
                                                .x_ld = DIM,
                                                .y_ld = DIM}},
        "rmsnorm 512 x 2048 to bf16");
    run(b,
        (bench_work){.call = call_rope,
                     .bytes = 8.0 * N,
                     .args = &(lh_rope_args){.x = x,
                                             .positions = positions,
                                             .inv_freq = w,
                                             .tokens = T,
                                             .heads = HEADS,
                                             .dim = 64,
                                             .rotary = 64,
                                             .ld = DIM,
                                             .scale = 1}},
        "rope 512 x 32 x 64");
    run(b,
        (bench_work){
            .call = call_gated,
            .bytes = 10.0 * N,
            .args =
                &(lh_gated_args){
                    .y = y, .y_type = LH_BF16, .gate = x, .up = x, .tokens = T, .dim = DIM, .y_ld = DIM, .ld = DIM}},
        "gated silu 512 x 2048 to bf16");
    run(b,
        (bench_work){.call = call_gated,
                     .bytes = 10.0 * N,
                     .args = &(lh_gated_args){.y = y,
                                              .y_type = LH_BF16,
                                              .gate = x,
                                              .up = x,
                                              .tokens = T,
                                              .dim = DIM,
                                              .y_ld = DIM,
                                              .ld = DIM,
                                              .gate_kind = LH_GATE_GELU}},
        "gated gelu 512 x 2048 to bf16");
    run(b,
        (bench_work){.call = call_add,
                     .bytes = 12.0 * N,
                     .args = &(lh_add_args){.y = y, .x = x, .tokens = T, .dim = DIM, .y_ld = DIM, .x_ld = DIM}},
        "add 512 x 2048");
    run(b, (bench_work){.call = call_softcap, .bytes = 8.0 * VOCAB, .args = &(lh_softcap_args){logits, VOCAB, 1e6f}},
        "softcap 131072");
    run(b,
        (bench_work){
            .call = call_top_logits,
            .bytes = 4.0 * VOCAB,
            .args =
                &(lh_top_logits_args){
                    .values = values, .indices = indices, .x = logits, .rows = 1, .cols = VOCAB, .ld = VOCAB, .k = 50}},
        "top_logits 50 of 131072");
    bench_drop(b, x);
    bench_drop(b, y);
    bench_drop(b, w);
    bench_drop(b, logits);
    bench_drop(b, positions);
}

static void bench_scores(bench *b)
{
    enum { HEADS = 8, LEN = 1 << 16, N = HEADS * LEN, DIM = 64 };
    float *x = bench_normals(b, LH_F32, N, 1.0f), *y = bench_zeros(b, (int64_t)N * 4);
    uint8_t *state = bench_zeros(b, N), *compete = bench_zeros(b, N);
    int64_t counts[HEADS], bins[2048];
    lh_ragged kv = bench_cache(b, LH_BF16, (const int64_t[]){HEADS, LEN, DIM});
    memset(compete, LH_ENTRY_COMPETES, N);
    for (int h = 0; h < HEADS; h++) counts[h] = LEN / 2;
    run(b,
        (bench_work){.call = call_pool,
                     .bytes = 9.0 * N,
                     .args = &(lh_pool_args){.y = y,
                                             .x = x,
                                             .state = compete,
                                             .len = kv.len,
                                             .rows = HEADS,
                                             .rows_per_head = 1,
                                             .ld = LEN,
                                             .k = 31,
                                             .kind = LH_POOL_MAX}},
        "pool max 31, 8 x 65536");
    run(b,
        (bench_work){.call = call_pool,
                     .bytes = 9.0 * N,
                     .args = &(lh_pool_args){.y = y,
                                             .x = x,
                                             .state = compete,
                                             .len = kv.len,
                                             .rows = HEADS,
                                             .rows_per_head = 1,
                                             .ld = LEN,
                                             .k = 5,
                                             .kind = LH_POOL_AVG}},
        "pool avg 5, 8 x 65536");
    run(b,
        (bench_work){
            .call = call_histogram,
            .bytes = 5.0 * N,
            .args =
                &(lh_histogram_args){
                    .bins = bins, .scores = x, .state = compete, .len = kv.len, .heads = HEADS, .ld = LEN, .bits = 11}},
        "histogram 8 x 65536");
    run(b,
        (bench_work){.call = call_select_top,
                     .bytes = 5.0 * N,
                     .args =
                         &(lh_select_top_args){.state = compete, .scores = x, .kv = &kv, .counts = counts, .ld = LEN}},
        "select_top of 8 x 65536, mostly once");
    for (int64_t i = 0; i < N; i++) state[i] = i % 3 == 0 ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
    lh_ragged kept = bench_cache(b, LH_BF16, (const int64_t[]){HEADS, LEN, DIM});
    run(b,
        (bench_work){.call = call_compact,
                     .bytes = 4.0 * DIM * N / 3,
                     .args = &(lh_compact_args){.dst = &kept, .src = &kv, .state = state, .ld = LEN}},
        "compact a third of 8 x 65536 x 64 bf16");
    bench_cache_drop(b, &kept);
    bench_cache_drop(b, &kv);
    bench_drop(b, x);
    bench_drop(b, y);
    bench_drop(b, state);
    bench_drop(b, compete);
}

int main(int argc, char **argv)
{
    static const int64_t many[][3] = {{512, 576, 192},   {512, 576, 576},   {512, 576, 1536},   {512, 1536, 576},
                                      {512, 2048, 2048}, {512, 2048, 8192}, {2048, 2048, 2048}, {128, 2048, 2048}};
    static const int64_t few[][3] = {{1, 576, 1536},   {1, 4096, 14336}, {1, 576, 49152},   {2, 4096, 14336},
                                     {4, 4096, 14336}, {8, 4096, 14336}, {16, 4096, 14336}, {32, 4096, 14336}};
    static const attend_case attend[] = {{LH_F32, 3, 3, 64, 512, 512},   {LH_F32, 3, 3, 64, 2048, 2048},
                                         {LH_F32, 3, 3, 64, 512, 8192},  {LH_F32, 8, 4, 128, 2048, 2048},
                                         {LH_F32, 8, 4, 128, 512, 8192}, {LH_F32, 3, 3, 64, 20, 4096},
                                         {LH_F32, 3, 3, 64, 1, 8192},    {LH_F32, 8, 4, 128, 1, 32768}};
    bench b;
    bench_open(&b, argc, argv);
    for (lh_dtype type = LH_F32; type <= LH_BF16; type += LH_BF16 - LH_F32) {
        for (size_t i = 0; i < sizeof many / sizeof *many; i++) bench_gemm(&b, many[i], type, LH_ORDER_ANY);
        for (size_t i = 0; i < sizeof many / sizeof *many; i++) bench_gemm(&b, many[i], type, LH_ORDER_FIXED);
        for (size_t i = 0; i < sizeof few / sizeof *few; i++) bench_gemm(&b, few[i], type, LH_ORDER_ANY);
        for (size_t i = 0; i < sizeof few / sizeof *few; i++) bench_gemm(&b, few[i], type, LH_ORDER_FIXED);
        for (size_t i = 0; i < sizeof attend / sizeof *attend; i++) {
            attend_case c = attend[i];
            c.type = type;
            bench_attention(&b, &c);
        }
    }
    bench_rows(&b);
    bench_scores(&b);
    bench_close(&b);
    return 0;
}
