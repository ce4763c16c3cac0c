/* lone_row.h - what columns receive from a single row whose normaliser is not known: one exponential an entry. Spans of
 * entries of each head leave the row's logits and their lanes' maxima, then e to the power of what the logits are below
 * the row's maximum, and their sum; the columns take these with the reciprocal of all sums. All of it is laid out by
 * absolute slots. */
#ifndef LH_KERNELS_CPU_LONE_ROW_H
#define LH_KERNELS_CPU_LONE_ROW_H

#include "kernels/cpu/columns.h"

enum { LONE_SPAN = 16 * STEP };

typedef struct lh_lone {
    lh_stats stats;
    int64_t spans;
    lh_row_logits weights; /* [map.heads, ld] whole vectors: logits at first */
    float (*tops)[VL];     /* [map.heads, spans] */
    float *masses;         /* [map.heads, spans] */
} lh_lone;

/* The row's logits with its gain, -inf where it sees nothing and behind the last entry. */
static inline void lone_step(const lh_lone *l, const lh_step *p, int64_t span)
{
    const lh_observed *o = &l->stats.args->rows;
    const lh_row_logits *given = &o->logits, *to = &l->weights;
    const vf gain = vf_set1(row_gain(o, 0));
    for (int64_t i = 0; i < p->group; i++) {
        const float *s = given->at ? given->at + (p->i0 + i) * given->ld + p->first : p->s + i * STEP;
        float *y = to->at + (p->i0 + i) * to->ld + p->first, *lanes = l->tops[(p->i0 + i) * l->spans + span];
        vf top = vf_load(lanes);
        for (int64_t j = 0; j < p->n; j += VL) {
            vm seen = seen_by(p->positions + j, l->stats.watch.sights[0]);
            vf x = vf_where(seen, gain * vf_load_first(s + j, p->n - j), vf_set1(-INFINITY));
            vf_store(y + j, x);
            top = vf_max(x, top);
        }
        vf_store(lanes, top);
    }
}

/* Logits of a span of the n-th KV head. */
static inline void lone_logits(const lh_lone *l, int64_t n, int64_t span, float *memory)
{
    const lh_watch *w = &l->stats.watch;
    const lh_observed *o = &l->stats.args->rows;
    lh_step p = {.watch = w, .head = w->first_head + n};
    int64_t end = lh_min_i64((span + 1) * LONE_SPAN, o->kv->len[p.head]);
    head_range(&o->map, p.head, &p.i0, &p.group);
    for (int64_t i = 0; i < p.group; i++) vf_store(l->tops[(p.i0 + i) * l->spans + span], vf_set1(LOWEST));
    for (p.first = span * LONE_SPAN; p.first < end; p.first += STEP) {
        p.n = lh_min_i64(end - p.first, STEP);
        step_begin(&p, memory);
        if (!o->logits.at) step_logits(&p, 0, p.n);
        lone_step(l, &p, span);
    }
}

/* Powers of a span of query head i. */
static inline void lone_powers(const lh_lone *l, int64_t i, int64_t span)
{
    const lh_observed *o = &l->stats.args->rows;
    int64_t len = o->kv->len[(o->map.first + i) / o->map.group], first = span * LONE_SPAN;
    int64_t n = lh_min_i64(round_up(len, VL) - first, LONE_SPAN);
    vf top = vf_set1(LOWEST);
    for (int64_t s = 0; s < l->spans; s++) top = vf_max(vf_load(l->tops[i * l->spans + s]), top);
    l->masses[i * l->spans + span] =
        n > 0 ? row_weigh(l->weights.at + i * l->weights.ld + first, n, n, vf_top(top), 0) : 0.0f;
}

