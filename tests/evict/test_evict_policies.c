/* Every policy of the table and chance combinations of their parts, against their definition in double: the prompt,
 * steps with evictions, a question in a fork in between; on any ranks, any division of heads, any length and
 * budget. A short sample as it is; with LONGHAUL_LONG=1 in the environment long prompts and some thousand cases. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kv/kv_impl.h"
#include "kv/kv_oracle.h"
#include "policy_parts.h"

static int is_long(void)
{
    return getenv("LONGHAUL_LONG") != NULL;
}

/* ---- chance ---- */

/* The same on all ranks. */
typedef struct dice {
    uint32_t seed, count;
} dice;

static int64_t roll(dice *d, int64_t n)
{
    uint32_t out[4], key[2] = {d->seed, 77}, counter[4] = {d->count++};
    lh_philox(out, key, counter);
    return (int64_t)(out[0] % (uint64_t)n);
}

#define PICK(d, list) (list)[roll((d), (int64_t)(sizeof(list) / sizeof *(list)))]

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Values that a part may take; of statistics all that there are. */
static const struct {
    const char *option;
    const char *const *values; /* ends with NULL */
} values[] = {
    {"statistic", NULL}, /* all words of the option */
    {"lag", TEXTS("1", "3", "8", "20", "128")},
    {"proxies", TEXTS("2%", "10%", "40%", "question")},
    {"proxies-at", TEXTS("both-ends", "end")},
    {"window", TEXTS("0", "1", "5", "16", "40")},
    {"rows", TEXTS("all", "last:1", "last:7", "last:60", "25%", "sample:9")},
    {"rows-at", TEXTS("after", "own")},
    {"gain", TEXTS("on", "off")},
    {"gain-floor", TEXTS("on")},
    {"non-causal", TEXTS("on")},
    {"value-prior", TEXTS("on")},
    {"mean-floor", TEXTS("on", "off")},
    {"value-norms", TEXTS("on", "off")},
    {"redundancy", TEXTS("0.93", "0.5", "1", "0")},
    {"learnt", TEXTS("on")},
    {"group", TEXTS("mean", "max", "sum")},
    {"pool", TEXTS("none", "max", "avg")},
    {"pool-size", TEXTS("1", "3", "7", "31", "501")},
    {"group-stage", TEXTS("weight", "score")},
    {"sinks", TEXTS("0", "1", "4", "30", "10%")},
    {"recents", TEXTS("0", "1", "12", "50%", "33%")},
    {"values", TEXTS("0", "2", "20", "25%")},
    {"head-budget", TEXTS("uniform", "adaptive")},
    {"compete-by", TEXTS("losses", "scores")},
    {"alpha", TEXTS("0", "0.2", "0.5", "1")},
    {"safeguard", TEXTS("interp", "floor")},
    {"layer-budget", TEXTS("uniform", "pyramid", "adaptive", "learnt")},
    {"beta", TEXTS("1", "5", "20")},
    {"select", TEXTS("topk", "two-stage", "std-scope", "topk+sample", "topk+keys")},
    {"key-share", TEXTS("0", "0.5", "0.3", "1")},
    {"row-share", TEXTS("0", "0.5", "0.3", "1")},
    {"first-stage", TEXTS("0", "0.3", "1")},
    {"std-share", TEXTS("0", "0.3", "1")},
    {"random-share", TEXTS("0", "7/19", "1")},
    {"draw", TEXTS("score", "softmax")},
    {"compat", TEXTS("none", "kvpress")},
    {"set-per", TEXTS("head", "layer")},
    {"evict", TEXTS("never", "every", "every:1", "every:2", "every:5")},
};

static const char *const *values_of(int which)
{
    return values[which].values ? values[which].values : lh_part_find(values[which].option)->row.choices;
}

static const struct {
    int64_t heads, kv_heads;
} shapes[] = {{9, 3}, {5, 5}, {4, 1}, {6, 2}, {8, 1}, {12, 6}, {7, 7}, {10, 2}};

static const uint8_t sliding[KV_RIG_LAYERS] = {1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0};

