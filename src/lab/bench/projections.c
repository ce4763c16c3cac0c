/* projections.c - bench cases of norms of values after the output projection, compared with the gemm of as many FLOPs,
 * and of second moments of rows. */
#include <stdio.h>

#include "lab/bench/bench.h"

static const char *const names[] = {"projected_norms", "row_moments", NULL};

LH_BENCH_CALL(gemm)
LH_BENCH_CALL(projected_norms)
LH_BENCH_CALL(row_moments)

/* Entries of a KV head, its query heads, head dimension and hidden size. */
typedef struct projection {
    int64_t entries, group, dim, out;
    lh_dtype type;
    lh_ragged kv;
    void *w;
} projection;

/* Times a gemm with as many FLOPs as projected_norms: its depth is the sum over all query heads, the better case for
 * gemm. */
static lh_status measure_product(lh_bench *b, const projection *p, double *median_s)
{
    const int64_t in = p->group * p->dim;
    lh_bench_time time;
    lh_gemm_args a = {.w = lh_plain_matrix(p->w, p->type, in),
                      .type = p->type,
                      .tokens = p->entries,
                      .out = p->out,
                      .in = in,
                      .y_ld = p->out,
                      .x_ld = in};
    LH_TRY(lh_bench_normals(b, &a.x, &(lh_bench_normal){p->type, p->entries * in, 1.0f}));
    LH_TRY(lh_bench_zeros(b, &a.y, p->entries * p->out * 4));
    LH_TRY(lh_bench_measure(b, &(lh_bench_case){.name = "gemm", .call = call_gemm, .args = &a}, &time));
    *median_s = time.median_s;
    return LH_OK;
}

static lh_status run_norms(lh_bench *b, const projection *p)
{
    double mine, product;
    lh_projected_norms_args a = {.kv = &p->kv,
                                 .map = {p->group, p->group, 0},
                                 .last = p->entries,
                                 .ld = p->entries,
                                 .w = p->w,
                                 .type = p->type,
                                 .out = p->out,
                                 .w_ld = p->group * p->dim};
    lh_bench_case w = {.name = "projected_norms", .type = p->type, .call = call_projected_norms, .args = &a};
    if (!lh_bench_wanted(b, w.name)) return LH_OK;
    LH_TRY(lh_bench_zeros(b, &a.y, p->group * p->entries * 4));
    w.flops = 2.0 * (double)p->entries * (double)(p->group * p->dim) * (double)p->out;
    snprintf(w.shape, sizeof w.shape, "%s %lld, %lld x %lld -> %lld", lh_dtype_name(p->type), (long long)p->entries,
             (long long)p->group, (long long)p->dim, (long long)p->out);
    LH_TRY(lh_bench_run(b, &w, &mine));
    if (mine <= 0) return LH_OK;
    LH_TRY(measure_product(b, p, &product));
    LH_TRY(lh_bench_figure(b->result, "rate of projected_norms, relative to gemm", w.shape,
                           (const double[]){product / mine, 0}));
    return LH_OK;
}

static lh_status run_moments(lh_bench *b, const projection *p)
{
    lh_row_moments_args a = {
        .x = p->w, .type = p->type, .rows = p->out, .heads = p->group, .dim = p->dim, .x_ld = p->group * p->dim};
    lh_bench_case w = {.name = "row_moments", .type = p->type, .call = call_row_moments, .args = &a};
    LH_TRY(lh_bench_zeros(b, &a.products, p->group * p->dim * p->dim * 8));
    w.flops = 2.0 * (double)p->dim * (double)p->dim * (double)(p->out * p->group);
    snprintf(w.shape, sizeof w.shape, "%s %lld x %lld of %lld", lh_dtype_name(p->type), (long long)p->out,
             (long long)p->group, (long long)p->dim);
    return lh_bench_run(b, &w, NULL);
}

static lh_status run_projection(lh_bench *b, projection p)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    p.entries = lh_bench_size(b, p.entries, 48);
    p.out = lh_bench_size(b, p.out, 64);
    LH_TRY_DONE(lh_bench_fill(b, &p.kv, &(lh_bench_cache){p.type, 1, p.entries, p.dim, 0}, NULL));
    LH_TRY_DONE(lh_bench_normals(b, &p.w, &(lh_bench_normal){p.type, p.out * p.group * p.dim, 0.05f}));
    LH_TRY_DONE(run_norms(b, &p));
    LH_TRY_DONE(run_moments(b, &p));
done:
    lh_bench_drop(b, mark);
    return st;
}

static lh_status run_projections(lh_bench *b)
{
    static const projection projections[] = {{.entries = 8192, .group = 3, .dim = 64, .out = 576},
                                             {.entries = 8192, .group = 4, .dim = 128, .out = 4096},
                                             {.entries = 512, .group = 4, .dim = 128, .out = 4096},
                                             {.entries = 32, .group = 3, .dim = 64, .out = 576},
                                             {.entries = 32, .group = 4, .dim = 128, .out = 4096}};
    for (lh_dtype type = LH_F32; type <= LH_BF16; type += LH_BF16 - LH_F32)
        for (size_t i = 0; i < sizeof projections / sizeof *projections; i++) {
            projection p = projections[i];
            p.type = type;
            LH_TRY(run_projection(b, p));
        }
    return LH_OK;
}

const lh_bench_group lh_bench_projections = {names, run_projections};
