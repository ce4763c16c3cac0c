/* Mixtures of experts. */
#include <math.h>

#include "kernels/ops.h"
#include "kernels/ref/ref.h"

/* The best expert after `last` (-1: of all experts) in the order of keys, ties by index. */
static int64_t next_best(const float *logits, int64_t experts, int64_t last)
{
    int64_t best = -1;
    for (int64_t e = 0; e < experts; e++) {
        uint32_t key = lh_score_key(logits[e]);
        int is_left = last < 0 || key < lh_score_key(logits[last]) || (key == lh_score_key(logits[last]) && e > last);
        if (is_left && (best < 0 || key > lh_score_key(logits[best]))) best = e;
    }
    return best;
}

/* Chooses the experts of a token into `to`, [top_k], and their routing weights. */
static void choose(const lh_route_args *a, int64_t t, int32_t *to)
{
    int64_t experts = a->routes.experts, top_k = a->routes.top_k, last = -1;
    const float *logits = a->logits + t * experts;
    double sum = 0;
    for (int64_t c = 0; c < top_k; c++) to[c] = (int32_t)(last = next_best(logits, experts, last));
    for (int64_t n = 0; n < (a->normalised ? top_k : experts); n++)
        sum += exp((double)logits[a->normalised ? to[n] : n] - logits[to[0]]);
    for (int64_t c = 0; c < top_k; c++)
        a->routes.weight[t * top_k + c] = (float)(exp((double)logits[to[c]] - logits[to[0]]) / sum);
}

/* Assigns by counting, token by token. `assignment` holds the experts before. */
static void place(const lh_routes *r)
{
    int64_t assignments = r->tokens * r->top_k;
    for (int64_t e = 0, n = 0; e < r->experts; e++) {
        r->first[e] = (int32_t)n;
        for (int64_t i = 0; i < assignments; i++)
            if (r->assignment[i] == e) r->token[n++] = (int32_t)i; /* the choice, until its assignment is known */
    }
    r->first[r->experts] = (int32_t)assignments;
    for (int64_t s = 0; s < assignments; s++) {
        r->assignment[r->token[s]] = (int32_t)s;
        r->token[s] /= (int32_t)r->top_k;
    }
}

lh_status lh_ref_route(lh_stream *stream, const lh_route_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->routes.tokens; t++) choose(a, t, a->routes.assignment + t * a->routes.top_k);
    place(&a->routes);
    return LH_OK;
}

lh_status lh_ref_gather_rows(lh_stream *stream, const lh_gather_rows_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->count; r++) {
        for (int64_t i = 0; i < a->dim; i++)
            ref_store(a->y, a->y_type, r * a->y_ld + i, a->x[a->rows[r] * a->x_ld + i]);
    }
    return LH_OK;
}

lh_status lh_ref_expert_gemm(lh_stream *stream, const lh_expert_gemm_args *a)
{
    for (int64_t e = 0; e < a->routes.experts; e++) {
        const lh_gemm_args product = lh_product_of_expert(a, e);
        LH_TRY(lh_ref_gemm(stream, &product));
    }
    return LH_OK;
}

lh_status lh_ref_combine(lh_stream *stream, const lh_combine_args *a)
{
    const lh_routes *r = &a->routes;
    (void)stream;
    for (int64_t t = 0; t < r->tokens; t++) {
        for (int64_t i = 0; i < a->dim; i++) {
            float sum = 0;
            for (int64_t c = t * r->top_k; c < (t + 1) * r->top_k; c++)
                sum = fmaf(r->weight[c], a->x[r->assignment[c] * a->dim + i], sum);
            a->y[t * a->dim + i] = sum;
        }
    }
    return LH_OK;
}