/* A case around a policy; budget text is the caller's. */
static kv_rig_case case_of(dice *d, const lh_policy_options *policy)
{
    static const int64_t tokens[] = {1, 2, 7, 33, 64, 101, 151};
    static const float caps[] = {0, 0, 0, 5};
    int shape = (int)roll(d, sizeof shapes / sizeof *shapes);
    kv_rig_case c = {.heads = shapes[shape].heads,
                     .kv_heads = shapes[shape].kv_heads,
                     .dim = 8,
                     .layers = 2,
                     .tokens = PICK(d, tokens),
                     .more = roll(d, 30),
                     .type = LH_F32,
                     .seed = (uint64_t)roll(d, 1 << 30),
                     .softcap = PICK(d, caps),
                     .policy = *policy};
    if (c.tokens > 30 && roll(d, 3)) c.tokens += roll(d, 20);
    c.question = 1 + roll(d, c.tokens < 20 ? c.tokens : 20);
    if (roll(d, 3) == 0) c.sliding = sliding, c.window = 1 + roll(d, c.tokens + 20);
    return c;
}

static void make_budget(dice *d, int64_t tokens, char text[32])
{
    static const char *const shares[] = {"20%", "50%", "7.5%", "100%"};
    if (roll(d, 4) == 0)
        snprintf(text, 32, "%s", PICK(d, shares));
    else
        snprintf(text, 32, "%lld", (long long)(1 + roll(d, tokens + (roll(d, 8) ? 0 : 20))));
}

/* A preset with some parts changed that goes together. 0: this one does not. */
static int make_policy(dice *d, lh_policy_options *out)
{
    lh_policy plan;
    int presets = 0, changes = (int)roll(d, 5);
    while (lh_policy_at(presets)) presets++;
    *out = (lh_policy_options){.policy = lh_policy_at((int)roll(d, presets))->name, .budget = "50"};
    for (int i = 0; i < changes; i++) {
        int which = (int)roll(d, sizeof values / sizeof *values), n = 0;
        while (values_of(which)[n]) n++;
        part_set(&out->parts, values[which].option, values_of(which)[roll(d, n)]);
    }
    return lh_policy_resolve(&plan, out) == LH_OK && plan.evicts;
}

/* ---- one case ---- */

/* What is carried with the entries is what counting the rows again gives. */
static void check_stats(kv_rig *r, const oracle *o, const char *when)
{
    const lh_heads *h = &r->heads;
    lh_entry_stats at = lh_entry_stats_of(&o->fixed, h);
    for (int64_t l = 0; l < r->of->layers; l++)
        for (int64_t i = 0; i < h->kv_count; i++) {
            const lh_ragged *v = lh_kv_view(r->kv, l);
            if (!v->stats) continue;
            int64_t g = h->kv_first + i, known = v->len[i] - r->kv->layers[l].entries_without_norm;
            oracle_tally t = oracle_recount(o, l, g);
            for (int64_t s = 0; s < v->len[i]; s++) {
                const float *x = v->stats + (v->offset[i] + s) * v->stat_count;
                int64_t p = v->positions ? v->positions[v->offset[i] + s] : s;
                for (int64_t c = 0; c < at.parts && at.sums >= 0; c++) {
                    double want = 0;
                    for (int64_t q = 0; q < t.group; q++)
                        if (at.parts > 1 ? q == c : 1) want += t.sums[q * t.cap + p];
                    if (at.parts == 1) want /= (double)t.group;
                    mt_check(fabs((double)x[at.sums + c] - want) <= oracle_rounding(o) * want + 1e-9,
                             "%s: layer %lld head %lld position %lld carries a sum of %.9g, it is %.9g", when,
                             (long long)l, (long long)g, (long long)p, (double)x[at.sums + c], want);
                }
                if (at.squares >= 0)
                    mt_check(fabs((double)x[at.squares] - t.squares[p]) <= oracle_rounding(o) * t.squares[p] + 1e-9,
                             "%s: a sum of squares of %.9g, it is %.9g", when, (double)x[at.squares], t.squares[p]);
                if (at.counts >= 0)
                    mt_check(fabs((double)x[at.counts] - t.counts[p]) <= t.unsure[p],
                             "%s: layer %lld head %lld position %lld counts %g rows, they are %g", when, (long long)l,
                             (long long)g, (long long)p, (double)x[at.counts], t.counts[p]);
                if (at.norms < 0 || s >= known) continue;
                double square = oracle_value_square(o, l, g, p), got = at.priors < 0 ? square : (double)x[at.priors];
                mt_check(fabs(got - square) <= 1e-5 * square, "%s: a square of %.9g, it is %.9g", when, got, square);
                if (at.norms == at.priors) continue;
                double norm = oracle_projected_norm(o, l, g, p);
                mt_check(fabs((double)x[at.norms] - norm) <= 1e-5 * norm, "%s: a norm of %.9g, it is %.9g", when,
                         (double)x[at.norms], norm);
            }
            oracle_tally_clear(&t);
        }
}

