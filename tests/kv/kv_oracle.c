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
    oracle_tally t = {.sums = oracle_alloc((group + 8) * o->cap, sizeof *t.sums), .group = group, .cap = o->cap};
    t.squares = t.sums + group * o->cap;
    t.counts = t.squares + o->cap;
    t.unsure = t.counts + o->cap;
    t.visits = t.unsure + o->cap;
    t.each = t.visits + o->cap;
    t.largest = t.each + o->cap;
    t.errors = t.largest + o->cap;
    t.off = t.errors + o->cap;
    return t;
}

void oracle_tally_clear(oracle_tally *t)
{
    lh_free(t->sums);
    *t = (oracle_tally){0};
}

oracle_rows oracle_reference_row(const oracle *o, int64_t n, int64_t r)
{
    const int64_t t = (r + 1) * o->seen / n - 1, after = (int64_t)ceil(256.0 * (double)(r + 1) / (double)n) - 1;
    return (oracle_rows){.from = t, .to = t + 1, .now = 1, .after = o->seen + after};
}

oracle_rows oracle_chosen_row(const oracle *o, int64_t n, int64_t r)
{
    oracle_rows row = oracle_reference_row(o, n, r);
    if (!o->fixed.rows_spread) row.from = o->seen - n + r, row.to = row.from + 1;
    if (o->fixed.score.rows_at == LH_ROWS_AT_OWN) row.after = 0;
    return row;
}

static void recount_chosen(const oracle *o, int64_t l, int64_t g, oracle_tally *to)
{
    const int64_t n = o->fixed.rows < o->seen ? o->fixed.rows : o->seen;
    for (int64_t r = 0; r < n; r++) {
        oracle_rows rows = oracle_chosen_row(o, n, r);
        rows.layer = l;
        rows.g = g;
        oracle_observe(o, &rows, to);
    }
}

oracle_tally oracle_recount(const oracle *o, int64_t l, int64_t g)
{
    oracle_tally t = make_tally(o);
    int64_t rows = o->fixed.rows < o->seen ? o->fixed.rows : o->seen, head = o->fixed.first_rows;
    if (o->fixed.score.rows_at == LH_ROWS_AT_AFTER || o->fixed.rows_spread) {
        recount_chosen(o, l, g, &t);
        return t;
    }
    oracle_rows at = {.layer = l, .g = g, .from = o->first_row, .to = o->seen};
    if (!o->fixed.score.running) at.from = o->seen - rows + head, at.now = 1;
    oracle_observe(o, &at, &t);
    if (head) oracle_observe(o, &(oracle_rows){.layer = l, .g = g, .to = head, .now = 1}, &t);
    return t;
}

/* Rows that have passed since. */
static void go_on(oracle *o, int64_t l)
{
    for (int64_t g = 0; g < o->of->kv_heads && o->fixed.score.running; g++)
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
        if (pos < o->fixed.sinks && pos >= from && sinks > 0) keep = 1, sinks--;
        state[pos] = gone[pos] != INT32_MAX || pos < from ? LH_ENTRY_DROP : keep ? LH_ENTRY_KEEP : LH_ENTRY_COMPETES;
    }
}

/* VaSE's range of a value, as floats have it. */
static float value_range(const oracle *o, int64_t l, int64_t g, int64_t p)
{
    const double *v = oracle_value(o, l, p, g);
    double least = v[0], most = v[0];
    for (int64_t x = 1; x < o->of->dim; x++) least = fmin(least, v[x]), most = fmax(most, v[x]);
    return (float)most - (float)least;
}

/* As many as there are, of the entries that compete. */
static void keep_largest_values(const oracle *o, int64_t l, int64_t g, int64_t values, uint8_t *state)
{
    for (int64_t n = 0; n < values; n++) {
        int64_t best = -1;
        for (int64_t p = 0; p < o->seen; p++)
            if (state[p] == LH_ENTRY_COMPETES && (best < 0 || value_range(o, l, g, p) > value_range(o, l, g, best)))
                best = p;
        if (best < 0) return;
        state[best] = LH_ENTRY_KEEP;
    }
}

static void drop_unseen(oracle *o, int64_t l)
{
    for (int64_t g = 0; g < o->of->kv_heads; g++)
        for (int64_t p = 0; p <= o->seen - oracle_window(o, l); p++)
            if (gone_of(o, l, g)[p] == INT32_MAX) gone_of(o, l, g)[p] = (int32_t)o->seen;
}

