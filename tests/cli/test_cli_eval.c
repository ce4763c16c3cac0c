#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define POLICIES                                                                                             \
    "--policy 'snapkv --window 8,streaming,ada-snapkv --window 8 --pool-size 5,h2o,nacl,tova,random,snapkv " \
    "--window 8 --evict block:16' --budget 40,25%"
enum { CHOICES = 1 + 8 * 2 };
#define NEEDLE "eval needle -m tiny.h5 --haystack hay -q "
#define SMALL "--length 420 --depth 0.2,0.9 -n 6 "
#define RECALL "eval recall -m tiny.h5 --haystack hay -q --templates " SOURCE_DIR "/examples/facts.json "
#define FIDELITY "eval fidelity -m tiny.h5 --text hay -q "

/* The JSON object that a run prints. */
static json_t *eval(int ranks, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks, "%s --json", options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error);
    ck_assert_msg(object != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    program_clear(&r);
    return object;
}

static json_t *rows(const json_t *object, const char *table)
{
    json_t *list = json_object_get(object, table);
    ck_assert_msg(json_is_array(list), "no '%s'", table);
    return list;
}

static double value(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    ck_assert_msg(json_is_number(v), "'%s' is no number", name);
    return json_number_value(v);
}

static const char *text(const json_t *row, const char *name)
{
    const char *v = json_string_value(json_object_get(row, name));
    ck_assert_msg(v != NULL, "'%s' is no text", name);
    return v;
}

/* What a run prints and writes, one after the other. */
static void everything(program_result *r, int ranks, const char *options)
{
    program_run(r, ranks, "%s --csv means.csv --answers answers.csv && cat means.csv answers.csv", options);
    program_exits(r, 0);
}

START_TEST(test_needle_tables_are_complete)
{
    json_t *o = eval(1, NEEDLE SMALL POLICIES " --keys 2");
    size_t i;
    json_t *row;
    ck_assert_uint_eq(json_array_size(rows(o, "prompts")), 2 * 2 * CHOICES); /* depths, scenarios */
    ck_assert_uint_eq(json_array_size(rows(o, "means")), 2 * CHOICES);
    json_array_foreach(rows(o, "prompts"), i, row)
    {
        ck_assert_double_le(value(row, "prompt_tokens"), 420);
        ck_assert_double_ge(value(row, "prompt_tokens"), 400);
        double exact = value(row, "exact"), words = value(row, "words");
        ck_assert((exact == 0 || words == 1) && words >= 0 && words <= 1);
    }
    json_array_foreach(rows(o, "means"), i, row)
    {
        ck_assert_double_eq(value(row, "prompts"), 2);
        /* nothing that this model answers: the second mean is of nothing */
        ck_assert_double_eq(value(row, "prompts_answered"), 0);
        ck_assert(json_is_null(json_object_get(row, "exact_answered")));
    }
    ck_assert_str_eq(text(json_array_get(rows(o, "means"), 0), "policy"), "full");
    ck_assert(json_is_false(json_object_get(o, "interrupted")));
    json_decref(o);
}
END_TEST

