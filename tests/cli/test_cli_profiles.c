/* Files that policies name, as people give them: weights of budgets, questions known beforehand. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define BY_HAND "--version > version; "
#define RUN                                                                                                    \
    "generate -m tiny.h5 --chat=off -f prompt -n 6 --ignore-eos --json -q --deterministic --policy streaming " \
    "--budget 16 "

#define ASKED                                                                                             \
    "generate -m tiny.h5 --chat=off -f whole -n 8 --ignore-eos --json -q --deterministic --policy kvzip " \
    "--budget 40 "
#define FILES "--layer-budget layers.csv --head-budget heads.csv "
#define FIDELITY "eval fidelity -m tiny.h5 --text whole -q --length 160 --count 1 -n 12 --deterministic "
#define NEEDLE "eval needle -m tiny.h5 --haystack passage -q --length 420 --depth 0.5 -n 4 --deterministic "

START_TEST(test_bad_files_of_weights_are_named)
{
    static const struct {
        int code;
        const char *part, *line;
    } cases[] = {
        {3, "'twice.csv', line 4: layer 1 has a weight already, in line 3",
         "generate -m tiny.h5 -p a --budget 8 --layer-budget twice.csv"},
        {3, "'minus.csv', line 3: the weight '-1'", "plan -m tiny.h5 --context 99 --budget 8 --head-budget minus.csv"},
        {3, "'empty' is empty", "generate -m tiny.h5 -p a --budget 8 --head-budget empty"},
        {3, "'layers.csv', line 1", "generate -m tiny.h5 -p a --budget 8 --head-budget layers.csv"},
        {3, "'four.csv' has weights of 4 layers, the model has 3",
         "generate -m tiny.h5 -p a --budget 8 --layer-budget four.csv"},
        {3, "'four.csv' has weights of 4 layers, the model has 3",
         "plan -m tiny.h5 --context 99 --budget 8 --layer-budget four.csv"},
        {3, "'one.csv' has weights of 1 heads in each layer, the model has 2 KV heads",
         "generate -m tiny.h5 -p a --budget 8 --head-budget one.csv"},
        {2, "nor is there a file of that name", "generate -m tiny.h5 -p a --budget 8 --head-budget no-such.csv"},
        {2, "did you mean 'adaptive'?", "generate -m tiny.h5 -p a --budget 8 --head-budget adaptiv"},
        {2, "needs a budget", "generate -m tiny.h5 -p a --head-budget heads.csv"},
        {2, "'--save-cache' and '--head-budget' are both",
         "generate -m tiny.h5 -p a --budget 8 --head-budget heads.csv --save-cache heads.csv"},
        {3, "'minus.csv', line 3", "generate --policy snapkv --head-budget minus.csv --help"},
        {3, "'four.csv' has weights of 4 layers, the model has 3",
         NEEDLE "--policy streaming,h2o --budget 8 --layer-budget four.csv"},
        {3, "'minus.csv', line 3: the weight '-1'",
         FIDELITY "--policy 'h2o,streaming --head-budget minus.csv' --budget 8"},
        {2, "nor is there a file of that name", FIDELITY "--policy 'streaming --layer-budget no-such.csv' --budget 8"},
        {2, "'--json-file' and '--rows-at' are both 'questions'",
         "generate -m tiny.h5 -f whole --policy kvzip --budget 40 --rows-at text:questions --json-file questions"},
        {3, "'no-such'", ASKED "--rows-at text:no-such"},
        {3, "'empty' is empty: it must have a question in each line", ASKED "--rows-at text:empty"},
        {3, "'latin' is not text in UTF-8", ASKED "--rows-at text:latin"},
        {3, "'marked' is empty: it must have a question in each line", ASKED "--rows-at text:marked"},
        {2, "--rows-at 'again' must be own, after, repeat, repeat:N with N from 8 on, or text:FILE",
         ASKED "--rows-at again"},
        {2, "--rows-at 'text' must be own, after, repeat,", ASKED "--rows-at text"},
        {2, "--rows-at 'textual' must be own, after, repeat,", ASKED "--rows-at textual"},
        {2, "--rows-at 'text:' must be own, after, repeat,", ASKED "--rows-at text:"},
        {3, "'empty' is empty", FIDELITY "--policy 'h2o,kvzip --rows-at text:empty' --budget 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_refuses(1, cases[i].code, cases[i].part, cases[i].line);
        if (i % 4 == 0) program_refuses(2, cases[i].code, cases[i].part, cases[i].line);
    }
}
END_TEST

START_TEST(test_ranks_with_different_weights_are_told_apart)
{
    program_result r = {0};
    program_run(&r, 1,
                BY_HAND
                "cd here; " MPIEXEC " -n 1 " LONGHAUL
                " generate -m ../tiny.h5 -p a --budget 8 --head-budget heads.csv : -wdir ../there -n 1 " LONGHAUL
                " generate -m ../tiny.h5 -p a --budget 8 --head-budget heads.csv");
    program_exits(&r, 2);
    program_says(&r, "the files of '--layer-budget', '--head-budget' and '--rows-at' of rank 1");
    program_run(&r, 1,
                BY_HAND
                "cd here; " MPIEXEC " -n 1 " LONGHAUL
                " generate -m ../tiny.h5 -p a --budget 8 --head-budget heads.csv : -wdir ../nothing -n 1 " LONGHAUL
                " generate -m ../tiny.h5 -p a --budget 8 --head-budget heads.csv");
    program_exits(&r, 2);
    program_says(&r, "nor is there a file of that name");
    program_clear(&r);
}
END_TEST

/* What a run says of its cache; the text that it generates. */
static json_t *result_of(int ranks, const char *line)
{
    program_result r = {0};
    program_run(&r, ranks, "%s", line);
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, 0, NULL);
    ck_assert_ptr_nonnull(o);
    program_clear(&r);
    return o;
}

