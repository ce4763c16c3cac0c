/* Scores by their definitions, from whole matrices of keys, values and queries. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kv_oracle.h"
#include "policy_parts.h"

/* Sums of up to some thousand float32 terms, weights by exponentials of logits of about 10. */
static const double ROUNDING = 1e-5;
enum { PRIOR_POOL = 7, FUTURE = 512 };

static int64_t group_of(const oracle *o)
{
    return o->of->heads / o->of->kv_heads;
}

static const int32_t *gone_of(const oracle *o, int64_t l, int64_t g)
{
    return o->gone + (l * o->of->kv_heads + g) * o->cap;
}

static const double *key_of(const oracle *o, int64_t l, int64_t p, int64_t g)
{
    return o->k + ((l * o->cap + p) * o->of->kv_heads + g) * o->of->dim;
}

const double *oracle_value(const oracle *o, int64_t l, int64_t p, int64_t g)
{
    return o->v + ((l * o->cap + p) * o->of->kv_heads + g) * o->of->dim;
}

static const double *query_of(const oracle *o, int64_t l, int64_t t, int64_t i)
{
    return o->q + ((l * o->cap + t) * o->of->heads + i) * o->of->dim;
}

/* ---- rows ---- */

static double gain_of(const oracle *o, int64_t t)
{
    double i = (double)(t + 1), k = (double)o->fixed.budget;
    if (!part_word(&o->fixed.methods, "gain") || i <= k) return 1;
    double gain = sqrt(2 * log(i / k));
    return part_word(&o->fixed.methods, "gain-floor") ? fmax(gain, 1) : gain;
}

/* Pairs of halves of x, turned by a position, or backwards by a negative one. */
static void rotate(const oracle *o, int64_t l, double *x, double position)
{
    int64_t half = kv_rig_half(o->of);
    for (int64_t i = 0; i < half; i++) {
        double angle = (double)((float)position * kv_rig_frequency_of(o->of, l, i)), a = x[i], b = x[i + half];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + half] = b * cos(angle) + a * sin(angle);
    }
}

/* The same of a query, with its factor by position, which a negative position takes back. */
static void rotate_query(const oracle *o, int64_t l, double *x, double position)
{
    const lh_query_scaling s = kv_rig_query_scaling(o->of, l);
    double factor = s.positions ? 1 + (double)s.beta * log(1 + floor(fabs(position) / s.positions)) : 1;
    rotate(o, l, x, position);
    for (int64_t i = 0; i < 2 * kv_rig_half(o->of); i++) x[i] *= position < 0 ? 1 / factor : factor;
}

int oracle_stands_at_slots(const oracle *o, int64_t row)
{
    return o->fixed.evicts && o->fixed.positions == LH_POSITION_SLOT && row >= o->of->tokens;
}

double oracle_rounding(const oracle *o)
{
    return oracle_stands_at_slots(o, o->seen - 1) ? 2 * ROUNDING : ROUNDING; /* keys are turned twice */
}

/* A row of one KV head's query heads: the entries that it sees, and keys and queries as they stand to each other. */
typedef struct row {
    int64_t t, n, *at;
    double *k, *q; /* [n, dim], [group, dim] */
} row;

/* x, rotated by its position, as if by a slot. */
static void move(const oracle *o, int64_t l, double *x, int64_t position, int64_t slot)
{
    rotate(o, l, x, -(double)position);
    rotate(o, l, x, (double)slot);
}

static void move_query(const oracle *o, int64_t l, double *x, int64_t position, int64_t slot)
{
    rotate_query(o, l, x, -(double)position);
    rotate_query(o, l, x, (double)slot);
}

/* Keys stand at the numbers of their entries, the rows that came together after them; in a sliding layer the first of
 * these rows stands where a whole window would end, and all that is held close before it. */
static void move_to_slots(const oracle *o, const oracle_rows *rows, row *r)
{
    const int32_t *gone = gone_of(o, rows->layer, rows->g);
    int64_t began = o->began[r->t], window = oracle_window(o, rows->layer), held = 0, slot = 0, i = 0;
    for (int64_t p = 0; p < began; p++) held += gone[p] > r->t;
    int64_t shift = window == INT32_MAX ? 0 : window - 1 - held;
    for (int64_t p = 0; p <= r->t; p++) {
        if (i < r->n && r->at[i] == p) move(o, rows->layer, r->k + i++ * o->of->dim, p, slot + shift);
        slot += gone[p] > r->t;
    }
    for (int64_t c = 0; c < group_of(o); c++)
        move_query(o, rows->layer, r->q + c * o->of->dim, r->t, held + shift + r->t - began);
}