/* Entries a head (or a layer's heads, or those of all layers) hold: the budget after an eviction, and at most what came
 * since more. */
static void check_lengths(const kv_rig *r, const kv_rig_result *got, int64_t since)
{
    const kv_rig_case *c = r->of;
    int64_t held = 0, most = 0;
    lh_policy_numbers fixed = lh_policy_fix(&r->plan, c->tokens);
    for (int64_t l = 0; l < c->layers; l++) {
        const lh_positions *k = &got->kept[l];
        int64_t budget = lh_kv_layer_budget(r->kv, l);
        for (int64_t h = 0; h < c->kv_heads && fixed.budgets.heads == LH_HEADS_UNIFORM; h++)
            mt_check(k->offsets[h + 1] - k->offsets[h] <= budget + since, "%s: a head holds %lld entries of %lld",
                     r->plan.name, (long long)(k->offsets[h + 1] - k->offsets[h]), (long long)budget);
        held += k->offsets[c->kv_heads];
        most += c->kv_heads * (budget + since);
        mt_check(fixed.budgets.layers == LH_LAYERS_ADAPTIVE ||
                     k->offsets[c->kv_heads] <= c->kv_heads * (budget + since),
                 "%s: a layer holds %lld entries", r->plan.name, (long long)k->offsets[c->kv_heads]);
    }
    mt_check(held <= most, "%s: all layers hold %lld entries, more than %lld", r->plan.name, (long long)held,
             (long long)most);
}

static void check_scores(const kv_rig *r, const kv_rig_result *got)
{
    const kv_rig_case *c = r->of;
    for (int64_t l = 0; l < c->layers; l++)
        for (int64_t i = 0; i < r->heads.kv_count * c->tokens && got->scores[l]; i++)
            mt_check(got->state[l][i] != LH_ENTRY_COMPETES || !isnan(got->scores[l][i]), "a score is not a number");
}

/* Deterministic inputs: what one rank alone keeps. */
static void check_alone(const kv_rig_case *c, const lh_ops *ops, const kv_rig_result *got)
{
    lh_comm *self = NULL;
    kv_rig r;
    kv_rig_result mine;
    mt_try(lh_comm_open_self(&self));
    kv_rig_open(&r, c, self, ops);
    kv_rig_prefill(&r, &mine);
    for (int64_t l = 0; l < c->layers; l++) {
        const lh_positions *a = &mine.kept[l], *b = &got->kept[l];
        mt_check(memcmp(a->offsets, b->offsets, (size_t)(a->heads + 1) * sizeof *a->offsets) == 0 &&
                     memcmp(a->positions, b->positions, (size_t)a->offsets[a->heads] * sizeof *a->positions) == 0,
                 "%s: layer %lld: %d ranks differ from one", r.plan.name, (long long)l, mt_size());
    }
    kv_rig_result_clear(&mine);
    kv_rig_close(&r);
    lh_comm_close(self);
}

typedef struct run {
    kv_rig r;
    oracle o;
    kv_rig_result got;
    int64_t since; /* tokens since the last eviction */
    const char *name;
} run;

