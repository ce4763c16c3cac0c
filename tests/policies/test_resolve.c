/* Laws of the resolution: every preset resolves, what would be ignored is refused, text and JSON say it all. */
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "policies/budgets.h"
#include "policy_parts.h"
#include "suite.h"

static lh_policy resolved(const lh_policy_options *options)
{
    lh_policy plan;
    lh_status st = lh_policy_resolve(&plan, options);
    ck_assert_msg(st == LH_OK, "%s", lh_error_message());
    return plan;
}

static lh_policy_numbers fixed(const lh_policy_options *options, int64_t seen)
{
    lh_policy plan = resolved(options);
    return lh_policy_fix(&plan, seen);
}

static int64_t rows_of(const lh_policy *plan, int64_t seen)
{
    lh_policy_numbers numbers = lh_policy_fix(plan, seen);
    return lh_policy_rows(&numbers, seen);
}

static void refused(const lh_policy_options *options, const char *words)
{
    lh_policy plan;
    ck_assert_int_eq(lh_policy_resolve(&plan, options), LH_EUSAGE);
    ck_assert_msg(strstr(lh_error_message(), words), "'%s' does not say '%s'", lh_error_message(), words);
}

static lh_status score_nothing(void *self, const lh_head_entries *entries, float *scores)
{
    (void)self, (void)entries, (void)scores;
    return LH_OK;
}

START_TEST(test_a_scorer_takes_the_place_of_name_and_statistic)
{
    const lh_scorer scorer = {.score = score_nothing};
    lh_buf text = {0};
    lh_policy p = resolved(&(lh_policy_options){.scorer = &scorer, .budget = "20%", .parts = {.sinks = "4"}});
    ck_assert(p.evicts && p.score.source == LH_METHOD_caller && p.score.scorer.score == score_nothing &&
              p.protect.sinks.n == 4);
    ck_assert_int_eq(lh_policy_text(&p, &text), LH_OK);
    ck_assert_ptr_nonnull(strstr(text.data, "--sinks 4 --budget 20%"));
    lh_buf_clear(&text);
    refused(&(lh_policy_options){.scorer = &scorer}, "a policy needs a budget");
    refused(&(lh_policy_options){.scorer = &scorer, .policy = "h2o", .budget = "8"}, "leave out the policy 'h2o'");
    refused(&(lh_policy_options){.scorer = &scorer, .budget = "8", .parts = {.statistic = "sum"}},
            "would ignore '--statistic'");
    refused(&(lh_policy_options){.scorer = &scorer, .budget = "8", .parts = {.window = "8"}}, "'--window'");
}
END_TEST

START_TEST(test_every_preset_resolves_and_is_found_by_its_name)
{
    int n = 0;
    for (; lh_policy_at(n); n++) {
        const lh_policy_preset *p = lh_policy_at(n);
        ck_assert_ptr_eq(lh_policy_find(p->name), p);
        if (p->alias) ck_assert_ptr_eq(lh_policy_find(p->alias), p);
        ck_assert_ptr_nonnull(p->summary);
        int evicts = p->parts != NULL;
        lh_policy plan = resolved(&(lh_policy_options){.policy = p->name, .budget = evicts ? "64" : NULL});
        ck_assert_str_eq(plan.name, p->name);
        ck_assert_int_eq(plan.evicts, evicts);
        ck_assert_int_eq(plan.by_default, 0);
    }
    ck_assert_int_gt(n, 20);
    ck_assert_ptr_null(lh_policy_find("none"));
    ck_assert_str_eq(resolved(&(lh_policy_options){.policy = "adakv", .budget = "64"}).name, "ada-snapkv");
    ck_assert_str_eq(resolved(&(lh_policy_options){.policy = "criticalkv", .budget = "64"}).name, "critical-snapkv");
    ck_assert_str_eq(resolved(&(lh_policy_options){.policy = "streamingllm", .budget = "64"}).name, "streaming");
    ck_assert_str_eq(resolved(&(lh_policy_options){.policy = "easykv", .budget = "64"}).name, "roco");
    ck_assert_ptr_null(lh_policy_at(-1));
}
END_TEST

