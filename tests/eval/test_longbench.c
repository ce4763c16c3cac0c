/* LongBench: its metrics against numbers of the published script (THUDM/LongBench 2e00731, LongBench/metrics.py, with
 * rouge 1.0.1, fuzzywuzzy 0.18.0 and Python's difflib), its prompts against the published files, and its records. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/program.h"
#include "lab/eval/longbench_data.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static char *classes[] = {"Food", "Date", "Food and drink", "Other", "Other location", "location"};

START_TEST(test_metrics_are_those_of_the_published_script)
{
    static const struct {
        lh_longbench_metric *metric;
        const char *prediction, *answer;
        double score;
    } cases[] = {
        {lh_longbench_qa_f1, "The tower of London.", "a London tower", 0.8},
        {lh_longbench_qa_f1, "", "", 0},
        {lh_longbench_qa_f1, "no idea", "Paris", 0},
        {lh_longbench_qa_f1, "Yes, yes and no", "yes", 0.4},
        {lh_longbench_qa_f1, "Naïve café-talk, 3.5%", "the naïve Café talk 35", 0.571428571},
        {lh_longbench_rouge, "the cat sat on the mat. it was warm", "the cat lay on a mat. It was a warm day.",
         0.666666662},
        {lh_longbench_rouge, "a b c d. c d e f.  . g", "b c d a. f e d c. g h", 0.499999995},
        {lh_longbench_rouge, "", "x", 0},
        {lh_longbench_rouge, "...", "x", 0},
        {lh_longbench_rouge, "x y z", "x y z", 0.999999995},
        {lh_longbench_rouge, "one two three\nfour five", "four five\tone two three four", 0.799999995},
        {lh_longbench_rouge, "a x b y c", "a b c x y", 0.599999995},
        {lh_longbench_rouge, "Fig. 1.2 shows the U.S. budget of 2.5 billion",
         "the budget of the U.S. is 2.5 billion. See Fig. 1", 0.869565212},
        {lh_longbench_count, "There are 12 of 12, not 13", "12", 0.666666667},
        {lh_longbench_count, "none", "5", 0},
        {lh_longbench_count, "5a5 05", "5", 0.666666667},
        {lh_longbench_retrieval, "Paragraph 15", "Paragraph 15", 1},
        {lh_longbench_retrieval, "It is 15 or 3", "Paragraph 15", 0.5},
        {lh_longbench_retrieval, "1 5", "Paragraph 15", 0},
        {lh_longbench_retrieval_zh, "段落7, 8", "段落7", 0.5},
        {lh_longbench_code_sim, "\n```python\n# comment\nx = foo(bar)\ny", "x = foo(baz)", 0.92},
        {lh_longbench_code_sim, "    return a + b;", "    return b + a;", 0.88},
        {lh_longbench_code_sim, "// only\n# these", "x", 0},
        {lh_longbench_code_sim, "", "", 1},
        {lh_longbench_code_sim, "x", "x", 1},
        {lh_longbench_code_sim, "if (m_Items[i] != null && m_Count > 0) { m_Items[i].Update(); }",
         "if (m_Count > 0 && m_Items[i] != null) m_Items[i].Draw(m_Count);", 0.61},
        {lh_longbench_code_sim,
         "ababababababababababababababababababababababababababababababababababababababababababababababababababababababa"
         "babababababxyzcccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
         "babababababababababababababababababababababababababababababababababababababababababababababababababababababab"
         "abababababababababababababababazyxccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
         "ccccc",
         0},
        {lh_longbench_code_sim, "x1ababababababababababababababababababababababababababababababababababababababababz9",
         "ababababababababababababababababababababababababababababababababababababababababababababababababababababababa"
         "bababababababababababababababababababababababababababababababababababababababababababababababababababx1ababz"
         "9",
         0.05},
        {lh_longbench_code_sim, "café = naïve(1)", "cafe = naïve(2)", 0.87},
        {lh_longbench_code_sim, "abcd", "bcde", 0.75},
        {lh_longbench_code_sim, "aXbXcXdXe", "abcdeabcdeabcde", 0.42},
        {lh_longbench_classification, "It is Food", "Food", 1},
        {lh_longbench_classification, "Food and drink", "Food", 0.5},
        {lh_longbench_classification, "Food and drink", "Food and drink", 1},
        {lh_longbench_classification, "Other location", "Other location", 1},
        {lh_longbench_classification, "Date, Other", "Date", 0.5},
        {lh_longbench_classification, "none", "Date", 0},
        {lh_longbench_classification, "Other", "Other location", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lh_longbench_truth truth = {cases[i].answer, classes, 6};
        double score = -1;
        OK(cases[i].metric(cases[i].prediction, &truth, &score));
        ck_assert_msg(fabs(score - cases[i].score) < 1e-8, "case %zu: %.9g, not %.9g", i, score, cases[i].score);
    }
}
END_TEST

static const lh_longbench_set *set_of(const char *name)
{
    for (const lh_longbench_set *set = lh_longbench_sets; set->name; set++)
        if (strcmp(set->name, name) == 0) return set;
    ck_abort_msg("no set '%s'", name);
}

START_TEST(test_an_answer_has_its_best_score)
{
    char *answers[] = {"Paris", "the city of Paris"};
    const lh_longbench_record qa = {.set = set_of("hotpotqa"), .answers = answers, .answer_count = 2},
                              few = {.set = set_of("triviaqa"), .answers = answers, .answer_count = 2};
    double score;
    OK(lh_longbench_score(&qa, "city of Paris", &score));
    ck_assert(score == 100);
    OK(lh_longbench_score(&qa, "Paris\nLyon", &score));
    ck_assert(fabs(score - 200.0 / 3) < 1e-9);
    OK(lh_longbench_score(&few, "\n\nParis\nLyon", &score)); /* of few-shot examples, the first line */
    ck_assert(score == 100);
}
END_TEST