static row open_row(const oracle *o, const oracle_rows *rows, int64_t t)
{
    int64_t dim = o->of->dim, group = group_of(o);
    const int32_t *gone = gone_of(o, rows->layer, rows->g);
    const int64_t from = rows->after ? rows->after : t;
    int64_t until = (part_word(&o->fixed.methods, "non-causal") && !rows->causal) || rows->after ? o->seen - 1 : t;
    row r = {.t = t, .at = oracle_alloc(o->cap, sizeof *r.at)};
    for (int64_t p = 0; p <= until; p++)
        if (p > from - oracle_window(o, rows->layer) && (rows->now ? gone[p] == INT32_MAX : gone[p] > t))
            r.at[r.n++] = p;
    r.k = oracle_alloc((r.n + group) * dim, sizeof *r.k);
    r.q = r.k + r.n * dim;
    for (int64_t i = 0; i < r.n; i++)
        memcpy(r.k + i * dim, key_of(o, rows->layer, r.at[i], rows->g), (size_t)dim * sizeof *r.k);
    for (int64_t c = 0; c < group; c++)
        memcpy(r.q + c * dim, query_of(o, rows->layer, t, rows->g * group + c), (size_t)dim * sizeof *r.q);
    for (int64_t c = 0; c < group && rows->after; c++) move_query(o, rows->layer, r.q + c * dim, t, from);
    if (oracle_stands_at_slots(o, t)) move_to_slots(o, rows, &r);
    return r;
}

static void close_row(row *r)
{
    lh_free(r->at);
    lh_free(r->k);
}

/* Of query head c of the group and entry i. */
static double logit(const oracle *o, const row *r, int64_t c, int64_t i)
{
    const double *q = r->q + c * o->of->dim, *k = r->k + i * o->of->dim;
    double dot = 0, cap = (double)o->of->softcap;
    for (int64_t x = 0; x < o->of->dim; x++) dot += q[x] * k[x];
    dot *= kv_rig_scale(o->of);
    return cap > 0 ? cap * tanh(dot / cap) : dot;
}

/* Squared errors of the row's output without each of the entries, from what is left of its sums; a [n]: weights, which
 * add up to `all`. Floats round outputs and logits, which counts for little where an entry's weight is small. */
static void add_output_errors(const oracle *o, const oracle_rows *rows, const row *r, const double *a, double all,
                              oracle_tally *to)
{
    const int64_t dim = o->of->dim;
    double *sums = oracle_alloc(dim, sizeof *sums);
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t x = 0; x < dim; x++) sums[x] += a[i] * oracle_value(o, rows->layer, r->at[i], rows->g)[x];
    for (int64_t i = 0; i < r->n && r->n > 1; i++) {
        const double *v = oracle_value(o, rows->layer, r->at[i], rows->g), p = a[i] / all, rate = fmin(p / (1 - p), 4);
        double error = 0, lengths = 0;
        for (int64_t x = 0; x < dim; x++) {
            const double whole = sums[x] / all, left = (sums[x] - a[i] * v[x]) / (all - a[i]);
            error += (whole - left) * (whole - left);
            lengths += whole * whole + left * left + v[x] * v[x];
        }
        to->errors[r->at[i]] += error;
        to->off[r->at[i]] += 10 * oracle_rounding(o) * error + rate * rate * oracle_rounding(o) * lengths;
    }
    lh_free(sums);
}

void oracle_observe(const oracle *o, const oracle_rows *rows, oracle_tally *to)
{
    int64_t group = group_of(o);
    double *a = oracle_alloc(o->cap, sizeof *a), *mean = oracle_alloc(o->cap, sizeof *mean);
    for (int64_t t = rows->from; t < rows->to; t++) {
        row r = open_row(o, rows, t);
        int64_t n = r.n, *at = r.at;
        const double gain = gain_of(o, t);
        for (int64_t i = 0; i < n; i++) mean[i] = 0;
        for (int64_t c = 0; c < group; c++) {
            double top = -INFINITY, all = 0;
            for (int64_t i = 0; i < n; i++) {
                a[i] = gain * logit(o, &r, c, i);
                top = fmax(top, a[i]);
            }
            for (int64_t i = 0; i < n; i++) all += a[i] = exp(a[i] - top);
            for (int64_t i = 0; i < n; i++) {
                to->sums[c * o->cap + at[i]] += a[i] / all;
                to->each[at[i]] += a[i] / all * (a[i] / all);
                to->largest[at[i]] = fmax(to->largest[at[i]], a[i] / all);
                mean[i] += a[i] / all / (double)group;
            }
            if (o->fixed.score.source == LH_METHOD_output_error) add_output_errors(o, rows, &r, a, all, to);
        }
        for (int64_t i = 0; i < n; i++) {
            double times = mean[i] * (double)n; /* the mean weight of the row */
            to->squares[at[i]] += mean[i] * mean[i];
            to->counts[at[i]] += n > 1 && times > 1;
            to->unsure[at[i]] += n > 1 && fabs(times - 1) < oracle_rounding(o);
            to->visits[at[i]] += 1;
        }
        close_row(&r);
    }
    lh_free(a);
    lh_free(mean);
}