static void take(run *x, lh_kv_taken what, int64_t tokens)
{
    int64_t before = kv_rig_evictions(x->r.kv);
    kv_rig_take(&x->r, what, tokens);
    kv_rig_gather(&x->r, &x->got);
    x->since = x->got.stats.evictions > before ? 0 : x->since + tokens;
    if (mt_rank()) return;
    oracle_take(&x->o, what, tokens);
    for (int64_t l = 0; l < x->r.of->layers; l++) oracle_check(&x->o, l, &x->got.kept[l], x->name);
    oracle_check_lse(&x->o, x->got.lse, x->name);
    check_lengths(&x->r, &x->got, x->since);
}

/* Whether few scores can be close to each other. Maxima of neighbours are equal, which the sums over joined heads need
 * not be; roots of squares lie close to each other once they are summed over heads; scores that are raised to their
 * mean are equal, and so are ranks of two kinds. */
static int is_sharp(const lh_policy_numbers *fixed)
{
    const int has_roots = fixed->score.source == LH_METHOD_rms;
    int plateaus = (fixed->select.joint && (fixed->shape.pool == LH_POOL_MAX || has_roots)) ||
                   part_word(&fixed->methods, "mean-floor") || fixed->select.kind == LH_METHOD_topk_keys;
    return !plateaus && lh_methods_have(&fixed->methods, LH_ATTENDS) && fixed->shape.pool != LH_POOL_AVG &&
           fixed->budget > 8 && fixed->budgets.heads == LH_HEADS_UNIFORM && fixed->select.kind != LH_METHOD_std_scope;
}

static void check_case(const kv_rig_case *c, const lh_ops *ops, int steps)
{
    run x = {0};
    lh_buf name = {0};
    kv_rig_open(&x.r, c, mt_comm(), ops);
    mt_try(lh_policy_text(&x.r.plan, &name));
    x.name = name.data;
    kv_rig_prefill(&x.r, &x.got);
    check_scores(&x.r, &x.got);
    if (mt_size() > 1 && mt_rank() == 0) check_alone(c, ops, &x.got);
    if (mt_rank() == 0) {
        oracle_open(&x.o, c, c->tokens + 2 * steps + 40, &x.got);
        for (int64_t l = 0; l < c->layers; l++) oracle_check(&x.o, l, &x.got.kept[l], x.name);
        oracle_check_lse(&x.o, x.got.lse, x.name);
        check_lengths(&x.r, &x.got, 0);
        /* of a prompt that stays whole, and of which nothing is evicted later, no statistic is read */
        if (x.o.fixed.every || x.o.fixed.budget < c->tokens) check_stats(&x.r, &x.o, x.name);
    }
    for (int step = 0; step < steps; step++) {
        if (step == steps / 3) { /* another question first, and back */
            kv_rig_fork(&x.r);
            if (mt_rank() == 0) oracle_save(&x.o);
            int64_t since = x.since;
            take(&x, LH_KV_BLOCK, 9);
            take(&x, LH_KV_STEP, 1);
            kv_rig_fork(&x.r);
            if (mt_rank() == 0) oracle_restore(&x.o);
            x.since = since;
            take(&x, LH_KV_BLOCK, 5);
        }
        take(&x, LH_KV_STEP, 1);
    }
    if (mt_rank() == 0) {
        if (x.o.fixed.every) check_stats(&x.r, &x.o, x.name);
        mt_check(!is_sharp(&x.o.fixed) || x.o.doubted * 20 <= x.o.decided + 400,
                 "%s: rounding decides about %lld of %lld entries", x.name, (long long)x.o.doubted,
                 (long long)x.o.decided);
        oracle_close(&x.o);
    }
    mt_check(lh_fits_values(&x.r.fixed.methods) || kv_rig_entries_are_whole(&x.r),
             "%s: an entry is not what was appended", x.name);
    kv_rig_result_clear(&x.got);
    kv_rig_close(&x.r);
    lh_buf_clear(&name);
}

/* ---- the tests ---- */

START_TEST(test_every_source_of_scores_has_a_definition)
{
    for (lh_method_id m = 1; m < LH_METHODS; m++)
        if (lh_methods[m]->source) oracle_defines(m);
    mt_end();
}
END_TEST

