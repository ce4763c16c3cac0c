/* bench_scores - how fast the operations are that make scores of entries (bench.h). For developers; not a test.
 *
 *     bench_scores [WORD…]     only the cases whose names contain one of the words */
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define CALL(op)                                     \
    static lh_status call_##op(bench *b, void *args) \
    {                                                \
        return lh_ops_cpu.op(b->stream, args);       \
    }
CALL(gemm)
CALL(projected_norms)
CALL(value_bounds)
CALL(row_moments)
CALL(finish_scores)
CALL(entry_norms)
CALL(key_difference)
CALL(weigh_scores)
CALL(apply_prior)
CALL(random_scores)
CALL(gumbel_scores)
CALL(max_score)
CALL(add_heads)
CALL(share_scores)
CALL(compact)

/* Entries of a KV head, its query heads, head dimension and hidden dimension. */
typedef struct projection {
    int64_t entries, group, dim, out;
} projection;

/* The product of which projected_norms adds the sizes up, by gemm, has as many operations: as deep as all query heads
 * together, which is the better case for gemm. */
static double bench_product(bench *b, lh_dtype type, const projection *p, const void *w)
{
    int64_t in = p->group * p->dim;
    void *x = bench_normals(b, type, p->entries * in, 1.0f);
    float *y = bench_zeros(b, p->entries * p->out * 4);
    bench_work gemm = {.flops = 2.0 * (double)p->entries * (double)in * (double)p->out,
                       .call = call_gemm,
                       .args = &(lh_gemm_args){.y = y,
                                               .x = x,
                                               .w = w,
                                               .type = type,
                                               .tokens = p->entries,
                                               .out = p->out,
                                               .in = in,
                                               .y_ld = p->out,
                                               .x_ld = in,
                                               .w_ld = in}};
    snprintf(gemm.name, sizeof gemm.name, "gemm beside projected_norms %s", lh_dtype_name(type));
    double t = bench_run(b, &gemm);
    bench_drop(b, x);
    bench_drop(b, y);
    return t;
}

/* What they are at most: matrices of the weights, and their forms of the values. */
static void bench_bounds(bench *b, lh_dtype type, const projection *p, const lh_ragged *kv, const void *w)
{
    double flops = 2.0 * (double)p->dim * (double)p->dim;
    double *products = bench_zeros(b, p->group * p->dim * p->dim * 8);
    float *forms = bench_normals(b, LH_F32, p->dim * p->dim, 0.1f), *y = bench_zeros(b, p->entries * 4);
    bench_work matrices = {.flops = flops * (double)(p->out * p->group),
                           .call = call_row_moments,
                           .args = &(lh_row_moments_args){.products = products,
                                                          .x = w,
                                                          .type = type,
                                                          .rows = p->out,
                                                          .heads = p->group,
                                                          .dim = p->dim,
                                                          .x_ld = p->group * p->dim}};
    bench_work bounds = {
        .flops = flops * (double)p->entries,
        .call = call_value_bounds,
        .args = &(lh_value_bounds_args){.y = {.at = y, .step = 1}, .kv = kv, .matrices = forms, .factor = 1.0f}};
    snprintf(matrices.name, sizeof matrices.name, "row_moments %s %d x %d of %d", lh_dtype_name(type), (int)p->out,
             (int)p->group, (int)p->dim);
    snprintf(bounds.name, sizeof bounds.name, "value_bounds %s %d of %d", lh_dtype_name(type), (int)p->entries,
             (int)p->dim);
    bench_run(b, &matrices);
    bench_run(b, &bounds);
    bench_drop(b, products);
    bench_drop(b, forms);
    bench_drop(b, y);
}

static void bench_projection(bench *b, lh_dtype type, const projection *p)
{
    int64_t in = p->group * p->dim;
    lh_ragged kv = bench_cache(b, type, (const int64_t[]){1, p->entries, p->dim});
    void *w = bench_normals(b, type, p->out * in, 0.05f);
    float *norms = bench_zeros(b, p->group * p->entries * 4);
    uint8_t *wanted = bench_zeros(b, p->entries);
    memset(wanted, 1, (size_t)p->entries);
    bench_work mine = {.flops = 2.0 * (double)p->entries * (double)in * (double)p->out,
                       .call = call_projected_norms,
                       .args = &(lh_projected_norms_args){.y = norms,
                                                          .kv = &kv,
                                                          .map = {p->group, p->group, 0},
                                                          .wanted = wanted,
                                                          .w = w,
                                                          .type = type,
                                                          .out = p->out,
                                                          .w_ld = in,
                                                          .y_ld = p->entries,
                                                          .ld = p->entries}};
    snprintf(mine.name, sizeof mine.name, "projected_norms %s %d, %d x %d -> %d", lh_dtype_name(type), (int)p->entries,
             (int)p->group, (int)p->dim, (int)p->out);
    double t = bench_run(b, &mine), by_gemm = bench_product(b, type, p, w);
    if (t > 0 && by_gemm > 0) printf("%46s %9.2f of the rate of gemm\n", "", by_gemm / t);
    bench_bounds(b, type, p, &kv, w);
    bench_drop(b, w);
    bench_drop(b, norms);
    bench_drop(b, wanted);
    bench_cache_drop(b, &kv);
}

enum { HEADS = 8, LEN = 1 << 16, N = HEADS * LEN, DIM = 64, STATS = 3 };

/* Arrays over the entries of a cache: scores and others, what goes with the entries, states. */
typedef struct layer {
    lh_ragged kv;
    float *x, *y;
    uint8_t *state;
    int64_t *sums;
} layer;