void oracle_row_weights(const oracle *o, const oracle_rows *rows, int64_t i, double *weights)
{
    row r = open_row(o, rows, rows->from);
    double top = -INFINITY, all = 0;
    memset(weights, 0, (size_t)o->cap * sizeof *weights);
    for (int64_t n = 0; n < r.n; n++) top = fmax(top, logit(o, &r, i, n));
    for (int64_t n = 0; n < r.n; n++) all += weights[r.at[n]] = exp(logit(o, &r, i, n) - top);
    for (int64_t n = 0; n < r.n; n++) weights[r.at[n]] /= all;
    close_row(&r);
}

/* Of query head c of the row's group. */
static double log_sum_exp(const oracle *o, const row *r, int64_t c)
{
    double top = -INFINITY, all = 0;
    for (int64_t i = 0; i < r->n; i++) top = fmax(top, logit(o, r, c, i));
    for (int64_t i = 0; i < r->n; i++) all += exp(logit(o, r, c, i) - top);
    return top + log(all);
}

void oracle_check_lse(const oracle *o, const float *got, const char *when)
{
    if (lh_fits_bias(&o->fixed.methods)) return; /* the rows after a fit see its biases, too */
    for (int64_t l = 0; l < o->of->layers; l++)
        for (int64_t g = 0; g < o->of->kv_heads; g++) {
            row r = open_row(o, &(oracle_rows){.layer = l, .g = g, .causal = 1}, o->seen - 1);
            for (int64_t c = 0; c < group_of(o); c++) {
                double want = log_sum_exp(o, &r, c), have = (double)got[l * o->of->heads + g * group_of(o) + c];
                mt_check(fabs(want - have) < 1e-4,
                         "%s: layer %lld, the row at %lld: query head %lld of KV head %lld "
                         "has a log-sum-exp of %.7g, not %.7g",
                         when, (long long)l, (long long)r.t, (long long)c, (long long)g, have, want);
            }
            close_row(&r);
        }
}

/* ---- attention ---- */

static int64_t rows_of(const oracle *o)
{
    return o->fixed.rows < o->seen ? o->fixed.rows : o->seen;
}

static int64_t first_row(const oracle *o)
{
    return o->fixed.score.running ? o->first_row : o->seen - rows_of(o);
}

/* The function of a test that reads rows: the mean attention of rows and query heads. */
static double mean_attention(const oracle *o, const oracle_tally *t, int64_t p)
{
    double sum = 0;
    for (int64_t c = 0; c < t->group; c++) sum += t->sums[c * o->cap + p];
    return sum / (double)(rows_of(o) * t->group);
}

/* Statistic c of an entry. */
static oracle_number statistic(const oracle *o, const oracle_tally *t, int64_t c, int64_t p)
{
    oracle_number n = {t->sums[c * o->cap + p], 0};
    if (o->fixed.score.source == LH_METHOD_count) return (oracle_number){t->counts[p], t->unsure[p]};
    if (o->fixed.score.source == LH_METHOD_output_error) return (oracle_number){t->errors[p], t->off[p]};
    if (o->fixed.score.source == LH_METHOD_caller_rows) n.x = mean_attention(o, t, p);
    if (o->fixed.score.source == LH_METHOD_mean) n.x /= (double)(o->seen - first_row(o));
    if (o->fixed.score.source == LH_METHOD_max) n.x = t->largest[p];
    if (o->fixed.score.source == LH_METHOD_rms) n.x = sqrt(t->each[p] / (double)(rows_of(o) * group_of(o)));
    if (o->fixed.score.source == LH_METHOD_mas) n.x = t->visits[p] > 0 ? n.x / t->visits[p] : 0;
    n.error = oracle_rounding(o) * n.x;
    return n;
}

static oracle_number deviation(const oracle *o, const oracle_tally *t, int64_t p)
{
    double n = t->visits[p], mean = 0, square = t->squares[p] / n;
    if (n <= 1) return (oracle_number){0};
    for (int64_t c = 0; c < t->group; c++) mean += t->sums[c * o->cap + p] / n / (double)t->group;
    double variance = fmax(0, square - mean * mean), off = 2e-6 * (square + mean * mean), x = sqrt(variance);
    return (oracle_number){x, fmax(sqrt(variance + off) - x, x - sqrt(fmax(0, variance - off)))};
}

