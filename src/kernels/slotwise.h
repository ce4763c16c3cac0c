/* slotwise.h - operations that process every slot of a head independently, with one body for all backends: `ref` loops
 * over heads, `cpu` divides slots among its threads, `cuda` gives each thread a strided subset. */
#ifndef LH_KERNELS_SLOTWISE_H
#define LH_KERNELS_SLOTWISE_H

#include <string.h>

#include "base/minmax.h"
#include "base/rng.h"
#include "kernels/elementwise.h"
#include "kernels/ops.h"

/* OP(name, rows, columns, cost), or OP_KV(name, cost) over the slots of a cache. cost: of a slot, relative to a
 * copy. */
#define LH_SLOTWISE_OPS(OP, OP_KV)                           \
    OP(add_similarities, 1, a->of.cols, a->of.rows)          \
    OP(divide_rows, a->rows, a->heads, 4)                    \
    OP(entry_features, a->rows, lh_feature_count(a->dim), 2) \
    OP(largest_outputs, a->heads, a->cols, 4)                \
    OP(last_similar, 1, a->of.rows, a->of.cols)              \
    OP(mix_scores, 1, a->cols, 1)                            \
    OP_KV(position_scores, 1)                                \
    OP_KV(put_stats, 1)                                      \
    OP_KV(raise_scores, 4)                                   \
    OP_KV(random_scores, 4)                                  \
    OP(rank_scores, a->heads, a->ld, 4)                      \
    OP(share_scores, (a->batch * a->heads), a->cols, 1)      \
    OP(split_counts, 1, a->heads, 1)                         \
    OP_KV(value_ranges, a->kv->head_dim)                     \
    OP(weigh_scores, a->heads, a->ld, 1)

/* Slots first, first + step, … before `end` and before the end of the head. */
typedef struct lh_slot_range {
    int64_t first, end, step;
} lh_slot_range;

/* Not in LH_SLOTWISE_OPS: its rows are heads of several caches. */
static LH_BOTH inline void lh_classify_slots(const lh_classify_args *a, int64_t row, lh_slot_range r)
{
    int64_t h;
    const lh_ragged *kv = lh_cache_of_row(a->kv, row, &h);
    const int32_t *positions = lh_positions_of(kv, h);
    const int64_t end = lh_min_i64(r.end, kv->len[h]);
    const lh_position_lines lines = a->lines[row / kv->heads];
    uint8_t *state = a->state + row * a->ld;
    float *scores = a->scores ? a->scores + row / kv->heads * a->scores_step + h * a->ld : NULL;
    for (int64_t s = r.first; s < end; s += r.step) {
        int64_t p = positions ? positions[s] : s;
        int is_protected = p < lines.sinks || p >= lines.recent_from;
        state[s] = p < lines.visible_from ? LH_ENTRY_DROP : is_protected ? LH_ENTRY_KEEP : LH_ENTRY_COMPETES;
        if (scores) scores[s] = kv->stats[(kv->offset[h] + s) * kv->stat_count + a->stat];
    }
}

static LH_BOTH inline void lh_position_scores_slots(const lh_position_scores_args *a, int64_t h, lh_slot_range r)
{
    const int32_t *positions = lh_positions_of(a->kv, h);
    const int64_t end = lh_min_i64(r.end, a->kv->len[h]);
    for (int64_t s = r.first; s < end; s += r.step) a->y[h * a->ld + s] = (float)(positions ? positions[s] : s);
}

/* The random word for the entry at position p of head h. */
static LH_BOTH inline uint32_t lh_draw_word(const lh_draw *draw, int64_t h, uint32_t p)
{
    const uint32_t counter[4] = {draw->counter[0], draw->counter[1], (uint32_t)(draw->first_head + h), p};
    uint32_t words[4];
    lh_philox(words, draw->key, counter);
    return words[0];
}

static LH_BOTH inline void lh_random_scores_slots(const lh_random_scores_args *a, int64_t h, lh_slot_range r)
{
    const int32_t *positions = lh_positions_of(a->kv, h);
    const int64_t end = lh_min_i64(r.end, a->kv->len[h]);
    for (int64_t s = r.first; s < end; s += r.step)
        a->y[h * a->ld + s] = lh_uniform(lh_draw_word(&a->draw, h, positions ? (uint32_t)positions[s] : (uint32_t)s));
}

