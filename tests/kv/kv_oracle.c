#include "kv_oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void *host(int64_t count, int64_t size)
{
    void *p = NULL;
    mt_try(lh_calloc(&p, count, size));
    return p;
}

/* ---- choosing ---- */

typedef struct entry {
    double score;
    int64_t head, position;
} entry;

static int better(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

/* counts[h] of `floor`: the best of each head up to its floor, then the best of all others. */
static void floor_counts(const oracle_choice *c, const entry *all, int64_t n, int64_t *counts)
{
    int64_t given[64] = {0}, rest = c->heads * c->base;
    uint8_t *taken = host(n, 1);
    for (int64_t i = 0; i < n; i++) {
        if (given[all[i].head] >= lh_decimal_of(c->plan->alpha, c->base)) continue;
        given[all[i].head]++, rest--;
        taken[i] = 1;
    }
    for (int64_t i = 0; i < n && rest > 0; i++)
        if (!taken[i]) given[all[i].head]++, rest--;
    memcpy(counts, given, (size_t)c->heads * sizeof *counts);
    lh_free(taken);
}

void oracle_choose(const oracle_choice *c)
{
    int64_t room[64] = {0}, counts[64] = {0}, given[64] = {0}, n = 0;
    entry *all = host(c->heads * c->cols, sizeof *all);
    for (int64_t h = 0; h < c->heads; h++)
        for (int64_t p = 0; p < c->cols; p++) {
            int64_t i = h * c->cols + p;
            c->keep[i] = c->state[i] == LH_ENTRY_KEEP;
            if (c->state[i] != LH_ENTRY_COMPETES) continue;
            all[n++] = (entry){.score = c->scores[i], .head = h, .position = p};
            room[h]++;
        }
    qsort(all, (size_t)n, sizeof *all, better);
    if (c->plan->heads == LH_HEADS_UNIFORM) {
        for (int64_t h = 0; h < c->heads; h++) counts[h] = c->base;
    } else if (c->plan->safeguard == LH_SAFEGUARD_FLOOR) {
        floor_counts(c, all, n, counts);
    } else {
        for (int64_t i = 0; i < n && i < c->heads * c->base; i++) given[all[i].head]++;
        lh_policy_interp(
            c->plan, &(lh_interp_request){.heads = c->heads, .base = c->base, .counts = given, .room = room}, counts);
    }
    for (int64_t i = 0; i < n; i++)
        if (counts[all[i].head]-- > 0) c->keep[all[i].head * c->cols + all[i].position] = 1;
    lh_free(all);
}

/* ---- scores ---- */

static uint8_t *held_of(const oracle *o, int64_t l, int64_t g)
{
    return o->held + (l * o->of->kv_heads + g) * o->cap;
}

static int64_t window_of(const oracle *o, int64_t l)
{
    return o->of->sliding && o->of->sliding[l] ? o->of->window : INT32_MAX;
}

/* What every held entry of KV head g receives from one query head over the observed rows. */
static void attend(const oracle *o, int64_t l, int64_t q, double *sums)
{
    const rig_case *c = o->of;
    int64_t g = q / (c->heads / c->kv_heads), rows = o->plan.rows < o->seen ? o->plan.rows : o->seen;
    const uint8_t *held = held_of(o, l, g);
    double *e = host(o->cap, sizeof *e);
    memset(sums, 0, (size_t)o->cap * sizeof *sums);
    for (int64_t t = o->seen - rows; t < o->seen; t++) {
        double all = 0;
        for (int64_t p = 0; p <= t; p++) {
            double dot = 0;
            e[p] = 0;
            if (!held[p] || p <= t - window_of(o, l)) continue;
            for (int64_t i = 0; i < c->dim; i++)
                dot += (double)rig_element(c, 'q', l, t, q, i) * (double)rig_element(c, 'k', l, p, g, i);
            all += e[p] = exp(dot / sqrt((double)c->dim));
        }
        for (int64_t p = 0; p <= t && all > 0; p++) sums[p] += e[p] / all;
    }
    lh_free(e);
}

/* Over the entries that compete, in order; gaps are ignored. */
static void pool(const oracle *o, const uint8_t *state, double *x)
{
    int64_t *at = host(o->seen, sizeof *at), n = 0, half = (o->plan.pool_size - 1) / 2;
    double *y = host(o->seen, sizeof *y);
    for (int64_t p = 0; p < o->seen; p++)
        if (state[p] == LH_ENTRY_COMPETES) at[n++] = p;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, top = -INFINITY;
        for (int64_t m = i > half ? i - half : 0; m < n && m <= i + half; m++) {
            sum += x[at[m]];
            top = fmax(top, x[at[m]]);
        }
        y[at[i]] = o->plan.pool_kind == LH_POOL_MAX ? top : sum / (double)o->plan.pool_size;
    }
    memcpy(x, y, (size_t)o->seen * sizeof *x);
    lh_free(at);
    lh_free(y);
}

static void score_head(const oracle *o, int64_t l, int64_t g, const uint8_t *state, double *scores)
{
    int64_t group = o->of->heads / o->of->kv_heads, after = o->plan.group_after_pool;
    double *one = host(o->cap, sizeof *one);
    int pools = o->plan.pool_kind != LH_POOL_NONE;
    for (int64_t i = 0; i < group; i++) {
        attend(o, l, g * group + i, one);
        if (pools && after) pool(o, state, one);
        for (int64_t p = 0; p < o->seen; p++)
            scores[p] = o->plan.group_kind == LH_GROUP_MAX ? (i ? fmax(scores[p], one[p]) : one[p])
                                                           : (i ? scores[p] + one[p] : one[p]);
    }
    if (pools && !after) pool(o, state, scores);
    lh_free(one);
}

