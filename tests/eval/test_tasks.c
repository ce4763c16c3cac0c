/* `eval tasks`: its metrics against numbers of the published scripts (THUDM/LongBench 2e00731, LongBench/metrics.py
 * with rouge 1.0.1, fuzzywuzzy 0.18.0 and Python's difflib, and pred.py of the second version; OpenBMB/InfiniteBench
 * 88b3daa, src/compute_scores.py; string_match_all and string_match_part of NVIDIA/RULER c3f5e3b by hand), and the
 * records of published files. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/program.h"
#include "lab/eval/task_prompts.h"
#include "suite.h"
#include "text/tiny_tokenizers.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static char *classes[] = {"Food", "Date", "Food and drink", "Other", "Other location", "location"};
static char *options[] = {"the red house", "a blue door", "Option nothing", "func_9"};

static double score_of(const char *metric, const char *answer, const lh_task_truth *truth)
{
    double score = -1;
    const lh_task_metric *row = lh_task_metric_find(metric);
    ck_assert_msg(row != NULL, "no metric '%s'", metric);
    OK(lh_task_metric_score(row, answer, truth, &score));
    return score / 100;
}

/* Scores of answers by the published scripts. */
static const struct {
    const char *metric, *prediction, *answer;
    double score;
} published[] = {
    {"f1", "The tower of London.", "a London tower", 0.8},
    {"f1", "", "", 1}, /* as SQuAD has it; LongBench has no such answer, and would say 0 */
    {"f1", "no idea", "Paris", 0},
    {"f1", "Yes, yes and no", "yes", 0.4},
    {"f1", "Naïve café-talk, 3.5%", "the naïve Café talk 35", 0.571428571},
    {"rouge-l-longbench", "the cat sat on the mat. it was warm", "the cat lay on a mat. It was a warm day.",
     0.666666662},
    {"rouge-l-longbench", "a b c d. c d e f.  . g", "b c d a. f e d c. g h", 0.499999995},
    {"rouge-l-longbench", "", "x", 0},
    {"rouge-l-longbench", "...", "x", 0},
    {"rouge-l-longbench", "x y z", "x y z", 0.999999995},
    {"rouge-l-longbench", "one two three\nfour five", "four five\tone two three four", 0.799999995},
    {"rouge-l-longbench", "a x b y c", "a b c x y", 0.599999995},
    {"rouge-l-longbench", "Fig. 1.2 shows the U.S. budget of 2.5 billion",
     "the budget of the U.S. is 2.5 billion. See Fig. 1", 0.869565212},
    {"count", "There are 12 of 12, not 13", "12", 0.666666667},
    {"count", "none", "5", 0},
    {"count", "5a5 05", "5", 0.666666667},
    {"retrieval", "Paragraph 15", "Paragraph 15", 1},
    {"retrieval", "It is 15 or 3", "Paragraph 15", 0.5},
    {"retrieval", "1 5", "Paragraph 15", 0},
    {"retrieval", "段落7, 8", "段落7", 0.5},
    {"code-similarity", "\n```python\n# comment\nx = foo(bar)\ny", "x = foo(baz)", 0.92},
    {"code-similarity", "    return a + b;", "    return b + a;", 0.88},
    {"code-similarity", "// only\n# these", "x", 0},
    {"code-similarity", "", "", 1},
    {"code-similarity", "x", "x", 1},
    {"code-similarity", "if (m_Items[i] != null && m_Count > 0) { m_Items[i].Update(); }",
     "if (m_Count > 0 && m_Items[i] != null) m_Items[i].Draw(m_Count);", 0.61},
    {"code-similarity",
     "ababababababababababababababababababababababababababababababababababababababababababababababababababababababa"
     "babababababxyzcccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
     "babababababababababababababababababababababababababababababababababababababababababababababababababababababab"
     "abababababababababababababababazyxccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
     "ccccc",
     0},
    {"code-similarity", "x1ababababababababababababababababababababababababababababababababababababababababz9",
     "ababababababababababababababababababababababababababababababababababababababababababababababababababababababa"
     "bababababababababababababababababababababababababababababababababababababababababababababababababababx1ababz"
     "9",
     0.05},
    {"code-similarity", "café = naïve(1)", "cafe = naïve(2)", 0.87},
    {"code-similarity", "abcd", "bcde", 0.75},
    {"code-similarity", "aXbXcXdXe", "abcdeabcdeabcde", 0.42},
    {"classification", "It is Food", "Food", 1},
    {"classification", "Food and drink", "Food", 0.5},
    {"classification", "Food and drink", "Food and drink", 1},
    {"classification", "Other location", "Other location", 1},
    {"classification", "Date, Other", "Date", 0.5},
    {"classification", "none", "Date", 0},
    {"classification", "Other", "Other location", 0},
    {"first-integer", "The pass key is 71432.", "71432", 1},
    {"first-integer", "7143 2", "71432", 0},
    {"first-integer", "none", "5", 0},
    {"first-integer", "x071432", "71432", 0},
    {"first-integer", "12.5", "12", 1},
    {"first-number", "The number is 88.", "88", 1},
    {"first-number", "-88 or", "88", 1},
    {"first-number", "it is 9", "88", 0},
    {"first-number", "88.0", "88.0", 1},
    {"first-number", "3.5 and 4", "3.5", 1},
    {"first-number", "none", "1", 0},
    {"first-number", "007", "7", 1},
    {"last-integer", "The value is: 4", "4", 1},
    {"last-integer", "4.", "4", 1},
    {"last-integer", "it is -4", "-4", 1},
    {"last-integer", "4 is it", "4", 0},
    {"last-integer", "", "4", 0},
    {"last-integer", "returns `12`", "12", 1},
    {"last-integer", "12,", "12", 0},
    {"word", "\"5e6b-77\".", "5e6b-77", 1},
    {"word", "key: 5e6b-77", "5e6b-77", 1},
    {"word", "5E6B-77", "5e6b-77", 0},
    {"word", "5e6b-778", "5e6b-77", 0},
    {"word", "", "x", 0},
    {"name", "It is Ace.", "ACE", 1},
    {"name", "ACE ROTHSTEIN", "ACE", 1},
    {"name", "acer", "ACE", 0},
    {"name", "'ace'", "ACE", 1},
    {"option", "B", "a blue door", 1},
    {"option", "B. a blue door", "a blue door", 1},
    {"option", "C", "a blue door", 0},
    {"option", "a blue door", "a blue door", 1},
    {"option", "The answer is: B", "a blue door", 1},
    {"option", "The answer is B", "a blue door", 1},
    {"option", "My option is C, no B", "a blue door", 0},
    {"option", "I think B is", "a blue door", 1},
    {"option", "I think that A or B", "a blue door", 0},
    {"option", "", "a blue door", 0},
    {"option", "answer is:", "a blue door", 0},
    {"option", "So answer: a blue door", "a blue door", 1},
    {"option", " \n B", "a blue door", 1},
    {"option", "D is wrong, B right", "a blue door", 0},
    {"option", "the answer is a blue door", "a blue door", 1},
    {"option-of-code", "D.", "func_9", 1},
    {"option-of-code", "D: x", "func_9", 1},
    {"option-of-code", "D", "func_9", 0},
    {"option-of-code", "The answer is: D", "func_9", 1},
    {"option-of-code", "the correct option is: D", "func_9", 1},
    {"option-of-code", "It is: func_9", "func_9", 1},
    {"option-of-code", "answer: func_9", "func_9", 1},
    {"option-of-code", "error is: C", "func_9", 0},
    {"option-of-code", "", "func_9", 0},
    {"option-of-code", "Option D.", "func_9", 0},
    {"option-of-code", "The answer is: Option D", "func_9", 1},
    {"option-of-code", "is:", "func_9", 0},
    {"stated-option", "The correct answer is (B)", "B", 1},
    {"stated-option", "The correct answer is B.", "B", 1},
    {"stated-option", "The **correct** answer is (B)", "B", 1},
    {"stated-option", "The correct answer is (C) or The correct answer is (B)", "B", 0},
    {"stated-option", "the correct answer is (B)", "B", 0},
    {"stated-option", "The correct answer is (BC)", "B", 0},
    {"stated-option", "The correct answer is A, no: The correct answer is (B)", "B", 1},
    {"stated-option", "The correct answer is (insert answer here)", "B", 0},
    {"f1-characters", "北京，上海。", "上海北京", 1},
    {"f1-characters", "答案是 ABC", "abc", 0.666666667},
    {"f1-characters", "", "x", 0},
    {"f1-characters", "一二三", "四五", 0},
    {"f1-characters", "“你好”，World!", "你好world", 1},
};