static int64_t kept_by(const json_t *o)
{
    return json_integer_value(json_object_get(json_object_get(o, "kv"), "model_entries_kept"));
}

START_TEST(test_weights_say_what_is_kept)
{
    json_t *o = result_of(1, RUN "--layer-budget layers.csv --head-budget heads.csv");
    ck_assert_int_eq(kept_by(o), 3 * 2 * 16);
    const char *said = json_string_value(json_object_get(json_object_get(o, "policy"), "head-budget"));
    ck_assert(said && strncmp(said, "profile:", 8) == 0);
    json_t *two = result_of(2, RUN "--layer-budget layers.csv --head-budget heads.csv");
    ck_assert(json_equal(json_object_get(o, "token_ids"), json_object_get(two, "token_ids")));
    ck_assert(json_equal(json_object_get(o, "policy"), json_object_get(two, "policy")));
    json_decref(two);
    json_decref(o);
    program_result r = {0};
    o = result_of(1, "plan -m tiny.h5 --context 2000 --budget 16 --layer-budget layers.csv --json");
    json_t *budgets = json_object_get(o, "layer_budgets");
    ck_assert_int_eq(json_integer_value(json_array_get(budgets, 0)), 8);
    ck_assert_int_eq(json_integer_value(json_array_get(budgets, 1)), 16);
    ck_assert_int_eq(json_integer_value(json_array_get(budgets, 2)), 24);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "entries_kept")), 3 * 2 * 16);
    json_decref(o);
    program_run(&r, 1, "plan -m tiny.h5 --context 2000 --budget 16 --layer-budget layers.csv");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "kept after the prompt, 8 to 24 per head by layer"));
    program_run(&r, 1, "generate --policy snapkv --layer-budget layers.csv --help");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "by the weights of a file"));
    program_clear(&r);
}
END_TEST

START_TEST(test_questions_known_beforehand_score)
{
    json_t *o = result_of(1, ASKED "--rows-at text:questions"), *repeated = result_of(1, ASKED);
    const char *said = json_string_value(json_object_get(json_object_get(o, "policy"), "rows-at"));
    ck_assert(said && strncmp(said, "text:", 5) == 0);
    ck_assert_int_eq(kept_by(o), 3 * 2 * 40);
    ck_assert(!json_equal(json_object_get(o, "token_ids"), json_object_get(repeated, "token_ids")));
    for (int ranks = 2; ranks <= 4; ranks++) {
        json_t *other = result_of(ranks, ASKED "--rows-at text:questions");
        ck_assert(json_equal(json_object_get(o, "token_ids"), json_object_get(other, "token_ids")));
        ck_assert(json_equal(json_object_get(o, "policy"), json_object_get(other, "policy")));
        json_decref(other);
    }
    /* the cache has what it needs of the file */
    program_result r = {0};
    program_run(&r, 2, ASKED "--rows-at text:gone --save-cache asked.h5 && rm gone");
    program_exits(&r, 0);
    program_run(&r, 1, "generate --load-cache asked.h5 -m tiny.h5 --chat=off -p more -n 4 --ignore-eos -q");
    program_exits(&r, 0);
    program_clear(&r);
    json_decref(repeated);
    json_decref(o);
}
END_TEST

