/* What makes scores of ranks: entries that two scores take by turns, and what an entry gains on the curve of what its
 * head loses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "evict/loss_curves.h"
#include "kv_oracle.h"
#include "policy_parts.h"

static int64_t group_of(const oracle *o)
{
    return o->of->heads / o->of->kv_heads;
}

/* ---- ranks ---- */

typedef struct ranked {
    oracle_number score;
    int64_t position;
} ranked;

static int better(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score.x != y->score.x) return x->score.x > y->score.x ? -1 : 1;
    return x->position < y->position ? -1 : 1;
}

/* Entries that compete, best first, and how many ranks each may be off: entries whose scores floats may turn round, or
 * make different where they are equal. */
static int64_t rank(const oracle *o, const uint8_t *state, const oracle_number *scores, ranked *out, int64_t *off)
{
    int64_t n = 0;
    for (int64_t p = 0; p < o->seen; p++)
        if (state[p] == LH_ENTRY_COMPETES) out[n++] = (ranked){scores[p], p};
    qsort(out, (size_t)n, sizeof *out, better);
    for (int64_t i = 0; i < n; i++) off[i] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            if (out[i].score.x - out[j].score.x <= out[i].score.error + out[j].score.error &&
                (out[i].score.error > 0 || out[j].score.error > 0)) {
                off[i] = off[i] > j - i ? off[i] : j - i;
                off[j] = off[j] > j - i ? off[j] : j - i;
            }
    return n;
}

/* ---- turns ---- */

/* The i-th best of a kind is worth -(i + 1) / share. */
static void take_turns(const oracle *o, const uint8_t *state, const oracle_number *scores, double share,
                       oracle_number *worth)
{
    ranked *all = oracle_alloc(o->seen, sizeof *all);
    int64_t *off = oracle_alloc(o->seen, sizeof *off), n = rank(o, state, scores, all, off);
    share = fmax(share, 1e-9);
    for (int64_t i = 0; i < n; i++) {
        oracle_number *y = &worth[all[i].position], x = {-(double)(i + 1) / share, (double)off[i] / share};
        x.error += 1e-6 * fabs(x.x);
        const double error = fmax(x.error, y->error);
        if (x.x > y->x) *y = x;
        y->error = error;
    }
    lh_free(all);
    lh_free(off);
}

/* 1 where they are rows of their own, beside those that score. */
static int refers_apart(const oracle *o)
{
    return lh_methods_have(&o->fixed.methods, LH_ATTENDS) && o->fixed.score.rows_at != LH_ROWS_AT_AFTER;
}

/* Rows that are looked from. */
static int64_t references_of(const oracle *o)
{
    const int attends = lh_methods_have(&o->fixed.methods, LH_ATTENDS);
    const int64_t some = refers_apart(o) ? 64 : attends || o->fixed.rows < 64 ? o->fixed.rows : 64;
    return some < o->seen ? some : o->seen;
}

/* The weights [cap] of query head i of a KV head's group in the r-th of them. */
static void weigh(const oracle *o, int64_t l, int64_t g, int64_t r, int64_t i, double *weights)
{
    oracle_rows one = (refers_apart(o) ? oracle_reference_row : oracle_chosen_row)(o, references_of(o), r);
    one.layer = l;
    one.g = g;
    oracle_row_weights(o, &one, i, weights);
}

/* Squares of the weights, as means over the pool. */
static void score_references(const oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    double *weights = oracle_alloc(o->cap, sizeof *weights);
    memset(scores, 0, (size_t)o->cap * sizeof *scores);
    for (int64_t r = 0; r < references_of(o); r++)
        for (int64_t i = 0; i < group_of(o); i++) {
            weigh(o, l, g, r, i, weights);
            for (int64_t p = 0; p < o->seen; p++) scores[p].x += weights[p] * weights[p];
        }
    for (int64_t p = 0; p < o->seen; p++) scores[p].error = 2e-5 * scores[p].x;
    oracle_smooth(o, state, scores);
    lh_free(weights);
}

void oracle_take_turns(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    const double share = lh_decimal_value(part_decimal(&o->fixed.methods, "key-share")),
                 rows = lh_decimal_value(part_decimal(&o->fixed.methods, "row-share"));
    oracle_number *second = oracle_alloc(o->cap, sizeof *second), *worth = oracle_alloc(o->cap, sizeof *worth);
    for (int64_t p = 0; p < o->seen; p++) worth[p].x = -INFINITY;
    take_turns(o, state, scores, (1 - rows) * (1 - share), worth);
    oracle_score_keys(o, l, g, state, second);
    take_turns(o, state, second, (1 - rows) * share, worth);
    if (rows > 0) {
        score_references(o, l, g, state, second);
        take_turns(o, state, second, rows, worth);
    }
    memcpy(scores, worth, (size_t)o->seen * sizeof *scores);
    lh_free(second);
    lh_free(worth);
}

/* ---- losses ---- */

/* What the rows of one head put out over the entries up to each point of the curve. */
typedef struct curve {
    double losses[LH_CURVE_POINTS], energy;
} curve;

