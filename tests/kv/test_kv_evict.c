/* Laws of the eviction at the end of prefill, for every policy and its variants, on every backend. The same cache is
 * made twice: over all ranks, and whole on each of them alone; both must keep the same entries, those that sorting the
 * scores gives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kv/forecast.h"
#include "kv_oracle.h"

static const lh_policy_options policies[] = {
    {.policy = "recency", .budget = "40"},
    {.policy = "streaming", .budget = "20%"},
    {.policy = "snapkv", .budget = "64"},
    {.policy = "snapkv", .budget = "48", .parts = {.pool = "avg", .pool_size = "5", .window = "16"}},
    {.policy = "snapkv", .budget = "48", .parts = {.group = "max", .own = {{"group-stage", "score"}}}},
    {.policy = "snapkv", .budget = "48", .parts = {.pool = "none", .statistic = "sum", .group = "sum"}},
    {.policy = "snapkv", .budget = "60", .parts = {.sinks = "4", .recents = "40", .rows = "last:3"}},
    {.policy = "snapkv", .budget = "50", .parts = {.rows = "30%", .window = "8"}},
    {.policy = "pyramidkv", .budget = "64"},
    {.policy = "pyramidkv", .budget = "60%", .parts = {.own = {{"beta", "5"}}}},
    {.policy = "ada-snapkv", .budget = "64"},
    {.policy = "ada-snapkv", .budget = "41", .parts = {.pool = "none", .own = {{"alpha", "0.2"}}}},
    {.policy = "ada-snapkv", .budget = "64", .parts = {.own = {{"safeguard", "floor"}, {"alpha", "0.2"}}}},
    {.policy = "ada-snapkv",
     .budget = "57",
     .parts = {.own = {{"safeguard", "floor"}, {"alpha", "0.5"}, {"group-stage", "score"}}}},
    {.policy = "ada-snapkv", .budget = "35", .parts = {.sinks = "2", .own = {{"safeguard", "floor"}, {"alpha", "1"}}}},
    {.policy = "ada-snapkv", .budget = "99", .parts = {.own = {{"alpha", "0"}}}},
    {.policy = "ada-pyramid", .budget = "50"},
    {.policy = "snapkv", .budget = "60", .parts = {.layer_budget = "learnt"}},
    {.budget = "30%"},
    {.policy = "snapkv", .budget = "16"},     /* the window is larger than the budget */
    {.policy = "ada-snapkv", .budget = "32"}, /* and as large */
    {.policy = "streaming", .budget = "1"},
    /* not scored by hand below, or with other values in the end */
    {.policy = "snapkv", .budget = "48", .parts = {.rows = "sample:13", .rows_at = "after", .own = {{"fit", "bias"}}}},
    {.policy = "caote", .budget = "48", .parts = {.window = "5"}},
    {.policy = "vase", .budget = "50", .parts = {.window = "8", .evict = "never"}},
    {.policy = "keydiff", .budget = "30%", .parts = {.rows = "sample:9", .evict = "never", .own = {{"fit", "both"}}}},
    {.policy = "ada-snapkv",
     .budget = "48",
     .parts = {.rows = "sample:13",
               .rows_at = "after",
               .layer_budget = "adaptive",
               .select = "topk+keys",
               .own = {{"fit", "both"}, {"compete-by", "losses"}}}},
    {.policy = "ada-snapkv",
     .budget = "48",
     .parts = {.window = "5",
               .layer_budget = "adaptive",
               .select = "topk+keys",
               .own = {{"fit", "both"}, {"compete-by", "losses"}, {"row-share", "0.3"}}}},
};
enum { ALL_POLICIES = sizeof policies / sizeof *policies, POLICIES = ALL_POLICIES - 6 };