/* Any function of an entry will do: of what it is, where it is and whose. */
static lh_status score_entries(void *self, const lh_head_entries *e, float *scores)
{
    *(int64_t *)self += e->count;
    for (int64_t i = 0; i < e->count; i++)
        scores[i] = e->keys[i * e->head_dim] * e->values[i * e->head_dim + 1] + 0.25f * (float)(e->positions[i] % 5) -
                    (float)(e->kv_head + e->layer) / 8;
    return LH_OK;
}

/* The softmax weight of a row of one query head at entry i, from the row and the keys. */
static double weight_of(const lh_head_entries *e, int64_t row, int64_t g, int64_t i)
{
    const float *q = e->queries + (row * e->group + g) * e->head_dim;
    double sum = 0, own = 0;
    for (int64_t j = 0; j < e->count; j++) {
        double dot = 0;
        for (int64_t x = 0; x < e->head_dim; x++) dot += (double)q[x] * (double)e->keys[j * e->head_dim + x];
        if (e->softcap > 0) dot = (double)e->softcap * tanh(dot / (double)e->softcap);
        const int is_seen = e->positions[j] >= e->first_seen[row] && e->positions[j] <= e->last_seen[row];
        if (is_seen) sum += exp(dot);
        if (is_seen && j == i) own = exp(dot);
    }
    return sum > 0 ? own / sum : 0;
}

static void check_hidden(const lh_head_entries *e)
{
    int64_t wrong = e->hidden_size != RIG_HIDDEN;
    for (int64_t row = 0; row < e->rows && !wrong; row++)
        for (int64_t i = 0; i < e->hidden_size; i++)
            wrong += e->hidden[row * e->hidden_size + i] != kv_rig_hidden_state(e->layer, e->row_positions[row], i);
    mt_check(!wrong, "layer %lld, KV head %lld: %lld hidden states of %lld rows are others", (long long)e->layer,
             (long long)e->kv_head, (long long)wrong, (long long)e->rows);
}

/* The mean attention of rows and query heads. Of a few entries it is computed from the queries, too, unless *self: the
 * policy changes the weights. */
static lh_status score_by_rows(void *self, const lh_head_entries *e, float *scores)
{
    if (e->hidden) check_hidden(e);
    for (int64_t i = 0; i < e->count; i++) {
        double sum = 0, again = 0;
        for (int64_t g = 0; g < e->group; g++) sum += (double)e->attention[g * e->count + i];
        scores[i] = (float)(sum / (double)(e->rows * e->group));
        if (*(const int *)self || i % 16 != 5) continue;
        for (int64_t row = 0; row < e->rows; row++)
            for (int64_t g = 0; g < e->group; g++) again += weight_of(e, row, g, i);
        mt_check(fabs(sum - again) < 2e-2 * (sum + 1e-2), "layer %lld, KV head %lld: attention is %g, of queries %g",
                 (long long)e->layer, (long long)e->kv_head, sum, again);
    }
    return LH_OK;
}

START_TEST(test_a_function_that_reads_rows_sees_their_attention)
{
    static const struct {
        lh_policy_parts parts;
        int changes; /* true if the weights are others than the softmax of the held entries */
    } cases[] = {
        {{.window = "5"}, 0},
        {{.window = "4", .rows = "last:9", .head_budget = "adaptive", .sinks = "2"}, 0},
        {{.window = "3", .pool = "max", .pool_size = "5", .head_budget = "adaptive", .layer_budget = "adaptive"}, 0},
        {{.window = "0", .rows = "sample:12", .rows_at = "after", .own = {{"fit", "both"}}}, 0},
        {{.proxies = "10%", .own = {{"gain", "on"}}}, 1},
        {{.window = "4", .evict = "every:2"}, 1},
        {{.window = "4", .evict = "block:8"}, 1},
    };
    char budget[32];
    dice d = {.seed = 9600};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int b = 0; b < 2; b++) {
            int changes = cases[i].changes;
            const int64_t hidden = cases[i].parts.evict ? 0 : LH_READS_HIDDEN;
            const lh_scorer scorer = {.size = sizeof scorer,
                                      .self = &changes,
                                      .score = score_by_rows,
                                      .reads = LH_READS_QUERIES | LH_READS_ATTENTION | hidden};
            lh_policy_options options = {.scorer = &scorer, .parts = cases[i].parts, .budget = budget};
            kv_rig_case c = case_of(&d, &options);
            c.tokens = 60 + roll(&d, 40);
            snprintf(budget, sizeof budget, "%lld", (long long)(14 + roll(&d, 30)));
            check_case(&c, kv_rig_backend(b), 8);
        }
    mt_end();
}
END_TEST

