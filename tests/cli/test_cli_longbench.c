/* `eval longbench`: every record for every cache, cut contexts, any number of ranks, after an interrupt. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define LONGBENCH "eval longbench -m tiny.h5 --data lb.jsonl -n 6 -q "
#define POLICIES "--policy 'h2o --budget 10%,streaming --budget 100' "
enum { CHOICES = 3, RECORDS = 4 };

START_TEST(test_every_record_is_asked_of_every_cache_in_its_length)
{
    static const char *const sets[RECORDS] = {"hotpotqa", "hotpotqa", "trec", "passage_count"};
    static const long long lines[RECORDS] = {2, 4, 1, 3};
    program_result r = {0};
    json_error_t error;
    size_t i;
    json_t *row;
    program_run(&r, 1, "%s", LONGBENCH POLICIES "--length 1400 --json");
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, 0, &error);
    ck_assert_msg(o != NULL, "%s", error.text);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "means")), 2 * CHOICES * (3 + 1)); /* and the average */
    ck_assert_uint_eq(json_array_size(json_object_get(o, "answers")), 2 * CHOICES * RECORDS);
    json_array_foreach(json_object_get(o, "answers"), i, row)
    {
        const size_t record = i / (2 * CHOICES);
        const long long tokens = json_integer_value(json_object_get(row, "prompt_tokens")),
                        kept = json_integer_value(json_object_get(row, "context_tokens"));
        ck_assert_str_eq(json_string_value(json_object_get(row, "task")), sets[record]);
        ck_assert_int_eq(json_integer_value(json_object_get(row, "line")), lines[record]);
        ck_assert_int_le(tokens, 1400 - 6);
        if (record == 0) ck_assert_int_eq(kept, (long long)strlen("Short context.")); /* tokens are bytes */
        if (record == 1) ck_assert(tokens >= 1400 - 6 - 2 && kept < tokens);          /* cut in the middle */
        ck_assert(json_number_value(json_object_get(row, "answer_nll")) > 0);
    }
    json_decref(o);
    program_clear(&r);
}
END_TEST

START_TEST(test_results_are_the_same_bytes_on_any_number_of_ranks)
{
    program_result one = {0}, more = {0};
    static const char options[] =
        LONGBENCH POLICIES "--task hotpotqa,trec --length 900 --deterministic --csv means.csv --answers -";
    program_run(&one, 1, "%s && cat means.csv", options);
    program_exits(&one, 0);
    for (int ranks = 2; ranks <= 4; ranks++) {
        program_run(&more, ranks, "%s && cat means.csv", options);
        program_exits(&more, 0);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

START_TEST(test_an_interrupted_run_goes_on)
{
    program_result r = {0}, whole = {0};
    static const char options[] = LONGBENCH POLICIES "--length 900,1200,1500,1800 --deterministic -o";
    program_run(&whole, 1, "%s whole.h5", options);
    program_exits(&whole, 0);
    program_run(&r, 1,
                "%s o.h5 > shown & p=$!; "
                "while kill -0 $p && test $(cat o.h5.resume 2>/dev/null | wc -l) -lt 4; do sleep 0.02; done; "
                "kill -USR1 $p; wait $p; exit $?",
                options);
    program_exits(&r, 75);
    program_run(&r, 2, "%s o.h5", options);
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, whole.out.data);
    program_run(&r, 1, "verify o.h5 -q");
    program_exits(&r, 0);
    program_clear(&r);
    program_clear(&whole);
}
END_TEST

START_TEST(test_what_cannot_be_asked_is_said)
{
    static const struct {
        const char *line, *says;
        int code;
    } cases[] = {{"eval longbench -m tiny.h5", "needs '--data FILE|FOLDER'", 2},
                 {LONGBENCH "--task dureader", "the metric of 'dureader' needs a segmentation", 2},
                 {LONGBENCH "--task squad", "'--task' got 'squad'", 2},
                 {LONGBENCH "--task lcc", "has no record", 3},
                 {LONGBENCH "--length 100k", "longer than the 4096 positions", 2},
                 {LONGBENCH "--length 100", "line 2 of 'hotpotqa': its question alone", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        program_refuses(1, cases[i].code, cases[i].says, cases[i].line);
}
END_TEST

static void write_records(void)
{
    lh_buf text = {0}, lines = {0};
    tiny_sentences(&text);
    program_must(lh_buf_printf(&lines,
                               "{\"dataset\": \"trec\", \"context\": \"Question: When?\\nType: Date\", \"input\": "
                               "\"Question: Where?\\nType:\", \"answers\": [\"Place\"], \"all_classes\": [\"Date\", "
                               "\"Place\"]}\n"
                               "{\"dataset\": \"hotpotqa\", \"context\": \"Short context.\", \"input\": \"Who?\", "
                               "\"answers\": [\"me\"], \"all_classes\": null}\n"
                               "{\"dataset\": \"passage_count\", \"context\": \"Paragraph 1: a\", \"input\": \"\", "
                               "\"answers\": [\"1\"], \"all_classes\": null}\n"
                               "{\"dataset\": \"hotpotqa\", \"context\": \"%s\", \"input\": \"What?\", \"answers\": "
                               "[\"thing 7\", \"7\"], \"all_classes\": null}\n",
                               text.data) == LH_OK,
                 "memory");
    program_file("lb.jsonl", lines.data);
    lh_buf_clear(&text);
    lh_buf_clear(&lines);
}

int main(void)
{
    const TTest *const tests[] = {test_every_record_is_asked_of_every_cache_in_its_length,
                                  test_results_are_the_same_bytes_on_any_number_of_ranks,
                                  test_an_interrupted_run_goes_on, test_what_cannot_be_asked_is_said, NULL};
    program_enter();
    tiny_write("tiny");
    write_records();
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli longbench", tests);
    program_leave();
    return code;
}
