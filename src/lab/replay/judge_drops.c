/* judge_drops.c - entries that a policy evicts after the prompt: a row that comes later does not see them, though they
 * were kept at the prompt's end. They change sides, one by one: few go at each step. */
#include <string.h>

#include "lab/replay/judge_impl.h"

/* An entry, as row n sees it. */
typedef struct entry {
    float weight, norm;
    const float *value;
} entry;

static entry entry_at(const lh_judged_head *w, int64_t n, int64_t at)
{
    const int64_t i = n / w->rows, m = at - w->tokens;
    if (at < w->tokens)
        return (entry){w->weights[n * w->tokens + at], w->norms[i * w->tokens + at], w->values + at * w->dim};
    return (entry){w->recent[n * w->after + m], w->after_norms[i * w->after + m], w->after_values + m * w->dim};
}

static lh_rerun_drops drops_of(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n)
{
    const lh_rerun *x = &r->cells[c->cell].rerun;
    if (!x->answers) return (lh_rerun_drops){0};
    return lh_rerun_drops_of(x, r->judges.answer[n % w->rows], r->layer.data.index, c->head);
}

/* 1 where row n comes after the entry has gone. */
static int is_gone(const lh_judged_head *w, const lh_replay *r, const lh_drop *d, int64_t n)
{
    return d->row <= r->judges.at[n % w->rows];
}

static void add(const lh_judged_head *w, const entry *e, float sign, lh_judge_share *sum, float *values)
{
    sum->mass += (double)e->weight;
    sum->norm += (double)e->weight * (double)e->norm;
    for (int64_t x = 0; x < w->dim && values; x++) values[x] += sign * e->weight * e->value[x];
}

lh_judge_share lh_judge_gone(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n,
                             float *values)
{
    const lh_rerun_drops drops = drops_of(w, r, c, n);
    lh_judge_share sum = {0};
    for (int64_t i = 0; i < drops.count; i++) {
        if (!is_gone(w, r, &drops.at[i], n)) continue;
        const entry e = entry_at(w, n, drops.at[i].entry);
        add(w, &e, -1, &sum, values);
    }
    return sum;
}

lh_judge_share lh_judge_left(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n,
                             float *values)
{
    const lh_rerun_drops drops = drops_of(w, r, c, n);
    const lh_rerun_kept kept = lh_rerun_kept_of(&r->cells[c->cell].rerun, r->layer.data.index, c->head);
    uint8_t *went = w->went + n * (w->tokens + w->after);
    lh_judge_share sum = {0};
    memset(went, 0, (size_t)(w->tokens + w->after));
    for (int64_t i = 0; i < drops.count; i++) went[drops.at[i].entry] = (uint8_t)is_gone(w, r, &drops.at[i], n);
    for (int64_t k = 0; k < kept.count + w->after; k++) {
        const int64_t at = k < kept.count ? kept.positions[k] : w->tokens + k - kept.count;
        const entry e = entry_at(w, n, at);
        if (!went[at]) add(w, &e, 1, &sum, values);
    }
    return sum;
}

int64_t lh_judge_gone_hits(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n)
{
    const lh_rerun_drops drops = drops_of(w, r, c, n);
    const int32_t *top = w->top_at + n * w->top_count;
    int64_t hits = 0;
    for (int64_t i = 0; i < drops.count; i++)
        for (int64_t j = 0; is_gone(w, r, &drops.at[i], n) && j < w->top_count; j++)
            hits += top[j] == drops.at[i].entry;
    return hits;
}