/* The factors of the n-th KV head's rows. */
static inline void lone_factors(const lh_lone *l, int64_t n)
{
    const lh_stats_rows *rows = &l->stats.heads[n];
    int64_t head = l->stats.watch.first_head + n, i0, group;
    head_range(&l->stats.args->rows.map, head, &i0, &group);
    rows->fair[0] = fair_of(&l->stats, head, 0);
    for (int64_t i = 0; i < group; i++) {
        float mass = 0.0f;
        for (int64_t s = 0; s < l->spans; s++) mass += l->masses[(i0 + i) * l->spans + s];
        rows->gain[i] = mass == 0.0f ? 0.0f : 1.0f / mass;
    }
}

/* By a team, or by one thread; own: floats of each. */
static inline void lone_team(const lh_lone *l, float *memory, int64_t own)
{
    const lh_watch *w = &l->stats.watch;
    const int64_t items = w->heads * l->spans, rows = w->rows->map.heads * l->spans,
                  columns = w->heads * stats_steps(l->stats.args);
    float *mine = memory + omp_get_thread_num() * own;
#pragma omp for
    for (int64_t n = 0; n < w->heads; n++) watch_pack(w, n, 0);
    w->way->begin();
#pragma omp for schedule(dynamic)
    for (int64_t n = 0; n < items; n++) lone_logits(l, n / l->spans, n % l->spans, mine);
    w->way->end();
#pragma omp for schedule(dynamic)
    for (int64_t n = 0; n < rows; n++) lone_powers(l, n / l->spans, n % l->spans);
#pragma omp for
    for (int64_t n = 0; n < w->heads; n++) lone_factors(l, n);
#pragma omp for schedule(dynamic, steps_at_once(columns))
    for (int64_t n = 0; n < columns; n++) {
        lh_stats_item item = {.stats = &l->stats};
        if (!stats_item_at(&item, n)) continue;
        sums_place(&item, mine);
        take_row(&item, &l->weights, TAKE_WEIGHTS);
        give_all(&item);
    }
}

/* Bytes of all that the team shares behind the watch; lays it out from `at` on, if that is not NULL. */
static inline int64_t lone_place(lh_lone *l, char *at)
{
    const lh_observed *o = &l->stats.args->rows;
    int64_t heads = l->stats.watch.heads, each = o->map.group + 1, rows = o->map.heads * l->spans;
    int64_t tops = round_up(heads * (int64_t)sizeof *l->stats.heads, 64),
            weights = tops + rows * (int64_t)sizeof *l->tops, masses = weights + o->map.heads * l->weights.ld * 4,
            numbers = masses + rows * 4;
    if (!at) return round_up(numbers + heads * each * 4, 64);
    l->stats.heads = (lh_stats_rows *)at;
    l->tops = (float(*)[VL])(at + tops);
    l->weights.at = (float *)(at + weights);
    l->masses = (float *)(at + masses);
    for (int64_t n = 0; n < heads; n++) {
        float *row = (float *)(at + numbers) + n * each;
        l->stats.heads[n] = (lh_stats_rows){.gain = row, .fair = row + o->map.group};
    }
    return 0;
}

static inline lh_status lone_row(lh_stream *stream, const lh_column_stats_args *a)
{
    lh_lone l = {.stats.args = a};
    lh_watch *w = &l.stats.watch;
    char *memory = NULL;
    watch_open(w, &a->rows);
    const int64_t longest = watch_longest(w);
    l.spans = (longest + LONE_SPAN - 1) / LONE_SPAN;
    l.weights.ld = round_up(longest, 16);
    int64_t own = round_up(lh_max_i64(step_floats_of(w), sums_floats(a)), 16), shared = watch_bytes(w),
            placed = lone_place(&l, NULL);
    LH_TRY(lh_stream_scratch(stream, &memory, shared + placed + omp_get_max_threads() * own * 4));
    watch_place(w, memory);
    lone_place(&l, memory + shared);
    if (w->heads * l.spans > 1 && watch_work(w, longest) >= PARALLEL_FROM) {
#pragma omp parallel
        lone_team(&l, (float *)(memory + shared + placed), own);
    } else {
        lone_team(&l, (float *)(memory + shared + placed), own);
    }
    return LH_OK;
}

#endif