START_TEST(test_a_function_of_the_program_scores_as_it_says)
{
    static const lh_policy_parts parts[] = {
        {0},
        {.sinks = "3", .recents = "2"},
        {.head_budget = "adaptive", .own = {{"alpha", "0.3"}}},
        {.head_budget = "adaptive", .layer_budget = "adaptive"},
        {.pool = "max", .pool_size = "3", .layer_budget = "pyramid"},
        {.evict = "every:2"},
        {.evict = "block:8"},
    };
    char budget[32];
    int64_t scored = 0;
    const lh_scorer scorer = {.self = &scored, .score = score_entries};
    dice d = {.seed = 9500};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int b = 0; b < 2; b++) {
            lh_policy_options options = {.scorer = &scorer, .parts = parts[i], .budget = budget};
            kv_rig_case c = case_of(&d, &options);
            c.tokens = 60 + roll(&d, 40);
            snprintf(budget, sizeof budget, "%lld", (long long)(10 + roll(&d, 30)));
            check_case(&c, kv_rig_backend(b), 8);
        }
    mt_check(scored > 0, "nothing was scored");
    mt_end();
}
END_TEST

/* The prompts here are short for the parts of the preset. */
START_TEST(test_parts_of_a_text_are_compared_as_they_are_defined)
{
    static const char *const lags[] = {"1", "4", "9", "25"}, *const sinks[] = {"0", "4", "11"};
    char budget[32];
    dice d = {.seed = 9700};
    for (int i = 0; i < 8; i++) {
        lh_policy_options options = {.policy = "lagkv", .budget = budget, .parts = {.own = {{"lag", lags[i % 4]}}}};
        kv_rig_case c = case_of(&d, &options);
        c.tokens = 60 + roll(&d, 90);
        c.policy.parts.sinks = PICK(&d, sinks);
        snprintf(budget, sizeof budget, "%lld", (long long)(10 + roll(&d, 60)));
        check_case(&c, kv_rig_backend(i % 2), 3);
    }
    mt_end();
}
END_TEST

/* More rows and entries than are worked out together. */
START_TEST(test_outputs_of_many_rows_are_compared_as_they_are_defined)
{
    lh_policy_options options = {
        .policy = "caote", .budget = "200", .parts = {.window = "8", .rows = "last:530", .evict = "never"}};
    dice d = {.seed = 9900};
    kv_rig_case c = case_of(&d, &options);
    c.tokens = 620;
    for (int b = 0; b < 2; b++) check_case(&c, kv_rig_backend(b), 2);
    mt_end();
}
END_TEST

START_TEST(test_every_preset_does_as_it_is_defined)
{
    static const char *const when[] = {NULL, "every:1", "every:4"};
    char budget[32];
    dice d = {.seed = (uint32_t)_i};
    int rounds = is_long() ? 40 : 2;
    for (int i = 0; i < rounds; i++) {
        const lh_policy_preset *preset = lh_policy_at(_i);
        lh_policy_options options = {.policy = preset->name, .budget = budget, .parts.evict = when[i % 3]};
        lh_policy plan;
        kv_rig_case c = case_of(&d, &options);
        make_budget(&d, c.tokens, budget);
        if (lh_policy_resolve(&plan, &c.policy) != LH_OK) c.policy.parts.evict = NULL;
        if (!preset->parts) c.policy.budget = c.policy.parts.evict = NULL; /* evicts nothing */
        check_case(&c, kv_rig_backend((int)roll(&d, 2)), is_long() ? 40 : 16);
    }
    mt_end();
}
END_TEST

