/* A replay with the model: next tokens after what policies keep, as a run has them, on any number of ranks. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "cli/program.h"
#include "cli/tiny_suite.h"

enum { POLICIES = 7, BUDGETS = 2, FIGURES = 3, VALUES = POLICIES * BUDGETS };

#define REPLAY(trace) "replay " trace " -m tiny.h5 --deterministic --analyse next-token -q "

static const char *const figures[FIGURES] = {"next-token-kl", "next-token-agreement", "answer-nll"};

/* The figures of an analysis: [FIGURES][policies * BUDGETS]. */
typedef struct found {
    float values[FIGURES][VALUES];
    int64_t count;
} found;

static void read_figures(const char *path, found *out)
{
    lh_h5 *h5 = NULL;
    *out = (found){.count = 0};
    ck_assert_msg(lh_h5_open(&h5, path, &(lh_h5_header){"analysis", 1, NULL}) == LH_OK, "%s", lh_error_message());
    for (int f = 0; f < FIGURES; f++) {
        char name[64];
        float *values = NULL;
        lh_h5_shape shape;
        snprintf(name, sizeof name, "/figures/%s/values", figures[f]);
        ck_assert_int_eq(
            lh_h5_get(h5, name, &(lh_h5_shape){.type = LH_F32, .rank = 2, .dims = {-1, -1}}, &shape, &values), LH_OK);
        out->count = lh_h5_shape_count(&shape);
        ck_assert_int_le(out->count, VALUES);
        memcpy(out->values[f], values, (size_t)out->count * sizeof *values);
        lh_free(values);
    }
    lh_h5_close(h5);
}

/* `eval fidelity` prefills and evicts by itself, and forces one token after the other. */
START_TEST(test_next_tokens_are_those_of_a_run)
{
    static const char policies[] =
        "'snapkv --window 8,ada-snapkv --window 8,streaming --evict never --positions slot,h2o --evict never'";
    program_result r = {0};
    found first;
    lh_buf text = {0};
    for (int i = 0; i < 80; i++) ck_assert_int_eq(lh_buf_printf(&text, "%d ", (i * 7 + 1) % 97), LH_OK);
    program_file("numbers", text.data);
    lh_buf_clear(&text);
    program_run(&r, 2,
                "eval fidelity -m tiny.h5 --kv-dtype f32 --deterministic --text numbers --length 200 --count 1 "
                "--max-new 80 --json -q "
                "--policy %s --budget 20,25%%",
                policies);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, NULL), *means = json_object_get(object, "means"),
           *window = json_array_get(json_object_get(object, "windows"), 0);
    ck_assert_int_eq((int)json_array_size(means), 1 + 4 * BUDGETS);
    ck_assert_int_eq(json_integer_value(json_object_get(window, "tokens")), 80); /* nothing ended the answer */
    program_run(&r, 1, "tokenize -m tiny.h5 -f numbers | tr -s ' ' '\\n' | head -200 > ids");
    program_run(&r, 1, "trace -m tiny.h5 --deterministic --prompt-tokens ids -n 81 --ignore-eos -q -o run.h5");
    program_exits(&r, 0);
    for (int ranks = 1; ranks <= 4; ranks++) {
        found now;
        program_run(&r, ranks, REPLAY("run.h5") "--kv-dtype f32 --policy %s --budget 20,25%% -o next.h5", policies);
        program_exits(&r, 0);
        read_figures("next.h5", &now);
        ck_assert_int_eq(now.count, VALUES); /* with random and two oracles */
        if (ranks == 1) first = now;
        ck_assert_msg(memcmp(&now, &first, sizeof now) == 0, "other values on %d ranks", ranks);
    }
    for (int i = 0; i < 4 * BUDGETS; i++) { /* the first row is of the full cache */
        const json_t *row = json_array_get(means, (size_t)i + 1);
        /* single precision in the file, nine digits in the text */
        ck_assert_double_eq_tol(first.values[0][i], json_number_value(json_object_get(row, "kl")), 1e-6);
        ck_assert_double_eq_tol(first.values[1][i], json_number_value(json_object_get(row, "best")), 1e-6);
    }
    json_decref(object);
    program_clear(&r);
}
END_TEST

/* Mean of what a run says of its tokens from the second to the last but one, which are fed back. */
static double nll_of_a_run(const char *model)
{
    enum { TOKENS = 81 };
    program_result r = {0};
    double sum = 0;
    program_run(&r, 1, "generate -m %s --deterministic --prompt-tokens ids -n %d --ignore-eos -q --json --logprobs",
                model, TOKENS);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, NULL), *list = json_object_get(object, "logprobs");
    ck_assert_int_eq((int)json_array_size(list), TOKENS);
    for (size_t i = 1; i + 1 < TOKENS; i++) sum -= json_number_value(json_array_get(list, i)) / (TOKENS - 2);
    json_decref(object);
    program_clear(&r);
    return sum;
}

