/* Choosing by sorting, and which of the choices rounding could turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kv_oracle.h"
#include "policy_parts.h"

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

/* Equal scores of a head come from the same number, such as the largest of a pool; those of two heads do not, and a
 * weight that is 1 in double may be less in floats. */
static int overlap(const entry *a, const entry *b, int ties)
{
    const int is_apart = a->head != b->head && a->score.x != 0 && a->score.error > 0;
    if (a->score.x == b->score.x) return ties || is_apart;
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

static const lh_protection *protection_of(const oracle_choice *c, int64_t h)
{
    return &c->protect[h / (c->heads / c->layers)];
}

/* floor(x * n) of a decimal. */
static int64_t part_of(lh_decimal x, int64_t n)
{
    int64_t one = 1;
    for (int64_t i = 0; i < x.scale; i++) one *= 10;
    return x.digits * n / one;
}

/* What AdaKV's `floor` gives a head first: its share of what competes, or (kvpress) of its budget, in which the
 * protected entries are. */
static int64_t floor_of(const oracle_choice *c, int64_t h, int64_t room)
{
    const lh_protection *p = protection_of(c, h);
    int64_t sure = part_of(part_decimal(&c->fixed->methods, "alpha"), p->base);
    if (part_word(&c->fixed->methods, "safeguard") != 1) return 0;
    if (part_word(&c->fixed->methods, "compat") == 1) {
        sure = part_of(part_decimal(&c->fixed->methods, "alpha"), p->budget);
        if (sure < 1 && part_decimal(&c->fixed->methods, "alpha").digits) sure = 1;
        sure -= p->sinks + p->recents;
    }
    return sure < 0 ? 0 : sure < room ? sure : room;
}

/* AdaKV's `interp`: x = given * (1 - alpha) + floor(alpha * base), in integers over 10^scale; floors of them, at
 * most what a head has, and one each to the largest rest until `all` are given. */
static void mix(const oracle_choice *c, const int64_t *given, const int64_t *room, int64_t all, int64_t *counts)
{
    int64_t one = 1, x[HEADS];
    for (int64_t i = 0; i < part_decimal(&c->fixed->methods, "alpha").scale; i++) one *= 10;
    for (int64_t h = 0; h < c->heads; h++) {
        x[h] = given[h] * (one - part_decimal(&c->fixed->methods, "alpha").digits) +
               part_of(part_decimal(&c->fixed->methods, "alpha"), protection_of(c, h)->base) * one;
        counts[h] = x[h] / one < room[h] ? x[h] / one : room[h];
        all -= counts[h];
    }
    for (; all > 0; all--) {
        int64_t best = -1;
        for (int64_t h = 0; h < c->heads; h++)
            if (counts[h] < room[h] && (best < 0 || x[h] - counts[h] * one > x[best] - counts[best] * one)) best = h;
        counts[best]++;
    }
}

static int inexact_ties(const lh_policy_numbers *p)
{
    int joint = p->select.joint && p->score.source != LH_METHOD_count; /* sums of counts over heads are exact */
    return p->shape.pool == LH_POOL_AVG || part_word(&p->methods, "value-prior") || joint ||
           p->score.source == LH_METHOD_key_difference || p->select.kind == LH_METHOD_std_scope ||
           p->select.kind == LH_METHOD_topk_keys || lh_uses_method(&p->methods, LH_METHOD_losses);
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
    int64_t room[HEADS] = {0}, floors[HEADS] = {0}, given[HEADS] = {0}, held = 0, sure = 0, most = 0;
    const lh_policy_numbers *p = c->fixed;
    for (int64_t h = 0; h < c->heads; h++) most += counts[h] = protection_of(c, h)->base;
    if (p->budgets.heads == LH_HEADS_UNIFORM) return 0;
    int64_t n = sorted_entries(c, c->flat, NULL, all), rest = 0;
    for (int64_t i = 0; i < n; i++) room[all[i].head]++;
    for (int64_t h = 0; h < c->heads; h++) {
        floors[h] = floor_of(c, h, room[h]);
        held += room[h];
        sure += floors[h];
    }
    int64_t all_kept = most < held ? most : held, kept = all_kept - sure;
    for (int64_t i = 0; i < n; i++) /* the best of each head up to its floor have their place already */
        if (given[all[i].head] < floors[all[i].head])
            given[all[i].head]++;
        else
            all[rest++] = all[i];
    int64_t doubtful = doubts(all, rest, &(cut){.k = kept, .ties = inexact_ties(p)}, doubt);
    memset(given, 0, sizeof given);
    for (int64_t i = 0; i < rest && i < kept; i++) given[all[i].head]++;
    if (part_word(&p->methods, "safeguard") == 0)
        mix(c, given, room, all_kept, counts);
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
    int ties = inexact_ties(c->fixed);
    for (int64_t i = 0; i < c->heads * c->cols; i++) {
        c->keep[i] = c->state[i] == LH_ENTRY_KEEP;
        if (c->doubt) c->doubt[i] = 0;
    }
    for (int64_t h = 0; h < c->heads; h++) {
        int64_t stage = c->second ? lh_stage_of(lh_policy_stage(c->fixed, protection_of(c, h)), counts[h]) : counts[h];
        int64_t doubtful = take(c, h, c->first, &(cut){.k = stage, .slack = slack, .ties = ties});
        if (c->second) take(c, h, c->second, &(cut){.k = counts[h] - stage, .slack = slack + doubtful, .ties = ties});
    }
    lh_free(all);
    lh_free(doubt);
}