/* The table of presets once more, as numbers: rows 0 for scores without rows, ALL for all. */
enum { ALL = -1 };
static const struct {
    const char *name;
    lh_method_id source;
    int64_t rows, window, sinks, recents; /* of 1,000 entries and 20,000 tokens, fixed */
    lh_pool_kind pool;
    int64_t pool_size;
    lh_heads_budget heads;
    lh_layers_budget layers;
    lh_method_id select; /* 0: topk */
    int joint, running;
    int64_t every;
} table[] = {
    {"random", LH_METHOD_random, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
    {"recency", LH_METHOD_position, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
    {"streaming", LH_METHOD_position, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1},
    {"h2o", LH_METHOD_sum, ALL, 0, 0, 500, 0, 0, 0, 0, 0, 0, 1, 1},
    {"scissorhands", LH_METHOD_count, 400, 0, 0, 500, 0, 0, 0, 0, 0, 0, 1, 1},
    {"tova", LH_METHOD_last, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1},
    {"mas", LH_METHOD_mas, ALL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1},
    {"roco", LH_METHOD_mas, ALL, 0, 4, 10, 0, 0, 0, 0, LH_METHOD_std_scope, 0, 1, 1},
    {"longhaul", LH_METHOD_max, 64, 16, 4, 0, LH_POOL_MAX, 31, LH_HEADS_ADAPTIVE, LH_LAYERS_ADAPTIVE, 0, 0, 0, 0},
    {"ask-later", LH_METHOD_leverage, 256, 0, 8, 100, LH_POOL_AVG, 11, LH_HEADS_ADAPTIVE, LH_LAYERS_ADAPTIVE,
     LH_METHOD_topk_keys, 0, 0, 0},
    {"learnt", LH_METHOD_rms, 512, 4, 4, 100, 0, 0, LH_HEADS_ADAPTIVE, LH_LAYERS_ADAPTIVE, 0, 0, 0, 0},
    {"remember", LH_METHOD_rms, 8, 8, 4, 0, 0, 0, LH_HEADS_ADAPTIVE, LH_LAYERS_LEARNT, 0, 0, 0, 64},
    {"reconstruct", LH_METHOD_max, 0, 0, 4, 100, 0, 0, LH_HEADS_ADAPTIVE, LH_LAYERS_ADAPTIVE, 0, 0, 0, 0},
    {"kvzip", LH_METHOD_max, 0, 0, 4, 0, 0, 0, LH_HEADS_ADAPTIVE, LH_LAYERS_ADAPTIVE, 0, 0, 0, 0},
    {"snapkv", LH_METHOD_mean, 32, 32, 0, 0, LH_POOL_MAX, 7, 0, 0, 0, 0, 0, 0},
    {"pyramidkv", LH_METHOD_mean, 32, 32, 0, 0, LH_POOL_MAX, 7, 0, LH_LAYERS_PYRAMID, 0, 0, 0, 0},
    {"ada-snapkv", LH_METHOD_mean, 32, 32, 0, 0, LH_POOL_MAX, 7, LH_HEADS_ADAPTIVE, 0, 0, 0, 0, 0},
    {"ada-pyramid", LH_METHOD_mean, 32, 32, 0, 0, LH_POOL_MAX, 7, LH_HEADS_ADAPTIVE, LH_LAYERS_PYRAMID, 0, 0, 0, 0},
    {"critical-snapkv", LH_METHOD_mean, 32, 32, 0, 0, LH_POOL_MAX, 7, 0, 0, LH_METHOD_two_stage, 0, 0, 0},
    {"critical-ada-snapkv", LH_METHOD_mean, 32, 32, 0, 0, LH_POOL_MAX, 7, LH_HEADS_ADAPTIVE, 0, LH_METHOD_two_stage, 0,
     0, 0},
    {"caote", LH_METHOD_output_error, 32, 32, 0, 0, LH_POOL_MAX, 7, 0, 0, 0, 0, 0, 0},
    {"defensive", LH_METHOD_max, 32, 32, 0, 0, LH_POOL_AVG, 5, LH_HEADS_ADAPTIVE, 0, 0, 0, 0, 0},
    {"layer-defensive", LH_METHOD_max, 32, 32, 0, 0, LH_POOL_AVG, 5, LH_HEADS_ADAPTIVE, LH_LAYERS_ADAPTIVE, 0, 0, 0, 0},
    {"nacl", LH_METHOD_sum, 200, 200, 100, 0, 0, 0, 0, 0, LH_METHOD_topk_sample, 0, 0, 200},
    {"vase", LH_METHOD_mean, 64, 64, 4, 0, LH_POOL_AVG, 5, 0, 0, LH_METHOD_topk_sample, 0, 0, 64},
    {"r-kv", LH_METHOD_mean, 8, 8, 0, 0, LH_POOL_MAX, 7, 0, 0, 0, 0, 0, 128},
    {"ahakv", LH_METHOD_sum, 32, 0, 0, 32, 0, 0, 0, 0, 0, 0, 1, 1},
    {"snapkv@kvpress", LH_METHOD_mean, 64, 64, 0, 0, LH_POOL_AVG, 5, 0, 0, 0, 0, 0, 0},
    {"pyramidkv@kvpress", LH_METHOD_mean, 64, 64, 0, 0, LH_POOL_AVG, 5, 0, LH_LAYERS_PYRAMID, 0, 0, 0, 0},
    {"adakv@kvpress", LH_METHOD_mean, 64, 64, 0, 0, LH_POOL_AVG, 5, LH_HEADS_ADAPTIVE, 0, 0, 0, 0, 0},
    {"critical@kvpress", LH_METHOD_mean, 64, 64, 0, 0, LH_POOL_AVG, 5, 0, 0, LH_METHOD_two_stage, 0, 0, 0},
    {"critical-ada@kvpress", LH_METHOD_mean, 64, 64, 0, 0, LH_POOL_AVG, 5, LH_HEADS_ADAPTIVE, 0, LH_METHOD_two_stage, 0,
     0, 0},
    {"tova@kvpress", LH_METHOD_last, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0},
    {"observed@kvpress", LH_METHOD_mas, ALL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0},
    {"streaming@kvpress", LH_METHOD_position, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {"knorm", LH_METHOD_key_norm, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
    {"knorm@kvpress", LH_METHOD_key_norm, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {"keydiff", LH_METHOD_key_difference, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
    {"keydiff@kvpress", LH_METHOD_key_difference, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {"leverage", LH_METHOD_leverage, 0, 0, 8, 4, 0, 0, 0, 0, 0, 0, 0, 0},
    {"lagkv", LH_METHOD_lag, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {"lagkv@kvpress", LH_METHOD_lag, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {"expected-attention", LH_METHOD_expected, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {"expected-attention@kvpress", LH_METHOD_expected, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0},
};

static lh_fraction share_of(const lh_policy_methods *methods)
{
    return *(const lh_fraction *)part_value(methods, "random-share");
}

START_TEST(test_presets_are_what_their_papers_say)
{
    int n = sizeof table / sizeof *table;
    for (int i = 0; i < n; i++) {
        lh_policy_numbers p = fixed(&(lh_policy_options){.policy = table[i].name, .budget = "5%"}, 20000);
        int same = p.score.source == table[i].source && p.rows == (table[i].rows == ALL ? INT64_MAX : table[i].rows) &&
                   p.window == table[i].window && p.sinks == table[i].sinks && p.recents == table[i].recents &&
                   p.shape.pool == (int)table[i].pool && p.shape.pool_size == table[i].pool_size &&
                   p.budgets.heads == table[i].heads && p.budgets.layers == table[i].layers &&
                   p.select.kind == (table[i].select ? table[i].select : LH_METHOD_topk) &&
                   p.select.joint == table[i].joint && p.score.running == table[i].running &&
                   p.every == table[i].every && p.shape.group == LH_GROUP_MEAN && !p.block &&
                   p.positions == LH_POSITION_ORIGINAL;
        ck_assert_msg(same, "'%s' is not what it should be", table[i].name);
    }
    for (int i = 0; lh_policy_at(i); i++) {
        const lh_policy_preset *p = lh_policy_at(i);
        int kvpress = strstr(p->name, "@kvpress") != NULL, row = 0;
        while (row < n && strcmp(table[row].name, p->name) != 0) row++;
        ck_assert_msg(row < n || !p->parts,
                      "the preset '%s' has no row in `table` of %s: add what it should be, in numbers", p->name,
                      __FILE__);
        ck_assert_int_eq(p->kind == LH_POLICY_COMPATIBLE, kvpress);
        if (p->kind != LH_POLICY_OF_PAPER && !kvpress) continue;
        ck_assert_msg(p->paper && strncmp(p->paper, "arXiv ", 6) == 0,
                      "the preset '%s' has no '.paper = \"arXiv …\"': give it, or '.kind = LH_POLICY_OWN'", p->name);
    }
    lh_policy_numbers vase = fixed(&(lh_policy_options){.policy = "vase", .budget = "5%"}, 20000);
    ck_assert(vase.chosen == 250 && part_word(&vase.methods, "draw") == 1 && share_of(&vase.methods).num == 1);
    lh_policy p = resolved(&(lh_policy_options){.policy = "ada-pyramid", .budget = "64"});
    ck_assert(part_number(&p.methods, "beta") == 20 && part_word(&p.methods, "safeguard") == 0 &&
              part_decimal(&p.methods, "alpha").digits == 5 && part_decimal(&p.methods, "alpha").scale == 1);
    p = resolved(&(lh_policy_options){.policy = "critical-ada@kvpress", .budget = "64"});
    ck_assert(part_word(&p.methods, "compat") == 1 && part_word(&p.methods, "safeguard") == 1 &&
              part_word(&p.methods, "group-stage"));
    ck_assert(part_decimal(&p.methods, "alpha").digits == 2 && part_decimal(&p.methods, "alpha").scale == 1 &&
              part_decimal(&p.methods, "first-stage").digits == 5 &&
              part_decimal(&p.methods, "first-stage").scale == 1);
    p = resolved(&(lh_policy_options){.policy = "ahakv", .budget = "64"});
    ck_assert(part_word(&p.methods, "gain") && !part_word(&p.methods, "gain-floor") &&
              part_word(&p.methods, "value-prior") && !part_word(&p.methods, "non-causal"));
    p = resolved(&(lh_policy_options){.policy = "nacl", .budget = "64"});
    ck_assert(share_of(&p.methods).num == 7 && share_of(&p.methods).den == 19 && p.proxies.kind && p.every_is_rows);
}
END_TEST

START_TEST(test_words_have_the_numbers_of_the_operations)
{
    static const struct {
        const char *word;
        int kind;
    } groups[] = {{"mean", LH_GROUP_MEAN}, {"max", LH_GROUP_MAX}, {"sum", LH_GROUP_SUM}},
      pools[] = {{"none", LH_POOL_NONE}, {"max", LH_POOL_MAX}, {"avg", LH_POOL_AVG}};
    for (int i = 0; i < 3; i++) {
        lh_policy_options o = {
            .policy = "snapkv", .budget = "9", .parts = {.group = groups[i].word, .pool = pools[i].word}};
        lh_policy p = resolved(&o);
        ck_assert_int_eq(p.shape.group, groups[i].kind);
        ck_assert_int_eq(p.shape.pool, pools[i].kind);
    }
}
END_TEST

START_TEST(test_a_budget_alone_is_the_default_policy_and_says_so)
{
    lh_buf text = {0};
    lh_policy p = resolved(&(lh_policy_options){.budget = "256"});
    ck_assert_int_eq(p.by_default, LH_DEFAULT_AS_IT_IS);
    ck_assert_str_eq(p.name, "longhaul");
    ck_assert_int_eq(lh_policy_text(&p, &text), LH_OK);
    ck_assert_str_eq(text.data, "longhaul --budget 256");
    lh_buf_clear(&text);
    p = resolved(&(lh_policy_options){.budget = "256", .asked = LH_ASKED_LATER});
    ck_assert(p.by_default && strcmp(p.name, "ask-later") == 0);
    refused(&(lh_policy_options){.budget = "256", .asked = LH_ASKED_LATER, .parts.evict = "every:1"},
            "'ask-later', the default where questions come later");
    p = resolved(&(lh_policy_options){.budget = "256", .parts = {.pool = "none", .window = "24"}});
    ck_assert(p.shape.pool == LH_POOL_NONE && p.window == 24 && p.rows.n == 64);
    ck_assert_int_eq(p.by_default, LH_DEFAULT_WITH_PARTS);
    p = resolved(&(lh_policy_options){0});
    ck_assert(!p.evicts && strcmp(p.name, "full") == 0 && !p.by_default);
}
END_TEST

/* The layers of a preset compete where they can, and get the same where they cannot; an option stays as it is given. */
START_TEST(test_layers_of_a_preset_compete_where_they_can)
{
    static const struct {
        lh_policy_parts parts;
        lh_layers_budget layers;
        const char *text;
    } cases[] = {
        {{.pool_size = "7"}, LH_LAYERS_ADAPTIVE, "layer-defensive --pool-size 7 --budget 64"},
        {{.select = "topk+keys", .own = {{"compete-by", "losses"}}}, LH_LAYERS_ADAPTIVE, NULL},
        {{.evict = "every:8"}, LH_LAYERS_UNIFORM, "layer-defensive --evict every:8 --budget 64"},
        {{.evict = "block:8"}, LH_LAYERS_UNIFORM, "layer-defensive --evict block:8 --budget 64"},
        {{.select = "two-stage"}, LH_LAYERS_UNIFORM, "layer-defensive --select two-stage --budget 64"},
        {{.head_budget = "uniform"}, LH_LAYERS_UNIFORM, "layer-defensive --head-budget uniform --budget 64"},
        {{.head_budget = "uniform", .layer_budget = "pyramid"}, LH_LAYERS_PYRAMID, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf text = {0};
        lh_policy p =
            resolved(&(lh_policy_options){.policy = "layer-defensive", .budget = "64", .parts = cases[i].parts});
        ck_assert_int_eq(p.budgets.layers, cases[i].layers);
        ck_assert_int_eq(lh_policy_text(&p, &text), LH_OK);
        if (cases[i].text) ck_assert_str_eq(text.data, cases[i].text);
        lh_buf_clear(&text);
    }
    refused(&(lh_policy_options){.policy = "layer-defensive",
                                 .budget = "64",
                                 .parts = {.evict = "every:8", .layer_budget = "adaptive"}},
            "it needs '--evict never'");
    refused(&(lh_policy_options){.policy = "layer-defensive",
                                 .budget = "64",
                                 .parts = {.head_budget = "uniform", .layer_budget = "adaptive"}},
            "it needs '--head-budget adaptive'");
}
END_TEST

START_TEST(test_what_would_be_ignored_is_refused)
{
    static const struct {
        lh_policy_options options;
        const char *words;
    } cases[] = {
        {{.policy = "full", .budget = "64"}, "'--budget'"},
        {{.policy = "full", .parts = {.pool = "max"}}, "'--pool'"},
        {{.parts = {.window = "16"}}, "'--window' needs a budget"},
        {{.policy = "snapkv"}, "needs a budget"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"alpha", "0.2"}}}}, "'--head-budget adaptive'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"safeguard", "floor"}}}}, "'--safeguard'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"beta", "5"}}}}, "'--layer-budget pyramid'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.pool = "none", .pool_size = "5"}}, "'--pool-size'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.pool = "none", .own = {{"group-stage", "score"}}}},
         "'--group-stage'"},
        {{.policy = "streaming", .budget = "64", .parts = {.pool = "max"}}, "'--pool'"},
        {{.policy = "streaming", .budget = "64", .parts = {.window = "8"}}, "'--window'"},
        {{.policy = "streaming", .budget = "64", .parts = {.rows = "last:3"}}, "'--rows'"},
        {{.policy = "recency", .budget = "64", .parts = {.recents = "8"}}, "'--recents'"},
        {{.policy = "recency", .budget = "64", .parts = {.group = "max"}}, "'--group'"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.head_budget = "uniform", .own = {{"alpha", "0.5"}}}},
         "'--alpha'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.statistic = "position", .window = "32"}}, "'--window'"},
        {{.policy = "nacl", .budget = "64", .parts = {.window = "32"}}, "'--proxies none'"},
        {{.policy = "nacl", .budget = "64", .parts = {.rows = "all"}}, "'--proxies none'"},
        {{.policy = "nacl", .budget = "64", .parts = {.proxies = "question", .proxies_at = "end"}}, "'--proxies P%'"},
        {{.policy = "nacl", .budget = "64", .parts = {.proxies = "question", .proxies_at = "both-ends"}},
         "'--proxies P%'"},
        {{.policy = "nacl", .budget = "64", .parts = {.proxies = "none", .proxies_at = "end"}}, "'--proxies P%'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.proxies_at = "both-ends"}}, "'--proxies-at'"},
        {{.policy = "nacl", .budget = "64", .parts = {.proxies_at = "both-ends", .sinks = "4"}}, "are the sinks"},
        {{.policy = "tova", .budget = "64", .parts = {.window = "32"}}, "'--window'"},
        {{.policy = "tova", .budget = "64", .parts = {.proxies = "1%"}}, "'--proxies'"},
        {{.policy = "tova", .budget = "64", .parts = {.own = {{"non-causal", "on"}}}}, "'--non-causal'"},
        {{.policy = "h2o", .budget = "64", .parts = {.own = {{"non-causal", "on"}}}}, "observed again"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"gain-floor", "on"}}}}, "'--gain'"},
        {{.policy = "ahakv", .budget = "64", .parts = {.own = {{"gain", "off"}, {"gain-floor", "on"}}}}, "'--gain'"},
        {{.policy = "streaming", .budget = "64", .parts = {.own = {{"gain", "on"}}}}, "'--gain'"},
        {{.policy = "random", .budget = "64", .parts = {.own = {{"value-prior", "on"}}}}, "'--value-prior'"},
        {{.policy = "knorm", .budget = "64", .parts = {.pool = "max", .own = {{"group-stage", "score"}}}},
         "'--group-stage'"},
        {{.policy = "scissorhands", .budget = "64", .parts = {.group = "max"}}, "'--group'"},
        {{.policy = "scissorhands", .budget = "64", .parts = {.pool = "max", .own = {{"group-stage", "score"}}}},
         "--group-stage"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"first-stage", "0.4"}}}}, "'--select two-stage'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"std-share", "0.4"}}}}, "'--select std-scope'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"random-share", "0.4"}}}}, "'--select topk+sample'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"compat", "kvpress"}}}}, "'--compat'"},
        {{.policy = "random", .budget = "64", .parts = {.rows = "all"}}, "'--rows'"},
        {{.policy = "expected-attention", .budget = "64", .parts = {.proxies = "1%"}}, "'--proxies'"},
        {{.policy = "defensive", .budget = "64", .parts = {.group = "max"}}, "'--group'"},
        {{.policy = "keydiff", .budget = "64", .parts = {.own = {{"mean-floor", "on"}}}}, "'--mean-floor'"},
        {{.policy = "keydiff", .budget = "64", .parts = {.own = {{"value-norms", "on"}}}}, "'--value-norms'"},
        {{.policy = "keydiff", .budget = "64", .parts = {.own = {{"lag", "64"}}}}, "'--statistic lag'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.recents = "9"}}, "'--recents 9': the window keeps as much"},
        {{.policy = "snapkv", .budget = "20%", .parts = {.recents = "32"}}, "'--recents 32'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.recents = "50%"}}, "'--recents 50%'"},
        {{.policy = "longhaul", .budget = "64", .parts = {.window = "8", .recents = "8"}}, "'--recents 8'"},
        {{.policy = "h2o", .budget = "64", .parts = {.window = "5"}}, "'--window 5': the recents keep as much"},
        {{.policy = "roco", .budget = "20%", .parts = {.window = "10"}}, "'--window 10'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(&cases[i].options, cases[i].words);
}
END_TEST

START_TEST(test_values_that_are_none_are_refused)
{
    static const struct {
        lh_policy_options options;
        const char *words;
    } cases[] = {
        {{.policy = "snapkw", .budget = "64"}, "did you mean 'snapkv'?"},
        {{.policy = "zzzzzz", .budget = "64"}, "'longhaul generate --policy help' lists"},
        {{.policy = "snapkv", .budget = "0"}, "from 1 on"},
        {{.policy = "snapkv", .budget = "0%"}, "above 0%"},
        {{.policy = "snapkv", .budget = "101%"}, "100%"},
        {{.policy = "snapkv", .budget = "100.5%"}, "100%"},
        {{.policy = "snapkv", .budget = "-1"}, "'-1'"},
        {{.policy = "snapkv", .budget = "64.5"}, "'64.5'"},
        {{.policy = "snapkv", .budget = ""}, "''"},
        {{.policy = "snapkv", .budget = "99999999999999999999"}, "--budget"},
        {{.policy = "snapkv", .budget = "64", .parts = {.pool = "maxx"}}, "did you mean 'max'?"},
        {{.policy = "snapkv", .budget = "64", .parts = {.pool_size = "6"}}, "odd"},
        {{.policy = "snapkv", .budget = "64", .parts = {.pool_size = "0"}}, "from 1 on"},
        {{.policy = "lagkv", .budget = "64", .parts = {.own = {{"lag", "0"}}}}, "from 1 on"},
        {{.policy = "streaming", .budget = "64", .parts = {.sinks = "101%"}}, "a share of the budget"},
        {{.policy = "snapkv", .budget = "64", .parts = {.window = "x"}}, "--window 'x'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.window = "0"}}, "no row to observe"},
        {{.policy = "snapkv", .budget = "64", .parts = {.rows = "last:0"}}, "last:N"},
        {{.policy = "snapkv", .budget = "64", .parts = {.rows = "first:3"}}, "last:N"},
        {{.policy = "snapkv", .budget = "64", .parts = {.statistic = "median"}}, "position"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.own = {{"alpha", "1.01"}}}}, "from 0 to 1"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.own = {{"alpha", "1e-1"}}}}, "decimal"},
        {{.policy = "pyramidkv", .budget = "64", .parts = {.own = {{"beta", "0"}}}}, "from 1 on"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "every:0"}}, "every:M"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "block:0"}}, "block:N"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "block:8,"}}, "block:N"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "block:8,never"}}, "block:N"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "every:3,block:8"}}, "block:N"},
        {{.policy = "nacl", .budget = "64", .parts = {.proxies = "5"}}, "--proxies '5'"},
        {{.policy = "nacl", .budget = "64", .parts = {.proxies = "0%"}}, "--proxies '0%'"},
        {{.policy = "nacl", .budget = "64", .parts = {.proxies = "questions"}}, "none, question, or a share"},
        {{.policy = "nacl", .budget = "64", .parts = {.proxies_at = "ends"}}, "end, both-ends"},
        {{.policy = "nacl", .budget = "64", .parts = {.own = {{"random-share", "19/7"}}}}, "7/19"},
        {{.policy = "nacl", .budget = "64", .parts = {.own = {{"random-share", "1/0"}}}}, "7/19"},
        {{.policy = "nacl", .budget = "64", .parts = {.own = {{"random-share", "1.5/3"}}}}, "7/19"},
        {{.policy = "nacl", .budget = "64", .parts = {.own = {{"random-share", "/3"}}}}, "7/19"},
        {{.policy = "nacl", .budget = "64", .parts = {.own = {{"random-share", "1.2"}}}}, "7/19"},
        {{.policy = "h2o", .budget = "64", .parts = {.recents = "101%"}}, "--recents '101%'"},
        {{.policy = "h2o", .budget = "64", .parts = {.recents = "half"}}, "--recents 'half'"},
        {{.policy = "vase", .budget = "64", .parts = {.own = {{"values", "101%"}}}}, "--values '101%'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"draw", "score"}}}}, "'--select topk+sample'"},
        {{.policy = "roco", .budget = "64", .parts = {.own = {{"std-share", "2"}}}}, "from 0 to 1"},
        {{.policy = "critical-snapkv", .budget = "64", .parts = {.own = {{"first-stage", "-0.1"}}}}, "from 0 to 1"},
        {{.policy = "ahakv", .budget = "64", .parts = {.own = {{"gain", "yes"}}}}, "off, on"},
        {{.policy = "h2o", .budget = "64", .parts = {.rows = "every"}}, "all, last:N"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "sometimes"}}, "never"},
        {{.policy = "streaming", .budget = "64", .parts = {.select = "std-scope"}}, "give '--select topk'"},
        {{.policy = "streaming", .budget = "64", .parts = {.positions = "slots"}}, "original"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(&cases[i].options, cases[i].words);
}
END_TEST