/* Whether heads hold more than the budget lets them: each for itself, or together. */
static int too_much(const oracle *o, int64_t l, int64_t from, int64_t budget)
{
    int64_t heads = o->of->kv_heads, all = 0, longest = 0;
    for (int64_t g = 0; g < heads; g++) {
        int64_t n = 0;
        for (int64_t p = from; p < o->seen; p++) n += gone_of(o, l, g)[p] == INT32_MAX;
        all += n;
        if (n > longest) longest = n;
    }
    return o->fixed.budgets.heads == LH_HEADS_ADAPTIVE ? all > heads * budget : longest > budget;
}

/* Layers whose heads choose at once: one, or all of those that compete. */
typedef struct sheets {
    int64_t n, layers[KV_RIG_LAYERS];
    lh_protection protect[KV_RIG_LAYERS];
} sheets;

/* States and scores of the sheets, [n * kv_heads, cap]. */
typedef struct ranking {
    uint8_t *state, *keep, *doubt;
    oracle_number *first, *second, *flat; /* second: NULL, with one stage */
} ranking;

static void rank_sheets(oracle *o, const sheets *s, ranking *r)
{
    int64_t heads = o->of->kv_heads, each = heads * o->cap, all = s->n * each;
    *r = (ranking){.state = oracle_alloc(3 * all, 1), .first = oracle_alloc(3 * all, sizeof *r->first)};
    r->keep = r->state + all;
    r->doubt = r->keep + all;
    r->flat = r->first;
    for (int64_t i = 0; i < s->n; i++) {
        oracle_scores scores;
        uint8_t *state = r->state + i * each;
        for (int64_t g = 0; g < heads; g++) {
            classify(o, s->layers[i], g, &s->protect[i], state + g * o->cap);
            keep_largest_values(o, s->layers[i], g, s->protect[i].chosen, state + g * o->cap);
        }
        go_on(o, s->layers[i]);
        oracle_score(o, s->layers[i], state, &scores);
        memcpy(r->first + i * each, scores.first, (size_t)each * sizeof *r->first);
        if (scores.second) {
            r->second = r->first + all;
            memcpy(r->second + i * each, scores.second, (size_t)each * sizeof *r->first);
            if (scores.flat == scores.second) r->flat = r->second;
        }
        if (scores.gains) {
            r->flat = r->first + 2 * all;
            memcpy(r->flat + i * each, scores.gains, (size_t)each * sizeof *r->first);
        }
        oracle_scores_clear(&scores);
    }
}

static void evict_sheets(oracle *o, const sheets *s)
{
    int64_t heads = o->of->kv_heads, each = heads * o->cap;
    ranking r;
    if (!s->n) return;
    rank_sheets(o, s, &r);
    oracle_choose(&(oracle_choice){.fixed = &o->fixed,
                                   .protect = s->protect,
                                   .layers = s->n,
                                   .heads = s->n * heads,
                                   .cols = o->cap,
                                   .first = r.first,
                                   .flat = r.flat,
                                   .second = r.second,
                                   .state = r.state,
                                   .keep = r.keep,
                                   .doubt = r.doubt});
    for (int64_t i = 0; i < s->n * each; i++) {
        int64_t at = s->layers[i / each] * each + i % each;
        o->decided += r.state[i] == LH_ENTRY_COMPETES;
        o->doubted += r.doubt[i];
        o->doubt[at] = r.doubt[i];
        if (r.state[i] != LH_ENTRY_DROP && !r.keep[i]) o->gone[at] = (int32_t)o->seen;
    }
    lh_free(r.state);
    lh_free(r.first);
}

/* A layer goes down to its budget a head, or makes room for a block beside it; or joins those that compete, if it is
 * one of them. */
static void evict_layer(oracle *o, int64_t l, int64_t block, sheets *competing)
{
    int64_t n = o->of->kv_heads * o->cap, from = o->seen - oracle_window(o, l) + 1;
    if (from < 0) from = 0;
    lh_protection p = lh_policy_protect(
        &o->fixed,
        &(lh_protect_request){.budget = o->budgets[l], .seen = o->seen, .visible_from = from, .block = block});
    memset(o->doubt + l * n, 0, (size_t)n);
    if (!too_much(o, l, from, p.budget)) return;
    sheets alone = {0}, *s = o->fixed.budgets.layers == LH_LAYERS_ADAPTIVE && p.base > 0 ? competing : &alone;
    s->layers[s->n] = l;
    s->protect[s->n++] = p;
    evict_sheets(o, &alone);
}

