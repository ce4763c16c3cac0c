/* Laws of the resolution: every preset resolves, what would be ignored is refused, text and JSON say it all. */
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "policies/policy.h"
#include "suite.h"

static lh_policy_plan resolved(const lh_policy_options *options)
{
    lh_policy_plan plan;
    lh_status st = lh_policy_resolve(&plan, options);
    ck_assert_msg(st == LH_OK, "%s", lh_error_message());
    return plan;
}

static void refused(const lh_policy_options *options, const char *words)
{
    lh_policy_plan plan;
    ck_assert_int_eq(lh_policy_resolve(&plan, options), LH_EUSAGE);
    ck_assert_msg(strstr(lh_error_message(), words), "'%s' does not say '%s'", lh_error_message(), words);
}

START_TEST(test_every_preset_resolves_and_is_found_by_its_name)
{
    int n = 0;
    for (; lh_policy_at(n); n++) {
        const lh_policy *p = lh_policy_at(n);
        ck_assert_ptr_eq(lh_policy_find(p->name), p);
        ck_assert_ptr_nonnull(p->summary);
        int evicts = p->parts.statistic != NULL;
        lh_policy_plan plan = resolved(&(lh_policy_options){.policy = p->name, .budget = evicts ? "64" : NULL});
        ck_assert_str_eq(plan.name, p->name);
        ck_assert_int_eq(plan.evicts, evicts);
        ck_assert_int_eq(plan.by_default, 0);
    }
    ck_assert_int_eq(n, 7);
    ck_assert_ptr_null(lh_policy_find("none"));
    ck_assert_ptr_null(lh_policy_at(-1));
}
END_TEST

START_TEST(test_presets_are_what_their_papers_say)
{
    lh_policy_plan p = resolved(&(lh_policy_options){.policy = "snapkv", .budget = "64"});
    ck_assert(p.source == LH_SCORE_ATTENTION && p.mean && p.window == 32 && p.rows == 32 && p.pool_size == 7);
    ck_assert(p.pool_kind == LH_POOL_MAX && p.group_kind == LH_GROUP_MEAN && !p.group_after_pool && !p.every);
    ck_assert(p.heads == LH_HEADS_UNIFORM && p.layers == LH_LAYERS_UNIFORM && p.sinks == 0 && p.recents == 0);
    p = resolved(&(lh_policy_options){.policy = "ada-pyramid", .budget = "64"});
    ck_assert(p.heads == LH_HEADS_ADAPTIVE && p.layers == LH_LAYERS_PYRAMID && p.beta == 20);
    ck_assert(p.safeguard == LH_SAFEGUARD_INTERP && p.alpha.digits == 5 && p.alpha.scale == 1);
    p = resolved(&(lh_policy_options){.policy = "streaming", .budget = "64"});
    ck_assert(p.source == LH_SCORE_POSITION && p.sinks == 4 && p.every == 1 && p.window == 0 && p.rows == 0);
    p = resolved(&(lh_policy_options){.policy = "recency", .budget = "64"});
    ck_assert(p.source == LH_SCORE_POSITION && p.sinks == 0 && p.every == 1);
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
        lh_policy_plan p = resolved(&o);
        ck_assert_int_eq(p.group_kind, groups[i].kind);
        ck_assert_int_eq(p.pool_kind, pools[i].kind);
    }
}
END_TEST