/* config/dataset2prompt.json and dataset2maxlen.json */
START_TEST(test_prompts_are_the_published_ones)
{
    static const char *const files[] = {"dataset2prompt.json", "dataset2maxlen.json"};
    json_t *config[2] = {NULL};
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    for (int i = 0; i < 2; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/tasks/longbench/%s", folder ? folder : LH_TEST_DATA, files[i]);
        if (!lh_file_exists(path)) {
            printf("'%s' skipped\n", path);
            return;
        }
        OK(lh_json_read(&config[i], path, 1 << 20));
    }
    ck_assert_int_eq((int)json_object_size(config[0]), LH_LONGBENCH_SETS);
    for (const lh_longbench_set *set = lh_longbench_sets; set->name; set++) {
        lh_buf prompt = {0};
        if (!set->score) continue;
        OK(lh_buf_printf(&prompt, "%s{context}%s", set->head, set->question));
        ck_assert_str_eq(prompt.data, json_string_value(json_object_get(config[0], set->name)));
        ck_assert_int_eq((int)set->max_new, (int)json_integer_value(json_object_get(config[1], set->name)));
        lh_buf_clear(&prompt);
    }
    json_decref(config[0]);
    json_decref(config[1]);
}
END_TEST

static const char records[] =
    "{\"dataset\": \"trec\", \"context\": \"c1\", \"input\": \"i1\", \"answers\": [\"Date\"], \"all_classes\": "
    "[\"Food\", "
    "\"Date\"]}\n\n"
    "{\"dataset\": \"hotpotqa_e\", \"context\": \"c2\", \"input\": \"i2\", \"answers\": [\"a\", \"b\"], "
    "\"all_classes\": "
    "null}\n"
    "{\"dataset\": \"dureader\", \"context\": \"c3\", \"input\": \"\", \"answers\": [\"a\"], \"all_classes\": null}\n"
    "{\"dataset\": \"hotpotqa\", \"context\": \"c4\", \"input\": \"i4\", \"answers\": [\"a\"], \"all_classes\": "
    "null}\n";

START_TEST(test_records_are_read_in_the_order_of_the_sets)
{
    lh_longbench_data data = {0};
    int wanted[LH_LONGBENCH_SETS];
    for (int s = 0; s < LH_LONGBENCH_SETS; s++) wanted[s] = 1;
    program_file("lb.jsonl", records);
    OK(lh_longbench_data_read(&data, "lb.jsonl", &(lh_longbench_choice){wanted, 0}));
    ck_assert_int_eq((int)data.n, 3);
    ck_assert_str_eq(data.at[0].context, "c2");
    ck_assert_int_eq((int)data.at[0].answer_count, 2);
    ck_assert_str_eq(data.at[1].input, "i4");
    ck_assert_str_eq(data.at[2].set->name, "trec");
    ck_assert_str_eq(data.at[2].classes[1], "Date");
    ck_assert_int_eq((int)data.at[2].line, 1);
    lh_longbench_data_clear(&data);
    OK(lh_longbench_data_read(&data, "lb.jsonl", &(lh_longbench_choice){wanted, 1}));
    ck_assert_int_eq((int)data.n, 2);
    lh_longbench_data_clear(&data);
}
END_TEST

START_TEST(test_records_that_cannot_be_asked_are_refused)
{
    static const struct {
        const char *text, *says;
    } cases[] = {{"{\"dataset\": \"squad\"}", "line 1 of 'bad.jsonl': \"dataset\" must be a data set of LongBench"},
                 {"{\"dataset\": \"qmsum\", \"context\": 1}", "\"context\" must be a text"},
                 {"{\"dataset\": \"qmsum\", \"context\": \"c\", \"input\": \"i\", \"answers\": \"a\"}",
                  "\"answers\" must be a list of texts"},
                 {"{\"dataset\": \"trec\", \"context\": \"c\", \"input\": \"i\", \"answers\": [\"a\"]}",
                  "\"all_classes\" must be a list of texts"},
                 {"{\"dataset\": \"qmsum\", \"context\": \"c\\u0000d\"}", "\"context\" holds a zero byte"},
                 {"{\"dataset\": \"vcsum\"}", "has no record"},
                 {"1", "\"dataset\""},
                 {"[1]", "'bad.jsonl' is a JSON array, not JSON Lines"},
                 {"", "has no record"}};
    int wanted[LH_LONGBENCH_SETS];
    for (int s = 0; s < LH_LONGBENCH_SETS; s++) wanted[s] = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_longbench_data data = {0};
        program_file("bad.jsonl", cases[i].text);
        ck_assert_int_eq(lh_longbench_data_read(&data, "bad.jsonl", &(lh_longbench_choice){wanted, 0}), LH_EINPUT);
        ck_assert_msg(strstr(lh_error_message(), cases[i].says) != NULL, "%s", lh_error_message());
        lh_longbench_data_clear(&data);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_metrics_are_those_of_the_published_script,
                                  test_an_answer_has_its_best_score,
                                  test_prompts_are_the_published_ones,
                                  test_records_are_read_in_the_order_of_the_sets,
                                  test_records_that_cannot_be_asked_are_refused,
                                  NULL};
    program_enter();
    int code = suite_run("longbench", tests);
    program_leave();
    return code;
}
