/* experts.c - bench cases of mixtures of experts, in the shapes of Mixtral 8x7B and of Qwen3-30B-A3B: routes, rows of
 * assignments, one product into the experts and one out of them (bf16), and the sums. Single tokens take turns in going
 * to other experts, so that weights are read from memory. */
#include <math.h>
#include <stdio.h>

#include "lab/bench/bench.h"

static const char *const names[] = {"route", "gather_rows", "expert_gemm", "combine", NULL};

enum { SETS = 16 };

typedef struct mixture {
    int64_t tokens, top_k, experts, hidden, inner;
} mixture;

typedef struct experts {
    mixture m;
    int64_t assignments, sets; /* sets: of routes, used in turn */
    lh_routes routes[SETS];
    lh_route_args route;
    lh_gather_rows_args gather;
    lh_expert_gemm_args product;
    lh_combine_args combine;
} experts;

static const lh_routes *routes_of(const experts *e, int64_t turn)
{
    return &e->routes[turn % e->sets];
}

static lh_status call_route(lh_bench *b, void *args, int64_t turn)
{
    const experts *e = args;
    lh_route_args a = e->route;
    a.routes = *routes_of(e, turn);
    a.logits += turn % e->sets * e->m.tokens * e->m.experts;
    return b->ops->route(b->stream, &a);
}

static lh_status call_gather(lh_bench *b, void *args, int64_t turn)
{
    const experts *e = args;
    lh_gather_rows_args a = e->gather;
    a.rows = routes_of(e, turn)->token;
    return b->ops->gather_rows(b->stream, &a);
}

static lh_status call_product(lh_bench *b, void *args, int64_t turn)
{
    const experts *e = args;
    lh_expert_gemm_args a = e->product;
    a.routes = *routes_of(e, turn);
    return b->ops->expert_gemm(b->stream, &a);
}

static lh_status call_combine(lh_bench *b, void *args, int64_t turn)
{
    const experts *e = args;
    lh_combine_args a = e->combine;
    a.routes = *routes_of(e, turn);
    return b->ops->combine(b->stream, &a);
}

static lh_status make_routes(lh_bench *b, experts *e)
{
    const mixture *m = &e->m;
    float *logits;
    LH_TRY(lh_bench_normals(b, &logits, &(lh_bench_normal){LH_F32, e->sets * m->tokens * m->experts, 1.0f}));
    e->route = (lh_route_args){.logits = logits, .normalised = 1};
    for (int64_t i = 0; i < e->sets; i++) {
        lh_routes *r = &e->routes[i];
        *r = (lh_routes){.tokens = m->tokens, .top_k = m->top_k, .experts = m->experts};
        LH_TRY(lh_bench_zeros(b, &r->weight, e->assignments * 4));
        LH_TRY(lh_bench_zeros(b, &r->assignment, e->assignments * 4));
        LH_TRY(lh_bench_zeros(b, &r->token, e->assignments * 4));
        LH_TRY(lh_bench_zeros(b, &r->first, (m->experts + 1) * 4));
        LH_TRY(call_route(b, e, i));
    }
    return LH_OK;
}

static lh_status make_rows(lh_bench *b, experts *e)
{
    const mixture *m = &e->m;
    const int64_t hidden = m->hidden, widest = m->inner > hidden ? m->inner : hidden;
    float *rows, *sums, *outputs;
    void *x, *w;
    LH_TRY(lh_bench_normals(b, &rows, &(lh_bench_normal){LH_F32, m->tokens * hidden, 1.0f}));
    LH_TRY(lh_bench_zeros(b, &sums, m->tokens * hidden * 4));
    LH_TRY(lh_bench_zeros(b, &outputs, e->assignments * widest * 4));
    LH_TRY(lh_bench_normals(b, &x, &(lh_bench_normal){LH_BF16, e->assignments * widest, 1.0f}));
    LH_TRY(lh_bench_normals(b, &w, &(lh_bench_normal){LH_BF16, m->experts * m->inner * hidden, 1.0f}));
    e->gather = (lh_gather_rows_args){
        .y = x, .y_type = LH_BF16, .x = rows, .count = e->assignments, .dim = hidden, .y_ld = hidden, .x_ld = hidden};
    e->product = (lh_expert_gemm_args){.y = outputs, .x = x, .w = lh_plain_matrix(w, LH_BF16, 0), .type = LH_BF16};
    e->product.w.step = m->inner * hidden * 2;
    e->combine = (lh_combine_args){.y = sums, .x = outputs, .dim = hidden};
    return LH_OK;
}

