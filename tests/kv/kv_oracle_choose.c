/* Choosing by sorting, and which of the choices rounding could turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kv_oracle.h"

enum { HEADS = 64 };

typedef struct entry {
    oracle_number score;
    int64_t head, position, at;
} entry;

static int better(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->score.x != y->score.x) return x->score.x > y->score.x ? -1 : 1;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int overlap(const entry *a, const entry *b, int ties)
{
    if (a->score.x == b->score.x) return ties;
    return fabs(a->score.x - b->score.x) <= a->score.error + b->score.error;
}

/* Of sorted entries the first k are taken, or up to `slack` more or fewer. ties: equal scores may differ in floats. */
typedef struct cut {
    int64_t k, slack;
    int ties;
} cut;

/* Marks those of which rounding decides; returns how many they are. */
static int64_t doubts(const entry *sorted, int64_t n, const cut *c, uint8_t *doubt)
{
    int64_t k = c->k < n ? c->k : n, count = 0, a = k > c->slack ? k - c->slack : 0,
            b = k + c->slack < n ? k + c->slack : n;
    double widest = 0;
    for (int64_t i = 0; i < n; i++) {
        widest = fmax(widest, sorted[i].score.error);
        doubt[i] = i >= a && i < b;
    }
    for (int64_t i = b - 1; i >= 0 && a < n && !(sorted[i].score.x - sorted[a].score.x > 2 * widest); i--)
        for (int64_t j = i < a ? a : i + 1; j < n && !(sorted[i].score.x - sorted[j].score.x > 2 * widest); j++)
            if (overlap(&sorted[i], &sorted[j], c->ties || c->slack)) doubt[i] = doubt[j] = 1;
    for (int64_t i = 0; i < n; i++) count += doubt[i];
    return count;
}

static int inexact_ties(const lh_policy_plan *p)
{
    int joint = p->joint && p->statistic != LH_STAT_COUNT; /* sums of counts over heads are exact */
    return p->pool_kind == LH_POOL_AVG || p->value_prior || joint || p->source == LH_SCORE_KEY_DIFFERENCE ||
           p->select == LH_SELECT_STD_SCOPE;
}

/* All entries that compete, best first. `taken` (may be NULL): those that do no more. */
static int64_t sorted_entries(const oracle_choice *c, const oracle_number *scores, const uint8_t *taken, entry *all)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->heads * c->cols; i++)
        if (c->state[i] == LH_ENTRY_COMPETES && !(taken && taken[i]))
            all[n++] = (entry){.score = scores[i], .head = i / c->cols, .position = i % c->cols, .at = i};
    qsort(all, (size_t)n, sizeof *all, better);
    return n;
}

/* What each head keeps of its competing entries; returns by how many that may be off. */
static int64_t share_out(const oracle_choice *c, entry *all, uint8_t *doubt, int64_t *counts)
{
    int64_t room[HEADS] = {0}, floors[HEADS] = {0}, given[HEADS] = {0}, held = 0, kept = 0;
    const lh_policy_plan *p = c->plan;
    for (int64_t h = 0; h < c->heads; h++) counts[h] = c->protect.base;
    if (p->heads == LH_HEADS_UNIFORM) return 0;
    int64_t n = sorted_entries(c, c->flat, NULL, all), rest = 0;
    for (int64_t i = 0; i < n; i++) room[all[i].head]++;
    for (int64_t h = 0; h < c->heads; h++) {
        floors[h] = p->safeguard == LH_SAFEGUARD_FLOOR ? lh_policy_floor(p, &c->protect, room[h]) : 0;
        held += room[h];
        kept += floors[h];
    }
    kept = (c->heads * c->protect.base < held ? c->heads * c->protect.base : held) - kept;
    for (int64_t i = 0; i < n; i++) /* the best of each head up to its floor have their place already */
        if (given[all[i].head] < floors[all[i].head])
            given[all[i].head]++;
        else
            all[rest++] = all[i];
    int64_t doubtful = doubts(all, rest, &(cut){.k = kept, .ties = inexact_ties(p)}, doubt);
    memset(given, 0, sizeof given);
    for (int64_t i = 0; i < rest && i < kept; i++) given[all[i].head]++;
    if (p->safeguard == LH_SAFEGUARD_INTERP)
        lh_policy_interp(
            p, &(lh_interp_request){.heads = c->heads, .base = c->protect.base, .counts = given, .room = room}, counts);
    else
        for (int64_t h = 0; h < c->heads; h++) counts[h] = floors[h] + given[h];
    return kept > 0 && kept < rest && doubtful ? doubtful + 1 : 0;
}

/* One head takes the best `cut->k` of what competes. Returns how many of them are in doubt. */
static int64_t take(const oracle_choice *c, int64_t h, const oracle_number *scores, const cut *k)
{
    int64_t from = h * c->cols, n;
    entry *all = oracle_alloc(c->cols, sizeof *all);
    uint8_t *doubt = oracle_alloc(c->cols, 1);
    oracle_choice one = *c;
    one.heads = 1;
    one.state += from;
    n = sorted_entries(&one, scores + from, c->keep + from, all);
    int64_t doubtful = doubts(all, n, k, doubt);
    for (int64_t i = 0; i < n; i++) {
        if (i < k->k) c->keep[from + all[i].at] = 1;
        if (doubt[i] && c->doubt) c->doubt[from + all[i].at] = 1;
    }
    lh_free(all);
    lh_free(doubt);
    return k->k < n || k->slack ? doubtful : 0;
}

void oracle_choose(const oracle_choice *c)
{
    int64_t counts[HEADS];
    entry *all = oracle_alloc(c->heads * c->cols, sizeof *all);
    uint8_t *doubt = oracle_alloc(c->heads * c->cols, 1);
    int64_t slack = share_out(c, all, doubt, counts);
    int ties = inexact_ties(c->plan);
    for (int64_t i = 0; i < c->heads * c->cols; i++) {
        c->keep[i] = c->state[i] == LH_ENTRY_KEEP;
        if (c->doubt) c->doubt[i] = 0;
    }
    for (int64_t h = 0; h < c->heads; h++) {
        int64_t stage = c->second ? lh_policy_first_stage(c->plan, &c->protect, counts[h]) : counts[h];
        int64_t doubtful = take(c, h, c->first, &(cut){.k = stage, .slack = slack, .ties = ties});
        if (c->second) take(c, h, c->second, &(cut){.k = counts[h] - stage, .slack = slack + doubtful, .ties = ties});
    }
    lh_free(all);
    lh_free(doubt);
}
