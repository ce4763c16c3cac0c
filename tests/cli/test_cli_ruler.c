/* `eval ruler`, `eval path` and `eval kv`: every task for every cache, on any number of ranks, after an interrupt. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define RULER "eval ruler -m tiny.h5 --length 2900 -n 4 -q "
#define POLICIES "--policy 'h2o --budget 10%,streaming --budget 200' "
enum { CHOICES = 3 };

static json_t *evaluate(const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, 1, "%s --json", options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error);
    ck_assert_msg(object != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    program_clear(&r);
    return object;
}

static double value(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    ck_assert_msg(json_is_number(v), "'%s' is no number", name);
    return json_number_value(v);
}

static const char *text(const json_t *row, const char *name)
{
    return json_string_value(json_object_get(row, name));
}

START_TEST(test_every_task_is_asked_of_every_cache)
{
    static const char *const labels[] = {"niah_multikey_3",    "niah_multiquery@text", "vt", "cwe@words", "fwe", "qa_1",
                                         "mk_niah_basic@words"};
    enum { TASKS = sizeof labels / sizeof *labels };
    json_t *o = evaluate(RULER POLICIES "--count 1 --haystack hay --squad squad.json --task "
                                        "niah_multikey_3,niah_multiquery,vt,cwe,fwe,qa_1,mk_niah_basic"),
           *row;
    const json_t *answers = json_object_get(o, "answers"), *means = json_object_get(o, "means");
    size_t i;
    ck_assert_uint_eq(json_array_size(answers), 2 * CHOICES * TASKS);
    ck_assert_uint_eq(json_array_size(means), 2 * CHOICES * (TASKS + 1));
    json_array_foreach((json_t *)(uintptr_t)answers, i, row)
    {
        ck_assert_str_eq(text(row, "task"), labels[i / (2 * CHOICES)]);
        ck_assert(value(row, "prompt_tokens") <= 2900 - 4 && value(row, "score") >= 0 && value(row, "score") <= 100);
        ck_assert(value(row, "answer_nll") > 0);
        ck_assert(value(row, "answer_best") >= 0 && value(row, "answer_best") <= 1);
    }
    for (size_t group = 0; group < 2 * CHOICES; group++) { /* the average is that of the first version */
        double score = 0, nll = 0, best = 0;
        for (size_t t = 0; t < TASKS - 1; t++) {
            row = json_array_get(means, group * (TASKS + 1) + t);
            ck_assert_str_eq(text(row, "task"), labels[t]);
            score += value(row, "score") / (TASKS - 1);
            nll += value(row, "answer_nll") / (TASKS - 1);
            best += value(row, "answer_best") / (TASKS - 1);
        }
        row = json_array_get(means, group * (TASKS + 1) + TASKS);
        ck_assert_str_eq(text(row, "task"), "average");
        ck_assert_double_eq(value(row, "prompts"), TASKS - 1);
        ck_assert_double_eq_tol(value(row, "score"), score, 1e-4);
        ck_assert_double_eq_tol(value(row, "answer_nll"), nll, 1e-4);
        ck_assert_double_eq_tol(value(row, "answer_best"), best, 1e-4);
        ck_assert(value(row, "ci_low") <= score && score <= value(row, "ci_high"));
    }
    json_decref(o);
}
END_TEST