/* logf has an error of an ulp near 1, too, where u is: the numbers 1 - n / 2^24 are exact. */
static LH_BOTH inline float lh_gumbel_score(const lh_gumbel_scores_args *a, float x, uint32_t word)
{
    lh_real u = lh_uniform_open(word), logit = a->proportional ? LH_REAL_FN(log)((lh_real)x) : (lh_real)x;
    if (a->proportional && !(x > 0)) return -INFINITY;
    return (float)(logit / a->temperature - LH_REAL_FN(log)(-LH_REAL_FN(log)(u)));
}

/* Not in LH_SLOTWISE_OPS: `cpu` draws and takes logarithms in separate loops. */
static LH_BOTH inline void lh_gumbel_scores_slots(const lh_gumbel_scores_args *a, int64_t h, lh_slot_range r)
{
    const int32_t *positions = lh_positions_of(a->kv, h);
    const int64_t end = lh_min_i64(r.end, a->kv->len[h]);
    for (int64_t s = r.first; s < end; s += r.step) {
        uint32_t word = lh_draw_word(&a->draw, h, positions ? (uint32_t)positions[s] : (uint32_t)s);
        a->y[h * a->ld + s] = lh_gumbel_score(a, a->x[h * a->ld + s], word);
    }
}

static LH_BOTH inline void lh_value_ranges_slots(const lh_value_ranges_args *a, int64_t h, lh_slot_range r)
{
    const lh_ragged *kv = a->kv;
    const int64_t end = lh_min_i64(r.end, kv->len[h]), d = kv->head_dim;
    for (int64_t s = r.first; s < end; s += r.step) {
        const int64_t at = (kv->offset[h] + s) * d;
        float least = lh_number_at(kv->v, kv->type, at), most = least;
        for (int64_t i = 1; i < d; i++) {
            const float x = lh_number_at(kv->v, kv->type, at + i);
            least = x < least ? x : least;
            most = x > most ? x : most;
        }
        a->y[h * a->ld + s] = most - least;
    }
}

static LH_BOTH inline float lh_log_length_of(const float *x, int64_t dim)
{
    lh_real squares = 0;
    for (int64_t i = 0; i < dim; i++) squares += (lh_real)x[i] * x[i];
    return (float)lh_log_length(squares);
}

/* Slots are features of an entry here. */
static LH_BOTH inline void lh_entry_features_slots(const lh_entry_features_args *a, int64_t row, lh_slot_range r)
{
    const int64_t d = a->dim;
    const float *k = a->keys + row * d, *v = a->values + row * d;
    float *y = a->y + row * a->y_ld;
    for (int64_t i = r.first; i < r.end; i += r.step) {
        if (i < 2 * d)
            y[i] = i < d ? k[i] : v[i - d];
        else if (i < 4 * d)
            y[i] = i < 3 * d ? k[i - 2 * d] * k[i - 2 * d] : v[i - 3 * d] * v[i - 3 * d];
        else
            y[i] = i == 4 * d ? lh_log_length_of(k, d) : i == 4 * d + 1 ? lh_log_length_of(v, d) : 1;
    }
}

/* Slots are query heads here. */
static LH_BOTH inline void lh_divide_rows_slots(const lh_divide_rows_args *a, int64_t row, lh_slot_range r)
{
    const lh_real least = (lh_real)1e-12, squares = (lh_real)a->squares[row];
    const lh_real add = LH_REAL_FN(log)(squares > least ? squares : least) / 2;
    for (int64_t i = r.first; i < r.end; i += r.step)
        a->lse[row * a->heads + i] = (float)((lh_real)a->lse[row * a->heads + i] + add);
}

static LH_BOTH inline void lh_largest_outputs_slots(const lh_largest_outputs_args *a, int64_t h, lh_slot_range r)
{
    for (int64_t s = r.first; s < r.end; s += r.step) {
        lh_real largest = 0;
        for (int64_t j = h * a->group; j < (h + 1) * a->group; j++) {
            const lh_real x = (lh_real)a->x[j * a->x_ld + s] * LH_REAL_FN(sqrt)((lh_real)a->squares[j * a->x_ld + s]);
            largest = x > largest ? x : largest;
        }
        a->y[h * a->y_ld + s] = (float)largest;
    }
}