/* Joins what the query heads of a group have: x [group, cap] -> y [cap]. */
static void join(const oracle *o, const oracle_number *x, int64_t parts, oracle_number *y)
{
    for (int64_t p = 0; p < o->seen; p++) {
        oracle_number n = {0};
        for (int64_t c = 0; c < parts; c++) {
            oracle_number one = x[c * o->cap + p];
            if (o->fixed.shape.group == LH_GROUP_MAX)
                n = c && n.x > one.x ? n : one;
            else
                n.x += one.x, n.error += one.error;
        }
        if (o->fixed.shape.group == LH_GROUP_MEAN) n.x /= (double)parts, n.error /= (double)parts;
        y[p] = n;
    }
}

/* Over the entries that compete, in order; gaps are ignored. In place. */
static void pool(const oracle *o, const uint8_t *state, int kind, int64_t k, oracle_number *x)
{
    int64_t *at = oracle_alloc(o->seen, sizeof *at), n = 0, half = (k - 1) / 2;
    oracle_number *y = oracle_alloc(o->seen, sizeof *y);
    for (int64_t p = 0; p < o->seen; p++)
        if (state[p] == LH_ENTRY_COMPETES) at[n++] = p;
    for (int64_t i = 0; i < n; i++) {
        oracle_number sum = {0}, top = x[at[i]];
        for (int64_t m = i > half ? i - half : 0; m < n && m <= i + half; m++) {
            sum.x += x[at[m]].x;
            sum.error += x[at[m]].error;
            if (x[at[m]].x > top.x) top = x[at[m]];
        }
        sum.x /= (double)k, sum.error /= (double)k; /* sums of counts are exact */
        y[at[i]] = kind == LH_POOL_MAX ? top : sum;
    }
    memcpy(x, y, (size_t)o->seen * sizeof *x);
    lh_free(at);
    lh_free(y);
}

double oracle_value_square(const oracle *o, int64_t l, int64_t g, int64_t p)
{
    const double *v = oracle_value(o, l, p, g);
    double sum = 0;
    for (int64_t x = 0; x < o->of->dim; x++) sum += v[x] * v[x];
    return sum;
}

double oracle_projected_norm(const oracle *o, int64_t l, int64_t g, int64_t p)
{
    int64_t group = group_of(o), dim = o->of->dim, hidden = kv_rig_hidden(o->of);
    const double *v = oracle_value(o, l, p, g);
    double sum = 0;
    for (int64_t i = g * group; i < (g + 1) * group; i++)
        for (int64_t h = 0; h < hidden; h++) {
            const double *w = o->w + ((l * hidden + h) * o->of->heads + i) * dim;
            double y = 0;
            for (int64_t x = 0; x < dim; x++) y += v[x] * w[x];
            sum += fabs(y);
        }
    return sum / (double)group;
}

static void apply_prior(const oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    oracle_number *prior = oracle_alloc(o->cap, sizeof *prior);
    double top = 0;
    for (int64_t p = 0; p < o->seen; p++)
        if (state[p] == LH_ENTRY_COMPETES) prior[p].x = oracle_value_square(o, l, g, p);
    pool(o, state, LH_POOL_AVG, PRIOR_POOL, prior);
    for (int64_t p = 0; p < o->seen; p++) top = fmax(top, prior[p].x);
    for (int64_t p = 0; p < o->seen; p++) {
        double share = top > 0 ? prior[p].x / top : 0;
        scores[p] = (oracle_number){scores[p].x * share, (scores[p].error + ROUNDING * scores[p].x) * share};
    }
    lh_free(prior);
}

/* Scores below the mean of what competes are the mean; and shares of the norms of projected values weigh them. */
static void defend(const oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    oracle_number mean = {0};
    double *norms = oracle_alloc(o->seen, sizeof *norms), all = 0, n = 0;
    for (int64_t p = 0; p < o->seen; p++) n += state[p] == LH_ENTRY_COMPETES;
    for (int64_t p = 0; p < o->seen; p++) {
        if (state[p] != LH_ENTRY_COMPETES) continue;
        mean.x += scores[p].x / n, mean.error += scores[p].error / n;
        all += norms[p] = part_word(&o->fixed.methods, "value-norms") ? oracle_projected_norm(o, l, g, p) : 1;
    }
    for (int64_t p = 0; p < o->seen; p++) {
        oracle_number *s = &scores[p];
        double share = !part_word(&o->fixed.methods, "value-norms") ? 1 : all > 0 ? norms[p] / all : 0;
        if (state[p] != LH_ENTRY_COMPETES) continue;
        if (part_word(&o->fixed.methods, "mean-floor") && s->x < mean.x) *s = mean;
        *s = (oracle_number){s->x * share, (s->error + (share < 1 ? ROUNDING * s->x : 0)) * share};
    }
    lh_free(norms);
}

/* ---- redundancy of keys ---- */