START_TEST(test_parts_combine_as_they_are_defined)
{
    char budget[32];
    dice d = {.seed = 4000 + (uint32_t)_i};
    int rounds = is_long() ? 150 : 6;
    for (int i = 0; i < rounds;) {
        lh_policy_options options;
        lh_policy plan;
        if (!make_policy(&d, &options)) continue;
        kv_rig_case c = case_of(&d, &options);
        make_budget(&d, c.tokens, budget);
        c.policy.budget = budget;
        if (lh_policy_resolve(&plan, &c.policy) != LH_OK) continue;
        check_case(&c, kv_rig_backend((int)roll(&d, 2)), 10);
        i++;
    }
    mt_end();
}
END_TEST

/* Rows at the beginning see what competes only where rows need not be causal. */
START_TEST(test_proxies_at_both_ends_combine_as_they_are_defined)
{
    static const char *const shares[] = {"5%", "12%", "40%"};
    char budget[32];
    dice d = {.seed = 6000 + (uint32_t)_i};
    int rounds = is_long() ? 100 : 5;
    for (int i = 0; i < rounds;) {
        lh_policy_options options;
        lh_policy plan;
        if (!make_policy(&d, &options)) continue;
        options.parts.proxies = PICK(&d, shares);
        options.parts.proxies_at = "both-ends";
        if (roll(&d, 4)) part_set(&options.parts, "non-causal", "on");
        kv_rig_case c = case_of(&d, &options);
        make_budget(&d, c.tokens, budget);
        c.policy.budget = budget;
        if (lh_policy_resolve(&plan, &c.policy) != LH_OK) continue;
        lh_policy_numbers fixed = lh_policy_fix(&plan, c.tokens);
        if (!fixed.first_rows) continue;
        check_case(&c, kv_rig_backend((int)roll(&d, 2)), 10);
        i++;
    }
    mt_end();
}
END_TEST

/* Parts that change the course of a run, with everything that goes with them. */
static const struct {
    lh_policy_parts parts;
    int64_t layers;       /* at most */
    const char *evict[8]; /* NULL: as it comes */
} courses[] = {
    {{0}, 2, {"block:1", "block:3", "block:8", "block:17", "block:5,every:3", "block:2,every:1"}},
    {{.layer_budget = "adaptive", .head_budget = "adaptive", .select = "topk"}, 5, {"never"}},
    {{.positions = "slot"}, 2, {NULL, "never", "every:1", "every:4"}},
    {{.rows_at = "after"}, 2, {"never"}},
    {{.rows_at = "after", .rows = "sample:13", .statistic = "rms"}, 2, {"never"}},
    {{.rows = "sample:24"}, 2, {"never"}},
    {{0}, KV_RIG_LAYERS, {"every:1", "every:3"}},
    {{.layer_budget = "pyramid"}, KV_RIG_LAYERS, {"every:1", "every:2"}},
    {{.layer_budget = "learnt"}, KV_RIG_LAYERS, {"never", "every:1", "every:3"}},
};
enum { COURSES = sizeof courses / sizeof *courses };

/* A case of a policy that takes course n. budget: the text is the caller's. 0: it does not, or nothing would go. */
static int take_course(dice *d, int n, const lh_policy_options *policy, kv_rig_case *c, char budget[32])
{
    int ways = 1;
    lh_policy plan;
    *c = case_of(d, policy);
    make_budget(d, c->tokens, budget);
    c->policy.budget = budget;
    c->layers = 2 + roll(d, courses[n].layers - 1);
    if (c->layers > 2 && roll(d, 2)) c->sliding = sliding, c->window = 1 + c->tokens / 2 + roll(d, c->tokens);
    const lh_option *row;
    for (int64_t i = 0; (row = lh_policy_part_row(i)); i++)
        if (lh_policy_parts_get(&courses[n].parts, row))
            lh_policy_parts_set(&c->policy.parts, row, lh_policy_parts_get(&courses[n].parts, row));
    /* sinks that slide out of sight: what competes differs between layers */
    if (c->sliding && roll(d, 2)) c->policy.parts.sinks = "4";
    while (ways < 8 && courses[n].evict[ways]) ways++;
    const char *evict = courses[n].evict[roll(d, ways)];
    if (evict) c->policy.parts.evict = evict;
    if (lh_policy_resolve(&plan, &c->policy) != LH_OK || lh_policy_check(&plan, c->tokens) != LH_OK) return 0;
    return lh_policy_entries(&plan, c->tokens) < c->tokens || !roll(d, 8);
}