START_TEST(test_parts_that_cannot_go_together_are_refused)
{
    static const struct {
        lh_policy_options options;
        const char *words;
    } cases[] = {
        {{.policy = "snapkv", .budget = "64", .parts = {.rows = "all"}}, "use sum or mas"},
        {{.policy = "h2o", .budget = "64", .parts = {.statistic = "mean"}}, "use sum or mas"},
        {{.policy = "tova", .budget = "64", .parts = {.rows = "last:2"}}, "the last row alone"},
        {{.policy = "tova", .budget = "64", .parts = {.rows = "all"}}, "the last row alone"},
        {{.policy = "tova", .budget = "64", .parts = {.rows = "1%"}}, "the last row alone"},
        {{.policy = "roco", .budget = "64", .parts = {.statistic = "sum"}}, "'--statistic mas'"},
        {{.policy = "roco", .budget = "64", .parts = {.group = "max"}}, "'--group mean'"},
        {{.policy = "roco", .budget = "64", .parts = {.head_budget = "adaptive"}},
         "'--select std-scope' does not go with '--head-budget adaptive'"},
        {{.policy = "tova", .budget = "64", .parts = {.head_budget = "adaptive"}}, "'--set-per head'"},
        {{.policy = "streaming", .budget = "64", .parts = {.head_budget = "adaptive"}}, "score alike"},
        {{.policy = "streaming", .budget = "64", .parts = {.set_per = "layer"}}, "score alike"},
        {{.policy = "critical-snapkv", .budget = "64", .parts = {.set_per = "layer"}}, "'--set-per layer'"},
        {{.policy = "random", .budget = "64", .parts = {.select = "topk+sample"}}, "statistic of attention"},
        {{.policy = "adakv@kvpress", .budget = "99", .parts = {.own = {{"safeguard", "interp"}}}},
         "'--safeguard floor'"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.own = {{"compat", "kvpress"}}}}, "'--safeguard floor'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.positions = "slot"}}, "observed again"},
        {{.policy = "tova", .budget = "64", .parts = {.positions = "slot", .set_per = "head"}}, "observed again"},
        {{.policy = "random", .budget = "64", .parts = {.positions = "slot", .set_per = "layer"}},
         "'--positions slot' does not go with '--set-per layer'"},
        {{.policy = "h2o", .budget = "64", .parts = {.positions = "slot", .head_budget = "adaptive"}},
         "needs '--head-budget uniform' and '--set-per head'"},
        {{.policy = "h2o", .budget = "64", .parts = {.evict = "block:64"}}, "smaller than the budget of 64"},
        {{.policy = "pyramidkv", .budget = "64", .parts = {.evict = "block:8"}}, "'--layer-budget uniform'"},
        {{.policy = "lagkv", .budget = "64", .parts = {.evict = "every:1"}}, "'--evict never'"},
        {{.policy = "lagkv", .budget = "64", .parts = {.evict = "block:8"}}, "'--evict never'"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.own = {{"values", "8"}}}}, "'--head-budget uniform'"},
        {{.policy = "tova", .budget = "64", .parts = {.own = {{"values", "10%"}}}}, "'--set-per head'"},
        {{.policy = "h2o", .budget = "64", .parts = {.statistic = "max"}},
         "'--statistic max' does not go with '--rows all"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.layer_budget = "adaptive", .evict = "every"}},
         "'--evict never'"},
        {{.policy = "lagkv", .budget = "64", .parts = {.head_budget = "adaptive"}}, "the same ranks"},
        {{.policy = "h2o", .budget = "64", .parts = {.own = {{"fit", "both"}}}}, "without '--rows all'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.evict = "every", .own = {{"fit", "both"}}}},
         "'--evict never'"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.evict = "block:8", .own = {{"compete-by", "losses"}}}},
         "'--evict never'"},
        {{.policy = "nacl", .budget = "64", .parts = {.evict = "never", .own = {{"fit", "both"}}}}, "'--proxies none'"},
        {{.policy = "ahakv", .budget = "64", .parts = {.rows = "last:32", .window = "32", .own = {{"fit", "both"}}}},
         "'--gain'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.own = {{"fit", "bias"}, {"non-causal", "on"}}}},
         "'--non-causal'"},
        {{.policy = "keydiff", .budget = "64", .parts = {.own = {{"fit", "bias"}, {"refit", "both"}}}},
         "leave '--fit' out"},
        {{.policy = "keydiff", .budget = "64", .parts = {.evict = "block:8", .own = {{"refit", "both"}}}},
         "'--evict never' or every:M"},
        {{.policy = "keydiff", .budget = "64", .parts = {.rows_at = "own", .own = {{"fit", "bias"}}}},
         "'--rows-at own'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.rows_at = "repeat"}}, "'--statistic max' or sum"},
        {{.policy = "kvzip", .budget = "64", .parts = {.statistic = "rms"}}, "'--statistic max' or sum"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows_at = "repeat:7"}}, "N from 8 on"},
        {{.policy = "kvzip --statistic sum", .budget = "64", .parts = {.own = {{"output-norms", "on"}}}},
         "'--statistic max' with '--rows-at repeat' or 'text:FILE'"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows_at = "again"}},
         "must be own, after, repeat, repeat:N with N from 8 on, or text:FILE"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows_at = "text"}}, "'text' must be own, after"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows_at = "textual"}}, "'textual' must be own, after"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows_at = "text:q.txt"}},
         "names a file, and no file is read here"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows_at = "text:"}}, "'text:' must be own, after"},
        {{.policy = "snapkv", .budget = "64", .parts = {.rows_at = "text:0123456789abcdef"}},
         "'--statistic max' or sum"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows_at = "text:0123456789abcdef", .evict = "every:4"}},
         "'--rows-at text:FILE'"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows = "last:4"}}, "would ignore '--rows'"},
        {{.policy = "kvzip", .budget = "64", .parts = {.evict = "every:4"}}, "'--evict never'"},
        {{.policy = "kvzip", .budget = "64", .parts = {.rows_at = "repeat", .proxies = "1%"}},
         "would ignore '--rows-at'"},
        {{.policy = "keydiff", .budget = "64", .parts = {.rows_at = "repeat", .own = {{"fit", "bias"}}}},
         "'--rows-at repeat'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(&cases[i].options, cases[i].words);
    lh_policy p = resolved(&(lh_policy_options){.policy = "h2o", .budget = "10%", .parts = {.evict = "block:64"}});
    ck_assert_int_eq(lh_policy_check(&p, 650), LH_OK);
    ck_assert_int_eq(lh_policy_check(&p, 649), LH_EUSAGE);
}
END_TEST