/* y [dim] = the mean of the values by the weights [seen] of some entries; 0 of none. */
static void put_out(const oracle *o, int64_t l, int64_t g, const double *weights, const uint8_t *takes, double *y)
{
    const int64_t dim = o->of->dim;
    double all = 0;
    memset(y, 0, (size_t)dim * sizeof *y);
    for (int64_t p = 0; p < o->seen; p++) {
        if (!takes[p]) continue;
        all += weights[p];
        for (int64_t x = 0; x < dim; x++) y[x] += weights[p] * oracle_value(o, l, p, g)[x];
    }
    for (int64_t x = 0; x < dim; x++) y[x] = all > 0 ? y[x] / all : 0;
}

/* One row, of query head c of the group. best: the n entries that compete, in order. */
static void add_row(const oracle *o, int64_t l, int64_t g, const double *weights, const uint8_t *state,
                    const ranked *best, int64_t n, curve *to)
{
    const int64_t dim = o->of->dim;
    double *whole = oracle_alloc(2 * dim, sizeof *whole), *part = whole + dim;
    uint8_t *takes = oracle_alloc(o->seen, 1);
    for (int64_t p = 0; p < o->seen; p++) takes[p] = state[p] != LH_ENTRY_DROP;
    put_out(o, l, g, weights, takes, whole);
    for (int64_t x = 0; x < dim; x++) to->energy += whole[x] * whole[x];
    for (int64_t p = 0; p < o->seen; p++) takes[p] = state[p] == LH_ENTRY_KEEP;
    for (int64_t k = 0, i = 0; k < LH_CURVE_POINTS; k++) {
        /* none, then a 1024th of them, a 512th, ..., all: rounded */
        const int64_t until = k ? (int64_t)floor((double)n / exp2(LH_CURVE_POINTS - 1 - (double)k) + 0.5) : 0;
        for (; i < until; i++) takes[best[i].position] = 1;
        put_out(o, l, g, weights, takes, part);
        for (int64_t x = 0; x < dim; x++) to->losses[k] += (part[x] - whole[x]) * (part[x] - whole[x]);
    }
    lh_free(whole);
    lh_free(takes);
}

static curve measure(const oracle *o, int64_t l, int64_t g, const uint8_t *state, const ranked *best, int64_t n)
{
    double *weights = oracle_alloc(o->cap, sizeof *weights);
    curve c = {0};
    for (int64_t r = 0; r < references_of(o); r++)
        for (int64_t i = 0; i < group_of(o); i++) {
            weigh(o, l, g, r, i, weights);
            add_row(o, l, g, weights, state, best, n, &c);
        }
    lh_free(weights);
    return c;
}

/* Gains of a head's entries, in shares of `energy`; each may be off by what rounding makes of the curve's slopes, and
 * by what other ranks have. */
static void gain(const oracle *o, const curve *c, double energy, const ranked *best, const int64_t *off, int64_t n,
                 oracle_number *out)
{
    float losses[LH_CURVE_POINTS], gains[LH_CURVE_POINTS];
    double wrong = 0, last = 0;
    (void)o;
    for (int64_t p = 0; p < LH_CURVE_POINTS; p++) {
        const double error = 1e-5 * c->losses[p] + 1e-5 * sqrt(c->losses[p] * c->energy) + 1e-10 * c->energy,
                     width = (double)(lh_curve_entries(n, p) - (p ? lh_curve_entries(n, p - 1) : 0));
        const int64_t edge = lh_curve_entries(n, p);
        if (width > 0) wrong = fmax(wrong, 2 * (error + last) / width);
        if (edge > 0 && edge < n && (off[edge] || off[edge - 1])) wrong = fmax(wrong, c->losses[0]);
        last = error;
        losses[p] = (float)(c->losses[p] / energy);
    }
    lh_gains_of_losses(n, losses, gains);
    for (int64_t i = 0; i < n; i++) {
        int64_t p = 1;
        while (p < LH_CURVE_POINTS - 1 && lh_curve_entries(n, p) <= i) p++;
        const double from = (double)lh_curve_entries(n, p - 1), to = (double)lh_curve_entries(n, p),
                     slope = ((double)gains[p] - (double)gains[p - 1]) / (to - from);
        const double x = (double)gains[p - 1] + slope * ((double)i - from);
        out[best[i].position] = (oracle_number){x, 1e-5 * x + wrong / energy + (off[i] ? (double)gains[0] : 0)};
    }
}

void oracle_gain(const oracle *o, int64_t l, const uint8_t *state, const oracle_number *scores, oracle_number *out)
{
    const int64_t heads = o->of->kv_heads;
    ranked *best = oracle_alloc(heads * o->cap, sizeof *best);
    int64_t *off = oracle_alloc(heads * o->cap, sizeof *off), *n = oracle_alloc(heads, sizeof *n);
    curve *curves = oracle_alloc(heads, sizeof *curves);
    double energy = 0;
    for (int64_t g = 0; g < heads; g++) {
        const int64_t at = g * o->cap;
        n[g] = rank(o, state + at, scores + at, best + at, off + at);
        curves[g] = measure(o, l, g, state + at, best + at, n[g]);
        energy += curves[g].energy;
    }
    if (o->fixed.budgets.layers != LH_LAYERS_ADAPTIVE || energy <= 0) energy = 1;
    for (int64_t g = 0; g < heads; g++)
        gain(o, &curves[g], energy, best + g * o->cap, off + g * o->cap, n[g], out + g * o->cap);
    lh_free(best);
    lh_free(off);
    lh_free(n);
    lh_free(curves);
}