/* Experts that have a row, in the mean. */
static double experts_met(const mixture *m)
{
    const double missed = 1 - (double)m->top_k / (double)m->experts;
    return (double)m->experts * (1 - pow(missed, (double)m->tokens));
}

static void name_shape(lh_bench_case *c, const mixture *m, const char *what)
{
    snprintf(c->shape, sizeof c->shape, "%lld tokens, %lld of %lld experts%s", (long long)m->tokens,
             (long long)m->top_k, (long long)m->experts, what);
}

static lh_status run_product(lh_bench *b, experts *e, int64_t in, int64_t out)
{
    const double assignments = (double)e->assignments, weights = experts_met(&e->m) * (double)in * (double)out;
    lh_bench_case c = {.name = "expert_gemm", .type = LH_BF16, .call = call_product, .args = e};
    char what[64];
    e->product.in = e->product.x_ld = e->product.w.ld = in;
    e->product.out = e->product.y_ld = out;
    c.flops = 2.0 * assignments * (double)in * (double)out;
    c.bytes = 2 * weights + assignments * (2.0 * (double)in + 4.0 * (double)out);
    snprintf(what, sizeof what, ", bf16, %lld -> %lld", (long long)in, (long long)out);
    name_shape(&c, &e->m, what);
    return lh_bench_run(b, &c, NULL);
}

static lh_status run_mixture(lh_bench *b, const mixture *m)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    experts e = {.m = *m, .assignments = m->tokens * m->top_k, .sets = m->tokens == 1 ? SETS : 1};
    const double assignments = (double)e.assignments, tokens = (double)m->tokens, hidden = (double)m->hidden;
    lh_bench_case cases[] = {
        {.name = "route", .bytes = 4 * tokens * (double)m->experts + 12 * assignments, .call = call_route, .args = &e},
        {.name = "gather_rows", .bytes = (4 * tokens + 2 * assignments) * hidden, .call = call_gather, .args = &e},
        {.name = "combine", .bytes = 4 * (assignments + tokens) * hidden, .call = call_combine, .args = &e}};
    char what[64];
    snprintf(what, sizeof what, ", rows of %lld", (long long)m->hidden);
    LH_TRY_DONE(make_routes(b, &e));
    LH_TRY_DONE(make_rows(b, &e));
    for (int i = 0; i < 3; i++) {
        name_shape(&cases[i], m, i ? what : "");
        LH_TRY_DONE(lh_bench_run(b, &cases[i], NULL));
    }
    LH_TRY_DONE(run_product(b, &e, m->hidden, m->inner));
    LH_TRY_DONE(run_product(b, &e, m->inner, m->hidden));
done:
    lh_bench_drop(b, mark);
    return st;
}

static lh_status run_experts(lh_bench *b)
{
    static const mixture shapes[] = {{1, 2, 8, 4096, 14336},
                                     {512, 2, 8, 4096, 14336},
                                     {1, 8, 128, 2048, 768},
                                     {512, 8, 128, 2048, 768},
                                     {4096, 8, 128, 2048, 768}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        mixture m = shapes[i];
        m.tokens = lh_bench_size(b, m.tokens, 16);
        m.experts = lh_bench_size(b, m.experts, 8);
        m.top_k = lh_bench_size(b, m.top_k, 2);
        m.hidden = lh_bench_size(b, m.hidden, 64);
        m.inner = lh_bench_size(b, m.inner, 96);
        LH_TRY(run_mixture(b, &m));
    }
    return LH_OK;
}

const lh_bench_group lh_bench_experts = {names, run_experts};
