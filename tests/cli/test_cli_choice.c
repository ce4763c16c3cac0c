/* Multiple-choice questions: likelihoods, what is chosen by them, and the same on any number of ranks. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define CHOICE "eval choice -m tiny.h5 --data c.jsonl -q "
enum { CHOICES = 3, QUESTIONS = 4 };

static const char *const choices[CHOICES] = {"seven", "a number", "größer"};

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

static double value(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    ck_assert_msg(json_is_number(v), "'%s' is no number", name);
    return json_number_value(v);
}

static void read_nll(const json_t *row, double nll[CHOICES])
{
    const char *text = json_string_value(json_object_get(row, "choice_nll"));
    char *at = (char *)(uintptr_t)text;
    for (int i = 0; i < CHOICES; i++) nll[i] = strtod(at, &at);
    ck_assert_msg(*at == '\0', "%s", text);
}

/* The tiny model has a token for every byte. */
START_TEST(test_a_choice_is_as_likely_as_the_same_answer_of_tasks)
{
    static const char options[] =
        "--policy 'h2o --evict every:2,snapkv --window 8' --budget 30 --scenario question-aware,context-only "
        "--chat=off";
    char line[256];
    snprintf(line, sizeof line, CHOICE "%s --count 1", options);
    json_t *o = eval(1, line);
    const json_t *questions = json_object_get(o, "questions");
    ck_assert_uint_eq(json_array_size(questions), 6);
    for (int c = 0; c < CHOICES; c++) {
        snprintf(line, sizeof line, "eval tasks qa%d.jsonl -m tiny.h5 -q -n 1 %s", c, options);
        json_t *qa = eval(1 + c, line);
        for (size_t i = 0; i < 6; i++) {
            double nll[CHOICES];
            read_nll(json_array_get(questions, i), nll);
            const double tokens = 1 + (double)strlen(choices[c]);
            const double expected = value(json_array_get(json_object_get(qa, "answers"), i), "answer_nll") * tokens;
            ck_assert_msg(fabs(nll[c] - expected) < 1e-5 * expected, "%d: %.9g, not %.9g", c, nll[c], expected);
        }
        json_decref(qa);
    }
    json_decref(o);
}
END_TEST

START_TEST(test_the_most_likely_choice_is_chosen)
{
    static const double lengths[CHOICES] = {5, 8, 6}; /* characters */
    json_t *o = eval(2, CHOICE "--policy h2o --budget 30"), *row;
    double right[2] = {0}, normed[2] = {0};
    size_t i;
    const json_t *questions = json_object_get(o, "questions"), *means = json_object_get(o, "means");
    ck_assert_uint_eq(json_array_size(questions), 2 * QUESTIONS);
    json_array_foreach((json_t *)(uintptr_t)questions, i, row)
    {
        double nll[CHOICES];
        int best = 0, best_normed = 0;
        read_nll(row, nll);
        for (int c = 1; c < CHOICES; c++) {
            if (nll[c] < nll[best]) best = c;
            if (nll[c] / lengths[c] < nll[best_normed] / lengths[best_normed]) best_normed = c;
        }
        const int answer = (int)value(row, "right");
        ck_assert_int_eq((int)value(row, "chosen"), best);
        ck_assert_int_eq((int)value(row, "chosen_norm"), best_normed);
        ck_assert_int_eq((int)value(row, "acc"), best == answer);
        ck_assert_int_eq((int)value(row, "acc_norm"), best_normed == answer);
        const double tokens = 1 + (double)strlen(choices[answer]);
        ck_assert_double_eq_tol(value(row, "answer_nll"), nll[answer] / tokens, 1e-6);
        right[i % 2] += best == answer;
        normed[i % 2] += best_normed == answer;
    }
    json_array_foreach((json_t *)(uintptr_t)means, i, row)
    {
        ck_assert_double_eq_tol(value(row, "acc"), right[i] / QUESTIONS, 1e-6);
        ck_assert_double_eq_tol(value(row, "acc_norm"), normed[i] / QUESTIONS, 1e-6);
    }
    json_decref(o);
}
END_TEST