static void run(bench *b, const char *name, bench_work w)
{
    snprintf(w.name, sizeof w.name, "%s, 8 x 65536", name);
    bench_run(b, &w);
}

#define RUN(op, name, per_entry, ...) \
    run(b, name, (bench_work){.call = call_##op, .bytes = (per_entry)*N, .args = &(lh_##op##_args){__VA_ARGS__}})

static void bench_statistics(bench *b, const layer *l)
{
    const lh_ragged *kv = &l->kv;
    lh_slot_floats x = {.at = kv->stats, .starts = kv->offset, .step = STATS, .next = 1}, squares = x;
    squares.at += 1;
    RUN(finish_scores, "finish_scores plain", 16.0, .y = l->y, .x = x, .kv = kv, .ld = LEN, .parts = 1, .seen = LEN,
        .factor = 1.0f);
    RUN(finish_scores, "finish_scores by visits", 20.0, .y = l->y, .x = x, .kv = kv, .ld = LEN, .parts = 1, .seen = LEN,
        .factor = 1.0f, .kind = LH_FINISH_PER_VISIT);
    RUN(finish_scores, "finish_scores deviation", 20.0, .y = l->y, .x = x, .squares = squares, .kv = kv, .ld = LEN,
        .parts = 1, .seen = LEN, .kind = LH_FINISH_DEVIATION);
    RUN(weigh_scores, "weigh_scores", 20.0, .y = l->y, .x = l->x, .norms = x, .len = kv->len, .heads = HEADS,
        .ld = LEN);
    RUN(entry_norms, "entry_norms of 64 bf16", 2.0 * DIM, .y = x, .kv = kv, .part = LH_PART_VALUE);
    RUN(key_difference, "key_difference of 64 bf16", 4.0 * DIM, .y = l->y, .kv = kv, .ld = LEN);
}

static void bench_shapes(bench *b, const layer *l)
{
    const lh_ragged *kv = &l->kv;
    lh_draw draw = {.key = {1, 2}};
    RUN(apply_prior, "apply_prior", 18.0, .y = l->y, .prior = l->x, .state = l->state, .len = kv->len, .heads = HEADS,
        .ld = LEN);
    RUN(random_scores, "random_scores", 8.0, .y = l->y, .kv = kv, .ld = LEN, .draw = draw);
    RUN(gumbel_scores, "gumbel_scores", 12.0, .y = l->y, .x = l->x, .kv = kv, .ld = LEN, .temperature = 1.0f,
        .draw = draw);
    RUN(max_score, "max_score", 5.0, .y = l->y, .scores = l->x, .state = l->state, .len = kv->len, .heads = HEADS,
        .ld = LEN);
    RUN(add_heads, "add_heads", 5.0, .sums = l->sums, .scores = l->x, .len = kv->len, .heads = HEADS, .cols = LEN,
        .ld = LEN, .scale = 1e9);
    RUN(share_scores, "share_scores", 5.0, .y = l->y, .sums = l->sums, .heads = HEADS, .cols = LEN, .ld = LEN,
        .factor = 1e-9);
}

/* A third of the entries, with and without statistics. */
static void bench_compaction(bench *b, const layer *l)
{
    lh_ragged kept = bench_cache(b, LH_BF16, (const int64_t[]){HEADS, LEN, DIM});
    for (int64_t i = 0; i < N; i++) l->state[i] = i % 3 == 0 ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
    RUN(compact, "compact a third of 64 bf16", 4.0 * DIM / 3, .dst = &kept, .src = &l->kv, .state = l->state,
        .ld = LEN);
    kept.stats = bench_zeros(b, (int64_t)N * STATS * 4);
    kept.stat_count = STATS;
    RUN(compact, "compact a third of 64 bf16 with 3 numbers", 4.0 * DIM / 3, .dst = &kept, .src = &l->kv,
        .state = l->state, .ld = LEN);
    bench_drop(b, kept.stats);
    bench_cache_drop(b, &kept);
}

int main(int argc, char **argv)
{
    static const projection projections[] = {
        {8192, 3, 64, 576}, {8192, 4, 128, 4096}, {512, 4, 128, 4096}, {32, 3, 64, 576}, {32, 4, 128, 4096}};
    bench b;
    bench_open(&b, argc, argv);
    for (lh_dtype type = LH_F32; type <= LH_BF16; type += LH_BF16 - LH_F32) {
        for (size_t i = 0; i < sizeof projections / sizeof *projections; i++)
            bench_projection(&b, type, &projections[i]);
    }
    layer l = {.kv = bench_cache(&b, LH_BF16, (const int64_t[]){HEADS, LEN, DIM}),
               .x = bench_normals(&b, LH_F32, N, 1.0f),
               .y = bench_zeros(&b, (int64_t)N * 4),
               .state = bench_zeros(&b, N),
               .sums = bench_zeros(&b, LEN * 8)};
    l.kv.stats = bench_normals(&b, LH_F32, (int64_t)N * STATS, 1.0f);
    l.kv.stat_count = STATS;
    memset(l.state, LH_ENTRY_COMPETES, N);
    bench_statistics(&b, &l);
    bench_shapes(&b, &l);
    bench_compaction(&b, &l);
    bench_drop(&b, l.kv.stats);
    bench_cache_drop(&b, &l.kv);
    bench_drop(&b, l.x);
    bench_drop(&b, l.y);
    bench_drop(&b, l.state);
    bench_drop(&b, l.sums);
    bench_close(&b);
    return 0;
}
