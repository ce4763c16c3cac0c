#include "kv_oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void *oracle_alloc(int64_t count, int64_t size)
{
    void *p = NULL;
    mt_try(lh_calloc(&p, count, size));
    return p;
}

int64_t oracle_window(const oracle *o, int64_t l)
{
    return o->of->sliding && o->of->sliding[l] ? o->of->window : INT32_MAX;
}

static int64_t group_of(const oracle *o)
{
    return o->of->heads / o->of->kv_heads;
}

static int64_t heads_of(const oracle *o)
{
    return o->of->layers * o->of->kv_heads;
}

static int32_t *gone_of(const oracle *o, int64_t l, int64_t g)
{
    return o->gone + (l * o->of->kv_heads + g) * o->cap;
}

/* ---- tallies ---- */

static oracle_tally make_tally(const oracle *o)
{
    int64_t group = group_of(o);
    oracle_tally t = {.sums = oracle_alloc((group + 4) * o->cap, sizeof *t.sums), .group = group, .cap = o->cap};
    t.squares = t.sums + group * o->cap;
    t.counts = t.squares + o->cap;
    t.unsure = t.counts + o->cap;
    t.visits = t.unsure + o->cap;
    return t;
}

void oracle_tally_clear(oracle_tally *t)
{
    lh_free(t->sums);
    *t = (oracle_tally){0};
}

oracle_tally oracle_recount(const oracle *o, int64_t l, int64_t g)
{
    oracle_tally t = make_tally(o);
    int64_t rows = o->plan.rows < o->seen ? o->plan.rows : o->seen, head = o->plan.head_rows;
    oracle_rows at = {.layer = l, .g = g, .from = o->first_row, .to = o->seen};
    if (!o->plan.running) at.from = o->seen - rows + head, at.now = 1;
    oracle_observe(o, &at, &t);
    if (head) oracle_observe(o, &(oracle_rows){.layer = l, .g = g, .to = head, .now = 1}, &t);
    return t;
}

/* Rows that have passed since. */
static void go_on(oracle *o, int64_t l)
{
    for (int64_t g = 0; g < o->of->kv_heads && o->plan.running; g++)
        oracle_observe(o, &(oracle_rows){.layer = l, .g = g, .from = o->counted[l], .to = o->seen},
                       &o->tallies[l * o->of->kv_heads + g]);
    o->counted[l] = o->seen;
}

/* ---- evictions ---- */

static void classify(const oracle *o, int64_t l, int64_t g, const lh_protection *p, uint8_t *state)
{
    const int32_t *gone = gone_of(o, l, g);
    int64_t sinks = p->sinks, from = o->seen - oracle_window(o, l) + 1;
    for (int64_t pos = 0; pos < o->seen; pos++) {
        int keep = pos >= o->seen - p->recents;
        if (pos < o->plan.sinks && pos >= from && sinks > 0) keep = 1, sinks--;
        state[pos] = gone[pos] != INT32_MAX || pos < from ? LH_ENTRY_DROP : keep ? LH_ENTRY_KEEP : LH_ENTRY_COMPETES;
    }
}

static void drop_unseen(oracle *o)
{
    for (int64_t l = 0; l < o->of->layers; l++)
        for (int64_t g = 0; g < o->of->kv_heads; g++)
            for (int64_t p = 0; p <= o->seen - oracle_window(o, l); p++)
                if (gone_of(o, l, g)[p] == INT32_MAX) gone_of(o, l, g)[p] = (int32_t)o->seen;
}

/* Whether heads hold more than the budget lets them. */
static int too_much(const oracle *o, int64_t l, int64_t from, int64_t budget)
{
    int64_t heads = o->of->kv_heads, all = 0, longest = 0;
    for (int64_t g = 0; g < heads; g++) {
        int64_t n = 0;
        for (int64_t p = from; p < o->seen; p++) n += gone_of(o, l, g)[p] == INT32_MAX;
        all += n;
        if (n > longest) longest = n;
    }
    return o->plan.heads == LH_HEADS_ADAPTIVE ? all > heads * budget : longest > budget;
}

