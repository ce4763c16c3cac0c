/* softmax.h - what block, decode and column sums share. */
#ifndef LH_KERNELS_CPU_SOFTMAX_H
#define LH_KERNELS_CPU_SOFTMAX_H

#include "kernels/cpu/inner.h"

static const float LOG2E = 1.44269504f;

/* What queries are multiplied by: then their products with keys are logits, or
 * what the soft cap's tanh is taken of. */
static inline float query_factor(const lh_logit *logit)
{
    return logit->softcap > 0 ? logit->scale / logit->softcap : logit->scale;
}

/* The KV heads that the query heads of a rank touch: [head_first, head_end). */
static inline int64_t head_first(const lh_grouping *map)
{
    return map->first / map->group;
}

static inline int64_t head_end(const lh_grouping *map)
{
    return (map->first + map->heads - 1) / map->group + 1;
}

/* Query heads of KV head `head`. */
static inline void head_range(const lh_grouping *map, int64_t head, int64_t *i0, int64_t *group)
{
    int64_t first = head * map->group - map->first, end = first + map->group;
    *i0 = first < 0 ? 0 : first;
    *group = (end < map->heads ? end : map->heads) - *i0;
}

VEC_FN void cap_logits(float *s, int64_t n, float cap)
{
    vf factor = vf_set1(cap);
    for (int64_t j = 0; j < n; j += VL) vf_store(s + j, factor * vf_tanh(vf_load(s + j)));
}

/* s[0, seen) become weights, s[seen, n) zero; returns what earlier weights and
 * sums are to be multiplied by. s has room for whole vectors. With pairs the
 * weights come out as bf16, from the same place on. */
VEC_FN float soften(float *s, int64_t seen, int64_t n, float *top, float *mass, const int pairs)
{
    vf highest = vf_set1(*top), sum = vf_zero();
    for (int64_t j = 0; j < seen; j += VL) {
        vf x = vf_load(s + j);
        if (seen - j < VL) {
            x = vf_where(vm_first(seen - j), x, vf_set1(-INFINITY));
            vf_store(s + j, x);
        }
        highest = vf_max(x, highest);
    }
    float now = vf_top(highest), base = now == -INFINITY ? 0.0f : now;
    for (int64_t j = 0; j < n; j += VL) {
        vf weight = j < seen ? vf_exp2_negative((vf_load(s + j) - vf_set1(base)) * vf_set1(LOG2E)) : vf_zero();
        sum = sum + weight;
        if (pairs)
            vf_store_weights((uint16_t *)(void *)s + j, weight);
        else
            vf_store(s + j, weight);
    }
    float shrink = *top == now ? 1.0f : expf(*top - base);
    *mass = *mass * shrink + vf_sum(sum);
    *top = now;
    return shrink;
}

#endif
