/* Mixtures of experts: one matrix product per expert. */
#include "kernels/cpu/common.h"
#include "kernels/ops.h"

/* The largest logit after (key, at) in the order of keys, ties by index. */
static int64_t next_expert(const float *logits, int64_t experts, uint32_t key, int64_t at)
{
    uint32_t best_key = 0;
    int64_t best = -1;
    for (int64_t e = 0; e < experts; e++) {
        uint32_t k = lh_score_key(logits[e]);
        int is_left = k < key || (k == key && e > at);
        if (is_left && (best < 0 || k > best_key)) best_key = k, best = e;
    }
    return best;
}

/* Chooses the experts of a token, into its assignments, and their routing weights. */
static void choose_experts(const lh_route_args *a, int64_t t)
{
    const lh_routes *r = &a->routes;
    const float *logits = a->logits + t * r->experts;
    int32_t *to = r->assignment + t * r->top_k;
    float *weight = r->weight + t * r->top_k, sum = 0;
    for (int64_t c = 0; c < r->top_k; c++) {
        to[c] = (int32_t)next_expert(logits, r->experts, c ? lh_score_key(logits[to[c - 1]]) : UINT32_MAX,
                                     c ? to[c - 1] : -1);
        weight[c] = expf(logits[to[c]] - logits[to[0]]);
        sum += weight[c];
    }
    if (!a->normalised) {
        sum = 0;
        for (int64_t e = 0; e < r->experts; e++) sum += expf(logits[e] - logits[to[0]]);
    }
    for (int64_t c = 0; c < r->top_k; c++) weight[c] /= sum;
}

/* Replaces the expert of each choice in `assignment` by its assignment. */
static void order_slots(const lh_routes *r)
{
    int64_t assignments = r->tokens * r->top_k;
    memset(r->first, 0, (size_t)(r->experts + 1) * sizeof *r->first);
    for (int64_t i = 0; i < assignments; i++) r->first[r->assignment[i] + 1]++;
    for (int64_t e = 0; e < r->experts; e++) r->first[e + 1] += r->first[e];
    for (int64_t i = 0; i < assignments; i++) {
        int32_t s = r->first[r->assignment[i]]++; /* in the end, `first` of the next expert */
        r->assignment[i] = s;
        r->token[s] = (int32_t)(i / r->top_k);
    }
    memmove(r->first + 1, r->first, (size_t)r->experts * sizeof *r->first);
    r->first[0] = 0;
}

static lh_status op_route(lh_stream *stream, const lh_route_args *a)
{
    const lh_routes *r = &a->routes;
    (void)stream;
#pragma omp parallel for if (r->tokens * r->experts * r->top_k >= PARALLEL_FROM)
    for (int64_t t = 0; t < r->tokens; t++) choose_experts(a, t);
    order_slots(r);
    return LH_OK;
}

static lh_status op_gather_rows(lh_stream *stream, const lh_gather_rows_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->count * a->dim >= PARALLEL_FROM)
    for (int64_t r = 0; r < a->count; r++) {
        const float *x = a->x + a->rows[r] * a->x_ld;
        for (int64_t i = 0; i < a->dim; i += VL)
            vf_store_any_first(a->y, a->y_type, r * a->y_ld + i, vf_load_first(x + i, a->dim - i), a->dim - i);
    }
    return LH_OK;
}

static lh_status op_gemm(lh_stream *stream, const lh_gemm_args *a); /* gemm.inc.c */

static lh_status op_expert_gemm(lh_stream *stream, const lh_expert_gemm_args *a)
{
    for (int64_t e = 0; e < a->routes.experts; e++) {
        const lh_gemm_args product = lh_product_of_expert(a, e);
        LH_TRY(op_gemm(stream, &product));
    }
    return LH_OK;
}

static void combine_row(const lh_combine_args *a, int64_t t)
{
    const lh_routes *r = &a->routes;
    const int32_t *assignment = r->assignment + t * r->top_k;
    const float *weight = r->weight + t * r->top_k;
    for (int64_t i = 0; i < a->dim; i += VL) {
        vf sum = vf_zero();
        for (int64_t c = 0; c < r->top_k; c++)
            sum = vf_fused(vf_set1(weight[c]), vf_load_first(a->x + assignment[c] * a->dim + i, a->dim - i), sum);
        vf_store_first(a->y + t * a->dim + i, sum, a->dim - i);
    }
}

static lh_status op_combine(lh_stream *stream, const lh_combine_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->routes.tokens * a->routes.top_k * a->dim >= PARALLEL_FROM)
    for (int64_t t = 0; t < a->routes.tokens; t++) combine_row(a, t);
    return LH_OK;
}