START_TEST(test_options_make_the_variants)
{
    lh_policy p = resolved(&(lh_policy_options){
        .policy = "snapkv", .budget = "20%", .parts = {.rows = "12.5%", .statistic = "sum", .sinks = "4"}});
    ck_assert(p.budget.percent.digits && p.rows.percent.digits && p.score.source == LH_METHOD_sum &&
              p.protect.sinks.n == 4 && p.window == 32);
    ck_assert_int_eq(rows_of(&p, 1000), 125);
    lh_policy_options ends = {.policy = "tova", .budget = "20%", .parts = {.sinks = "10%", .recents = "12.5%"}};
    ck_assert_int_eq(fixed(&ends, 1512).sinks, 30); /* of 302 */
    ck_assert_int_eq(fixed(&ends, 1512).recents, 37);
    ck_assert_int_eq(rows_of(&p, 3), 1);
    ck_assert_int_eq(lh_policy_entries(&p, 1512), 302);
    ck_assert_int_eq(lh_policy_entries(&p, 2), 1);
    p = resolved(&(lh_policy_options){.policy = "snapkv", .budget = "8", .parts = {.rows = "last:400"}});
    ck_assert(p.rows.n == 400 && p.window == 32);
    ck_assert_int_eq(rows_of(&p, 100), 100);
    p = resolved(
        &(lh_policy_options){.policy = "snapkv",
                             .budget = "8",
                             .parts = {.head_budget = "adaptive", .layer_budget = "pyramid", .own = {{"beta", "3"}}}});
    ck_assert(part_decimal(&p.methods, "alpha").digits == 5 && part_decimal(&p.methods, "alpha").scale == 1 &&
              part_number(&p.methods, "beta") == 3);
    p = resolved(&(lh_policy_options){.policy = "snapkv", .budget = "8", .parts = {.evict = "every"}});
    ck_assert_int_eq(p.every, 32); /* the window's rows are all new then */
    p = resolved(&(lh_policy_options){.policy = "snapkv", .budget = "8", .parts = {.statistic = "position"}});
    ck_assert(p.score.source == LH_METHOD_position && p.window == 0 && p.every == 0);
    p = resolved(&(lh_policy_options){.policy = "tova", .budget = "8", .parts = {.rows = "last:1", .evict = "every"}});
    ck_assert(p.rows.n == 1 && !p.score.running && p.every == 1);
    p = resolved(&(lh_policy_options){.policy = "scissorhands", .budget = "8", .parts = {.statistic = "last"}});
    ck_assert(p.rows.n == 1 && !p.score.running); /* the preset's 400 rows go with its count */
    p = resolved(&(lh_policy_options){.policy = "h2o", .budget = "8", .parts = {.evict = "block:7,every"}});
    ck_assert(p.block == 7 && p.every == 1 && p.score.running);
    p = resolved(&(lh_policy_options){.policy = "h2o", .budget = "8", .parts = {.rows = "5%", .positions = "slot"}});
    ck_assert(p.score.running && p.rows.percent.digits && p.positions == LH_POSITION_SLOT);
    p = resolved(&(lh_policy_options){.policy = "h2o", .budget = "8", .parts = {.window = "16"}});
    ck_assert(p.score.running && p.rows.n == INT64_MAX && p.window == 16); /* protected, and not all that is observed */
    p = resolved(&(lh_policy_options){.policy = "ahakv", .budget = "8", .parts = {.window = "16", .evict = "every"}});
    ck_assert(!p.score.running && p.rows.n == 32 && p.every == 16);
    p = resolved(&(lh_policy_options){.policy = "snapkv", .budget = "8", .parts = {.proxies = "2%", .evict = "every"}});
    ck_assert(p.proxies.kind && !p.window && !p.score.running && p.every_is_rows && p.score.source == LH_METHOD_mean);
    p = resolved(&(lh_policy_options){.policy = "nacl", .budget = "8", .parts = {.proxies = "none", .rows = "all"}});
    ck_assert(!p.proxies.kind && p.score.running && p.window == 32);
    p = resolved(&(lh_policy_options){.policy = "nacl", .budget = "8", .parts = {.set_per = "layer"}});
    ck_assert(p.select.joint && p.select.kind == LH_METHOD_topk_sample);
}
END_TEST