/* The value of a part in a result, by which it names its file. */
static const char *named_by(const json_t *result, const char *part)
{
    return json_string_value(json_object_get(json_object_get(result, "policy"), part));
}

START_TEST(test_a_hash_names_a_file_of_its_kind)
{
    json_t *o = result_of(1, ASKED "--rows-at text:questions --head-budget heads.csv");
    char line[512];
    const char *text = named_by(o, "rows-at") + strlen("text:"),
               *weights = named_by(o, "head-budget") + strlen("profile:");
    snprintf(line, sizeof line, ASKED "--head-budget heads.csv --rows-at text:%s", weights);
    program_refuses(1, 3, weights, line);
    snprintf(line, sizeof line, ASKED "--rows-at text:questions --layer-budget profile:%s", text);
    program_refuses(1, 2, "nor is there a file of that name", line);
    json_decref(o);
}
END_TEST

/* The files of the run are those of its command line; a request may name them, and fails alone if it names others. */
START_TEST(test_requests_name_the_files_of_their_run)
{
    static const char *const policies[] = {
        "\"kvzip --budget 40 --rows-at text:0123456789abcdef\"",
        "{\"policy\": \"kvzip\", \"budget\": \"40\", \"rows-at\": \"text:0123456789abcdef\"}",
        "\"streaming --budget 8 --layer-budget profile:0123456789abcdef\"",
        "\"streaming --budget 8 --head-budget profile:0123456789abcdef\""};
    enum { POLICIES = sizeof policies / sizeof *policies };
    program_result r = {0};
    lh_buf lines = {0};
    json_t *o = result_of(1, ASKED "--rows-at text:questions");
    for (int i = 0; i <= POLICIES; i++) {
        lh_buf_printf(&lines, "{\"custom_id\": \"%d\", \"method\": \"POST\", \"url\": \"/v1/completions\", ", i);
        if (i < POLICIES) lh_buf_printf(&lines, "\"policy\": %s, ", policies[i]);
        if (i == POLICIES)
            lh_buf_printf(&lines, "\"policy\": {\"policy\": \"kvzip\", \"rows-at\": \"%s\"}, ", named_by(o, "rows-at"));
        lh_buf_printf(&lines,
                      "\"body\": {\"prompt\": \"It was the best of times, it was the worst of times, it was the "
                      "age of wisdom\", \"max_tokens\": 4}}\n");
    }
    program_file("in.jsonl", lines.data);
    for (int ranks = 1; ranks <= 2; ranks++) {
        program_run(&r, ranks,
                    "batch -m tiny.h5 -i in.jsonl -o out.jsonl -q --ignore-eos --policy kvzip --budget 40 --rows-at "
                    "text:questions");
        program_exits(&r, 1);
        program_says(&r, "4 of 5 requests failed");
        program_run(&r, 1, "merge out.jsonl -o - -q | grep -c 'with this hash are loaded'; rm out.jsonl");
        program_exits(&r, 0);
        ck_assert_str_eq(r.out.data, "4\n");
    }
    json_decref(o);
    lh_buf_clear(&lines);
    program_clear(&r);
}
END_TEST

/* One policy of several, beside weights: each has the scores of its own questions. */
START_TEST(test_eval_takes_questions_of_each_policy)
{
    json_t *o =
        result_of(2, FIDELITY "--json --budget 40 --policy 'kvzip --rows-at text:questions,kvzip,kvzip --rows-at "
                              "text:others,kvzip --rows-at text:questions --head-budget heads.csv'");
    const json_t *windows = json_object_get(o, "windows");
    ck_assert_uint_eq(json_array_size(windows), 5);
    for (size_t i = 1; i < 5; i++)
        for (size_t j = 1; j < i; j++)
            ck_assert(json_number_value(json_object_get(json_array_get(windows, i), "kl")) !=
                      json_number_value(json_object_get(json_array_get(windows, j), "kl")));
    json_decref(o);
}
END_TEST

/* Row `row` of a table that eval prints. */
static const json_t *row_of(const json_t *o, const char *table, size_t row)
{
    const json_t *one = json_array_get(json_object_get(o, table), row);
    ck_assert_ptr_nonnull(one);
    return one;
}