START_TEST(test_results_are_the_same_bytes_on_any_number_of_ranks)
{
    static const char *const tasks[] = {RULER POLICIES "--haystack hay --task niah_single_2 --length 1500",
                                        "eval path -m tiny.h5 --length 3800 --steps 3 -q --scenario context-only "
                                        "--policy 'h2o --evict every:7' --budget 15%",
                                        "eval kv -m tiny.h5 --length 1500 --keys 3 -q --scenario question-aware "
                                        "--policy 'snapkv,tova --evict every:1' --budget 200"};
    program_result one = {0}, more = {0};
    for (int t = 0; t < 3; t++) {
        program_run(&one, 1, "%s --count 1 --deterministic --csv means.csv --answers - && cat means.csv", tasks[t]);
        program_exits(&one, 0);
        for (int ranks = 2; ranks <= 4; ranks++) {
            program_run(&more, ranks, "%s --count 1 --deterministic --csv means.csv --answers - && cat means.csv",
                        tasks[t]);
            program_exits(&more, 0);
            ck_assert_str_eq(one.out.data, more.out.data);
        }
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

START_TEST(test_long_answers_have_a_quarter_more_than_the_right_one)
{
    json_t *o = evaluate("eval kv -m tiny.h5 --length 2000 --keys 4 -q --count 1 --policy h2o --budget 50% "
                         "--scenario context-only"),
           *row;
    size_t i;
    ck_assert_uint_eq(json_array_size(json_object_get(o, "means")), 2); /* of one task there is no average */
    json_array_foreach(json_object_get(o, "answers"), i, row)
    {
        const size_t right = strlen(text(row, "expected")) + 1;
        ck_assert_uint_le(strlen(text(row, "answer")),
                          3 * (right * 5 / 4 + 16)); /* a replacement character has 3 bytes */
        ck_assert(value(row, "prompt_tokens") + (double)(right * 5 / 4 + 16) <= 2000);
        ck_assert(value(row, "exact") == (value(row, "score") == 100));
    }
    json_decref(o);
}
END_TEST

START_TEST(test_an_interrupted_run_goes_on)
{
    program_result r = {0}, whole = {0};
    static const char options[] = RULER POLICIES "--length 2000 --count 8 --task fwe --deterministic -o";
    program_run(&whole, 1, "%s whole.h5", options);
    program_exits(&whole, 0);
    program_run(&r, 2,
                "%s o.h5 > shown & p=$!; "
                "while kill -0 $p && test $(cat o.h5.resume 2>/dev/null | wc -l) -lt 4; do sleep 0.02; done; "
                "kill -USR1 $p; wait $p; exit $?",
                options);
    program_exits(&r, 75);
    program_run(&r, 1, "--version > v && test -s o.h5.resume");
    program_exits(&r, 0);
    program_run(&r, 3, "%s o.h5", options);
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, whole.out.data);
    program_run(&r, 1, "verify o.h5 -q");
    program_exits(&r, 0);
    program_clear(&r);
    program_clear(&whole);
}
END_TEST

START_TEST(test_what_was_not_given_is_left_out_and_said)
{
    program_result r = {0};
    program_run(&r, 1,
                "eval ruler -m tiny.h5 --length 2900 -n 1 --count 1 --scenario context-only --policy h2o "
                "--budget 60 --squad squad.json --csv -");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "niah_single_2 (--haystack), niah_single_3 (--haystack)") &&
                      strstr(r.err.data, "qa_2 (--hotpotqa)") && !strstr(r.err.data, "qa_1"),
                  "%s", r.err.data);
    ck_assert_int_eq(program_lines(r.out.data, "h2o,60,2900,context-only,"), 9 + 1); /* and the average */
    program_clear(&r);
}
END_TEST

START_TEST(test_what_cannot_be_asked_is_said)
{
    static const struct {
        const char *line, *says;
        int code;
    } cases[] = {{RULER "--task qa_1", "task 'qa_1' needs '--squad'", 2},
                 {RULER "--task niah_single_2", "task 'niah_single_2' needs '--haystack'", 2},
                 {RULER "--task vt,ruler", "'--task' got 'ruler'", 2},
                 {RULER "--task qa_2 --hotpotqa squad.json", "'squad.json' has no question", 3},
                 {RULER "--length 100k", "longer than the 4096 positions", 2},
                 {RULER "--length 500 --task fwe,vt", "the shortest prompt of task 'vt'", 2},
                 {RULER "--haystack nowhere", "nowhere", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        program_refuses(1, cases[i].code, cases[i].says, cases[i].line);
    program_refuses(1, 2, "the shortest prompt of task 'path'", "eval path -m tiny.h5 --length 2000 -q");
    program_refuses(2, 2, "the shortest prompt of task 'vt'", RULER "--length 500 --task vt");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_task_is_asked_of_every_cache,
                                  test_results_are_the_same_bytes_on_any_number_of_ranks,
                                  test_long_answers_have_a_quarter_more_than_the_right_one,
                                  test_an_interrupted_run_goes_on,
                                  test_what_was_not_given_is_left_out_and_said,
                                  test_what_cannot_be_asked_is_said,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    lh_buf hay = {0};
    tiny_sentences(&hay);
    program_file("hay", hay.data);
    lh_buf_clear(&hay);
    program_file("squad.json", "{\"data\": [{\"paragraphs\": [{\"context\": \"The tower is red.\", \"qas\": "
                               "[{\"question\": \"Which colour has it?\", \"answers\": [{\"text\": \"red\"}]}]}]}]}");
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli ruler", tests);
    program_leave();
    return code;
}