START_TEST(test_a_budget_alone_is_the_default_policy_and_says_so)
{
    lh_buf text = {0};
    lh_policy_plan p = resolved(&(lh_policy_options){.budget = "256"});
    ck_assert_int_eq(p.by_default, 1);
    ck_assert_str_eq(p.name, "ada-snapkv");
    ck_assert_int_eq(p.pool_size, 31);
    ck_assert_int_eq(lh_policy_text(&p, &text), LH_OK);
    ck_assert_str_eq(text.data, "ada-snapkv --pool-size 31 --budget 256");
    lh_buf_clear(&text);
    p = resolved(&(lh_policy_options){.budget = "256", .parts = {.pool = "none", .window = "16"}});
    ck_assert(p.pool_kind == LH_POOL_NONE && p.window == 16 && p.rows == 16 && p.by_default);
    p = resolved(&(lh_policy_options){0});
    ck_assert(!p.evicts && strcmp(p.name, "full") == 0 && !p.by_default);
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
        {{.policy = "snapkv", .budget = "64", .parts = {.alpha = "0.2"}}, "'--head-budget adaptive'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.safeguard = "floor"}}, "'--safeguard'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.beta = "5"}}, "'--layer-budget pyramid'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.pool = "none", .pool_size = "5"}}, "'--pool-size'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.pool = "none", .group_stage = "score"}}, "'--group-stage'"},
        {{.policy = "streaming", .budget = "64", .parts = {.pool = "max"}}, "'--pool'"},
        {{.policy = "streaming", .budget = "64", .parts = {.window = "8"}}, "'--window'"},
        {{.policy = "streaming", .budget = "64", .parts = {.rows = "last:3"}}, "'--rows'"},
        {{.policy = "recency", .budget = "64", .parts = {.recents = "8"}}, "'--recents'"},
        {{.policy = "recency", .budget = "64", .parts = {.group = "max"}}, "'--group'"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.head_budget = "uniform", .alpha = "0.5"}}, "'--alpha'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.statistic = "position", .window = "32"}}, "'--window'"},
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
        {{.policy = "zzzzzz", .budget = "64"}, "streaming"},
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
        {{.policy = "snapkv", .budget = "64", .parts = {.window = "x"}}, "--window 'x'"},
        {{.policy = "snapkv", .budget = "64", .parts = {.window = "0"}}, "no row to observe"},
        {{.policy = "snapkv", .budget = "64", .parts = {.rows = "last:0"}}, "last:N"},
        {{.policy = "snapkv", .budget = "64", .parts = {.rows = "first:3"}}, "last:N"},
        {{.policy = "snapkv", .budget = "64", .parts = {.statistic = "median"}}, "position"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.alpha = "1.01"}}, "from 0 to 1"},
        {{.policy = "ada-snapkv", .budget = "64", .parts = {.alpha = "1e-1"}}, "decimal"},
        {{.policy = "pyramidkv", .budget = "64", .parts = {.beta = "0"}}, "from 1 on"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "every:0"}}, "every:M"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "sometimes"}}, "never"},
        {{.policy = "streaming", .budget = "64", .parts = {.evict = "every"}}, "every:M"},
        {{.policy = "streaming", .budget = "64", .parts = {.select = "std-scope"}}, "topk"},
        {{.policy = "streaming", .budget = "64", .parts = {.positions = "slot"}}, "original"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(&cases[i].options, cases[i].words);
}
END_TEST

START_TEST(test_options_make_the_variants)
{
    lh_policy_plan p = resolved(&(lh_policy_options){
        .policy = "snapkv", .budget = "20%", .parts = {.rows = "12.5%", .statistic = "sum", .sinks = "4"}});
    ck_assert(p.budget_is_share && p.rows_is_share && !p.mean && p.sinks == 4 && p.window == 32);
    ck_assert_int_eq(lh_policy_rows(&p, 1000), 125);
    ck_assert_int_eq(lh_policy_rows(&p, 3), 1);
    ck_assert_int_eq(lh_policy_entries(&p, 1512), 302);
    ck_assert_int_eq(lh_policy_entries(&p, 2), 1);
    p = resolved(&(lh_policy_options){.policy = "snapkv", .budget = "8", .parts = {.rows = "last:400"}});
    ck_assert(p.rows == 400 && p.window == 32);
    ck_assert_int_eq(lh_policy_rows(&p, 100), 100);
    p = resolved(&(lh_policy_options){.policy = "snapkv",
                                      .budget = "8",
                                      .parts = {.head_budget = "adaptive", .layer_budget = "pyramid", .beta = "3"}});
    ck_assert(p.alpha.digits == 5 && p.alpha.scale == 1 && p.beta == 3);
    p = resolved(&(lh_policy_options){.policy = "snapkv", .budget = "8", .parts = {.evict = "every"}});
    ck_assert_int_eq(p.every, 32); /* the window's rows are all new then */
    p = resolved(&(lh_policy_options){.policy = "snapkv", .budget = "8", .parts = {.statistic = "position"}});
    ck_assert(p.source == LH_SCORE_POSITION && p.window == 0 && p.every == 0);
}
END_TEST