/* ---- evictions ---- */

static void classify(const oracle *o, int64_t l, int64_t g, const lh_protection *p, uint8_t *state)
{
    const uint8_t *held = held_of(o, l, g);
    int64_t sinks = p->sinks, from = o->seen - window_of(o, l) + 1;
    for (int64_t pos = 0; pos < o->seen; pos++) {
        int keep = pos >= o->seen - p->recents;
        if (pos < o->plan.sinks && pos >= from && sinks > 0) keep = 1, sinks--;
        state[pos] = !held[pos] || pos < from ? LH_ENTRY_DROP : keep ? LH_ENTRY_KEEP : LH_ENTRY_COMPETES;
    }
}

static void drop_unseen(oracle *o)
{
    for (int64_t l = 0; l < o->of->layers; l++)
        for (int64_t g = 0; g < o->of->kv_heads; g++)
            for (int64_t p = 0; p <= o->seen - window_of(o, l); p++) held_of(o, l, g)[p] = 0;
}

static void evict_layer(oracle *o, int64_t l, int64_t budget)
{
    int64_t heads = o->of->kv_heads, from = o->seen - window_of(o, l) + 1, all = 0, longest = 0;
    lh_protection p = lh_policy_protect(
        &o->plan, &(lh_protect_request){.budget = budget, .seen = o->seen, .visible_from = from > 0 ? from : 0});
    for (int64_t g = 0; g < heads; g++) {
        int64_t n = 0;
        for (int64_t pos = from > 0 ? from : 0; pos < o->seen; pos++) n += held_of(o, l, g)[pos];
        all += n;
        if (n > longest) longest = n;
    }
    if (o->plan.heads == LH_HEADS_ADAPTIVE ? all <= heads * p.budget : longest <= p.budget) return;
    double *scores = host(heads * o->cap, sizeof *scores);
    uint8_t *state = host(heads * o->cap, 1);
    for (int64_t g = 0; g < heads; g++) {
        classify(o, l, g, &p, state + g * o->cap);
        for (int64_t pos = 0; pos < o->seen; pos++) scores[g * o->cap + pos] = (double)pos;
        if (o->plan.source == LH_SCORE_ATTENTION) score_head(o, l, g, state + g * o->cap, scores + g * o->cap);
    }
    oracle_choose(&(oracle_choice){.plan = &o->plan,
                                   .heads = heads,
                                   .cols = o->cap,
                                   .base = p.base,
                                   .scores = scores,
                                   .state = state,
                                   .keep = held_of(o, l, 0)});
    lh_free(scores);
    lh_free(state);
}

static void evict(oracle *o)
{
    if (!o->made) /* a pyramid's budgets are made once, when there is something to evict */
        lh_policy_layers(
            &o->plan,
            &(lh_layers_request){
                .layers = o->of->layers, .seen = o->seen, .window = o->of->window, .sliding = o->of->sliding},
            o->budgets);
    o->made = o->seen > o->plan.budget_entries;
    for (int64_t l = 0; l < o->of->layers; l++) evict_layer(o, l, o->budgets[l]);
}

static void append(oracle *o, int64_t tokens)
{
    for (int64_t h = 0; h < o->of->layers * o->of->kv_heads; h++)
        memset(o->held + h * o->cap + o->seen, 1, (size_t)tokens);
    o->seen += tokens;
}

void oracle_open(oracle *o, const rig_case *of, int64_t cap)
{
    *o = (oracle){.of = of, .cap = cap};
    mt_try(lh_policy_resolve(&o->plan, &of->policy));
    /* shares are of the prompt */
    o->plan.budget_entries = lh_policy_entries(&o->plan, of->tokens);
    o->plan.rows = o->plan.rows_is_share ? lh_policy_rows(&o->plan, of->tokens) : o->plan.rows;
    o->plan.budget_is_share = o->plan.rows_is_share = 0;
    o->held = host(of->layers * of->kv_heads * cap, 1);
    append(o, of->tokens);
    /* scored over all that the rows saw; what the next row cannot see goes with the eviction */
    if (o->plan.evicts) evict(o);
    drop_unseen(o);
}

void oracle_close(oracle *o)
{
    lh_free(o->held);
    *o = (oracle){0};
}

void oracle_take(oracle *o, lh_kv_taken what, int64_t tokens)
{
    append(o, tokens);
    o->steps += what == LH_KV_STEP;
    drop_unseen(o);
    if (!o->plan.evicts || !o->plan.every) return;
    if (what == LH_KV_BLOCK || o->steps % o->plan.every == 0) evict(o);
}

void oracle_check(const oracle *o, int64_t layer, const lh_kv_positions *got, const char *when)
{
    for (int64_t g = 0; g < got->heads; g++) {
        int64_t at = got->offsets[g];
        for (int64_t p = 0; p < o->seen; p++) {
            int there = at < got->offsets[g + 1] && got->positions[at] == p;
            mt_check(there == held_of(o, layer, g)[p], "%s: layer %lld head %lld position %lld is %s, which is wrong",
                     when, (long long)layer, (long long)g, (long long)p, there ? "there" : "gone");
            at += there;
        }
        mt_check(at == got->offsets[g + 1], "%s: positions out of order", when);
    }
}