static void evict_layer(oracle *o, int64_t l, int64_t budget)
{
    int64_t heads = o->of->kv_heads, n = heads * o->cap, from = o->seen - oracle_window(o, l) + 1;
    if (from < 0) from = 0;
    lh_protection p =
        lh_policy_protect(&o->plan, &(lh_protect_request){.budget = budget, .seen = o->seen, .visible_from = from});
    uint8_t *doubt = o->doubt + l * n;
    memset(doubt, 0, (size_t)n);
    if (!too_much(o, l, from, p.budget)) return;
    uint8_t *state = oracle_alloc(n, 1), *keep = oracle_alloc(n, 1);
    oracle_scores scores;
    for (int64_t g = 0; g < heads; g++) classify(o, l, g, &p, state + g * o->cap);
    go_on(o, l);
    oracle_score(o, l, state, &scores);
    oracle_choose(&(oracle_choice){.plan = &o->plan,
                                   .protect = p,
                                   .heads = heads,
                                   .cols = o->cap,
                                   .first = scores.first,
                                   .flat = scores.flat,
                                   .second = scores.second,
                                   .state = state,
                                   .keep = keep,
                                   .doubt = doubt});
    for (int64_t i = 0; i < n; i++) {
        o->decided += state[i] == LH_ENTRY_COMPETES;
        o->doubted += doubt[i];
        if (state[i] != LH_ENTRY_DROP && !keep[i]) o->gone[l * n + i] = (int32_t)o->seen;
    }
    oracle_scores_clear(&scores);
    lh_free(state);
    lh_free(keep);
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

/* ---- time ---- */

/* Rows [from, to) of a matrix [layers, rows, heads, dim]. */
typedef struct filling {
    char what;
    int64_t rows, heads, from, to;
} filling;

static void fill(const oracle *o, const filling *f, double *m)
{
    int64_t dim = o->of->dim;
    for (int64_t l = 0; l < o->of->layers; l++)
        for (int64_t t = f->from; t < f->to; t++)
            for (int64_t h = 0; h < f->heads; h++)
                for (int64_t i = 0; i < dim; i++)
                    m[((l * f->rows + t) * f->heads + h) * dim + i] = (double)rig_element(o->of, f->what, l, t, h, i);
}

static double *matrix(const oracle *o, int64_t rows, int64_t heads)
{
    return oracle_alloc(o->of->layers * rows * heads * o->of->dim, sizeof(double));
}

/* Keys, values and queries of tokens [from, to). */
static void take_rows(oracle *o, int64_t from, int64_t to)
{
    fill(o, &(filling){'k', o->cap, o->of->kv_heads, from, to}, o->k);
    fill(o, &(filling){'v', o->cap, o->of->kv_heads, from, to}, o->v);
    fill(o, &(filling){'q', o->cap, o->of->heads, from, to}, o->q);
}

void oracle_open(oracle *o, const rig_case *of, int64_t cap)
{
    *o = (oracle){.of = of, .cap = cap, .seen = of->tokens};
    mt_try(lh_policy_resolve(&o->plan, &of->policy));
    lh_policy_ask(&o->plan, of->question);
    o->plan = lh_policy_fix(&o->plan, of->tokens); /* shares are of the prompt */
    o->first_row = of->tokens - lh_policy_rows(&o->plan, of->tokens);
    int64_t hidden = rig_hidden(of);
    o->k = matrix(o, cap, of->kv_heads);
    o->v = matrix(o, cap, of->kv_heads);
    o->q = matrix(o, cap, of->heads);
    o->w = matrix(o, hidden, of->heads);
    fill(o, &(filling){'w', hidden, of->heads, 0, hidden}, o->w);
    take_rows(o, 0, of->tokens);
    o->gone = oracle_alloc(heads_of(o) * cap, sizeof *o->gone);
    o->doubt = oracle_alloc(heads_of(o) * cap, 1);
    o->tallies = oracle_alloc(heads_of(o), sizeof *o->tallies);
    for (int64_t i = 0; i < heads_of(o) * cap; i++) o->gone[i] = INT32_MAX;
    for (int64_t h = 0; h < heads_of(o) && o->plan.running; h++) o->tallies[h] = make_tally(o);
    for (int64_t l = 0; l < of->layers; l++) o->counted[l] = o->first_row;
    if (o->plan.evicts) evict(o);
    drop_unseen(o); /* after it: the prompt's rows saw them */
}

void oracle_close(oracle *o)
{
    if (o->marked) {
        for (int64_t h = 0; h < heads_of(o); h++) oracle_tally_clear(&o->marked->tallies[h]);
        lh_free(o->marked->tallies);
        lh_free(o->marked->gone);
        lh_free(o->marked);
    }
    for (int64_t h = 0; h < heads_of(o); h++) oracle_tally_clear(&o->tallies[h]);
    lh_free(o->k), lh_free(o->v), lh_free(o->q), lh_free(o->w);
    lh_free(o->gone), lh_free(o->doubt), lh_free(o->tallies);
    *o = (oracle){0};
}

void oracle_take(oracle *o, lh_kv_taken what, int64_t tokens)
{
    mt_check(o->seen + tokens <= o->cap, "the oracle has room for %lld tokens", (long long)o->cap);
    int64_t before = o->steps;
    take_rows(o, o->seen, o->seen + tokens);
    o->seen += tokens;
    if (what == LH_KV_STEP) o->steps += tokens;
    for (int64_t l = 0; l < o->of->layers; l++) go_on(o, l);
    memset(o->doubt, 0, (size_t)(heads_of(o) * o->cap));
    drop_unseen(o);
    if (!o->plan.evicts || !o->plan.every) return;
    if (what != LH_KV_BLOCK && o->steps / o->plan.every == before / o->plan.every) return;
    o->evictions++;
    evict(o);
}

/* What changes with time, from one to another. */
static void copy_state(oracle *to, const oracle *from, oracle keep)
{
    int64_t heads = heads_of(from);
    memcpy(keep.gone, from->gone, (size_t)(heads * from->cap) * sizeof *from->gone);
    for (int64_t h = 0; h < heads && from->plan.running; h++)
        memcpy(keep.tallies[h].sums, from->tallies[h].sums,
               (size_t)((group_of(from) + 4) * from->cap) * sizeof *from->tallies[h].sums);
    *to = *from;
    to->gone = keep.gone;
    to->tallies = keep.tallies;
    to->marked = keep.marked;
}

void oracle_mark(oracle *o)
{
    oracle *m = o->marked;
    if (!m) {
        m = oracle_alloc(1, sizeof *m);
        m->gone = oracle_alloc(heads_of(o) * o->cap, sizeof *m->gone);
        m->tallies = oracle_alloc(heads_of(o), sizeof *m->tallies);
        for (int64_t h = 0; h < heads_of(o) && o->plan.running; h++) m->tallies[h] = make_tally(o);
    }
    copy_state(m, o, *m);
    o->marked = m;
}

void oracle_rewind(oracle *o)
{
    copy_state(o, o->marked, *o);
}

/* ---- comparing ---- */

/* Where rounding decides, what is there is right. */
static void adopt(oracle *o, int64_t l, int64_t g, int64_t p, int there)
{
    gone_of(o, l, g)[p] = there ? INT32_MAX : (int32_t)o->seen;
}

void oracle_check(oracle *o, int64_t l, const lh_kv_positions *got, const char *when)
{
    int64_t all = 0;
    for (int64_t g = 0; g < got->heads; g++) {
        int64_t at = got->offsets[g], held = 0;
        for (int64_t p = 0; p < o->seen; p++) {
            int there = at < got->offsets[g + 1] && got->positions[at] == p, want = gone_of(o, l, g)[p] == INT32_MAX;
            mt_check(there == want || o->doubt[(l * o->of->kv_heads + g) * o->cap + p],
                     "%s: after %lld tokens layer %lld head %lld position %lld is %s, which is wrong", when,
                     (long long)o->seen, (long long)l, (long long)g, (long long)p, there ? "there" : "gone");
            if (there != want) adopt(o, l, g, p, there);
            at += there;
            held += want;
        }
        mt_check(at == got->offsets[g + 1], "%s: positions out of order", when);
        mt_check(o->plan.heads == LH_HEADS_ADAPTIVE || at - got->offsets[g] == held, "%s: a head keeps %lld entries",
                 when, (long long)(at - got->offsets[g]));
        all += held;
    }
    mt_check(all == got->offsets[got->heads], "%s: layer %lld keeps %lld entries, not %lld", when, (long long)l,
             (long long)got->offsets[got->heads], (long long)all);
}