static void mix_redundancy(const oracle *o, int64_t l, int64_t g, oracle_number *scores)
{
    const int32_t *gone = gone_of(o, l, g);
    const double share = lh_decimal_value(part_decimal(&o->fixed.methods, "redundancy"));
    int64_t dim = o->of->dim, n = 0;
    double *k = oracle_alloc(o->seen * dim, sizeof *k);
    oracle_number *y = oracle_alloc(o->seen, sizeof *y);
    for (int64_t p = 0; p < o->seen; p++) {
        memcpy(k + n * dim, key_of(o, l, p, g), (size_t)dim * sizeof *k);
        n += gone[p] == INT32_MAX;
    }
    oracle_redundancy(k, n, dim, y);
    for (int64_t p = o->seen - 1; p >= 0; p--) {
        if (gone[p] != INT32_MAX) continue;
        n--;
        scores[p].x = (1 - share) * scores[p].x - share * y[n].x;
        scores[p].error = (1 - share) * scores[p].error + share * y[n].error + 1e-7 * y[n].x;
    }
    lh_free(k);
    lh_free(y);
}

/* ---- learnt scores ---- */

static oracle_number learnt_score(oracle *o, int64_t l, int64_t g, int64_t p)
{
    double *k = oracle_alloc(o->of->dim, sizeof *k);
    memcpy(k, key_of(o, l, p, g), (size_t)o->of->dim * sizeof *k);
    rotate(o, l, k, -(double)p);
    const oracle_number score = oracle_learnt(o->of, l, g, k, oracle_value(o, l, p, g));
    lh_free(k);
    return score;
}

static void by_attention(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores,
                         oracle_number *deviations)
{
    const int whole = lh_methods_have(&o->fixed.methods, LH_JOINT_STATISTIC);
    int64_t parts = whole ? 1 : group_of(o);
    oracle_tally own = {0}, *t = &o->tallies[l * o->of->kv_heads + g];
    oracle_number *x = oracle_alloc(parts * o->cap, sizeof *x);
    int pools = o->fixed.shape.pool != LH_POOL_NONE;
    if (!o->fixed.score.running) {
        own = oracle_recount(o, l, g);
        t = &own;
    }
    for (int64_t c = 0; c < parts; c++) {
        for (int64_t p = 0; p < o->seen; p++) x[c * o->cap + p] = statistic(o, t, c, p);
        if (pools && part_word(&o->fixed.methods, "group-stage"))
            pool(o, state, o->fixed.shape.pool, o->fixed.shape.pool_size, x + c * o->cap);
    }
    for (int64_t p = 0; p < o->seen && deviations; p++) deviations[p] = deviation(o, t, p);
    join(o, x, parts, scores);
    if (pools && !part_word(&o->fixed.methods, "group-stage"))
        pool(o, state, o->fixed.shape.pool, o->fixed.shape.pool_size, scores);
    if (part_word(&o->fixed.methods, "value-prior")) apply_prior(o, l, g, state, scores);
    if (part_word(&o->fixed.methods, "mean-floor") || part_word(&o->fixed.methods, "value-norms"))
        defend(o, l, g, state, scores);
    if (lh_uses_method(&o->fixed.methods, LH_METHOD_redundancy)) mix_redundancy(o, l, g, scores);
    for (int64_t p = 0; p < o->seen && part_word(&o->fixed.methods, "learnt"); p++)
        scores[p] = oracle_larger(scores[p], learnt_score(o, l, g, p), o->seen);
    oracle_tally_clear(&own);
    lh_free(x);
}

/* ---- other sources ---- */

static uint32_t draw(const oracle *o, int64_t l, int64_t g, int64_t p)
{
    uint64_t seed = o->of->seed;
    uint32_t out[4], key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)l << 16, (uint32_t)(o->blocks + o->evictions), (uint32_t)g, (uint32_t)p};
    lh_philox(out, key, counter);
    return out[0];
}

static double key_norm(const oracle *o, int64_t l, int64_t g, int64_t p)
{
    double sum = 0;
    for (int64_t x = 0; x < o->of->dim; x++) sum += key_of(o, l, p, g)[x] * key_of(o, l, p, g)[x];
    return sqrt(sum);
}

/* Keys as they are kept: those that stand at slots, as they were before their rotation. */
static void by_key_difference(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    (void)state;
    const int32_t *gone = gone_of(o, l, g);
    int64_t dim = o->of->dim;
    double *k = oracle_alloc(o->seen * dim, sizeof *k);
    for (int64_t p = 0; p < o->seen; p++) {
        memcpy(k + p * dim, key_of(o, l, p, g), (size_t)dim * sizeof *k);
        if (oracle_stands_at_slots(o, o->seen - 1)) rotate(o, l, k + p * dim, -(double)p);
    }
    double *mean = oracle_alloc(dim, sizeof *mean), length = 0;
    for (int64_t p = 0; p < o->seen; p++)
        for (int64_t x = 0; x < dim && gone[p] == INT32_MAX; x++) mean[x] += k[p * dim + x] / key_norm(o, l, g, p);
    for (int64_t x = 0; x < dim; x++) length += mean[x] * mean[x];
    for (int64_t p = 0; p < o->seen; p++) {
        double dot = 0;
        for (int64_t x = 0; x < dim; x++) dot += mean[x] * k[p * dim + x];
        scores[p] = (oracle_number){-dot / sqrt(length) / key_norm(o, l, g, p), 2e-6};
    }
    lh_free(mean);
    lh_free(k);
}