START_TEST(test_results_are_the_same_bytes_on_any_number_of_ranks)
{
    static const char options[] =
        CHOICE "--scenario question-aware,context-only --deterministic --csv means.csv --answers questions.csv "
               "--policy 'snapkv --window 8,ada-snapkv --window 8,h2o --evict every:4,snapkv --window 8 --evict "
               "block:16,random' --budget 30";
    program_result one = {0}, more = {0};
    program_run(&one, 1, "%s && cat means.csv questions.csv", options);
    program_exits(&one, 0);
    for (int ranks = 2; ranks <= 4; ranks++) {
        program_run(&more, ranks, "%s && cat means.csv questions.csv", options);
        program_exits(&more, 0);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

START_TEST(test_what_cannot_be_asked_is_said)
{
    static const struct {
        const char *line, *says;
        int code;
    } cases[] = {
        {"eval choice -m tiny.h5", "needs '--data FILE'", 2},
        {"eval choice -m tiny.h5 --data nowhere", "nowhere", 3},
        {"eval choice -m tiny.h5 --data qa0.jsonl", "line 1 of 'qa0.jsonl': \"choices\" must be a list", 3},
        {"eval choice -m tiny.h5 --data bare.jsonl --scenario context-only", "line 1 of '--data' has no \"context\"",
         2},
        {"eval choice -m bare.h5 --data c.jsonl", "the model has no tokenizer", 2},
        {"eval choice -m tiny.h5 --data long.jsonl", "line 1 of '--data':", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        program_refuses(1, cases[i].code, cases[i].says, cases[i].line);
    program_refuses(3, 2, "line 1 of '--data' has no \"context\"", cases[3].line);
}
END_TEST

static void append(lh_buf *out, const char *text)
{
    program_must(lh_buf_puts(out, text) == LH_OK, "memory");
}

static void write_questions(void)
{
    lh_buf lines = {0}, one = {0};
    for (int q = 0; q < QUESTIONS; q++) {
        one.bytes = 0;
        append(&one, "{\"context\": \"");
        for (int i = 0; i < 4 * (q + 2); i++)
            program_must(lh_buf_printf(&one, "Thing %d is %d. ", i, i * 7 % 31) == LH_OK, "memory");
        program_must(lh_buf_printf(&one, "\", \"question\": \"What is thing %d?\"", q) == LH_OK, "memory");
        append(&lines, one.data);
        program_must(lh_buf_printf(&lines, ", \"choices\": [\"%s\", \"%s\", \"%s\"], \"answer\": %d}\n", choices[0],
                                   choices[1], choices[2], q % CHOICES) == LH_OK,
                     "memory");
        for (int c = 0; c < CHOICES && q == 0; c++) {
            char name[32];
            lh_buf line = {0};
            snprintf(name, sizeof name, "qa%d.jsonl", c);
            program_must(lh_buf_printf(&line, "%s, \"answers\": [\"%s\"]}\n", one.data, choices[c]) == LH_OK, "memory");
            program_file(name, line.data);
            lh_buf_clear(&line);
        }
    }
    program_file("c.jsonl", lines.data);
    program_file("bare.jsonl", "{\"question\": \"Which?\", \"choices\": [\"one\", \"two\"], \"answer\": 1}\n");
    one.bytes = 0;
    append(&one, "{\"question\": \"");
    for (int i = 0; i < 1000; i++) append(&one, "word ");
    append(&one, "\", \"choices\": [\"one\", \"two\"], \"answer\": 1}\n");
    program_file("long.jsonl", one.data);
    lh_buf_clear(&lines);
    lh_buf_clear(&one);
}

int main(void)
{
    const TTest *const tests[] = {
        test_a_choice_is_as_likely_as_the_same_answer_of_tasks, test_the_most_likely_choice_is_chosen,
        test_results_are_the_same_bytes_on_any_number_of_ranks, test_what_cannot_be_asked_is_said, NULL};
    program_result r = {0};
    program_enter();
    tiny_write("tiny");
    write_questions();
    program_run(&r, 1,
                "import tiny -o tiny.h5 -q && cp -r tiny bare && rm bare/tokenizer* && " LONGHAUL
                " import bare -o bare.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli choice", tests);
    program_leave();
    return code;
}