START_TEST(test_metrics_are_those_of_the_published_scripts)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const int is_option = strncmp(published[i].metric, "option", 6) == 0;
        char *answers[] = {(char *)(uintptr_t)published[i].answer};
        const lh_task_truth truth = {answers, 1, is_option ? options : classes, is_option ? 4 : 6, NULL};
        const double score = score_of(published[i].metric, published[i].prediction, &truth);
        ck_assert_msg(fabs(score - published[i].score) < 1e-8, "case %zu, %s '%s': %.9g, not %.9g", i,
                      published[i].metric, published[i].prediction, score, published[i].score);
    }
}
END_TEST

START_TEST(test_several_answers_are_scored_as_published)
{
    static const struct {
        const char *metric, *answers[5], *prediction;
        double score;
    } cases[] = {{"string-match-all", {"123", "456"}, " 123 and 456.", 1},
                 {"string-match-all", {"123", "456"}, "456", 0.5},
                 {"string-match-all", {"123", "456", "789"}, "x1234x", 1.0 / 3},
                 {"string-match-all", {"Amber-Acorn"}, "the AMBER-acorn", 1},
                 {"string-match-all", {"one two"}, "one\ttwo", 0}, /* control characters are line ends */
                 {"string-match-all", {"one\ntwo"}, "one\ttwo", 1},
                 {"string-match-all", {"end "}, "the end \n", 0}, /* the answer is stripped */
                 {"string-match-part", {"red", "blue"}, "It is blue", 1},
                 {"string-match-part", {"red", "blue"}, "green", 0},
                 {"string-match-part", {"\xC3\x89t\xC3\xA9"}, "l'\xC3\xA9t\xC3\xA9", 1},
                 {"string-match-all", {"x"}, "", 0},
                 {"leading-integers", {"79", "59", "73"}, "79, 59, 73]", 1},
                 {"leading-integers", {"79", "59", "73"}, "[79, 59, 74", 2.0 / 3},
                 {"leading-integers", {"1", "2"}, "", 0},
                 {"leading-integers", {"79", "59", "73"}, "-79 -59 x 73 8", 1},
                 {"leading-integers", {"79", "59"}, "59, 79", 0},
                 {"leading-lines", {"a", "b", "c", "d"}, "a\nb\nc\nd\n</Route>", 1},
                 {"leading-lines", {"a", "b", "c", "d"}, "a\nb\nc\nd", 1},
                 {"leading-lines", {"a", "b", "c", "d"}, " a\nb\nc\nd\n</Route>\nDone", 1},
                 {"leading-lines", {"a", "b", "c", "d"}, "a\nb\nx\nd", 0.5},
                 {"leading-lines", {"a", "b", "c", "d"}, "a\nb\nd\nc", 0.5},
                 {"leading-lines", {"a", "b", "c", "d"}, "", 0},
                 {"leading-lines", {"a", "b", "c", "d"}, "b\nc\nd", 0},
                 {"leading-lines", {"a", "b", "c", "d"}, "a\nb\nc\nd\ne\n", 0.75},
                 {"leading-lines", {"a", "b", "c", "d"}, "ab\nc", 0},
                 {"leading-lines", {"a", "b", "c", "d"}, "a\nb\nc", 0.75},
                 {"leading-lines", {"a", "b", "c", "d"}, "a\n</Route>\nb\nc\nd", 0.25},
                 {"leading-lines", {"a", "b", "c", "d"}, "a\nb\nc\nd and", 0.75},
                 {"f1", {"Paris", "the city of Paris"}, "city of Paris", 1},
                 {"f1", {"Paris", "the city of Paris"}, "Paris\nLyon", 2.0 / 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *answers[5];
        lh_task_truth truth = {.answers = answers};
        for (; truth.answer_count < 5 && cases[i].answers[truth.answer_count]; truth.answer_count++)
            answers[truth.answer_count] = (char *)(uintptr_t)cases[i].answers[truth.answer_count];
        const double score = score_of(cases[i].metric, cases[i].prediction, &truth);
        ck_assert_msg(fabs(score - cases[i].score) < 1e-9, "case %zu: %g", i, score);
    }
}
END_TEST

static const lh_task_row *row_of(const char *name)
{
    for (const lh_task_row *row = lh_task_rows; row->name; row++)
        if (strcmp(row->name, name) == 0) return row;
    ck_abort_msg("no task '%s'", name);
}

static const char *data_path(char path[1024], const char *name)
{
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    snprintf(path, 1024, "%s/tasks/%s", folder ? folder : LH_TEST_DATA, name);
    if (lh_file_exists(path)) return path;
    printf("'%s' skipped\n", path);
    return NULL;
}

/* config/dataset2prompt.json and dataset2maxlen.json of LongBench */
START_TEST(test_prompts_are_the_published_ones)
{
    static const char *const files[] = {"longbench/dataset2prompt.json", "longbench/dataset2maxlen.json"};
    json_t *config[2] = {NULL}, *value;
    const char *key;
    char path[1024];
    int n = 0;
    for (int i = 0; i < 2; i++) {
        if (!data_path(path, files[i])) return;
        OK(lh_json_read(&config[i], path, 1 << 20));
    }
    json_object_foreach(config[0], key, value)
    {
        lh_buf prompt = {0};
        const lh_task_row *row = row_of(key);
        OK(lh_buf_printf(&prompt, "%s{context}%s", row->head, row->tail));
        ck_assert_str_eq(prompt.data, json_string_value(value));
        ck_assert_int_eq((int)row->max_new, (int)json_integer_value(json_object_get(config[1], key)));
        lh_buf_clear(&prompt);
        n++;
    }
    ck_assert_int_eq(n, 21);
    json_decref(config[0]);
    json_decref(config[1]);
}
END_TEST

START_TEST(test_every_row_has_a_metric_that_is_there)
{
    for (const lh_task_row *row = lh_task_rows; row->name; row++) {
        ck_assert_msg(lh_task_metric_find(row->metric) != NULL, "%s", row->name);
        ck_assert_msg(row->max_new > 0 && (row->tail || row->question_begins[0]), "%s", row->name);
    }
}
END_TEST

/* ---- records ---- */

static lh_status read_tasks(lh_task_records *out, const char *path, const char *tasks)
{
    const char *paths[] = {path};
    *out = (lh_task_records){0};
    return lh_task_records_read(out, &(lh_task_choice){&(lh_strings){paths, 1}, tasks, NULL, 0, 0});
}

/* The first record of a file with this text. */
static lh_task_record *read_one(lh_task_records *out, const char *path, const char *text)
{
    program_file(path, text);
    OK(read_tasks(out, path, NULL));
    return &out->at[0];
}

START_TEST(test_records_of_our_own_are_read)
{
    lh_task_records all;
    lh_task_record *r = read_one(&all, "q.jsonl",
                                 "{\"context\": \"c\", \"question\": \"q\", \"answers\": [\"a\", \"b\"]}\n\n"
                                 "{\"context\": \"c\", \"input\": \"q\", \"answers\": [\"a\"], \"task\": \"t\"}\r\n"
                                 "{\"context\": \"c\", \"question\": \"q\", \"answers\": {\"text\": [\"a\"]}}\n"
                                 "{\"context\": \"c\", \"question\": \"q\", \"answers\": []}\n"
                                 "{\"context\": \"c\", \"question\": \"q\", \"answer\": 7, \"metric\": \"count\", "
                                 "\"max_new_tokens\": 9, \"nominal_length\": 4096, \"answer_prefix\": \"p\", "
                                 "\"choices\": [\"x\", \"y\"]}");
    static const int64_t lines[] = {1, 3, 4, 5, 6}, counts[] = {2, 1, 1, 1, 1};
    ck_assert_int_eq(all.n, 5);
    for (int64_t i = 0; i < 5; i++) {
        ck_assert_str_eq(r[i].task, i == 1 ? "t" : "q");
        ck_assert_str_eq(r[i].question, "q");
        ck_assert_str_eq(r[i].answers[0], i == 3 ? "" : i == 4 ? "7" : "a");
        ck_assert(r[i].line == lines[i] && r[i].answer_count == counts[i] && r[i].verbatim == (i == 4));
        ck_assert_str_eq(r[i].metric->name, i == 4 ? "count" : "f1");
    }
    ck_assert(r[4].max_new == 9 && r[4].length == 4096 && r[4].choice_count == 2 && !r[3].prefix);
    ck_assert_str_eq(r[4].prefix, "p");
    lh_task_records_clear(&all);
}
END_TEST

START_TEST(test_published_forms_are_read)
{
    lh_task_records all;
    lh_task_record *r = read_one(&all, "table.json", /* kvpress */
                                 "[{\"context\": \"c\", \"question\": \"q \", \"answer_prefix\": \"p\", \"answer\": "
                                 "[\"a\", \"b\"], \"task\": \"niah_multivalue\", \"max_new_tokens\": 100}]");
    ck_assert(r->verbatim && r->max_new == 100 && strcmp(r->metric->name, "string-match-all") == 0);
    lh_task_records_clear(&all);
    r = read_one(&all, "aware.jsonl", /* the same, its question in the context */
                 "{\"context\": \"c q\", \"question\": \"\", \"answer_prefix\": \"p\", \"answer\": [\"a\"]}");
    ck_assert(r->verbatim && *r->question == '\0' && strcmp(r->prefix, "p") == 0);
    lh_task_records_clear(&all);
    program_must(system("mkdir -p qa_1") == 0, "folder");
    r = read_one(&all, "qa_1/validation.jsonl", /* RULER, whose prompt has its answer prefix */
                 "{\"index\": 0, \"input\": \"Answer the question based on the given documents. D1\\n\\nAnswer the "
                 "question based on the given documents. Question: q? Answer:\", \"outputs\": [\"a\"], \"length\": 9}");
    ck_assert_str_eq(r->task, "qa_1");
    ck_assert_str_eq(r->context, "Answer the question based on the given documents. D1\n\n");
    ck_assert_str_eq(r->question, "Answer the question based on the given documents. Question: q?");
    ck_assert_str_eq(r->prefix, " Answer:");
    ck_assert(r->max_new == 32 && strcmp(r->metric->name, "string-match-part") == 0 && r->length == 0);
    lh_task_records_clear(&all);
    r = read_one(&all, "lb.jsonl", /* LongBench */
                 "{\"dataset\": \"trec\", \"context\": \"c1\", \"input\": \"i1\", \"answers\": [\"Date\"], "
                 "\"all_classes\": [\"Food\", \"Date\"]}\n"
                 "{\"dataset\": \"dureader\", \"context\": \"c\", \"input\": \"\", \"answers\": [\"a\"], "
                 "\"all_classes\": null}\n"
                 "{\"dataset\": \"hotpotqa_e\", \"context\": \"c2\", \"input\": \"i2\", \"answers\": [\"a\"], "
                 "\"all_classes\": null}\n");
    ck_assert_int_eq(all.n, 2);
    ck_assert(r->plain && r->first_line && r->choice_count == 2 && !r[1].plain && r[1].line == 3);
    ck_assert_str_eq(r->question, "\ni1");
    ck_assert_str_eq(r[1].task, "hotpotqa_e");
    ck_assert_ptr_nonnull(strstr(r[1].question, "Question: i2\nAnswer:"));
    lh_task_records_clear(&all);
    r = read_one(&all, "data.json", /* LongBench v2 */
                 "[{\"_id\": \"1\", \"question\": \" q? \", \"choice_A\": \"w\", \"choice_B\": \"x\", "
                 "\"choice_C\": \"y\", \"choice_D\": \"z\", \"answer\": \"B\", \"context\": \"c\"}]");
    ck_assert_ptr_nonnull(strstr(r->question, "question: q?\nChoices:\n(A) w\n(B) x\n(C) y\n(D) z\n\nFormat"));
    ck_assert_str_eq(r->task, "longbench-v2");
    lh_task_records_clear(&all);
    r = read_one(&all, "code_run.jsonl", /* InfiniteBench */
                 "{\"id\": 0, \"context\": \"def\", \"input\": \"The value of func_635(-2) is?\", \"answer\": [4], "
                 "\"options\": []}");
    ck_assert_str_eq(r->head, "There is a function called func_635 in the following Python code.\n\n");
    ck_assert_str_eq(r->question, "\n\nPlease compute the exact value of func_635(-2). The value of func_635(-2) is");
    ck_assert_str_eq(r->answers[0], "4");
    lh_task_records_clear(&all);
    r = read_one(&all, "math_find.jsonl",
                 "{\"id\": 0, \"context\": \"[1]\", \"input\": \"Only one. The largest number of the list is: \", "
                 "\"answer\": [8], \"options\": []}");
    ck_assert_str_eq(r->head, "What is the largest number in the following list?\n\n");
    lh_task_records_clear(&all);
    r = read_one(&all, "MiniLongBench_trec.json",
                 "{\"0\": {\"origin_prompt\": \"c\\nQuestion: a\\nType: b\\nQuestion: q\\nType:\", \"prediction\": "
                 "\"x\", \"gold\": {\"all_classes\": [\"A\", \"B\"], \"answers\": [\"B\"]}}}");
    ck_assert_str_eq(r->task, "trec");
    ck_assert_str_eq(r->question, "\nQuestion: q\nType:");
    ck_assert(r->choice_count == 2 && strcmp(r->answers[0], "B") == 0);
    lh_task_records_clear(&all);
    r = read_one(&all, "dev.json", /* SQuAD */
                 "{\"version\": \"v2.0\", \"data\": [{\"paragraphs\": [{\"context\": \"c\", \"qas\": [{\"question\": "
                 "\"q\", \"answers\": [{\"text\": \"a\", \"answer_start\": 1}]}, {\"question\": \"r\", \"answers\": "
                 "[]}]}]}]}");
    ck_assert_int_eq(all.n, 2);
    ck_assert(strcmp(r[1].question, "r") == 0 && strcmp(r[1].answers[0], "") == 0 && strcmp(r[1].context, "c") == 0);
    lh_task_records_clear(&all);
}
END_TEST

/* The published files: every record is read, and its question is a part of its prompt. */
START_TEST(test_published_files_are_read)
{
    static const struct {
        const char *path;
        int tasks;
    } files[] = {{"minilongbench", 18}, {"infinitebench", 8}, {"longbench/trec.jsonl", 1}, {"ruler-4096", 1}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[1024];
        int tasks = 0;
        lh_task_records all;
        if (!data_path(path, files[i].path)) continue;
        OK(read_tasks(&all, path, NULL));
        for (int64_t k = 0; k < all.n; k++) {
            int64_t first = 0;
            while (strcmp(all.at[first].task, all.at[k].task) != 0) first++;
            tasks += first == k;
            ck_assert(*all.at[k].question && *all.at[k].context && all.at[k].max_new > 0 && all.at[k].verbatim);
        }
        ck_assert_msg(tasks == files[i].tasks, "%s: %d tasks", files[i].path, tasks);
        lh_task_records_clear(&all);
    }
}
END_TEST

START_TEST(test_records_that_cannot_be_asked_are_refused)
{
#define GOOD "{\"context\": \"c\", \"question\": \"q\", \"answers\": [\"a\"]}\n"
    static const struct {
        const char *text, *says;
    } cases[] = {
        {GOOD "{\"context\": \"c\"", "line 2 of 'bad.jsonl'"},
        {GOOD "[1]\n", "line 2 of 'bad.jsonl': every record must be an object"},
        {"[" GOOD ", 7]", "record 2 of 'bad.jsonl': every record must be an object"},
        {GOOD "\n{\"question\": \"q\", \"answers\": [\"a\"]}\n", "line 3 of 'bad.jsonl': \"context\" must be a text"},
        {"{\"context\": \"c\", \"answers\": [\"a\"]}\n", "\"question\" must be a text"},
        {"{\"context\": \"c\", \"question\": \"\", \"answers\": [\"a\"]}\n", "the question is empty"},
        {"{\"context\": \"\", \"question\": \"q\", \"answers\": [\"a\"]}\n", "the context is empty"},
        {"{\"context\": \"c\", \"question\": \"\", \"answer_prefix\": \"\", \"answers\": [\"a\"]}\n",
         "the question is empty"},
        {"{\"context\": \"c\\u0000d\", \"question\": \"q\", \"answers\": [\"a\"]}\n", "zero byte"},
        {"{\"context\": \"c\", \"question\": \"q\"}\n", "\"answers\" must be a text or a list of texts"},
        {"{\"context\": \"c\", \"question\": \"q\", \"answers\": [[]]}\n", "an item of a list of texts must be a text"},
        {"{\"context\": \"c\", \"question\": \"q\", \"answers\": [\"a\"], \"metric\": \"bleu\"}", "\"metric\" must be"},
        {"{\"context\": \"c\", \"question\": \"q\", \"answers\": [\"a\"], \"metric\": \"classification\"}",
         "needs a list of choices"},
        {"{\"context\": \"c\", \"question\": \"q\", \"answers\": [\"a\"], \"max_new_tokens\": 0}", "max_new_tokens"},
        {"{\"input\": \"p\", \"outputs\": [\"a\"]}", "'bad' is no task of this benchmark"},
        {"{\"dataset\": \"qmsum\", \"context\": \"c\", \"input\": 1.5}", "\"answers\" must be"},
        {"{\"dataset\": \"trec\", \"context\": \"c\", \"input\": \"i\", \"answers\": [\"a\"]}",
         "needs a list of choices"},
        {"{\"dataset\": \"vcsum\", \"context\": \"c\", \"input\": \"i\"}", "has no record that can be asked"},
        {"[1", "'bad.jsonl'"},
        {"1", "every record must be an object"},
        {"\n \n", "has no record that can be asked"},
        {"", "has no record that can be asked"}};
    lh_task_records all;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_file("bad.jsonl", cases[i].text);
        ck_assert_int_eq(read_tasks(&all, "bad.jsonl", NULL), LH_EINPUT);
        ck_assert_msg(strstr(lh_error_message(), cases[i].says) != NULL, "case %zu: %s", i, lh_error_message());
        lh_task_records_clear(&all);
    }
    program_file("qa_7.jsonl", "{\"input\": \"p\", \"outputs\": [\"a\"]}");
    ck_assert_int_eq(read_tasks(&all, "qa_7.jsonl", NULL), LH_EINPUT);
    ck_assert_ptr_nonnull(
        strstr(lh_error_message(), "its prompt has no question that begins with 'Answer the question"));
    lh_task_records_clear(&all);
    program_file("bad.jsonl", GOOD);
    ck_assert_int_eq(read_tasks(&all, "bad.jsonl", "bad,worse"), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'--task' names 'worse'"));
    lh_task_records_clear(&all);
}
END_TEST

START_TEST(test_a_zero_byte_is_refused_with_its_place)
{
    static const char text[] = GOOD "{\"con\0text\": 1}\n" GOOD;
    lh_task_records all;
    FILE *f = fopen("zero.jsonl", "w");
    fwrite(text, 1, sizeof text - 1, f);
    fclose(f);
    ck_assert_int_eq(read_tasks(&all, "zero.jsonl", NULL), LH_EINPUT);
    ck_assert_msg(strstr(lh_error_message(), "line 2 of 'zero.jsonl': byte 6 is a zero byte"), "%s",
                  lh_error_message());
    lh_task_records_clear(&all);
}
END_TEST

/* ---- prompts ---- */

/* Of a tokenizer with a token for every byte. */
START_TEST(test_long_prompts_lose_what_the_published_scripts_leave_out)
{
    static const struct {
        lh_truncation part;
        int64_t max_prompt, length;
        const char *text; /* NULL: does not fit */
        int64_t context_tokens;
    } cases[] = {{LH_TRUNCATE_MIDDLE, 0, 0, "H:0123456789Q?A", 10},
                 {LH_TRUNCATE_MIDDLE, 15, 0, "H:0123456789Q?A", 10},
                 {LH_TRUNCATE_MIDDLE, 10, 0, "H:01289Q?A", 5},
                 {LH_TRUNCATE_MIDDLE, 11, 0, "H:01289Q?A", 5},
                 {LH_TRUNCATE_MIDDLE, 0, 12, "H:01289Q?A", 5},
                 {LH_TRUNCATE_MIDDLE, 12, 12, "H:01289Q?A", 5},
                 {LH_TRUNCATE_START, 10, 0, "H:56789Q?A", 5},
                 {LH_TRUNCATE_END, 0, 12, "H:01234Q?A", 5},
                 {LH_TRUNCATE_MIDDLE, 4, 0, "HQ?A", 0}, /* the question is longer than half of the prompt */
                 {LH_TRUNCATE_END, 3, 0, "Q?A", 0},
                 {LH_TRUNCATE_END, 2, 0, NULL, 0},
                 {LH_TRUNCATE_START, 0, 5, NULL, 0},
                 {LH_TRUNCATE_MIDDLE, 0, 4, NULL, 0}};
    lh_tokenizer *tok = tt_byte_level();
    char *right[] = {"7"};
    lh_task_record record = {.where = "here",
                             .head = "H:",
                             .context = "0123456789",
                             .question = "Q?",
                             .prefix = "A",
                             .answers = right,
                             .answer_count = 1,
                             .verbatim = 1,
                             .metric = lh_task_metric_find("f1")};
    const lh_eval_prompt_text how = {.question = record.question, .joint = "", .prefix = record.prefix};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_eval_prompt prompt = {0};
        lh_task_prompt made = {.prompt = &prompt};
        lh_buf text = {0};
        const lh_status st = lh_task_prompt_make(
            &made, tok, &record, &how,
            &(lh_task_limits){cases[i].part, cases[i].max_prompt, cases[i].length, .positions = 100, .max_new = 2});
        ck_assert_msg((st == LH_OK) == (cases[i].text != NULL), "case %zu: %s", i, lh_error_message());
        if (st == LH_OK) {
            OK(lh_tokenizer_decode(tok, prompt.whole.ids, prompt.whole.n, &text));
            ck_assert_msg(strcmp(text.data, cases[i].text) == 0, "case %zu: %s", i, text.data);
            ck_assert_int_eq(made.context_tokens, cases[i].context_tokens);
            ck_assert_int_eq(made.left_out, 15 - (int64_t)strlen(cases[i].text));
        }
        lh_buf_clear(&text);
        lh_eval_prompt_clear(&prompt);
    }
    lh_tokenizer_close(tok);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_metrics_are_those_of_the_published_scripts,
                                  test_several_answers_are_scored_as_published,
                                  test_prompts_are_the_published_ones,
                                  test_every_row_has_a_metric_that_is_there,
                                  test_records_of_our_own_are_read,
                                  test_published_forms_are_read,
                                  test_published_files_are_read,
                                  test_records_that_cannot_be_asked_are_refused,
                                  test_a_zero_byte_is_refused_with_its_place,
                                  test_long_prompts_lose_what_the_published_scripts_leave_out,
                                  NULL};
    program_enter();
    int code = suite_run("tasks", tests);
    program_leave();
    return code;
}