static LH_BOTH inline void lh_put_stats_slots(const lh_put_stats_args *a, int64_t h, lh_slot_range r)
{
    const int64_t len = a->kv->len[h], from = lh_slot_of_last(len, a->last), end = lh_min_i64(r.end, len - from);
    const uint8_t *state = a->state ? a->state + h * a->ld + from : NULL;
    float *y = lh_slot_at(&a->y, h, from, 0);
    for (int64_t n = r.first; n < end; n += r.step)
        y[n * a->y.step] = !state || state[n] == LH_ENTRY_COMPETES ? a->x[h * a->ld + n] : 0.0f;
}

static LH_BOTH inline void lh_raise_scores_slots(const lh_raise_scores_args *a, int64_t h, lh_slot_range r)
{
    const int64_t end = lh_min_i64(r.end, a->kv->len[h]);
    for (int64_t s = r.first; s < end; s += r.step) {
        const float x = (float)(a->factor * LH_REAL_FN(exp)((lh_real)a->x[h * a->ld + s]));
        a->y[h * a->ld + s] = fmaxf(a->y[h * a->ld + s], x);
    }
}

static LH_BOTH inline float lh_floored_norm(const lh_key_products *p, int64_t slot)
{
    return p->norms[slot] + 1e-8f;
}

/* Slots are rows of products here. */
static LH_BOTH inline void lh_last_similar_slots(const lh_last_similar_args *a, int64_t row, lh_slot_range range)
{
    const lh_key_products *p = &a->of;
    (void)row;
    for (int64_t r = range.first; r < range.end; r += range.step) {
        const float *dots = p->dots + r * p->cols, least = a->threshold * lh_floored_norm(p, p->first + r);
        int64_t last = -1, first = 0;
        for (int64_t c = 0; c < p->cols; c++) {
            const int is_similar = c != p->first + r && dots[c] > least * lh_floored_norm(p, c);
            const int64_t at = p->positions ? p->positions[c] : c;
            if (is_similar && (last < 0 || at > (p->positions ? p->positions[last] : last))) last = c;
            if (p->positions && at < p->positions[first]) first = c;
        }
        a->y[r] = (int32_t)(last < 0 ? first : last);
    }
}

static LH_BOTH inline void lh_add_similarities_slots(const lh_add_similarities_args *a, int64_t row,
                                                     lh_slot_range range)
{
    const lh_key_products *p = &a->of;
    (void)row;
    for (int64_t r = 0; r < p->rows; r++) {
        const float *dots = p->dots + r * p->cols, factor = 1.0f / lh_floored_norm(p, p->first + r);
        for (int64_t c = range.first; c < range.end; c += range.step) {
            const int is_left = c != p->first + r && c != a->last[r];
            a->y[c] += is_left ? dots[c] * factor / lh_floored_norm(p, c) : 0.0f;
        }
    }
}

static LH_BOTH inline void lh_mix_scores_slots(const lh_mix_scores_args *a, int64_t row, lh_slot_range r)
{
    (void)row;
    for (int64_t s = r.first; s < r.end; s += r.step) a->y[s] = a->own * a->y[s] + a->other * a->x[s];
}

static LH_BOTH inline void lh_weigh_scores_slots(const lh_weigh_scores_args *a, int64_t h, lh_slot_range r)
{
    const float *norms = lh_slot_at(&a->norms, h, 0, 0), *x = a->x + h * a->ld;
    const int64_t end = lh_min_i64(r.end, a->len[h]);
    for (int64_t s = r.first; s < end; s += r.step)
        a->y[h * a->ld + s] = (float)(((lh_real)x[s] + a->add) * norms[s * a->norms.step]);
}

/* row: a head of one of the caches. */
static LH_BOTH inline void lh_share_scores_slots(const lh_share_scores_args *a, int64_t row, lh_slot_range r)
{
    const int64_t b = row / a->heads, h = row % a->heads;
    const double factor = 1.0 / lh_joint_scale(a->top[b], a->all_heads) / (double)a->all_heads;
    float *y = a->y + b * a->y_step + h * a->ld;
    for (int64_t s = r.first; s < r.end; s += r.step) y[s] = (float)((double)a->sums[b * a->cols + s] * factor);
}

/* The value at rank i. *point: the number of points at or before the previous rank, initially 0; updated to rank i. A
 * value between two points is clamped to their range: where points fall along the ranks, no rounding makes the values
 * rise. */