void oracle_smooth(const oracle *o, const uint8_t *state, oracle_number *scores)
{
    if (o->fixed.shape.pool != LH_POOL_NONE) pool(o, state, LH_POOL_AVG, o->fixed.shape.pool_size, scores);
}

void oracle_score_keys(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    by_key_difference(o, l, g, state, scores);
    oracle_smooth(o, state, scores);
}

/* ---- leverage scores (arXiv 2507.08143) ---- */

/* Few entries are independent of each other, and all have nearly 1. */
static void by_leverage(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    const int32_t *gone = gone_of(o, l, g);
    int64_t dim = o->of->dim, n = 0;
    double *k = oracle_alloc(o->seen * dim, sizeof *k), *y = oracle_alloc(o->seen, sizeof *y);
    (void)state;
    for (int64_t p = 0; p < o->seen; p++) {
        memcpy(k + n * dim, key_of(o, l, p, g), (size_t)dim * sizeof *k);
        rotate(o, l, k + n * dim, -(double)p);
        n += gone[p] == INT32_MAX;
    }
    oracle_leverage(k, n, dim, y);
    for (int64_t p = o->seen - 1; p >= 0; p--)
        if (gone[p] == INT32_MAX) n--, scores[p] = (oracle_number){y[n], 1e-5 + 1e-4 * y[n]};
    lh_free(k);
    lh_free(y);
}

static void by_learning(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    (void)state;
    for (int64_t p = 0; p < o->seen; p++) scores[p] = learnt_score(o, l, g, p);
}

/* ---- LagKV (arXiv 2504.04704) ---- */

static void by_lag(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    int64_t dim = o->of->dim, lag = part_number(&o->fixed.methods, "lag"), first = o->fixed.sinks, end = first;
    double *e = oracle_alloc(lag, sizeof *e), *x = oracle_alloc(2 * o->seen * dim, sizeof *x);
    (void)state;
    for (int64_t p = 0; p < o->seen; p++) {
        memcpy(x + p * dim, key_of(o, l, p, g), (size_t)dim * sizeof *x);
        memcpy(x + (o->seen + p) * dim, oracle_value(o, l, p, g), (size_t)dim * sizeof *x);
    }
    for (; end + 2 * lag <= o->seen; end += lag) {
        memset(e, 0, (size_t)lag * sizeof *e);
        oracle_add_lag_weights(x, dim, end, lag, e);
        oracle_add_lag_weights(x + o->seen * dim, dim, end, lag, e);
        oracle_rank_part(e, lag, scores + end);
    }
    for (int64_t p = 0; p < o->seen; p++)
        if (p < first || p >= end) scores[p].x = p < first ? 3 : 1 + (double)(p - end + 1) / (double)(o->seen - end);
    lh_free(e);
    lh_free(x);
}

/* ---- expected attention (arXiv 2510.00636) ---- */

/* Queries before their rotation: [rows, dim] of query head i. */
static double *unrotated(const oracle *o, int64_t l, int64_t i, int64_t rows)
{
    int64_t dim = o->of->dim, first = o->seen - rows;
    double *q = oracle_alloc(rows * dim, sizeof *q);
    for (int64_t r = 0; r < rows; r++) {
        memcpy(q + r * dim, query_of(o, l, first + r, i), (size_t)dim * sizeof *q);
        rotate_query(o, l, q + r * dim, -(double)(first + r));
    }
    return q;
}

/* n vectors, [n, dim], turned on average as the next positions will be. */
static void turn(const oracle *o, int64_t l, double *x, int64_t n)
{
    int64_t dim = o->of->dim, half = kv_rig_half(o->of);
    double *mean = oracle_alloc(dim, sizeof *mean), *one = oracle_alloc(dim, sizeof *one);
    for (int64_t f = 0; f < FUTURE; f++) {
        for (int64_t i = 0; i < dim; i++) one[i] = i < half; /* becomes cosines, and behind them sines */
        rotate_query(o, l, one, (double)(o->seen + f));
        for (int64_t i = 0; i < 2 * half; i++) mean[i] += one[i] / FUTURE;
    }
    for (int64_t r = 0; r < n; r++, x += dim)
        for (int64_t i = 0; i < half; i++) {
            double first = x[i], second = x[i + half];
            x[i] = first * mean[i] - second * mean[i + half];
            x[i + half] = second * mean[i] + first * mean[i + half];
        }
    lh_free(mean);
    lh_free(one);
}