/* Where one prefill fills many caches, each is the one that its weights ask for: what `generate` says after it. */
START_TEST(test_eval_goes_by_weights_as_generate_does)
{
    static const char *const policies[] = {"streaming --budget 16 " FILES, "snapkv --window 4 --budget 12 " FILES,
                                           "h2o --budget 20 --head-budget heads.csv",
                                           "roco --budget 24 --layer-budget layers.csv", "streaming --budget 16"};
    enum { POLICIES = sizeof policies / sizeof *policies };
    char line[1024];
    snprintf(line, sizeof line, FIDELITY "--json --policy '%s,%s,%s,%s,%s'", policies[0], policies[1], policies[2],
             policies[3], policies[4]);
    json_t *o = result_of(2, line);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "windows")), 1 + POLICIES);
    int others = 0;
    for (size_t p = 0; p < POLICIES; p++) {
        snprintf(line, sizeof line,
                 "generate -m tiny.h5 --chat=off -f whole -n 12 --ignore-eos --json -q --deterministic --policy %s",
                 policies[p]);
        json_t *g = result_of(1, line);
        const json_t *row = row_of(o, "windows", 1 + p);
        const char *said = json_string_value(json_object_get(row, "text"));
        ck_assert_msg(strcmp(said, json_string_value(json_object_get(g, "text"))) == 0, "%s: '%s'", policies[p], said);
        others += json_number_value(json_object_get(row, "kl")) !=
                  json_number_value(json_object_get(row_of(o, "windows", POLICIES), "kl"));
        json_decref(g);
    }
    ck_assert_int_eq(others, POLICIES - 1); /* the last has no weights */
    json_decref(o);
}
END_TEST

START_TEST(test_eval_takes_weights_for_all_policies_or_for_one)
{
    program_result one = {0}, other = {0};
    static const char *const tasks[] = {FIDELITY, NEEDLE};
    for (int t = 0; t < 2; t++) {
        program_run(&one, 1,
                    "%s --policy 'streaming,snapkv --window 4' --budget 16,24 " FILES
                    " --csv means.csv --answers answers.csv && cat means.csv answers.csv",
                    tasks[t]);
        program_exits(&one, 0);
        ck_assert_msg(program_lines(one.out.data, "| streaming --head-budget profile:") == 2, "%s", one.out.data);
        for (int ranks = 2; ranks <= 3; ranks++) {
            program_run(&other, ranks,
                        "%s --policy 'streaming " FILES ",snapkv --window 4 " FILES
                        "' --budget 16,24 --csv means.csv --answers answers.csv && cat "
                        "means.csv answers.csv",
                        tasks[t]);
            program_exits(&other, 0);
            ck_assert_str_eq(one.out.data, other.out.data);
        }
    }
    program_clear(&one);
    program_clear(&other);
}
END_TEST

START_TEST(test_even_weights_are_none)
{
    static const char *const files[] = {"", "--layer-budget even-layers.csv --head-budget even-heads.csv"};
    json_t *results[2];
    for (int i = 0; i < 2; i++) {
        char line[512];
        snprintf(line, sizeof line, FIDELITY "--json --policy streaming,h2o,random --budget 10,25%% %s", files[i]);
        results[i] = result_of(1, line);
    }
    for (size_t row = 0; row < 7; row++)
        for (int k = 0; k < 2; k++) {
            const char *name = k ? "kl" : "text";
            ck_assert(json_equal(json_object_get(row_of(results[0], "windows", row), name),
                                 json_object_get(row_of(results[1], "windows", row), name)));
        }
    json_decref(results[0]);
    json_decref(results[1]);
}
END_TEST

START_TEST(test_a_cache_goes_on_without_its_files)
{
    json_t *whole = result_of(1, RUN "--layer-budget layers.csv --head-budget heads.csv");
    json_t *saving = result_of(2, RUN "--layer-budget layers.csv --head-budget heads.csv --save-cache c.h5");
    program_result r = {0};
    program_run(&r, 1, "--version > v && mkdir -p away && mv c.h5 away");
    json_t *loaded =
        result_of(1, "generate -m tiny.h5 --load-cache away/c.h5 -n 6 --ignore-eos --json -q --deterministic");
    ck_assert(json_equal(json_object_get(whole, "token_ids"), json_object_get(saving, "token_ids")));
    ck_assert(json_equal(json_object_get(whole, "token_ids"), json_object_get(loaded, "token_ids")));
    ck_assert(json_equal(json_object_get(whole, "policy"), json_object_get(loaded, "policy")));
    json_decref(whole);
    json_decref(saving);
    json_decref(loaded);
    program_run(&r, 1, "info away/c.h5");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "layer-budget: layers.csv"), "%s", r.out.data);
    program_clear(&r);
}
END_TEST

