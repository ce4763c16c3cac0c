/* observed_steps.h - a step of entries as query rows see it: positions, logits, what the window leaves. */
#ifndef LH_KERNELS_CPU_OBSERVED_STEPS_H
#define LH_KERNELS_CPU_OBSERVED_STEPS_H

#include "kernels/cpu/observed.h"

/* stored: of the step's first entry on; NULL: slots are positions. n: p->n. */
VEC_FN void list_positions(lh_step *p, const int32_t *stored, const int64_t n)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    int32_t *at = p->positions;
    for (int64_t j = 0; j < n; j++) {
        at[j] = stored ? stored[j] : (int32_t)(p->first + j);
        low = at[j] < low ? at[j] : low;
        high = at[j] > high ? at[j] : high;
    }
    for (int64_t j = n; j < STEP; j++) at[j] = INT32_MAX;
    p->low = low;
    p->high = high;
}

/* Most steps are whole, and the compiler knows their size. */
static inline void step_positions(lh_step *p, const int32_t *stored)
{
    if (p->n == STEP)
        list_positions(p, stored, STEP);
    else
        list_positions(p, stored, p->n);
}

/* The step's memory is step_floats_of floats; its keys are packed. */
static inline void step_begin(lh_step *p, float *memory)
{
    const lh_ragged *kv = p->watch->rows->kv;
    int64_t d = kv->head_dim;
    lh_columns keys = {.src = kv->k,
                       .type = kv->type,
                       .first = (kv->offset[p->head] + p->first) * d,
                       .ld = d,
                       .count = p->n,
                       .depth = d,
                       .ahead = STEP};
    p->k = memory;
    p->s = p->k + STEP * p->watch->d_places;
    p->positions = (int32_t *)(p->s + STEP * p->watch->way->rows * p->watch->rows->map.group);
    p->bias = kv->bias ? kv->bias + kv->offset[p->head] + p->first : NULL;
    step_positions(p, kv->positions ? kv->positions + kv->offset[p->head] + p->first : NULL);
    if (!p->watch->rows->logits.at) p->watch->way->pack_keys(p->k, &keys);
}

typedef enum lh_seen { SEEN_NONE, SEEN_SOME, SEEN_ALL } lh_seen;

/* The part of the step that the rows of block b see. */
static inline lh_seen step_seen(const lh_step *p, int64_t b)
{
    const lh_block_sight *s = &p->watch->block_sights[b];
    if (s->most.last < p->low || s->least.before >= p->high) return SEEN_NONE;
    return s->least.last >= p->high && s->most.before < p->low ? SEEN_ALL : SEEN_SOME;
}

/* Entries of the step, in whole panels, after which no row of block b sees one. */
static inline int64_t step_reach(const lh_step *p, int64_t b)
{
    int32_t last = p->watch->block_sights[b].most.last;
    int64_t n = p->n;
    while (n > 0 && p->positions[n - 1] > last) n--;
    return lh_min_i64(round_up(n, TILE_COLS), p->n);
}

/* Logits that are given. */
static inline void step_take(const lh_step *p)
{
    const lh_row_logits *given = &p->watch->rows->logits;
    for (int64_t i = 0; i < p->group; i++) {
        float *s = p->s + i * STEP;
        const float *from = given->at + (p->i0 + i) * given->ld + p->first;
        int64_t j = 0;
        for (; j < p->n; j += VL) vf_store(s + j, vf_load_first(from + j, p->n - j));
        for (; j < STEP; j += VL) vf_store(s + j, vf_zero());
    }
}

/* The biases of the step's entries from j on. */
VEC_FN vf step_bias(const lh_step *p, int64_t j)
{
    return vf_load_first(p->bias + j, p->n - j);
}

/* The logits of the rows of block b with the first n entries, but for gain and bias; with a soft cap and no logits
 * given, of which the cap is still to be multiplied with. Returns the tokens of the block. */
static inline int64_t step_logits(const lh_step *p, int64_t b, int64_t n)
{
    const lh_watch *w = p->watch;
    const int64_t whole = w->way->rows, half = whole / 2;
    int64_t tokens = lh_min_i64(w->rows->rows - b * whole, whole), rows = tokens * p->group;
    const float *q = w->q + (p->head - w->first_head) * w->head_floats + b * p->group * whole * w->d_places;
    if (w->rows->logits.at) {
        step_take(p);
        return tokens;
    }
    for (int64_t r = 0; r < rows; r += whole) {
        lh_tile tile = {.a = q + r * w->d_places,
                        .b = p->k,
                        .c = p->s + r * STEP,
                        .depth = w->d_places,
                        .cols = n,
                        .b_next = TILE_COLS * w->d_places,
                        .c_ld = STEP,
                        .from_zero = 1};
        int64_t left = rows - r; /* many rows at once are faster than some and then some more */
        w->way->logits(&tile, left > half ? whole : left > SOME_ROWS ? half : left > 2 ? SOME_ROWS : left);
    }
    if (w->rows->logit.softcap > 0) {
        for (int64_t i = 0; i < rows * STEP; i += VL) vf_store(p->s + i, vf_tanh(vf_load(p->s + i)));
    }
    return tokens;
}

/* The factor of logits before any gain, and that of row r with it. */
static inline float cap_left(const lh_observed *o)
{
    return o->logit.softcap > 0 && !o->logits.at ? o->logit.softcap : 1.0f;
}

static inline float row_gain(const lh_observed *o, int64_t r)
{
    return (o->gains ? o->gains[r] : 1.0f) * cap_left(o);
}

VEC_FN vm seen_by(const int32_t *positions, lh_visible_range visible)
{
    vi p = vi_load(positions);
    return vm_and(vi_gt(p, vi_set1(visible.before)), vm_not(vi_gt(p, vi_set1(visible.last))));
}

#endif