/* What query head i is expected to give to every entry that competes, added. The variance of q.k is that of the rows'
 * queries, each turned, along k. */
static void expect(const oracle *o, int64_t l, int64_t i, const uint8_t *state, oracle_number *scores)
{
    const int64_t all_rows = o->seen - o->fixed.sinks, last = o->fixed.block || o->seen > o->of->tokens ? 128 : o->seen;
    int64_t dim = o->of->dim, rows = all_rows < last ? all_rows : last, g = i / group_of(o);
    if (rows <= 0) return; /* nothing competes */
    double *q = unrotated(o, l, i, rows), *mean = oracle_alloc(dim, sizeof *mean),
           *s = oracle_alloc(o->seen, sizeof *s);
    double top = -INFINITY, all = 0, scale = kv_rig_scale(o->of);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t x = 0; x < dim; x++) mean[x] += q[r * dim + x] / (double)rows;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t x = 0; x < dim; x++) q[r * dim + x] -= mean[x];
    turn(o, l, q, rows);
    turn(o, l, mean, 1);
    for (int64_t p = 0; p < o->seen; p++) {
        double variance = 0;
        const double *k = key_of(o, l, p, g);
        if (state[p] != LH_ENTRY_COMPETES) continue;
        for (int64_t r = 0; r < rows; r++) {
            double dot = 0;
            for (int64_t x = 0; x < dim; x++) dot += q[r * dim + x] * k[x];
            variance += dot * dot / (double)rows;
        }
        s[p] = scale * scale * variance / 2;
        for (int64_t x = 0; x < dim; x++) s[p] += scale * mean[x] * k[x];
        top = fmax(top, s[p]);
    }
    for (int64_t p = 0; p < o->seen; p++)
        if (state[p] == LH_ENTRY_COMPETES) all += exp(s[p] - top);
    for (int64_t p = 0; p < o->seen; p++)
        if (state[p] == LH_ENTRY_COMPETES) scores[p].x += exp(s[p] - top) / all / (double)group_of(o);
    lh_free(q);
    lh_free(mean);
    lh_free(s);
}

static void by_expectation(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    for (int64_t i = g * group_of(o); i < (g + 1) * group_of(o); i++) expect(o, l, i, state, scores);
    for (int64_t p = 0; p < o->seen; p++) {
        scores[p].x *= sqrt(oracle_value_square(o, l, g, p));
        scores[p].error = ROUNDING * scores[p].x;
    }
}

/* ---- all of it ---- */

static void by_position(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    (void)l, (void)g, (void)state;
    for (int64_t p = 0; p < o->seen; p++) scores[p].x = (double)p;
}

static void by_chance(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    (void)state;
    for (int64_t p = 0; p < o->seen; p++) scores[p].x = (double)lh_uniform(draw(o, l, g, p));
}

static void by_key_norm(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    (void)state;
    for (int64_t p = 0; p < o->seen; p++) scores[p] = (oracle_number){-key_norm(o, l, g, p), 1e-6};
}

/* A scorer's numbers, entry by entry. */
static void by_caller(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores)
{
    int64_t dim = o->of->dim;
    const lh_scorer *scorer = &o->fixed.score.scorer;
    float *k = oracle_alloc(2 * dim, sizeof *k), *v = k + dim;
    (void)state;
    for (int64_t p = 0; p < o->seen; p++) {
        int32_t position = (int32_t)p;
        float score = 0;
        for (int64_t x = 0; x < dim; x++) {
            k[x] = (float)key_of(o, l, p, g)[x];
            v[x] = (float)oracle_value(o, l, p, g)[x];
        }
        mt_try(scorer->score(
            scorer->self,
            &(lh_head_entries){
                .layer = l, .kv_head = g, .count = 1, .head_dim = dim, .positions = &position, .keys = k, .values = v},
            &score));
        scores[p].x = (double)score;
    }
    lh_free(k);
}

/* The definition of every source that is no statistic of attention: scores of one KV head, [seen], which are 0 before.
 * `state` says which entries compete. */
typedef void definition(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_number *scores);
static definition *const definitions[] = {
    [LH_METHOD_caller] = by_caller,
    [LH_METHOD_position] = by_position,
    [LH_METHOD_random] = by_chance,
    [LH_METHOD_key_norm] = by_key_norm,
    [LH_METHOD_key_difference] = by_key_difference,
    [LH_METHOD_lag] = by_lag,
    [LH_METHOD_leverage] = by_leverage,
    [LH_METHOD_expected] = by_expectation,
    [LH_METHOD_linear] = by_learning,
};