START_TEST(test_warnings_name_the_option)
{
    static const struct {
        lh_policy_options options;
        const char *words;
    } cases[] = {
        {{.policy = "snapkv", .budget = "32"}, "'--window'"},
        {{.policy = "snapkv", .budget = "16"}, "window 32"},
        {{.policy = "snapkv", .budget = "40", .parts = {.recents = "40"}}, "'--recents'"},
        {{.policy = "snapkv", .budget = "40", .parts = {.sinks = "50"}}, "'--sinks'"},
        {{.policy = "snapkv", .budget = "1000"}, "nothing is evicted"},
        {{.policy = "snapkv", .budget = "64"}, NULL},
        {{.policy = "streaming", .budget = "3"}, NULL},
        {{.policy = "h2o", .budget = "100", .parts = {.recents = "100%"}}, "'--recents'"},
        {{.policy = "nacl", .budget = "3"}, NULL},
        {{.policy = "nacl", .budget = "1"}, "'--proxies'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.evict = "block:32"}}, "'--evict block:N'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.evict = "block:31"}}, NULL},
        {{.policy = "ahakv", .budget = "700"}, "the gain of the last row is 0.84"}, /* sqrt(2 ln(1000 / 700)) */
        {{.policy = "ahakv", .budget = "700", .parts = {.own = {{"gain-floor", "on"}}}}, NULL},
        {{.policy = "ahakv", .budget = "606"}, NULL}, /* 1000 / sqrt(e) = 606.5 */
        {{.policy = "ahakv", .budget = "607"}, "'--gain-floor'"},
        {{.policy = "pyramidkv@kvpress", .budget = "128"}, "every layer gets 128 entries"},
        {{.policy = "pyramidkv@kvpress", .budget = "600"}, NULL},
        {{.policy = "vase", .budget = "80"}, "'--values'"},
        {{.policy = "vase", .budget = "200"}, NULL},
        {{.policy = "lagkv", .budget = "128"}, "a smaller '--lag'"},
        {{.policy = "h2o", .budget = "20%", .parts = {.window = "5"}}, "'--window' has no effect"},
        {{.policy = "h2o", .budget = "20%", .parts = {.window = "101"}}, NULL},
        {{.policy = "snapkv", .budget = "20%", .parts = {.recents = "10%"}}, "'--recents' has no effect"},
        {{.policy = "snapkv", .budget = "20%", .parts = {.recents = "33"}}, NULL},
        {{.policy = "roco", .budget = "20%", .parts = {.window = "16"}}, NULL},
        {{.policy = "h2o", .budget = "8", .parts = {.window = "5"}}, NULL},
        {{.policy = "lagkv", .budget = "128", .parts = {.own = {{"lag", "32"}}}}, NULL},
        {{0}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf text = {0};
        lh_policy plan = resolved(&cases[i].options);
        ck_assert_int_eq(lh_policy_warnings(&plan, 1000, &text), LH_OK);
        ck_assert_msg((text.bytes > 0) == (cases[i].words != NULL), "%s: %s", cases[i].options.policy, text.data);
        if (cases[i].words) ck_assert_msg(strstr(text.data, cases[i].words), "%s", text.data);
        lh_buf_clear(&text);
    }
}
END_TEST

