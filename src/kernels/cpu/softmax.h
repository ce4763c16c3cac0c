/* softmax.h - shared by attention of blocks, decode attention and observed rows. */
#ifndef LH_KERNELS_CPU_SOFTMAX_H
#define LH_KERNELS_CPU_SOFTMAX_H

#include "kernels/cpu/common.h"

/* The factor of queries: their products with keys are then logits, or, with a soft cap, the argument of tanh. */
static inline float query_factor(const lh_logit *logit)
{
    return logit->softcap > 0 ? logit->scale / logit->softcap : logit->scale;
}

/* The KV heads of a rank's query heads: [head_first, head_end). */
static inline int64_t head_first(const lh_grouping *map)
{
    return map->first / map->group;
}

static inline int64_t head_end(const lh_grouping *map)
{
    return (map->first + map->heads - 1) / map->group + 1;
}

/* The query heads of KV head `head`. */
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

/* The maximum of s[0, seen) and so_far. */
VEC_FN float row_top(const float *s, int64_t seen, float so_far)
{
    vf highest = vf_set1(so_far);
    int64_t j = 0;
    for (; j + VL <= seen; j += VL) highest = vf_max(vf_load(s + j), highest);
    if (j < seen) highest = vf_max(vf_where(vm_first(seen - j), vf_load(s + j), vf_set1(-INFINITY)), highest);
    return vf_top(highest);
}

/* Turns s[0, seen) into weights e^(s - base), s[seen, n) into zeros; returns the sum of the weights. s has room for
 * whole vectors. With pairs the weights are stored as bf16 from the start of s on. */
VEC_FN float row_weigh(float *s, int64_t seen, int64_t n, float base, const int pairs)
{
    vf sum = vf_zero(), lowest = vf_set1(base);
    for (int64_t j = 0; j < n; j += VL) {
        vf weight = vf_zero();
        if (j < seen) weight = vf_exp_negative(vf_load(s + j) - lowest);
        if (j < seen && seen < j + VL) weight = vf_where(vm_first(seen - j), weight, vf_zero());
        sum = sum + weight;
        if (pairs)
            vf_store_weights((uint16_t *)(void *)s + j, weight);
        else
            vf_store(s + j, weight);
    }
    return vf_sum(sum);
}

#endif