static definition *definition_of(lh_method_id source)
{
    return (size_t)source < sizeof definitions / sizeof *definitions ? definitions[source] : NULL;
}

int oracle_defines(lh_method_id source)
{
    int found = lh_methods[source]->statistic || source == LH_METHOD_output_error || source == LH_METHOD_caller_rows ||
                definition_of(source);
    mt_check(found, "the oracle does not know how '%s' scores: add its definition to `definitions` in %s",
             lh_method_label(source).text, __FILE__);
    return found;
}

static void score_head(oracle *o, int64_t l, int64_t g, const uint8_t *state, oracle_scores *out)
{
    oracle_number *scores = out->first + g * o->cap;
    lh_method_id source = o->fixed.score.source;
    int deviates = o->fixed.select.kind == LH_METHOD_std_scope;
    if (!oracle_defines(source)) return;
    if (lh_methods_have(&o->fixed.methods, LH_ATTENDS)) {
        by_attention(o, l, g, state, scores, deviates ? out->second + g * o->cap : NULL);
        return;
    }
    definition_of(source)(o, l, g, state, scores);
    if (o->fixed.shape.pool != LH_POOL_NONE) pool(o, state, o->fixed.shape.pool, o->fixed.shape.pool_size, scores);
}

/* The same for all KV heads: their mean. A sum of counts is exact, so that equal ones are ties. */
static void join_heads(const oracle *o, oracle_number *scores)
{
    int64_t heads = o->of->kv_heads;
    for (int64_t p = 0; p < o->seen; p++) {
        oracle_number mean = {0};
        for (int64_t g = 0; g < heads; g++) {
            mean.x += scores[g * o->cap + p].x;
            mean.error += scores[g * o->cap + p].error;
        }
        mean.x /= (double)heads, mean.error /= (double)heads;
        if (o->fixed.shape.pool == LH_POOL_AVG) mean.error += 1e-6 * mean.x; /* quotients are not */
        for (int64_t g = 0; g < heads; g++) scores[g * o->cap + p] = mean;
    }
}

static oracle_number logarithm(oracle_number n)
{
    return n.x > 0 ? (oracle_number){log(n.x), n.error / n.x} : (oracle_number){-1e30, 0};
}

static void second_stage(const oracle *o, int64_t l, int64_t g, oracle_scores *out)
{
    for (int64_t p = 0; p < o->seen; p++) {
        oracle_number s = out->first[g * o->cap + p], *y = &out->second[g * o->cap + p];
        if (o->fixed.select.kind == LH_METHOD_two_stage) {
            double norm = oracle_projected_norm(o, l, g, p);
            *y = (oracle_number){(s.x + 1e-4) * norm, (s.error + ROUNDING * (s.x + 1e-4)) * norm};
        } else {
            double u = (double)lh_uniform_open(draw(o, l, o->fixed.select.joint ? 0 : g, p)), gumbel = -log(-log(u));
            if (part_word(&o->fixed.methods, "draw") == 1) s = logarithm(s);
            *y = (oracle_number){s.x + gumbel, isinf(gumbel) ? 0 : s.error + 1e-6 * (1 + fabs(s.x) + fabs(gumbel))};
        }
    }
}

void oracle_score(oracle *o, int64_t l, const uint8_t *state, oracle_scores *out)
{
    int64_t heads = o->of->kv_heads;
    int takes_turns = o->fixed.select.kind == LH_METHOD_topk_keys;
    *out = (oracle_scores){.first = oracle_alloc(heads * o->cap, sizeof *out->first)};
    if (o->fixed.select.kind != LH_METHOD_topk && !takes_turns)
        out->second = oracle_alloc(heads * o->cap, sizeof *out->second);
    for (int64_t g = 0; g < heads; g++) score_head(o, l, g, state + g * o->cap, out);
    if (o->fixed.select.joint) join_heads(o, out->first);
    for (int64_t g = 0; g < heads && takes_turns; g++)
        oracle_take_turns(o, l, g, state + g * o->cap, out->first + g * o->cap);
    if (lh_uses_method(&o->fixed.methods, LH_METHOD_losses)) {
        out->gains = oracle_alloc(heads * o->cap, sizeof *out->gains);
        oracle_gain(o, l, state, out->first, out->gains);
    }
    out->flat = out->gains ? out->gains : out->first;
    if (o->fixed.select.kind == LH_METHOD_std_scope) { /* the deviations come first */
        oracle_number *deviations = out->second;
        out->second = out->first;
        out->first = deviations;
    } else if (out->second) {
        for (int64_t g = 0; g < heads; g++) second_stage(o, l, g, out);
    }
}

void oracle_scores_clear(oracle_scores *s)
{
    lh_free(s->first);
    lh_free(s->second);
    lh_free(s->gains);
    *s = (oracle_scores){0};
}