static void make_budgets(oracle *o)
{
    if (!o->made) /* budgets of layers are made once, when there is something to evict */
        lh_policy_layers(&o->fixed,
                         &(lh_layers_request){.layers = o->of->layers,
                                              .seen = o->seen,
                                              .window = o->of->window,
                                              .sliding = o->of->sliding,
                                              .shares = kv_rig_layer_shares},
                         o->budgets);
    o->made = o->seen > o->fixed.budget;
}

static void evict(oracle *o)
{
    sheets competing = {0};
    make_budgets(o);
    for (int64_t l = 0; l < o->of->layers; l++) evict_layer(o, l, 0, &competing);
    evict_sheets(o, &competing);
}

/* EasyKV's stride: the first C tokens whole, and before each block of n tokens down to C - n. A layer whose window is
 * in the budget loses what slides out of sight alone. */
static void take_in_blocks(oracle *o, const kv_rig_result *got)
{
    int64_t tokens = o->seen, block = o->fixed.block, budget = o->fixed.budget;
    make_budgets(o);
    for (int64_t l = 0; l < o->of->layers; l++) {
        int64_t i = 0;
        for (int64_t at = o->budgets[l]; at < tokens; at += block, i++) {
            o->seen = at;
            o->blocks = i;
            drop_unseen(o, l);
            if (budget < oracle_window(o, l)) evict_layer(o, l, block, NULL);
            mt_check(i < got->block_count[l], "layer %lld was cut before %lld blocks", (long long)l,
                     (long long)got->block_count[l]);
            if (i < got->block_count[l]) oracle_check(o, l, &got->blocks[l][i], "block");
        }
        mt_check(i == got->block_count[l], "layer %lld was cut before %lld blocks, not %lld", (long long)l,
                 (long long)got->block_count[l], (long long)i);
        o->seen = tokens;
        go_on(o, l);
    }
    o->blocks = (tokens - budget + block - 1) / block;
    memset(o->doubt, 0, (size_t)(heads_of(o) * o->cap));
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
                    m[((l * f->rows + t) * f->heads + h) * dim + i] = kv_rig_element(o->of, f->what, l, t, h, i);
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

void oracle_open(oracle *o, const kv_rig_case *of, int64_t cap, const kv_rig_result *got)
{
    lh_policy policy;
    *o = (oracle){.of = of, .cap = cap, .seen = of->tokens};
    mt_try(lh_policy_resolve(&policy, &of->policy));
    lh_policy_ask(&policy, of->question);
    o->fixed = lh_policy_fix(&policy, of->tokens); /* shares are of the prompt */
    o->first_row = o->fixed.block ? 0 : of->tokens - lh_policy_rows(&o->fixed, of->tokens);
    int64_t hidden = kv_rig_hidden(of);
    o->k = matrix(o, cap, of->kv_heads);
    o->v = matrix(o, cap, of->kv_heads);
    o->q = matrix(o, cap, of->heads);
    o->w = matrix(o, hidden, of->heads);
    fill(o, &(filling){'w', hidden, of->heads, 0, hidden}, o->w);
    take_rows(o, 0, of->tokens);
    o->gone = oracle_alloc(heads_of(o) * cap, sizeof *o->gone);
    o->doubt = oracle_alloc(heads_of(o) * cap, 1);
    o->began = oracle_alloc(cap, sizeof *o->began);
    o->tallies = oracle_alloc(heads_of(o), sizeof *o->tallies);
    for (int64_t i = 0; i < heads_of(o) * cap; i++) o->gone[i] = INT32_MAX;
    for (int64_t h = 0; h < heads_of(o) && o->fixed.score.running; h++) o->tallies[h] = make_tally(o);
    for (int64_t l = 0; l < of->layers; l++) o->counted[l] = o->first_row;
    if (o->fixed.evicts && o->fixed.block)
        take_in_blocks(o, got);
    else if (o->fixed.evicts)
        evict(o);
    for (int64_t l = 0; l < of->layers; l++) drop_unseen(o, l); /* after it: the prompt's rows saw them */
}

void oracle_close(oracle *o)
{
    if (o->saved) {
        for (int64_t h = 0; h < heads_of(o); h++) oracle_tally_clear(&o->saved->tallies[h]);
        lh_free(o->saved->tallies);
        lh_free(o->saved->gone);
        lh_free(o->saved);
    }
    for (int64_t h = 0; h < heads_of(o); h++) oracle_tally_clear(&o->tallies[h]);
    lh_free(o->k), lh_free(o->v), lh_free(o->q), lh_free(o->w);
    lh_free(o->gone), lh_free(o->doubt), lh_free(o->began), lh_free(o->tallies);
    *o = (oracle){0};
}

void oracle_take(oracle *o, lh_kv_taken what, int64_t tokens)
{
    mt_check(o->seen + tokens <= o->cap, "the oracle has room for %lld tokens", (long long)o->cap);
    int64_t before = o->steps;
    take_rows(o, o->seen, o->seen + tokens);
    for (int64_t t = o->seen; t < o->seen + tokens; t++) o->began[t] = (int32_t)o->seen;
    o->seen += tokens;
    if (what == LH_KV_STEP) o->steps += tokens;
    for (int64_t l = 0; l < o->of->layers; l++) go_on(o, l);
    memset(o->doubt, 0, (size_t)(heads_of(o) * o->cap));
    for (int64_t l = 0; l < o->of->layers; l++) drop_unseen(o, l);
    if (!o->fixed.evicts || !o->fixed.every) return;
    if (what != LH_KV_BLOCK && o->steps / o->fixed.every == before / o->fixed.every) return;
    o->evictions++;
    evict(o);
}

/* What changes with time, from one to another. */
static void copy_state(oracle *to, const oracle *from, oracle keep)
{
    int64_t heads = heads_of(from);
    memcpy(keep.gone, from->gone, (size_t)(heads * from->cap) * sizeof *from->gone);
    for (int64_t h = 0; h < heads && from->fixed.score.running; h++)
        memcpy(keep.tallies[h].sums, from->tallies[h].sums,
               (size_t)((group_of(from) + 4) * from->cap) * sizeof *from->tallies[h].sums);
    *to = *from;
    to->gone = keep.gone;
    to->tallies = keep.tallies;
    to->saved = keep.saved;
}

void oracle_save(oracle *o)
{
    oracle *m = o->saved;
    if (!m) {
        m = oracle_alloc(1, sizeof *m);
        m->gone = oracle_alloc(heads_of(o) * o->cap, sizeof *m->gone);
        m->tallies = oracle_alloc(heads_of(o), sizeof *m->tallies);
        for (int64_t h = 0; h < heads_of(o) && o->fixed.score.running; h++) m->tallies[h] = make_tally(o);
    }
    copy_state(m, o, *m);
    o->saved = m;
}

void oracle_restore(oracle *o)
{
    copy_state(o, o->saved, *o);
}

/* ---- comparing ---- */

/* Where rounding decides, what is there is right. */
static void adopt(oracle *o, int64_t l, int64_t g, int64_t p, int there)
{
    gone_of(o, l, g)[p] = there ? INT32_MAX : (int32_t)o->seen;
}

void oracle_check(oracle *o, int64_t l, const lh_positions *got, const char *when)
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
        mt_check(o->fixed.budgets.heads == LH_HEADS_ADAPTIVE || at - got->offsets[g] == held,
                 "%s: a head keeps %lld entries", when, (long long)(at - got->offsets[g]));
        all += held;
    }
    if (l == 0) o->checked[0] = o->checked[1] = 0;
    o->checked[0] += all;
    o->checked[1] += got->offsets[got->heads];
    int shared = o->fixed.budgets.layers == LH_LAYERS_ADAPTIVE,
        last = l == o->of->layers - 1; /* rounding may move some on */
    mt_check(shared || all == got->offsets[got->heads], "%s: layer %lld keeps %lld entries, not %lld", when,
             (long long)l, (long long)got->offsets[got->heads], (long long)all);
    mt_check(!shared || !last || o->checked[0] == o->checked[1], "%s: all layers keep %lld entries, not %lld", when,
             (long long)o->checked[1], (long long)o->checked[0]);
}