static const struct {
    int64_t heads, kv_heads;
} shapes[] = {{9, 3}, {5, 5}, {8, 2}, {4, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static kv_rig_case case_of(int shape, int policy)
{
    return (kv_rig_case){.heads = shapes[shape].heads,
                         .kv_heads = shapes[shape].kv_heads,
                         .dim = 8,
                         .layers = 3,
                         .tokens = 151,
                         .more = 5,
                         .type = policy % 2 ? LH_BF16 : LH_F32,
                         .seed = (uint64_t)(100 + policy),
                         .policy = policies[policy]};
}

static lh_comm *alone(void)
{
    lh_comm *self = NULL;
    mt_try(lh_comm_open_self(&self));
    return self;
}

static int same_positions(const lh_positions *a, const lh_positions *b)
{
    return a->heads == b->heads && memcmp(a->offsets, b->offsets, (size_t)(a->heads + 1) * sizeof *a->offsets) == 0 &&
           memcmp(a->positions, b->positions, (size_t)a->offsets[a->heads] * sizeof *a->positions) == 0;
}

static int holds(const lh_positions *p, int64_t head, int64_t position)
{
    for (int64_t i = p->offsets[head]; i < p->offsets[head + 1]; i++)
        if (p->positions[i] == position) return 1;
    return 0;
}

/* ---- laws of one run on one rank, which has all heads ---- */

static int layers_compete(const kv_rig *r)
{
    return r->plan.budgets.layers == LH_LAYERS_ADAPTIVE;
}

static void check_budgets(const kv_rig *r, const kv_rig_result *got)
{
    const kv_rig_case *c = r->of;
    int64_t all = 0, entries = lh_policy_entries(&r->plan, c->tokens);
    for (int64_t l = 0; l < c->layers; l++) {
        const lh_positions *k = &got->kept[l];
        int64_t budget = lh_kv_layer_budget(r->kv, l), kept = k->offsets[c->kv_heads];
        mt_check(layers_compete(r) || kept == c->kv_heads * budget,
                 "layer %lld keeps %lld entries of a budget of %lld a head", (long long)l, (long long)kept,
                 (long long)budget);
        for (int64_t h = 0; h < c->kv_heads && r->plan.budgets.heads == LH_HEADS_UNIFORM; h++)
            mt_check(k->offsets[h + 1] - k->offsets[h] == budget, "a head keeps %lld",
                     (long long)(k->offsets[h + 1] - k->offsets[h]));
        all += kept;
    }
    mt_check(all == c->layers * c->kv_heads * entries, "all layers keep %lld entries, the budget is %lld a head",
             (long long)all, (long long)entries);
    mt_check(got->stats.entries_held == all && got->stats.entries_counted == all, "the figures say %lld and %lld",
             (long long)got->stats.entries_held, (long long)got->stats.entries_counted);
}

static void check_protected(const kv_rig *r, const kv_rig_result *got)
{
    const kv_rig_case *c = r->of;
    int64_t recents = r->fixed.recents > r->fixed.window ? r->fixed.recents : r->fixed.window;
    for (int64_t l = 0; l < c->layers; l++)
        for (int64_t h = 0; h < c->kv_heads; h++) {
            int64_t held = lh_kv_layer_budget(r->kv, l), sinks = r->fixed.sinks < held ? r->fixed.sinks : held;
            for (int64_t p = 0; p < sinks; p++) mt_check(holds(&got->kept[l], h, p), "sink %lld is gone", (long long)p);
            for (int64_t p = c->tokens - 1; p >= c->tokens - recents && p >= c->tokens - (held - sinks); p--)
                mt_check(holds(&got->kept[l], h, p), "recent entry %lld is gone", (long long)p);
        }
}

/* keep: [n * kv_heads, tokens], what sorting the scores of n layers from the first-th on gives. */
static void choose_by_sorting(const kv_rig *r, const kv_rig_result *got, int64_t first, int64_t n, uint8_t *keep)
{
    const kv_rig_case *c = r->of;
    int64_t each = c->kv_heads * c->tokens;
    lh_protection protect[8] = {{.base = 0}};
    oracle_number *scores = NULL;
    uint8_t *state = NULL;
    mt_try(lh_calloc(&scores, n * each, sizeof *scores));
    mt_try(lh_calloc(&state, n * each, 1));
    for (int64_t l = 0; l < n; l++) {
        const uint8_t *of = got->state[first + l];
        for (int64_t i = 0; i < each; i++) scores[l * each + i].x = (double)got->scores[first + l][i];
        memcpy(state + l * each, of, (size_t)each);
        protect[l].base = lh_kv_layer_budget(r->kv, first + l);
        for (int64_t i = 0; i < c->tokens; i++) protect[l].base -= of[i] == LH_ENTRY_KEEP;
    }
    oracle_choose(&(oracle_choice){.fixed = &r->fixed,
                                   .protect = protect,
                                   .layers = n,
                                   .heads = n * c->kv_heads,
                                   .cols = c->tokens,
                                   .first = scores,
                                   .flat = scores,
                                   .state = state,
                                   .keep = keep});
    lh_free(state);
    lh_free(scores);
}

/* Sorting what was ranked gives what was kept, whatever the last bits of the scores are. */
static void check_choice(const kv_rig *r, const kv_rig_result *got)
{
    const kv_rig_case *c = r->of;
    int64_t together = layers_compete(r) ? c->layers : 1;
    uint8_t *keep = NULL;
    mt_try(lh_calloc(&keep, together * c->kv_heads * c->tokens, 1));
    for (int64_t l = 0; l < c->layers; l++) {
        if (!got->scores[l]) continue;
        if (l % together == 0) choose_by_sorting(r, got, l, together, keep);
        for (int64_t h = 0; h < c->kv_heads; h++)
            for (int64_t p = 0; p < c->tokens; p++) {
                int stays = keep[(l % together * c->kv_heads + h) * c->tokens + p];
                mt_check(stays == holds(&got->kept[l], h, p),
                         "layer %lld head %lld position %lld (%s): sorting says %d", (long long)l, (long long)h,
                         (long long)p, r->plan.name, stays);
            }
    }
    lh_free(keep);
}

/* And scores by the definition, in double, keep the same: no near ties in these cases, where queries are not rounded.
 */
static void check_definition(const kv_rig *r, const kv_rig_result *got)
{
    oracle o;
    oracle_open(&o, r->of, r->of->tokens, NULL);
    for (int64_t l = 0; l < r->of->layers; l++) oracle_check(&o, l, &got->kept[l], r->plan.name);
    oracle_close(&o);
}

/* Attention of the observed rows by the definition, in double, joined over the group before any pool: of a maximum, the
 * largest weight that any row of any of its query heads gave. */
static void raw_by_hand(const kv_rig *r, int64_t l, int64_t g, double *raw)
{
    const kv_rig_case *c = r->of;
    int64_t group = c->heads / c->kv_heads, rows = lh_policy_rows(&r->fixed, c->tokens);
    double *s = NULL;
    mt_try(lh_calloc(&s, c->tokens, sizeof *s));
    for (int64_t p = 0; p < c->tokens; p++) raw[p] = 0;
    for (int64_t q = g * group; q < (g + 1) * group; q++)
        for (int64_t t = c->tokens - rows; t < c->tokens; t++) {
            double sum = 0;
            for (int64_t p = 0; p <= t; p++) {
                double dot = 0;
                for (int64_t i = 0; i < c->dim; i++)
                    dot += (double)kv_rig_element(c, 'q', l, t, q, i) * (double)kv_rig_element(c, 'k', l, p, g, i);
                sum += s[p] = exp(dot / sqrt((double)c->dim));
            }
            double share = r->plan.shape.group == LH_GROUP_MEAN ? 1.0 / (double)group : 1.0;
            if (r->plan.score.source == LH_METHOD_mean) share /= (double)rows;
            for (int64_t p = 0; p <= t; p++) {
                double weight = s[p] / sum;
                raw[p] = r->plan.score.source == LH_METHOD_max ? fmax(raw[p], weight) : raw[p] + weight * share;
            }
        }
    lh_free(s);
}

static void check_raw(const kv_rig *r, const kv_rig_result *got)
{
    const kv_rig_case *c = r->of;
    double *want = NULL;
    if (r->plan.shape.group == LH_GROUP_MAX || !got->raw[0]) return;
    mt_try(lh_calloc(&want, c->tokens, sizeof *want));
    for (int64_t g = 0; g < c->kv_heads; g++) {
        raw_by_hand(r, 0, g, want);
        for (int64_t p = 0; p < c->tokens; p++) /* sums of some hundred float32 terms below 1 */
            mt_check(fabs(got->raw[0][g * c->tokens + p] - want[p]) <= 2e-5 * (want[p] + 0.01),
                     "head %lld position %lld: score %.9g, by hand %.9g", (long long)g, (long long)p,
                     (double)got->raw[0][g * c->tokens + p], want[p]);
    }
    lh_free(want);
}

/* ---- the tests ---- */

START_TEST(test_ranks_keep_what_one_rank_keeps_and_that_is_right)
{
    lh_comm *self = alone();
    for (int b = 0; kv_rig_backend(b); b++)
        for (int shape = 0; shape < SHAPES; shape++) {
            kv_rig_case c = case_of(shape, _i);
            kv_rig one, all;
            kv_rig_result mine, shared;
            kv_rig_open(&one, &c, self, kv_rig_backend(b));
            kv_rig_open(&all, &c, mt_comm(), kv_rig_backend(b));
            kv_rig_prefill(&one, &mine);
            kv_rig_prefill(&all, &shared);
            check_budgets(&one, &mine);
            check_protected(&one, &mine);
            check_choice(&one, &mine);
            if (b == 0) check_raw(&one, &mine);
            if (mt_rank() == 0 && (kv_rig_backend(b) == &lh_ops_ref || c.type == LH_F32)) check_definition(&one, &mine);
            mt_check(kv_rig_entries_are_whole(&one), "an entry is not what was appended");
            mt_check(kv_rig_entries_are_whole(&all), "an entry is not what was appended, on several ranks");
            for (int64_t l = 0; l < c.layers && mt_rank() == 0; l++)
                mt_check(same_positions(&mine.kept[l], &shared.kept[l]), "%s, %lld heads, layer %lld: %d ranks differ",
                         one.plan.name, (long long)c.heads, (long long)l, mt_size());
            mt_check(shared.stats.summary_bytes <= c.layers * 28 * 1024, "%lld bytes of summaries",
                     (long long)shared.stats.summary_bytes);
            kv_rig_result_clear(&mine);
            kv_rig_result_clear(&shared);
            kv_rig_close(&one);
            kv_rig_close(&all);
        }
    lh_comm_close(self);
    mt_end();
}
END_TEST

START_TEST(test_a_budget_of_the_whole_prompt_changes_nothing)
{
    for (int p = 0; p < ALL_POLICIES; p++) {
        kv_rig_case c = case_of(p % SHAPES, p);
        kv_rig r;
        kv_rig_result got;
        c.policy.budget = p % 2 ? "151" : "100%";
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        kv_rig_prefill(&r, &got);
        for (int64_t l = 0; l < c.layers; l++) {
            const lh_ragged *v = lh_kv_view(r.kv, l);
            for (int64_t h = 0; h < v->heads; h++) {
                mt_check(v->len[h] == c.tokens, "%lld entries are left", (long long)v->len[h]);
                for (int64_t s = 0; s < v->len[h]; s++)
                    mt_check(!v->positions || v->positions[v->offset[h] + s] == s, "the order changed");
            }
        }
        mt_check(kv_rig_entries_are_whole(&r), "an entry changed");
        mt_check(got.stats.summary_bytes == 0, "something was ranked");
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

START_TEST(test_more_budget_keeps_what_less_budget_kept)
{
    static const lh_policy_options uniform[] = {{.policy = "snapkv"},
                                                {.policy = "streaming"},
                                                {.policy = "recency"},
                                                {.policy = "snapkv", .parts = {.pool = "none", .sinks = "3"}}};
    for (int p = 0; p < 4; p++) {
        kv_rig_case c = case_of(p, 2);
        kv_rig_result before = {0}, now;
        for (int budget = 30; budget < 70; budget += 3) {
            kv_rig r;
            char text[16];
            c.policy = uniform[p];
            snprintf(text, sizeof text, "%d", budget);
            c.policy.budget = text;
            kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
            kv_rig_prefill(&r, &now);
            for (int64_t l = 0; l < c.layers && before.kept[0].heads; l++)
                for (int64_t h = 0; h < c.kv_heads; h++)
                    for (int64_t i = before.kept[l].offsets[h]; i < before.kept[l].offsets[h + 1]; i++)
                        mt_check(holds(&now.kept[l], h, before.kept[l].positions[i]), "position %d is gone with more",
                                 before.kept[l].positions[i]);
            kv_rig_result_clear(&before);
            before = now;
            kv_rig_close(&r);
        }
        kv_rig_result_clear(&before);
    }
    mt_end();
}
END_TEST

START_TEST(test_of_equal_scores_lower_heads_and_positions_stay)
{
    static const lh_policy_options equal[] = {
        {.policy = "snapkv", .budget = "50", .parts = {.window = "10", .pool = "max"}},
        {.policy = "ada-snapkv", .budget = "50", .parts = {.window = "10", .pool = "none", .own = {{"alpha", "0.5"}}}},
        {.policy = "ada-snapkv", .budget = "50", .parts = {.window = "10", .pool = "none", .own = {{"alpha", "0"}}}}};
    for (int p = 0; p < 3; p++) {
        kv_rig_case c = case_of(1, 0);
        kv_rig r;
        kv_rig_result got;
        c.equal_keys = 1;
        c.policy = equal[p];
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        kv_rig_prefill(&r, &got);
        for (int64_t h = 0; h < c.kv_heads && mt_rank() == 0; h++) {
            const lh_positions *k = &got.kept[0];
            int64_t n = k->offsets[h + 1] - k->offsets[h];
            for (int64_t i = 0; i < n - 10; i++)
                mt_check(k->positions[k->offsets[h] + i] == i, "head %lld keeps position %d as its %lldth",
                         (long long)h, k->positions[k->offsets[h] + i], (long long)i);
        }
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

START_TEST(test_sliding_layers_keep_only_what_the_next_row_sees)
{
    static const uint8_t sliding[3] = {1, 0, 1};
    static const lh_policy_options on[] = {{0},
                                           {.policy = "snapkv", .budget = "50"},
                                           {.policy = "ada-snapkv", .budget = "60", .parts = {.sinks = "4"}},
                                           {.policy = "ada-snapkv", .budget = "20", .parts = {.window = "8"}},
                                           {.policy = "pyramidkv", .budget = "50"},
                                           {.policy = "streaming", .budget = "30"}};
    for (int p = 0; p < 6; p++) {
        kv_rig_case c = case_of(0, 0);
        kv_rig r;
        kv_rig_result got;
        c.sliding = sliding;
        c.window = 40;
        c.policy = on[p];
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        kv_rig_prefill(&r, &got);
        int64_t all = 0;
        for (int64_t l = 0; l < c.layers && mt_rank() == 0; l++) {
            const lh_positions *k = &got.kept[l];
            int64_t budget = lh_kv_layer_budget(r.kv, l), most = sliding[l] ? 39 : c.tokens;
            for (int64_t i = 0; sliding[l] && i < k->offsets[c.kv_heads]; i++)
                mt_check(k->positions[i] > c.tokens - 40, "position %d is out of sight", k->positions[i]);
            mt_check(k->offsets[c.kv_heads] == c.kv_heads * (budget < most ? budget : most),
                     "layer %lld keeps %lld entries, its budget is %lld", (long long)l,
                     (long long)k->offsets[c.kv_heads], (long long)budget);
            all += budget;
        }
        oracle o;
        oracle_open(&o, &c, c.tokens, NULL);
        for (int64_t l = 0; l < c.layers && mt_rank() == 0; l++) oracle_check(&o, l, &got.kept[l], "sliding layers");
        oracle_close(&o);
        if (p == 4 && mt_rank() == 0) mt_check(all == 3 * 50, "the budgets sum to %lld", (long long)all);
        mt_check(kv_rig_entries_are_whole(&r), "an entry is not what was appended");
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

START_TEST(test_attention_that_is_not_finite_is_refused_on_all_ranks)
{
    for (int shape = 0; shape < SHAPES; shape++) {
        kv_rig_case c = case_of(shape, 10);
        kv_rig r;
        kv_rig_result none = {0};
        lh_ragged *view = NULL;
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        r.result = &none;
        mt_try(lh_kv_begin(r.kv, c.tokens, 0));
        mt_try(lh_kv_prefill_begin(r.kv, 0, &view));
        r.chunk = c.tokens;
        kv_rig_feed(&r, view, 0, 0, c.tokens);
        if (mt_rank() == mt_size() - 1) r.lse[(c.tokens - 1) * r.heads.q_count] = NAN;
        lh_kv_record(r.kv, 0,
                     &(lh_kv_rows){
                         .queries = {.q = r.q, .lse = r.lse, .tokens = c.tokens, .q_ld = r.heads.q_count * c.dim + 3}});
        mt_expect(lh_kv_prefill_end(r.kv, 0), LH_EFILE);
        mt_check(strstr(lh_error_message(), "not finite") != NULL, "the message is '%s'", lh_error_message());
        kv_rig_result_clear(&none);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* Operations that fail, for one rank alone; they note that they were called. */
static int was_called;
#define LH_OP(op, summary)                                                \
    static lh_status op##_fails(lh_stream *s, const lh_##op##_args *a)    \
    {                                                                     \
        (void)s, (void)a;                                                 \
        was_called = 1;                                                   \
        return lh_fail(LH_EINTERNAL, __FILE__, __LINE__, "made to fail"); \
    }
LH_OPS(LH_OP)
#undef LH_OP

static lh_ops failing_ops(int which)
{
    lh_ops ops = lh_ops_ref;
    int i = 0;
#define LH_OP(op, summary) \
    if (i++ == which) ops.op = op##_fails;
    LH_OPS(LH_OP)
#undef LH_OP
    return ops;
}

/* Operations that an eviction calls. */
static const char *const eviction_ops[] = {
#define LH_OP(op, summary) #op,
    LH_OPS_BUDGETS(LH_OP) LH_OPS_FIT(LH_OP) LH_OPS_OBSERVE(LH_OP) LH_OPS_SCORE(LH_OP) LH_OPS_SELECT(LH_OP)
        LH_OPS_SHAPE(LH_OP)
#undef LH_OP
            "put_stats",
    "compact", "gather_entries", NULL};

/* Rows of probe tokens, which pass no cache here, call divide_rows, and 'longhaul learn' calls entry_features. */
static int is_of_eviction(int which)
{
    int i = 0;
    if (strcmp(lh_op_name(which), "divide_rows") == 0 || strcmp(lh_op_name(which), "entry_features") == 0) return 0;
    while (eviction_ops[i] && strcmp(eviction_ops[i], lh_op_name(which)) != 0) i++;
    return eviction_ops[i] != NULL;
}

/* Together they call every one of them. */
static const lh_policy_options failing_policies[] = {
    {.policy = "ada-snapkv", .budget = "64"},
    {.policy = "roco", .budget = "50"},
    {.policy = "ahakv", .budget = "60"},
    {.policy = "critical-snapkv", .budget = "60", .parts = {.evict = "every:1"}},
    {.policy = "nacl", .budget = "60", .parts = {.evict = "every:1"}},
    {.policy = "tova", .budget = "40"},
    {.policy = "snapkv", .budget = "60", .parts = {.group = "max", .evict = "every:1"}},
    {.policy = "streaming", .budget = "40"},
    {.policy = "random", .budget = "40"},
    {.policy = "keydiff", .budget = "40"},
    {.policy = "expected-attention", .budget = "40"},
    {.policy = "r-kv", .budget = "40"},
    {.policy = "snapkv", .budget = "40", .parts = {.statistic = "linear"}},
    {.policy = "snapkv",
     .budget = "40",
     .parts = {.statistic = "rms", .rows_at = "after", .rows = "sample:9", .window = "8", .own = {{"learnt", "on"}}}},
    {.policy = "lagkv", .budget = "40", .parts = {.own = {{"lag", "16"}}}},
    {.policy = "snapkv",
     .budget = "40",
     .parts = {.statistic = "max", .window = "0", .rows_at = "repeat", .own = {{"output-norms", "on"}}}},
    {.policy = "defensive", .budget = "60"},
    {.policy = "caote", .budget = "60", .parts = {.evict = "every:1"}},
    {.policy = "vase", .budget = "40", .parts = {.window = "8", .evict = "every:1"}},
    {.policy = "ada-snapkv",
     .budget = "40",
     .parts = {.statistic = "rms", .rows_at = "after", .rows = "sample:9", .window = "8", .own = {{"fit", "both"}}}},
    {.policy = "leverage",
     .budget = "40",
     .parts = {.head_budget = "adaptive",
               .rows = "sample:9",
               .select = "topk+keys",
               .own = {{"compete-by", "losses"}, {"row-share", "0.5"}}}},
    {.policy = "ada-snapkv",
     .budget = "40",
     .parts = {.window = "8",
               .select = "topk+keys",
               .own = {{"fit", "both"}, {"compete-by", "losses"}, {"row-share", "0.3"}}}},
    {.policy = "ada-snapkv", .budget = "40", .parts = {.window = "8", .layer_budget = "adaptive"}},
};
#define LH_OP(op, summary) +1
enum { FAILING_POLICIES = sizeof failing_policies / sizeof *failing_policies, OPERATIONS = LH_OPS(LH_OP) };
#undef LH_OP

enum { WHILE_RECORDING = 1, DECODING = 2, OCCASIONS = 4 };

/* One eviction, in which rank 0 (it counts heads, at any number of ranks) has an operation that fails: at the eviction
 * alone or from the recording of the last rows on; of a prompt or of a step. 1: it was called. */
static int fail_once(kv_rig_case *c, int which, int when)
{
    kv_rig r;
    kv_rig_result none = {0};
    lh_ops ops = lh_ops_ref;
    lh_ragged *view = NULL;
    int decoding = when & DECODING;
    kv_rig_open(&r, c, mt_comm(), &ops);
    if (decoding)
        kv_rig_prefill(&r, &none);
    else
        mt_try(lh_kv_begin(r.kv, c->tokens, 0));
    int64_t tokens = decoding ? 1 : c->tokens, layers = decoding ? c->layers : 1;
    for (int64_t l = 0; l < layers; l++) {
        mt_try(decoding ? lh_kv_room(r.kv, l, 1, &view) : lh_kv_prefill_begin(r.kv, l, &view));
        r.chunk = tokens;
        was_called = 0;
        if (mt_rank() == 0 && when & WHILE_RECORDING && l == layers - 1) ops = failing_ops(which);
        kv_rig_feed(&r, view, l, lh_kv_seen(r.kv), tokens);
    }
    if (mt_rank() == 0) ops = failing_ops(which);
    lh_status st = decoding ? lh_kv_settle(r.kv, LH_KV_STEP, 1) : lh_kv_prefill_end(r.kv, 0);
    int called = was_called;
    mt_try(lh_comm_bcast(mt_comm(), 0, &called, sizeof called));
    mt_check(st == (called ? LH_EINTERNAL : LH_OK), "'%s' fails in %s of '%s': status %d", lh_op_name(which),
             decoding ? "a step" : "the prefill", r.plan.name, (int)st);
    if (called)
        mt_check(strstr(lh_error_message(), "made to fail") != NULL, "'%s': '%s'", lh_op_name(which),
                 lh_error_message());
    kv_rig_result_clear(&none);
    kv_rig_close(&r);
    return called;
}

static int fail_on_all_occasions(int shape, int policy, int which)
{
    int called = 0;
    kv_rig_case c = case_of(shape, 10);
    c.tokens = 81;
    c.layers = 2;
    c.policy = failing_policies[policy];
    for (int when = 0; when < OCCASIONS; when++) called |= fail_once(&c, which, when);
    return called;
}

START_TEST(test_a_failure_of_one_rank_is_everyones_and_nothing_hangs)
{
    int called[OPERATIONS] = {0};
    for (int p = 0; p < FAILING_POLICIES; p++)
        for (int which = 0; lh_op_name(which); which++)
            if (is_of_eviction(which)) called[which] |= fail_on_all_occasions((p + which) % SHAPES, p, which);
    /* an operation may have nothing to do in that shape, such as share_scores with one KV head: then in another */
    for (int i = 0; i < SHAPES * FAILING_POLICIES; i++)
        for (int which = 0; lh_op_name(which); which++)
            if (is_of_eviction(which) && !called[which])
                called[which] |= fail_on_all_occasions(i % SHAPES, i / SHAPES, which);
    for (int which = 0; lh_op_name(which); which++)
        mt_check(called[which] || !is_of_eviction(which), "no policy called '%s'", lh_op_name(which));
    mt_end();
}
END_TEST

static lh_status score_by_hidden_states(void *self, const lh_head_entries *e, float *scores)
{
    (void)self;
    for (int64_t i = 0; i < e->count; i++) scores[i] = e->hidden[i % e->hidden_size];
    return LH_OK;
}

START_TEST(test_memory_is_what_was_forecast)
{
    static const uint8_t sliding[3] = {0, 1, 0};
    static const lh_scorer scorer = {.score = score_by_hidden_states, .reads = LH_READS_HIDDEN};
    static const lh_policy_options others[] = {{.policy = "full"}, {.scorer = &scorer, .budget = "30"}};
    for (int p = -2; p < ALL_POLICIES; p++)
        for (int slides = 0; slides < 2; slides++)
            for (int shape = 0; shape < SHAPES; shape++) {
                kv_rig_case c = case_of(shape, p < 0 ? 0 : p);
                kv_rig r;
                kv_rig_result got;
                lh_kv_forecast f;
                if (p < 0) c.policy = others[p + 2];
                c.window = 30;
                c.sliding = slides ? sliding : NULL;
                kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
                lh_kv_shape s = kv_rig_shape(&r);
                mt_try(lh_kv_forecast_make(
                    &f, &s, &(lh_kv_forecast_request){.policy = &r.plan, .tokens = c.tokens, .more = c.more}));
                kv_rig_prefill(&r, &got);
                lh_mem_usage u = lh_device_usage(r.device);
                int64_t peak = kv_rig_peak(&r);
                int even = r.plan.budgets.heads == LH_HEADS_UNIFORM;
                mt_check(!even || u.now[LH_MEM_KV] == f.held, "%lld bytes are held, %lld were forecast",
                         (long long)u.now[LH_MEM_KV], (long long)f.held);
                mt_check(!even || peak == f.prefill_peak, "the peak is %lld bytes, %lld were forecast (%s)",
                         (long long)peak, (long long)f.prefill_peak, r.plan.name);
                mt_check(!even || got.stats.entries_held == f.entries, "%lld entries, %lld were forecast",
                         (long long)got.stats.entries_held, (long long)f.entries);
                mt_check(got.stats.bytes_held == got.stats.entries_held * 2 * c.dim * lh_dtype_bytes(c.type), "bytes");
                kv_rig_result_clear(&got);
                kv_rig_close(&r);
            }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evict");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_ranks_keep_what_one_rank_keeps_and_that_is_right, 0, POLICIES);
    tcase_add_test(laws, test_a_budget_of_the_whole_prompt_changes_nothing);
    tcase_add_test(laws, test_more_budget_keeps_what_less_budget_kept);
    tcase_add_test(laws, test_of_equal_scores_lower_heads_and_positions_stay);
    tcase_add_test(laws, test_sliding_layers_keep_only_what_the_next_row_sees);
    tcase_add_test(laws, test_attention_that_is_not_finite_is_refused_on_all_ranks);
    tcase_add_test(laws, test_a_failure_of_one_rank_is_everyones_and_nothing_hangs);
    tcase_add_test(laws, test_memory_is_what_was_forecast);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