/* Policies that score by attention know the context alone when a question comes after their eviction. */
START_TEST(test_questions_after_the_eviction_are_warned_of)
{
    static const struct {
        lh_policy_options options;
        int warned;
    } cases[] = {
        {{.budget = "64"}, 1},
        {{.policy = "snapkv", .budget = "64"}, 1},
        {{.policy = "h2o", .budget = "10%"}, 1},
        {{.policy = "snapkv", .budget = "1000"}, 0}, /* nothing is evicted */
        {{.policy = "keydiff", .budget = "50%"}, 0},
        {{.policy = "streaming", .budget = "64"}, 0},
        {{.policy = "full"}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf text = {0};
        lh_policy plan = resolved(&cases[i].options);
        ck_assert_int_eq(lh_policy_question_warnings(&plan, 1000, &text), LH_OK);
        ck_assert_int_eq(text.bytes > 0, cases[i].warned);
        if (cases[i].warned) ck_assert_ptr_nonnull(strstr(text.data, "'generate --scenario question-aware'"));
        lh_buf_clear(&text);
    }
}
END_TEST

int main(void)
{
    return suite_run(
        "resolve",
        (const TTest *const[]){
            test_a_scorer_takes_the_place_of_name_and_statistic, test_every_preset_resolves_and_is_found_by_its_name,
            test_presets_are_what_their_papers_say, test_words_have_the_numbers_of_the_operations,
            test_a_budget_alone_is_the_default_policy_and_says_so, test_layers_of_a_preset_compete_where_they_can,
            test_what_would_be_ignored_is_refused, test_values_that_are_none_are_refused,
            test_parts_that_cannot_go_together_are_refused, test_options_make_the_variants,
            test_warnings_name_the_option, test_questions_after_the_eviction_are_warned_of, NULL});
}