/* Text and JSON of a plan give it back, byte by byte. */
static void round_trip(const lh_policy_options *options)
{
    lh_policy_plan plan = resolved(options), back;
    json_t *json = NULL;
    lh_buf text = {0};
    ck_assert_int_eq(lh_policy_json(&plan, &json), LH_OK);
    char *dump = json_dumps(json, 0);
    json_decref(json);
    json = json_loads(dump, 0, NULL);
    free(dump);
    ck_assert_msg(lh_policy_from_json(&back, json, "cache.h5") == LH_OK, "%s", lh_error_message());
    json_decref(json);
    plan.by_default = 0;
    ck_assert_mem_eq(&plan, &back, sizeof plan);
    ck_assert_int_eq(lh_policy_text(&plan, &text), LH_OK);
    ck_assert(strncmp(text.data, plan.name, strlen(plan.name)) == 0);
    lh_buf_clear(&text);
}

START_TEST(test_json_gives_the_plan_back)
{
    for (int i = 0; lh_policy_at(i); i++)
        round_trip(&(lh_policy_options){.policy = lh_policy_at(i)->name,
                                        .budget = lh_policy_at(i)->parts.statistic ? "33.30%" : NULL});
    round_trip(&(lh_policy_options){.budget = "7"});
    round_trip(&(lh_policy_options){.policy = "ada-pyramid",
                                    .budget = "0.125%",
                                    .parts = {.rows = "5%",
                                              .alpha = ".250",
                                              .safeguard = "floor",
                                              .group = "sum",
                                              .group_stage = "score",
                                              .pool = "avg",
                                              .pool_size = "11",
                                              .recents = "40",
                                              .sinks = "2",
                                              .beta = "7"}});
    round_trip(&(lh_policy_options){.policy = "streaming", .budget = "64", .parts = {.evict = "every:16"}});
}
END_TEST

START_TEST(test_text_says_what_differs_from_the_preset)
{
    lh_buf text = {0};
    lh_policy_plan p = resolved(&(lh_policy_options){
        .policy = "ada-snapkv",
        .budget = "20%",
        .parts = {.window = "64", .alpha = "0.20", .pool = "avg", .safeguard = "interp", .group = "max"}});
    ck_assert_int_eq(lh_policy_text(&p, &text), LH_OK);
    ck_assert_str_eq(text.data, "ada-snapkv --window 64 --group max --pool avg --alpha 0.2 --budget 20%");
    lh_buf_clear(&text);
}
END_TEST

START_TEST(test_foreign_json_is_refused)
{
    static const char *const texts[] = {"[]",
                                        "{}",
                                        "{\"name\": 3.5}",
                                        "{\"name\": \"none\"}",
                                        "{\"name\": \"snapkv\", \"budget\": true}",
                                        "{\"name\": \"snapkv\", \"budget\": 64, \"window\": -3}",
                                        "{\"name\": \"snapkv\", \"budget\": 64, \"alpha\": \"0.5\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lh_policy_plan plan;
        json_t *json = json_loads(texts[i], 0, NULL);
        ck_assert_int_eq(lh_policy_from_json(&plan, json, "cache.h5"), LH_EFILE);
        ck_assert_ptr_nonnull(strstr(lh_error_message(), "cache.h5"));
        json_decref(json);
    }
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
        {{0}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf text = {0};
        lh_policy_plan plan = resolved(&cases[i].options);
        ck_assert_int_eq(lh_policy_warnings(&plan, 1000, &text), LH_OK);
        ck_assert_int_eq(text.bytes > 0, cases[i].words != NULL);
        if (cases[i].words) ck_assert_msg(strstr(text.data, cases[i].words), "%s", text.data);
        lh_buf_clear(&text);
    }
}
END_TEST

int main(void)
{
    return suite_run("resolve",
                     (const TTest *const[]){
                         test_every_preset_resolves_and_is_found_by_its_name, test_presets_are_what_their_papers_say,
                         test_words_have_the_numbers_of_the_operations,
                         test_a_budget_alone_is_the_default_policy_and_says_so, test_what_would_be_ignored_is_refused,
                         test_values_that_are_none_are_refused, test_options_make_the_variants,
                         test_json_gives_the_plan_back, test_text_says_what_differs_from_the_preset,
                         test_foreign_json_is_refused, test_warnings_name_the_option, NULL});
}