/* Answers to two questions, as an array of token ids each; of a run with one they are the only one's. */
static json_t *answers_of(int ranks, const char *line)
{
    json_t *o = result_of(ranks, line), *answers = json_object_get(o, "answers"), *out = json_array();
    for (size_t i = 0; i < json_array_size(answers); i++)
        json_array_append(out, json_object_get(json_array_get(answers, i), "token_ids"));
    if (!answers) json_array_append(out, json_object_get(o, "token_ids"));
    json_decref(o);
    return out;
}

START_TEST(test_questions_that_are_asked_together_go_by_weights)
{
    static const char *const asked[] = {RUN FILES "--question 'Which age?' ", RUN FILES "--question 'What times?' ",
                                        RUN FILES "--save-cache c.h5 --question 'Which age?' --question 'What times?'",
                                        "generate -m tiny.h5 --load-cache c.h5 -n 6 --ignore-eos --json -q "
                                        "--deterministic --question 'Which age?' --question 'What times?'"};
    json_t *alone = answers_of(1, asked[0]), *second = answers_of(1, asked[1]);
    json_array_extend(alone, second);
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int i = 2; i < 4; i++) {
            json_t *together = answers_of(ranks, asked[i]);
            ck_assert_uint_eq(json_array_size(together), 2);
            ck_assert_msg(json_equal(alone, together), "other answers, %d ranks: %s", ranks, asked[i]);
            json_decref(together);
        }
    json_decref(alone);
    json_decref(second);
}
END_TEST

/* Text of single-byte tokens; the window of 160 is `whole`. */
static void write_passage(void)
{
    char text[1200];
    for (size_t i = 0; i + 1 < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    for (size_t i = 9; i + 1 < sizeof text; i += 10) text[i] = i % 50 == 49 ? '.' : ' ';
    text[sizeof text - 1] = '\0';
    program_file("passage", text);
    text[160] = '\0';
    program_file("whole", text);
}

int main(void)
{
    const TTest *const tests[] = {test_bad_files_of_weights_are_named,
                                  test_ranks_with_different_weights_are_told_apart,
                                  test_weights_say_what_is_kept,
                                  test_questions_known_beforehand_score,
                                  test_a_hash_names_a_file_of_its_kind,
                                  test_requests_name_the_files_of_their_run,
                                  test_eval_takes_questions_of_each_policy,
                                  test_a_cache_goes_on_without_its_files,
                                  test_questions_that_are_asked_together_go_by_weights,
                                  test_eval_goes_by_weights_as_generate_does,
                                  test_eval_takes_weights_for_all_policies_or_for_one,
                                  test_even_weights_are_none,
                                  NULL};
    static const char heads[] = "layer,head,weight\n0,0,1\n0,1,3\n1,0,0\n1,1,1\n2,0,7\n2,1,7\n";
    program_result r = {0};
    program_enter();
    tiny_write("tiny");
    program_file("prompt", "It was the best of times, it was the worst of times, it was the age of wisdom");
    program_file("empty", "");
    program_file("marked", "\xef\xbb\xbf\n");
    program_file("latin", "Wo w\xe4re es?\n");
    program_file("questions", "What is it?\n\nWhere was the age, and when?\n");
    program_file("others", "Who?\n");
    program_file("gone", "What is it?\nWhere was the age, and when?");
    write_passage();
    program_file("even-layers.csv", "layer,weight\n0,3\n1,3\n2,3\n");
    program_file("even-heads.csv", "layer,head,weight\n0,0,1\n0,1,1\n1,0,5\n1,1,5\n2,0,0.5\n2,1,0.5\n");
    program_file("layers.csv", "layer,weight # more and more\n0,0.5\n1,1\n2,1.5\n");
    program_file("heads.csv", heads);
    program_file("twice.csv", "layer,weight\n0,1\n1,1\n1,1\n");
    program_file("minus.csv", "layer,head,weight\n0,0,1\n0,1,-1\n");
    program_file("four.csv", "layer,weight\n0,1\n1,1\n2,1\n3,1\n");
    program_file("one.csv", "layer,head,weight\n0,0,1\n1,0,1\n2,0,1\n");
    program_run(&r, 1, "import tiny -o tiny.h5 -q && mkdir here there nothing");
    program_file("here/heads.csv", heads);
    program_file("there/heads.csv", "layer,head,weight\n0,0,1\n0,1,3\n1,0,0\n1,1,1\n2,0,7\n2,1,8\n");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli profiles", tests);
    program_leave();
    return code;
}
