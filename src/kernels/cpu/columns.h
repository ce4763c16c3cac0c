/* columns.h - what columns receive from observed rows: an item of work is a KV head and a step of its entries, and sums
 * stay with the thread until the step is done. */
#ifndef LH_KERNELS_CPU_COLUMNS_H
#define LH_KERNELS_CPU_COLUMNS_H

#include "kernels/cpu/observed_steps.h"

/* Rows of a KV head, as their weights want them. */
typedef struct lh_stats_rows {
    float *gain, *minus_lse; /* [rows * group]; -inf for a row that adds nothing */
    float *fair;             /* [rows]: a sum of weights over the group above it is counted */
} lh_stats_rows;

typedef struct lh_stats {
    const lh_column_stats_args *args;
    lh_watch watch;
    lh_stats_rows *heads; /* [watch.heads] */
} lh_stats;

/* A step and its sums. */
typedef struct lh_stats_item {
    const lh_stats *stats;
    const lh_stats_rows *rows;
    lh_step step;
    float *squares, *largest, *counts, *sums; /* [STEP] each, [parts, STEP] */
} lh_stats_item;

/* Steps of the columns of a head. */
static inline int64_t stats_steps(const lh_column_stats_args *a)
{
    return (a->cols + STEP - 1) / STEP;
}

/* Floats of an item after the memory of its step. */
static inline int64_t sums_floats(const lh_column_stats_args *a)
{
    return STEP * (a->parts + 3);
}

/* The sums lie first, the step after them. Returns the step's memory. */
static inline float *sums_place(lh_stats_item *item, float *memory)
{
    item->squares = memory;
    item->largest = item->squares + STEP;
    item->counts = item->largest + STEP;
    item->sums = item->counts + STEP;
    return memory + sums_floats(item->stats->args);
}

/* 1 if the means of the group are wanted for more than their sum. */
static inline int wants_more(const lh_column_stats_args *a)
{
    return a->squares.at || a->largest.at || a->counts.at;
}

/* The n-th item of the operation: 0 where it has no entries. */
static inline int stats_item_at(lh_stats_item *item, int64_t n)
{
    const lh_stats *stats = item->stats;
    const lh_column_stats_args *a = stats->args;
    int64_t steps = stats_steps(a);
    lh_step *p = &item->step;
    item->rows = &stats->heads[n / steps];
    *p = (lh_step){
        .watch = &stats->watch, .head = stats->watch.first_head + n / steps, .first = a->first + n % steps * STEP};
    p->n = lh_min_i64(lh_min_i64(a->first + a->cols, a->rows.kv->len[p->head]) - p->first, STEP);
    head_range(&a->rows.map, p->head, &p->i0, &p->group);
    return p->n > 0;
}

/* The only row sees all entries of the step, and its logits are known, or what its weights are but for a factor, which
 * is its gain then: the weights are the sums. The same bits as add_block's. */
typedef enum lh_taken { TAKE_LOGITS, TAKE_BIASED_LOGITS, TAKE_WEIGHTS } lh_taken;
VEC_FN void take_row(const lh_stats_item *item, const lh_row_logits *from, const lh_taken what)
{
    const lh_column_stats_args *a = item->stats->args;
    const lh_step *p = &item->step;
    const int each = a->parts > 1, more = wants_more(a);
    for (int64_t j = 0; j < p->n; j += VL) {
        const float *s = from->at + p->i0 * from->ld + p->first + j;
        vf all = vf_zero(), bias = what == TAKE_BIASED_LOGITS ? step_bias(p, j) : vf_zero(), squares = vf_zero(),
           largest = vf_zero();
        for (int64_t i = 0; i < p->group; i++, s += from->ld) {
            vf weight = vf_load_first(s, p->n - j), gain = vf_set1(item->rows->gain[i]);
            if (what == TAKE_WEIGHTS) {
                weight = weight * gain;
            } else {
                vf below = vf_set1(item->rows->minus_lse[i]);
                if (what == TAKE_BIASED_LOGITS) below = below + bias;
                weight = vf_exp_negative(vf_fma(weight, gain, below));
            }
            if (each) vf_store(item->sums + i * STEP + j, weight);
            all = all + weight;
            squares = vf_fma(weight, weight, squares);
            largest = vf_max(weight, largest);
        }
        if (!each) vf_store(item->sums + j, all);
        if (!more) continue;
        if (!a->each_head) squares = all * all, largest = all;
        vf_store(item->squares + j, squares);
        vf_store(item->largest + j, largest);
        vf_store(item->counts + j, vf_where(vf_lt(vf_set1(item->rows->fair[0]), all), vf_set1(1.0f), vf_zero()));
    }
}

/* y += factor * x for the entries of the step. */
static inline void give(const lh_stats_item *item, const lh_slot_floats *y, int64_t c, const float *x, float factor)
{
    const lh_step *p = &item->step;
    const int64_t n = p->n, step = y->step;
    float *at = lh_slot_at(y, p->head, p->first, c);
    for (int64_t j = 0; j < n; j++) at[j * step] += factor * x[j];
}

/* y becomes factor * x for the entries of the step, where that is more. */
static inline void lift(const lh_stats_item *item, const lh_slot_floats *y, const float *x, float factor)
{
    const lh_step *p = &item->step;
    float *at = lh_slot_at(y, p->head, p->first, 0);
    for (int64_t j = 0; j < p->n; j++) at[j * y->step] = fmaxf(at[j * y->step], factor * x[j]);
}

/* The item's sums so far. */
static inline void give_all(const lh_stats_item *item)
{
    const lh_column_stats_args *a = item->stats->args;
    const float share = 1.0f / (float)item->step.group, own = a->each_head ? 1.0f : share;
    for (int64_t c = 0; c < a->parts && a->sums.at; c++)
        give(item, &a->sums, c, item->sums + c * STEP, a->parts == 1 ? share : 1.0f);
    if (a->squares.at) give(item, &a->squares, 0, item->squares, own * own);
    if (a->largest.at) lift(item, &a->largest, item->largest, own);
    if (a->counts.at) give(item, &a->counts, 0, item->counts, 1.0f);
}

/* Entries of a head that a row sees. */
static inline int64_t count_seen(const lh_ragged *kv, int64_t head, lh_visible_range visible)
{
    int64_t len = kv->len[head];
    int32_t count = 0;
    if (!kv->positions) {
        int64_t seen = lh_min_i64(len, (int64_t)visible.last + 1) - ((int64_t)visible.before + 1);
        return seen < 0 ? 0 : seen;
    }
    for (const int32_t *p = kv->positions + kv->offset[head], *end = p + len; p < end; p++)
        count += *p > visible.before && *p <= visible.last;
    return count;
}

/* A sum of weights over the group above it is counted. A row that sees a single entry gives it 1, which is not above
 * 1 / 1, whatever rounding makes of it. */
static inline float fair_of(const lh_stats *stats, int64_t head, int64_t r)
{
    const lh_column_stats_args *a = stats->args;
    int64_t seen = a->counts.at ? count_seen(a->rows.kv, head, stats->watch.visible[r]) : 0;
    return seen > 1 ? (float)a->rows.map.group / (float)seen : INFINITY;
}

#endif