START_TEST(test_blocks_layers_that_compete_and_slots_do_as_they_are_defined)
{
    char budget[32];
    int n = _i % COURSES, rounds = is_long() ? 150 : 8;
    dice d = {.seed = 7000 + (uint32_t)_i};
    for (int i = 0; i < rounds;) {
        lh_policy_options options;
        kv_rig_case c;
        if (!make_policy(&d, &options) || !take_course(&d, n, &options, &c, budget)) continue;
        check_case(&c, kv_rig_backend((int)roll(&d, 2)), 10);
        i++;
    }
    mt_end();
}
END_TEST

START_TEST(test_every_preset_takes_every_course_as_it_is_defined)
{
    char budget[32];
    dice d = {.seed = 8000 + (uint32_t)_i};
    if (mt_size() > 1 && !is_long() && (_i + mt_size()) % 2) return; /* the others with another number of ranks */
    int tries = 20, rounds = is_long() ? 10 : 1;
    for (int n = 0; n < COURSES; n++)
        for (int t = 0, done = 0; t < tries * rounds && done < rounds; t++) {
            kv_rig_case c;
            if (!take_course(&d, n, &(lh_policy_options){.policy = lh_policy_at(_i)->name}, &c, budget)) continue;
            check_case(&c, kv_rig_backend((int)roll(&d, 2)), 10);
            done++;
        }
    mt_end();
}
END_TEST

START_TEST(test_long_prompts_do_as_they_are_defined)
{
    char budget[32];
    dice d = {.seed = 9000 + (uint32_t)_i};
    if (!is_long()) return;
    lh_policy_options options = {.policy = lh_policy_at(_i)->name, .budget = budget};
    kv_rig_case c = case_of(&d, &options);
    c.heads = c.heads < 6 ? c.heads : 6;
    c.kv_heads = 2 + (c.heads == 5) * 3 - (c.heads == 4);
    c.layers = 1;
    c.tokens = 1500 + roll(&d, 3501);
    make_budget(&d, c.tokens, budget);
    if (!lh_policy_at(_i)->parts) c.policy.budget = NULL;
    check_case(&c, &lh_ops_cpu, 6);
    mt_end();
}
END_TEST

int main(void)
{
    int presets = 0;
    while (lh_policy_at(presets)) presets++;
    Suite *suite = suite_create("policies");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_test(laws, test_every_source_of_scores_has_a_definition);
    tcase_add_test(laws, test_a_function_that_reads_rows_sees_their_attention);
    tcase_add_test(laws, test_a_function_of_the_program_scores_as_it_says);
    tcase_add_test(laws, test_parts_of_a_text_are_compared_as_they_are_defined);
    tcase_add_test(laws, test_outputs_of_many_rows_are_compared_as_they_are_defined);
    tcase_add_loop_test(laws, test_every_preset_does_as_it_is_defined, 0, presets);
    tcase_add_loop_test(laws, test_parts_combine_as_they_are_defined, 0, 20);
    tcase_add_loop_test(laws, test_proxies_at_both_ends_combine_as_they_are_defined, 0, 10);
    tcase_add_loop_test(laws, test_blocks_layers_that_compete_and_slots_do_as_they_are_defined, 0, 5 * COURSES);
    tcase_add_loop_test(laws, test_every_preset_takes_every_course_as_it_is_defined, 0, presets);
    TCase *prompts = tcase_create("long");
    tcase_set_timeout(prompts, 0);
    tcase_add_loop_test(prompts, test_long_prompts_do_as_they_are_defined, 0, presets);
    suite_add_tcase(suite, laws);
    suite_add_tcase(suite, prompts);
    return mt_run(suite);
}
