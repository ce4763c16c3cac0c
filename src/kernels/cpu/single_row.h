/* single_row.h - what columns receive from a single row whose normaliser is not known: one exponential an entry. Spans
 * of entries of each head leave the row's logits and their lanes' maxima, then e to the power of what the logits are
 * below the row's maximum, and their sum; the columns take these with the reciprocal of all sums. All of it is laid out
 * by absolute slots. */
#ifndef LH_KERNELS_CPU_SINGLE_ROW_H
#define LH_KERNELS_CPU_SINGLE_ROW_H

#include "kernels/cpu/columns.h"

enum { SINGLE_SPAN = 16 * STEP };

typedef struct lh_single_row {
    lh_stats stats;
    int64_t spans;
    lh_row_logits weights; /* [map.heads, ld] whole vectors: logits at first */
    float (*maxima)[VL];   /* [map.heads, spans] */
    float *denominators;   /* [map.heads, spans] */
} lh_single_row;

/* The row's logits with its gain, -inf where it sees nothing and after the last entry. */
static inline void single_step(const lh_single_row *l, const lh_step *p, int64_t span)
{
    const lh_observed *o = &l->stats.args->rows;
    const lh_row_logits *given = &o->logits, *to = &l->weights;
    const vf gain = vf_set1(row_gain(o, 0));
    for (int64_t i = 0; i < p->group; i++) {
        const float *s = given->at ? given->at + (p->i0 + i) * given->ld + p->first : p->s + i * STEP;
        float *y = to->at + (p->i0 + i) * to->ld + p->first, *lanes = l->maxima[(p->i0 + i) * l->spans + span];
        vf row_max = vf_load(lanes);
        for (int64_t j = 0; j < p->n; j += VL) {
            vm seen = seen_by(p->positions + j, l->stats.watch.visible[0]);
            vf logit = gain * vf_load_first(s + j, p->n - j), bias = p->bias ? step_bias(p, j) : vf_zero();
            vf x = vf_where(seen, logit + bias, vf_set1(-INFINITY));
            vf_store(y + j, x);
            row_max = vf_max(x, row_max);
        }
        vf_store(lanes, row_max);
    }
}

/* Logits of a span of the n-th KV head. */
static inline void single_logits(const lh_single_row *l, int64_t n, int64_t span, float *memory)
{
    const lh_watch *w = &l->stats.watch;
    const lh_observed *o = &l->stats.args->rows;
    lh_step p = {.watch = w, .head = w->first_head + n};
    int64_t end = lh_min_i64((span + 1) * SINGLE_SPAN, o->kv->len[p.head]);
    head_range(&o->map, p.head, &p.i0, &p.group);
    for (int64_t i = 0; i < p.group; i++) vf_store(l->maxima[(p.i0 + i) * l->spans + span], vf_set1(LOWEST));
    for (p.first = span * SINGLE_SPAN; p.first < end; p.first += STEP) {
        p.n = lh_min_i64(end - p.first, STEP);
        step_begin(&p, memory);
        if (!o->logits.at) step_logits(&p, 0, p.n);
        single_step(l, &p, span);
    }
}

/* Powers of a span of query head i. */
static inline void single_powers(const lh_single_row *l, int64_t i, int64_t span)
{
    const lh_observed *o = &l->stats.args->rows;
    int64_t len = o->kv->len[(o->map.first + i) / o->map.group], first = span * SINGLE_SPAN;
    int64_t n = lh_min_i64(round_up(len, VL) - first, SINGLE_SPAN);
    vf row_max = vf_set1(LOWEST);
    for (int64_t s = 0; s < l->spans; s++) row_max = vf_max(vf_load(l->maxima[i * l->spans + s]), row_max);
    l->denominators[i * l->spans + span] =
        n > 0 ? row_weigh(l->weights.at + i * l->weights.ld + first, n, n, vf_top(row_max), 0) : 0.0f;
}

/* The factors of the n-th KV head's rows. */
static inline void single_factors(const lh_single_row *l, int64_t n)
{
    const lh_stats_rows *rows = &l->stats.heads[n];
    int64_t head = l->stats.watch.first_head + n, i0, group;
    head_range(&l->stats.args->rows.map, head, &i0, &group);
    rows->fair[0] = fair_of(&l->stats, head, 0);
    for (int64_t i = 0; i < group; i++) {
        float denominator = 0.0f;
        for (int64_t s = 0; s < l->spans; s++) denominator += l->denominators[(i0 + i) * l->spans + s];
        rows->gain[i] = denominator == 0.0f ? 0.0f : 1.0f / denominator;
    }
}

/* By a team, or by one thread; own: floats of each. */
static inline void single_team(const lh_single_row *l, float *memory, int64_t own)
{
    const lh_watch *w = &l->stats.watch;
    const int64_t items = w->heads * l->spans, rows = w->rows->map.heads * l->spans,
                  columns = w->heads * stats_steps(l->stats.args);
    float *mine = memory + omp_get_thread_num() * own;
#pragma omp for
    for (int64_t n = 0; n < w->heads; n++) watch_pack(w, n, 0);
    w->way->begin();
#pragma omp for schedule(dynamic)
    for (int64_t n = 0; n < items; n++) single_logits(l, n / l->spans, n % l->spans, mine);
    w->way->end();
#pragma omp for schedule(dynamic)
    for (int64_t n = 0; n < rows; n++) single_powers(l, n / l->spans, n % l->spans);
#pragma omp for
    for (int64_t n = 0; n < w->heads; n++) single_factors(l, n);
#pragma omp for schedule(dynamic, steps_at_once(columns))
    for (int64_t n = 0; n < columns; n++) {
        lh_stats_item item = {.stats = &l->stats};
        if (!stats_item_at(&item, n)) continue;
        sums_place(&item, mine);
        take_row(&item, &l->weights, TAKE_WEIGHTS);
        give_all(&item);
    }
}

/* Bytes of all that the team shares after the watch; lays it out from `at` on, if that is not NULL. */
static inline int64_t single_place(lh_single_row *l, char *at)
{
    const lh_observed *o = &l->stats.args->rows;
    int64_t heads = l->stats.watch.heads, each = o->map.group + 1, rows = o->map.heads * l->spans;
    int64_t maxima = round_up(heads * (int64_t)sizeof *l->stats.heads, 64),
            weights = maxima + rows * (int64_t)sizeof *l->maxima,
            denominators = weights + o->map.heads * l->weights.ld * 4, numbers = denominators + rows * 4;
    if (!at) return round_up(numbers + heads * each * 4, 64);
    l->stats.heads = (lh_stats_rows *)at;
    l->maxima = (float(*)[VL])(at + maxima);
    l->weights.at = (float *)(at + weights);
    l->denominators = (float *)(at + denominators);
    for (int64_t n = 0; n < heads; n++) {
        float *row = (float *)(at + numbers) + n * each;
        l->stats.heads[n] = (lh_stats_rows){.gain = row, .fair = row + o->map.group};
    }
    return 0;
}

#endif