static LH_BOTH inline float lh_value_at_rank(const lh_rank_scores_args *a, const float *values, int64_t *point,
                                             int64_t i)
{
    while (*point < a->points && a->ranks[*point] <= (lh_real)i) ++*point;
    if (*point == 0 || *point == a->points) return values[*point > 0 ? *point - 1 : 0];
    const lh_real from = a->ranks[*point - 1], to = a->ranks[*point], x = values[*point - 1], y = values[*point];
    const lh_real low = x < y ? x : y, high = x < y ? y : x, value = x + (y - x) * (((lh_real)i - from) / (to - from));
    return (float)(value < low ? low : value > high ? high : value);
}

/* Slots are ranks here. */
static LH_BOTH inline void lh_rank_scores_slots(const lh_rank_scores_args *a, int64_t h, lh_slot_range r)
{
    const float *values = a->values + h * a->values_ld;
    const int32_t *order = a->order + h * a->ld;
    const int64_t end = lh_min_i64(r.end, a->counts[h]);
    float *y = a->y + h * a->ld;
    int64_t point = 0;
    for (int64_t i = r.first; i < end; i += r.step) {
        float x = lh_value_at_rank(a, values, &point, i);
        y[order[i]] = a->raise ? fmaxf(x, y[order[i]]) : x;
    }
}

/* All heads of cache b as one row. Not in LH_SLOTWISE_OPS: a device adds in registers, column by column. */
static inline void lh_add_heads_slots(const lh_add_heads_args *a, int64_t b, lh_slot_range r)
{
    const double scale = lh_joint_scale(a->top[b], a->all_heads);
    int64_t *sums = a->sums + b * a->cols;
    for (int64_t s = r.first; s < r.end; s += r.step) sums[s] = 0;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        const int64_t end = lh_min_i64(r.end, a->kv[b].len[h]);
        const float *scores = a->scores + b * a->scores_step + h * a->ld;
        for (int64_t s = r.first; s < end; s += r.step) {
            double x = scores[s] * scale;
            sums[s] += (int64_t)rint(x == x ? x : 0.0);
        }
    }
}

/* All elements as one row. Not in LH_SLOTWISE_OPS: a device moves four numbers in one access. */
static inline void lh_sum_shards_slots(const lh_sum_shards_args *a, int64_t row, lh_slot_range r)
{
    (void)row;
    for (int64_t n = r.first; n < r.end; n += r.step) a->y[n] = a->shards ? a->parts[n] : 0.0f;
    for (int64_t k = 1; k < a->shards; k++)
        for (int64_t n = r.first; n < r.end; n += r.step) a->y[n] += a->parts[k * a->count + n];
}

/* One row with a column per head. */
static LH_BOTH inline void lh_split_counts_slots(const lh_split_counts_args *a, int64_t row, lh_slot_range r)
{
    (void)row;
    for (int64_t h = r.first; h < r.end; h += r.step) {
        a->first[h] = lh_stage_of(a->stage, a->counts[h]);
        a->rest[h] = a->counts[h] - a->first[h];
    }
}

/* ---- values, for the loops of backends ---- */

/* Visits of the entry at position p in finish_scores: rows at positions [first_row, seen) that saw it, and the rows
 * that saw every entry. In double, which holds them exactly: the compiler vectorises a loop over it. */
static LH_BOTH inline double lh_visits_of(const lh_finish_scores_args *a, double p)
{
    double seen = (double)a->seen, from = (double)a->first_row,
           until = p + (double)(a->window > 0 ? a->window : a->seen);
    until = until < seen ? until : seen;
    from = p > from ? p : from;
    return (until > from ? until - from : 0.0) + (double)a->more;
}

/* y[h,j] of group_reduce. A maximum ignores NaN, a sum does not. */
static LH_BOTH inline float lh_reduced(const lh_group_reduce_args *a, int64_t h, int64_t j)
{
    const float *x = a->x + h * a->group * a->x_ld + j;
    double sum = 0.0;
    float top = -INFINITY;
    for (int64_t i = 0; i < a->group; i++) {
        sum += x[i * a->x_ld];
        top = fmaxf(top, x[i * a->x_ld]);
    }
    double joined = a->kind == LH_GROUP_MAX ? top : a->kind == LH_GROUP_MEAN ? sum / (double)a->group : sum;
    return (float)(a->factor * joined);
}

#endif