/* Also where a rotary embedding depends on the length of the run. */
START_TEST(test_the_full_cache_says_what_the_run_said)
{
    static const char *const models[] = {"tiny.h5", "long.h5"};
    program_result r = {0};
    program_run(&r, 1,
                "tokenize -m tiny.h5 -f text | tr -s ' ' '\\n' | head -200 > ids && cp -r tiny long && "
                "sed 's/\"max_position_embeddings\": [0-9]*/\"max_position_embeddings\": 128, \"rope_scaling\": "
                "{\"rope_type\": \"dynamic\", \"factor\": 4.0}/' "
                "tiny/config.json > long/config.json && grep -q dynamic long/config.json");
    program_exits(&r, 0);
    program_run(&r, 1, "import long -o long.h5 -q");
    program_exits(&r, 0);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        program_run(&r, 1, "trace -m %s --deterministic --prompt-tokens ids -n 81 --ignore-eos -q -o said.h5",
                    models[i]);
        program_exits(&r, 0);
        program_run(&r, 1 + (int)i,
                    "replay said.h5 -m %s --deterministic --analyse next-token -q --policy streaming "
                    "--budget 50%%",
                    models[i]);
        program_exits(&r, 0);
        const char *full = strstr(r.out.data, "  full ");
        ck_assert_ptr_nonnull(full);
        ck_assert_double_eq_tol(strtod(full + strlen("  full "), NULL), nll_of_a_run(models[i]), 6e-5); /* printed */
    }
    program_refuses(1, 2, "whose rotary embedding is not that of",
                    "replay said.h5 -m long.h5 --continuation-file text --policy streaming --budget 50%");
    program_clear(&r);
}
END_TEST

START_TEST(test_a_whole_budget_changes_no_next_token)
{
    program_result r = {0};
    found whole;
    program_run(&r, 2,
                "trace -m tiny.h5 --chat=off -f text -n 20 --ignore-eos -q --scenario context-only --question 'Who is "
                "it?' --question 'Where?' -o asked.h5");
    program_exits(&r, 0);
    program_run(&r, 2,
                REPLAY("asked.h5") "--policy snapkv,streaming,ada-snapkv --budget 100%% --kv-dtype f32 -o next.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "  full "), 1);
    read_figures("next.h5", &whole);
    ck_assert_int_eq(whole.count, 6); /* random and two oracles among them */
    for (int64_t p = 0; p < whole.count; p++) {
        ck_assert_double_eq(whole.values[0][p], 0);
        ck_assert_double_eq(whole.values[1][p], 1);
        ck_assert_double_eq(whole.values[2][p], whole.values[2][0]);
    }
    program_run(&r, 1, "report next.h5 -o next.html && cat next.html");
    ck_assert_ptr_nonnull(strstr(r.out.data, "the model goes on with 38 tokens")); /* 2 x 19 that were fed back */
    program_clear(&r);
}
END_TEST

/* A run that is forced to say a text, and the text given to the replay of another run of that prompt. */
START_TEST(test_a_text_that_continues_is_that_of_a_forced_run)
{
    static const char what[] = "--policy snapkv,h2o --budget 20,25%";
    program_result r = {0};
    found recorded, given;
    program_file("more", " Then the captain went below and slept.");
    program_run(&r, 1, "tokenize -m tiny.h5 -f more > more.ids && wc -w < more.ids");
    program_exits(&r, 0);
    const int tokens = atoi(r.out.data);
    ck_assert_int_gt(tokens, 20);
    program_run(&r, 1,
                "trace -m tiny.h5 --chat=off --deterministic -f text -n %d --force-tokens more.ids -q -o forced.h5",
                tokens + 1);
    program_exits(&r, 0);
    program_run(&r, 1, "trace -m tiny.h5 --chat=off --deterministic -f text -n 9 --ignore-eos -q -o free.h5");
    program_exits(&r, 0);
    program_run(&r, 1, REPLAY("forced.h5") "%s --judge prompt -o recorded.h5", what);
    program_exits(&r, 0);
    program_run(&r, 3, REPLAY("free.h5") "%s --judge prompt --continuation-file more -o given.h5", what);
    program_exits(&r, 0);
    read_figures("recorded.h5", &recorded);
    read_figures("given.h5", &given);
    ck_assert(recorded.count == given.count && memcmp(&recorded, &given, sizeof given) == 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_what_the_model_cannot_go_on_from_is_refused)
{
    program_result r = {0};
    const struct {
        const char *name, *options;
    } traces[] = {{"all.h5", "-n 9"}, {"one.h5", "-n 1"}, {"few.h5", "-n 9 --trace-layers 0-1"}};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        program_run(&r, 1, "trace -m tiny.h5 --chat=off -f text --ignore-eos -q %s -o %s", traces[i].options,
                    traces[i].name);
        program_exits(&r, 0);
    }
    program_run(&r, 1, "import tiny -o other.h5 --dtype bf16 -q");
    program_exits(&r, 0);
    program_refuses(2, 2, "was recorded with another model", "replay all.h5 -m other.h5 --kv-dtype f32 --budget 40");
    program_refuses(1, 2, "give '--kv-dtype f32'", "replay all.h5 -m tiny.h5 --kv-dtype bf16 --budget 40");
    program_refuses(3, 2, "'one.h5' has no tokens after the prompt", "replay one.h5 -m tiny.h5 --budget 40");
    program_refuses(1, 2, "'few.h5' lacks layer 2", "replay few.h5 -m tiny.h5 --budget 40");
    program_refuses(1, 2, "'--analyse next-token' needs the model", "replay all.h5 --analyse next-token --budget 40");
    program_refuses(1, 2, "'--model' has no effect on '--analyse mass'",
                    "replay all.h5 -m tiny.h5 --analyse mass --budget 40");
    program_refuses(1, 2, "'--kv-dtype' has no effect without '--model'", "replay all.h5 --kv-dtype f32 --budget 40");
    program_refuses(1, 2, "give '--model', too", "replay all.h5 --continuation-file text --budget 40");
    program_file("word", "a");
    program_refuses(2, 3, "'word' is too short", "replay all.h5 -m tiny.h5 --continuation-file word --budget 40");
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_next_tokens_are_those_of_a_run,
                                  test_the_full_cache_says_what_the_run_said,
                                  test_a_whole_budget_changes_no_next_token,
                                  test_a_text_that_continues_is_that_of_a_forced_run,
                                  test_what_the_model_cannot_go_on_from_is_refused,
                                  NULL};
    return tiny_suite_run("cli next token", tests);
}