/* Policies that observe the question share a prefill with those that do not; how many tokens it has, they are told. */
START_TEST(test_needle_tells_policies_of_the_question)
{
    static const char options[] = NEEDLE SMALL
        "--chat=off --scenario question-aware --deterministic --question 'Who?' --policy "
        "'nacl --proxies question,nacl --proxies none --window 24 --sinks 12 --evict every,nacl,nacl --proxies-at "
        "both-ends' --budget 120";
    program_result one = {0}, more = {0};
    everything(&one, 1, options);
    for (int ranks = 2; ranks <= 3; ranks++) {
        everything(&more, ranks, options);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    json_t *o = eval(1, options), *list = rows(o, "prompts");
    for (size_t i = 0; i < 2; i++) { /* depths; \n\nQuestion: Who?\nAnswer: has 24 bytes */
        const json_t *asked = json_array_get(list, 5 * i + 1), *window = json_array_get(list, 5 * i + 2);
        ck_assert_str_eq(text(asked, "answer"), text(window, "answer"));
    }
    json_decref(o);
    program_clear(&one);
    program_clear(&more);
}
END_TEST

START_TEST(test_needle_gives_the_same_bytes_on_any_number_of_ranks)
{
    program_result one = {0}, more = {0};
    everything(&one, 1, NEEDLE SMALL POLICIES " --deterministic");
    ck_assert_int_eq(program_lines(one.out.data, "420 tokens, question-aware"), 1);
    ck_assert_int_eq(program_lines(one.out.data, "420 tokens, context-only"), 1);
    ck_assert_int_eq(program_lines(one.out.data, "| h2o "), 2);
    for (int ranks = 2; ranks <= 4; ranks++) {
        everything(&more, ranks, NEEDLE SMALL POLICIES " --deterministic");
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

/* Two kinds of facts of a file: a table for each, and one for both; names of keep sets name the kind. */
START_TEST(test_needle_asks_for_several_kinds_of_facts)
{
    static const char options[] =
        NEEDLE SMALL "--templates " SOURCE_DIR
                     "/examples/facts.json --kinds ship,box --keys 3 --policy snapkv --budget 60 --deterministic";
    program_result one = {0}, more = {0};
    json_t *o = eval(1, options), *means = rows(o, "means");
    ck_assert_uint_eq(json_array_size(rows(o, "prompts")),
                      2 * 2 * 2 * 2); /* depths, scenarios, kinds, full and snapkv */
    ck_assert_uint_eq(json_array_size(means), 2 * 3 * 2);
    for (size_t i = 0; i < 6; i++) {
        static const char *const tasks[] = {"box", "box", "ship", "ship", "average", "average"};
        ck_assert_str_eq(text(json_array_get(means, i), "task"), tasks[i]);
        ck_assert_double_eq(value(json_array_get(means, i), "prompts"), i < 4 ? 2 : 4);
    }
    json_decref(o);
    everything(&one, 1, options);
    ck_assert_int_eq(program_lines(one.out.data, "420 tokens, context-only, box: exact"), 1);
    for (int ranks = 2; ranks <= 4; ranks++) {
        everything(&more, ranks, options);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_run(&one, 2, "%s --depth 0.5 --scenario context-only --keep-sets kinds", options);
    program_exits(&one, 0);
    ck_assert(lh_file_exists("kinds/420-context-only-depth0_5-seed0-box.01-snapkv-60.h5"));
    program_clear(&one);
    program_clear(&more);
}
END_TEST

START_TEST(test_quote_gives_the_same_bytes_on_any_number_of_ranks)
{
    static const char options[] =
        "eval quote -m tiny.h5 --haystack hay -q " SMALL "--policy snapkv --budget 60 --deterministic";
    program_result one = {0}, more = {0};
    json_t *o = eval(1, options), *means = rows(o, "means");
    ck_assert_uint_eq(json_array_size(rows(o, "prompts")), 2 * 2 * 2); /* depths, scenarios, full and snapkv */
    ck_assert_uint_eq(json_array_size(means), 2 * 2);
    ck_assert_str_eq(text(json_array_get(means, 0), "task"), "quote");
    ck_assert(isfinite(value(json_array_get(means, 0), "answer_nll")));
    json_decref(o);
    everything(&one, 1, options);
    for (int ranks = 2; ranks <= 4; ranks++) {
        everything(&more, ranks, options);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

/* Facts of known age, asked after policies have evicted while decoding. */
START_TEST(test_recall_gives_the_same_bytes_on_any_number_of_ranks)
{
    static const char options[] = RECALL "--kinds ship,box --keys 3 --length 200 --steps 150 --seeds 2 --policy "
                                         "'h2o,snapkv --evict every:16,snapkv' --budget 60 --deterministic";
    program_result one = {0}, more = {0};
    json_t *o = eval(1, options), *facts = rows(o, "facts"), *curve = rows(o, "curve"), *traces = rows(o, "traces");
    ck_assert_uint_eq(json_array_size(rows(o, "means")), 4 * 3); /* kinds and their average */
    ck_assert_uint_eq(json_array_size(facts), 2 * 3 * 4);        /* windows, facts, policies */
    ck_assert_uint_eq(json_array_size(traces), 2 * 4);
    ck_assert_uint_eq(json_array_size(curve), 4 * 3);
    for (size_t i = 0; i < 3; i++) { /* of the full cache: facts at equal distances, the oldest first */
        const double age = value(json_array_get(facts, i), "age");
        ck_assert_double_eq_tol(age, 350 * (1 - ((double)i + 0.5) / 3), 75);
        ck_assert_str_eq(text(json_array_get(facts, i), "task"), i == 1 ? "ship" : "box");
    }
    const double per_entry =
        value(json_array_get(traces, 0), "entries_kept") / (value(json_array_get(traces, 0), "prompt_tokens") + 150);
    ck_assert_double_eq(value(json_array_get(traces, 0), "kl"), 0);
    ck_assert_double_eq(value(json_array_get(traces, 1), "entries_kept"), 60 * per_entry);
    ck_assert_double_eq(value(json_array_get(traces, 3), "entries_kept"), (60 + 150) * per_entry);
    ck_assert_double_gt(value(json_array_get(traces, 1), "kl"), 0);
    json_decref(o);
    everything(&one, 1, options);
    ck_assert_int_eq(program_lines(one.out.data, "200 tokens and 150 that are fed, box: "), 1);
    for (int ranks = 2; ranks <= 4; ranks++) {
        everything(&more, ranks, options);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

/* Tokens that are fed one by one leave what a block of them leaves, and every question begins from that state. */
START_TEST(test_recall_with_a_budget_that_holds_everything_is_that_of_the_full_cache)
{
    static const char *const same[] = {"age", "answer_nll", "answer_best", "entries_kept"};
    json_t *o = eval(1, RECALL "--keys 3 --length 200 --steps 100 --seeds 1 --policy h2o --budget 500 --deterministic "
                               "--kv-dtype f32"); /* a cache that evicts would have entries of 8 bits */
    const json_t *facts = rows(o, "facts"), *traces = rows(o, "traces");
    for (size_t i = 0; i < 3; i++)
        for (size_t c = 0; c < sizeof same / sizeof *same; c++)
            ck_assert_double_eq_tol(value(json_array_get(facts, i), same[c]),
                                    value(json_array_get(facts, i + 3), same[c]), 1e-6);
    ck_assert_double_eq_tol(value(json_array_get(traces, 1), "kl"), 0, 1e-9);
    ck_assert_double_eq_tol(value(json_array_get(traces, 1), "over_full"), 0, 1e-6);
    json_decref(o);
}
END_TEST

START_TEST(test_fidelity_gives_the_same_bytes_on_any_number_of_ranks)
{
    static const char options[] =
        FIDELITY "--length 300 --count 2 -n 8 --reconstruct --repeat-max 12 --deterministic " POLICIES;
    program_result one = {0}, more = {0};
    everything(&one, 1, options);
    ck_assert_int_eq(program_lines(one.out.data, "300 tokens, 8 generated: means of 2 windows"), 1);
    for (int ranks = 2; ranks <= 3; ranks++) {
        everything(&more, ranks, options);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

/* How many caches a prefill fills is a matter of memory, not of results. */
START_TEST(test_one_prefill_for_all_is_one_for_each)
{
    program_result all = {0}, each = {0};
    everything(&all, 1, NEEDLE SMALL POLICIES " --deterministic");
    for (int together = 1; together <= 3; together += 2) {
        char options[512];
        snprintf(options, sizeof options, "%s --together %d", NEEDLE SMALL POLICIES " --deterministic", together);
        everything(&each, 1, options);
        ck_assert_str_eq(all.out.data, each.out.data);
    }
    everything(&all, 1, FIDELITY "--length 300 --count 2 -n 8 --deterministic " POLICIES);
    everything(&each, 1, FIDELITY "--length 300 --count 2 -n 8 --deterministic --together 1 " POLICIES);
    ck_assert_str_eq(all.out.data, each.out.data);
    program_clear(&all);
    program_clear(&each);
}
END_TEST

/* What keeps everything is the full cache. */
START_TEST(test_a_budget_that_holds_everything_is_faithful)
{
    json_t *o = eval(2, FIDELITY "--length 200 --count 3 -n 12 --reconstruct --repeat-max 9 --kv-dtype f32 "
                                 "--policy h2o,ada-snapkv,streaming --budget 5000");
    static const char *const ones[] = {"agreement", "rouge1", "rougel", "bleu", "best"};
    size_t i;
    json_t *row, *full = json_array_get(rows(o, "means"), 0);
    ck_assert_uint_eq(json_array_size(rows(o, "means")), 4);
    json_array_foreach(rows(o, "windows"), i, row)
    {
        ck_assert_double_eq(value(row, "kl"), 0);
        ck_assert_double_eq(value(row, "agreement"), 1);
        ck_assert_double_eq(value(row, "best"), 1);
        ck_assert_double_eq(value(row, "diverged_at"), value(row, "tokens"));
    }
    json_array_foreach(rows(o, "means"), i, row)
    {
        ck_assert_double_eq(value(row, "repeated_bleu"), value(full, "repeated_bleu"));
        for (size_t k = 0; k < sizeof ones / sizeof *ones; k++)
            ck_assert_double_eq(value(row, ones[k]), value(full, ones[k]));
    }
    json_decref(o);
}
END_TEST

/* A window that is the whole text: what the task writes down is what `generate` says after it. */
START_TEST(test_answers_are_those_of_generate)
{
    static const char *const policies[] = {"full", "snapkv --window 8 --budget 30", "h2o --budget 25%",
                                           "nacl --budget 40", "streaming --positions slot --budget 20"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        char options[256];
        snprintf(options, sizeof options,
                 "eval fidelity -m tiny.h5 --text passage -q --length 120 --count 1 -n 16 --policy '%s'", policies[p]);
        json_t *o = eval(1, options), *list = rows(o, "windows");
        const json_t *row = json_array_get(list, json_array_size(list) - 1);
        snprintf(options, sizeof options, "generate -m tiny.h5 --chat=off -f passage -n 16 --policy %s", policies[p]);
        json_t *g = eval(1, options);
        ck_assert_str_eq(text(g, "text"), text(row, "text"));
        json_decref(o);
        json_decref(g);
    }
}
END_TEST

/* A budget alone is for the default of the scenario, or for both defaults; what is said and run on any number of
 * ranks. */
START_TEST(test_each_scenario_has_its_default)
{
    static const char longhaul[] = "longhaul (the default with a budget; ",
                      later[] =
                          "ask-later (the default with a budget for questions that come later; 'longhaul learn' gives";
    static const struct {
        const char *scenario, *policies[3], *said;
    } cases[] = {
        {"question-aware", {"full", "longhaul"}, "policy: longhaul (the default with a budget; '--policy'"},
        {"context-only", {"full", "ask-later"}, "policy: ask-later (the default with a budget for questions that"},
        {"question-aware,context-only", {"full", "longhaul", "ask-later"}, "policy: longhaul (the default with a"}};
    program_result r = {0};
    for (int ranks = 1; ranks <= 4; ranks++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            program_run(&r, ranks,
                        "eval needle -m tiny.h5 --haystack hay " SMALL "--depth 0.5 -n 2 --budget 60 --scenario %s "
                        "--json",
                        cases[c].scenario);
            program_exits(&r, 0);
            ck_assert_int_eq(program_lines(r.err.data, cases[c].said), 1);
            json_t *o = json_loads(r.out.data, 0, NULL);
            for (size_t i = 0; i < 3 && cases[c].policies[i]; i++)
                ck_assert_str_eq(text(json_array_get(rows(o, "means"), i), "policy"), cases[c].policies[i]);
            json_decref(o);
        }
    ck_assert(strstr(r.err.data, longhaul) && strstr(r.err.data, later));
    program_run(&r, 2, NEEDLE SMALL "--depth 0.5 -n 2 --budget 60 --scenario context-only --policy snapkv");
    program_exits(&r, 0);
    ck_assert_str_eq(r.err.data, "");
    program_refuses(2, 2, "'ask-later', the default where questions come later",
                    NEEDLE SMALL "--budget 60 --evict every:1 --scenario context-only");
    program_run(&r, 2, FIDELITY "--length 120 --count 1 -n 2 --budget 60 --csv - | grep -c '^longhaul,60,'");
    program_exits(&r, 0); /* a text that goes on asks nothing */
    program_clear(&r);
}
END_TEST

/* Where everything that is kept is protected, nothing is measured of the scores. */
START_TEST(test_budgets_that_leave_no_choice_are_warned_of_and_marked)
{
    program_result r = {0};
    lh_buf page = {0};
    program_run(&r, 2,
                NEEDLE SMALL "--depth 0.5 --scenario context-only --policy snapkv,streaming --budget 32,64 -o left.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: "), 1);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: snapkv --budget 32: "), 1);
    program_run(&r, 1, "report left.h5 -o left.html");
    program_exits(&r, 0);
    program_must(lh_file_read(&page, "left.html", 1 << 24) == LH_OK, "the page");
    ck_assert_ptr_nonnull(strstr(page.data, "Hollow points: window fills the budget"));
    lh_buf_clear(&page);
    /* what holds for several is said once, also quietly */
    program_run(&r, 3, NEEDLE SMALL "--depth 0.5 -n 2 --policy 'h2o,snapkv,streaming' --budget 16,500,600");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: "), 3);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: snapkv --budget 16: window 32 leaves"), 1);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: h2o --budget 500: the budget of 500 entries"), 1);
    ck_assert_ptr_nonnull(strstr(
        r.err.data, "nothing is evicted before it is full (also h2o --budget 600; streaming --budget 500, 600)"));
    ck_assert_ptr_nonnull(strstr(r.err.data, "nothing is evicted (also snapkv --budget 600)"));
    program_clear(&r);
}
END_TEST

/* Windows after which the full cache ends at once have nothing that a policy could change: they are counted. */
START_TEST(test_windows_without_an_answer_are_warned_of)
{
    program_result r = {0};
    json_error_t error;
    size_t i;
    json_t *row;
    long long silent = 0, counted = 0;
    program_run(&r, 2, FIDELITY "--length 12 --count 400 -n 3 --json");
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, 0, &error);
    ck_assert_msg(o != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    json_array_foreach(rows(o, "windows"), i, row) silent += value(row, "tokens") == 1;
    const char *warning = strstr(r.err.data, "longhaul: warning: after ");
    if (warning) counted = atoll(warning + strlen("longhaul: warning: after "));
    ck_assert_int_eq(counted, silent);
    ck_assert_int_eq(warning != NULL, silent > 0);
    json_decref(o);
    program_clear(&r);
}
END_TEST

START_TEST(test_an_analysis_is_whole_and_described)
{
    program_result r = {0};
    program_run(&r, 2, NEEDLE SMALL "--policy snapkv --budget 40 -o needle.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "verify needle.h5 && " LONGHAUL " info needle.h5");
    program_exits(&r, 0);
    static const char *const parts[] = {"kind: analysis", "/needle/means/exact", "/needle/prompts/words",
                                        "; unit tokens;", "; labels "};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(r.out.data, parts[i]), "no '%s' in:\n%s", parts[i], r.out.data);
    program_clear(&r);
}
END_TEST

START_TEST(test_what_cannot_be_is_said)
{
    static const struct {
        const char *options, *says;
        int code;
    } cases[] = {
        {"eval", "'eval' needs a task after its name: needle, quote, recall, ", 2},
        {"eval nedle -m tiny.h5", "unknown task 'nedle', did you mean 'needle'?", 2},
        {"eval needle -m tiny.h5", "needs '--haystack FILE|FOLDER'", 2},
        {NEEDLE "--policy snapkv,snapkw --budget 8", "policy 'snapkw' is unknown, did you mean 'snapkv'?", 2},
        {NEEDLE "--policy snapkv,random --budget 8 --window 4",
         "'random': policy 'random' as it is resolved would ignore", 2},
        {NEEDLE "--policy snapkv", "'snapkv': policy 'snapkv' needs a budget", 2},
        {NEEDLE "--length 10,x", "'--length' got 'x', it must be comma-separated numbers of tokens", 2},
        {NEEDLE "--length 0", "'--length' got '0', it must be", 2},
        {NEEDLE "--depth 0.5,2", "'--depth' got", 2},
        {NEEDLE "--depth 0.1:0.9", "'--depth' got", 2},
        {NEEDLE "--depth 0.1:0.9:1", "must end with a number from 2", 2},
        {NEEDLE "--scenario aware", "'--scenario' got 'aware', it must be a list of: question-aware, context-only", 2},
        {NEEDLE "--needle 'no place'", "'--needle' has no '{secret}'", 2},
        {NEEDLE "--kinds box", "'--kinds' chooses from the kinds of '--templates'", 2},
        {NEEDLE "--templates " SOURCE_DIR "/examples/facts.json --kinds chair", "has the name 'chair', or is for it",
         2},
        {NEEDLE "--templates " SOURCE_DIR "/examples/facts.json --question 'Who?'",
         "'--templates' says sentence and question", 2},
        {NEEDLE "--templates hay", "hay", 3},
        {NEEDLE "--length 100000", "longer than the 4096 positions", 2},
        {NEEDLE "--length 60", "alone are", 2},
        {NEEDLE "--csv tiny.h5", "'--csv' and '--model' are both 'tiny.h5'", 2},
        {NEEDLE "--csv a --answers a", "'--csv' and '--answers' are both 'a'", 2},
        {NEEDLE "-o no/where.h5", "no/where.h5", 6},
        {NEEDLE "--policy 'snapkv --evict block:50' --budget 40", "block", 2},
        {"eval needle -m tiny.h5 --haystack nowhere", "nowhere", 3},
        {"eval needle -m tiny.h5 --haystack empty", "has no text", 3},
        {"eval needle -m tiny.h5 --haystack passage --length 500", "the haystack is too short", 3},
        {"eval needle -m bare.h5 --haystack hay", "the model has no tokenizer", 2},
        {"eval recall -m tiny.h5 --haystack hay", "needs '--templates FILE'", 2},
        {RECALL "--length 3000 --steps 60000", "longer than the 4096 positions", 2},
        {RECALL "--length 40 --steps 40", "the facts alone are", 2},
        {RECALL "--kinds chair", "has the name 'chair', or is for it", 2},
        {"eval recall -m tiny.h5 --haystack hay --templates damaged", "kind 'box': 'answer' is missing", 3},
        {"eval recall -m tiny.h5 --haystack passage --templates " SOURCE_DIR "/examples/facts.json",
         "the haystack is too short", 3},
        {FIDELITY "--length 2000 --count 500", "the texts have 3 windows of 2000 tokens, fewer than 500", 3},
        {FIDELITY "--repeat 'Again!'", "'--repeat' has no effect without '--reconstruct'", 2},
        {FIDELITY "-n 1", "--max-new", 2},
        {"eval fidelity -m bare.h5 --text hay", "the model has no tokenizer", 2}};
    program_result r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run(&r, 1, "%s", cases[i].options);
        program_exits(&r, cases[i].code);
        program_says(&r, cases[i].says);
    }
    program_run(&r, 2, "eval needle -m tiny.h5 --haystack passage --length 500");
    program_exits(&r, 3);
    program_says(&r, "the haystack is too short");
    program_clear(&r);
}
END_TEST

/* A minute of answers, interrupted when some prompts have been taken in. */
START_TEST(test_an_interrupt_shows_what_there_is)
{
    program_result r = {0};
    json_error_t error;
    for (int ranks = 1; ranks <= 2; ranks++) {
        fclose(fopen("told", "w")); /* it is looked at before the program has begun to write */
        program_run(&r, ranks,
                    "eval needle -v -m tiny.h5 --haystack hay --length 300 --depth 0.1:0.9:5000 --policy h2o "
                    "--budget 30 --json > shown 2> told & p=$!; "
                    "while kill -0 $p && test $(grep -c 'go through a layer' told) -lt 5; do sleep 0.1; done; "
                    "kill -USR1 $p; wait $p; code=$?; cat told >&2; exit $code");
        program_exits(&r, 75);
        ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted"), 1);
        json_t *o = json_load_file("shown", 0, &error);
        ck_assert_msg(o != NULL, "no JSON: %s", error.text);
        ck_assert(json_is_true(json_object_get(o, "interrupted")));
        ck_assert_uint_gt(json_array_size(rows(o, "prompts")), 1);
        json_decref(o);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_tasks_explain_themselves)
{
    program_result r = {0};
    static const char *const lines[] = {"eval needle --help", "help eval fidelity", "eval --help", "help eval",
                                        "eval needle --policy 'snapkv,nacl --sinks 2' --help"};
    static const char *const starts[] = {"usage: longhaul eval needle ", "usage: longhaul eval fidelity ",
                                         "usage: longhaul eval TASK ", "usage: longhaul eval TASK ", "nacl: "};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        program_run(&r, 1, "%s", lines[i]);
        program_exits(&r, 0);
        ck_assert_msg(program_lines(r.out.data, starts[i]) == 1, "%s", r.out.data);
    }
    program_run(&r, 1, "eval needle --policy help");
    program_exits(&r, 0);
    program_run(&r, 1, "help eval --man");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, ".TH \"LONGHAUL\\-EVAL\" 1"));
    ck_assert_int_ge(program_lines(r.out.data, ".SS \"longhaul eval "), 6); /* itself and its tasks */
    program_run(
        &r, 1,
        "help --completion > completion && bash -n completion && bash --norc -c '. ./completion; "
        "try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _longhaul; (IFS=,; echo \"${COMPREPLY[*]}\"); }; "
        "try longhaul ev; try longhaul eval f; try longhaul eval needle --hay; try longhaul eval fidelity --recon'");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "eval\nfidelity\n--haystack\n--reconstruct\n");
    program_clear(&r);
}
END_TEST

static void write_haystack(void)
{
    lh_buf hay = {0};
    tiny_sentences(&hay);
    program_file("hay", hay.data);
    hay.data[120] = '\0';
    program_file("passage", hay.data);
    program_file("damaged", "{\"kinds\": [{\"name\": \"box\", \"fact\": \"A {secret}.\", \"question\": \"What?\"}]}");
    lh_buf_clear(&hay);
}

int main(void)
{
    const TTest *const tests[] = {test_needle_tables_are_complete,
                                  test_needle_tells_policies_of_the_question,
                                  test_needle_gives_the_same_bytes_on_any_number_of_ranks,
                                  test_needle_asks_for_several_kinds_of_facts,
                                  test_quote_gives_the_same_bytes_on_any_number_of_ranks,
                                  test_recall_gives_the_same_bytes_on_any_number_of_ranks,
                                  test_recall_with_a_budget_that_holds_everything_is_that_of_the_full_cache,
                                  test_fidelity_gives_the_same_bytes_on_any_number_of_ranks,
                                  test_one_prefill_for_all_is_one_for_each,
                                  test_a_budget_that_holds_everything_is_faithful,
                                  test_answers_are_those_of_generate,
                                  test_each_scenario_has_its_default,
                                  test_budgets_that_leave_no_choice_are_warned_of_and_marked,
                                  test_windows_without_an_answer_are_warned_of,
                                  test_an_analysis_is_whole_and_described,
                                  test_what_cannot_be_is_said,
                                  test_an_interrupt_shows_what_there_is,
                                  test_tasks_explain_themselves,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    write_haystack();
    program_result r = {0};
    program_run(&r, 1,
                "import tiny -o tiny.h5 -q && mkdir empty && cp -r tiny bare && rm bare/tokenizer* && " LONGHAUL
                " import bare -o bare.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli eval", tests);
    program_leave();
    return code;
}
