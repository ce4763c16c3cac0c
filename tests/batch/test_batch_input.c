/* Inputs: where lines begin, whose custom_ids they have, and how fast that is found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "rig.h"
#include "suite.h"

START_TEST(test_lines_are_found_whatever_ends_them)
{
    lh_batch_input *input = NULL;
    rig_enter();
    rig_text("in.jsonl", "\xEF\xBB\xBF{\"custom_id\":\"a\"}\r\n"
                         "\n  \t\r\n"
                         "{\"custom_id\":\"\\u00e4\"}\n"
                         "not JSON\n"
                         "{\"custom_id\":\"a\"}\n"
                         "{\"custom_id\":7}\n"
                         "{\"custom_id\":\"z\\u0000\"}\n"
                         "{\"custom_id\":\"\"}\n"
                         "{\"custom_id\":\"last\"}");
    OK(lh_batch_input_open(&input, "in.jsonl"));
    static const struct {
        int64_t number, same_as;
        const char *id;
    } want[] = {{1, 0, "a"},  {4, 0, "\xC3\xA4"}, {5, 0, NULL}, {6, 1, NULL},
                {7, 0, NULL}, {8, 0, NULL},       {9, 0, NULL}, {10, 0, "last"}};
    ck_assert_int_eq(lh_batch_input_count(input), 8);
    for (int i = 0; i < 8; i++) {
        const lh_batch_line *line = lh_batch_input_line(input, i);
        ck_assert_int_eq(line->number, want[i].number);
        ck_assert_int_eq(line->same_as, want[i].same_as);
        ck_assert_pstr_eq(line->custom_id, want[i].id);
        ck_assert(line->hash == lh_hash64(line->text, line->bytes));
        if (want[i].id) ck_assert_int_eq(lh_batch_input_find(input, want[i].id), i);
        ck_assert_int_eq(lh_batch_input_find_number(input, want[i].number), i);
    }
    ck_assert(lh_batch_input_line(input, 0)->hash == lh_hash64("{\"custom_id\":\"a\"}", 17)); /* without mark and end */
    ck_assert_int_eq(lh_batch_input_find(input, "b"), -1);
    ck_assert_int_eq(lh_batch_input_find_number(input, 2), -1);
    ck_assert_int_eq(lh_batch_input_find_number(input, 11), -1);
    lh_batch_input_close(input);
    rig_leave();
}
END_TEST

/* Every line is in one part, contexts are whole, and a custom_id belongs to one line of all. */
START_TEST(test_shards_are_the_input)
{
    enum { LINES = 60 };
    lh_batch_input *all = NULL, *part = NULL;
    lh_buf text = {0};
    rig_enter();
    for (int i = 0; i < LINES; i++)
        OK(lh_buf_printf(&text,
                         i % 3 ? "{\"custom_id\":\"r%d\"}\n" : "{\"custom_id\":\"r%d\",\"context_id\":\"c%d\"}\n",
                         i == 40 ? 20 : i, i % 4));
    rig_file("in.jsonl", text.data, text.bytes);
    OK(lh_batch_input_open(&all, "in.jsonl"));
    for (int n = 1; n <= 70; n = 3 * n + 1) {
        int seen[LINES] = {0}, sum = 0;
        uint64_t of_context[4] = {0};
        for (int k = 0; k < n; k++) {
            OK(lh_batch_input_open(&part, "in.jsonl"));
            OK(lh_batch_input_shard(part, k, n));
            for (int64_t i = 0; i < lh_batch_input_count(part); i++, sum++) {
                const lh_batch_line *line = lh_batch_input_line(part, i);
                const int64_t at = line->number - 1;
                const lh_batch_line *same = lh_batch_input_line(all, at);
                seen[at]++;
                ck_assert(line->hash == same->hash && line->same_as == same->same_as);
                ck_assert_pstr_eq(line->custom_id, same->custom_id);
                if (line->custom_id) ck_assert_int_eq(lh_batch_input_find(part, line->custom_id), i);
                ck_assert_int_eq(lh_batch_input_find_number(part, line->number), i);
                if (at % 3 == 0) of_context[at % 4] |= UINT64_C(1) << (k % 64);
            }
            lh_batch_input_close(part);
        }
        ck_assert_int_eq(sum, LINES);
        for (int i = 0; i < LINES; i++) ck_assert_int_eq(seen[i], 1);
        for (int c = 0; c < 4; c++) ck_assert((of_context[c] & (of_context[c] - 1)) == 0);
    }
    ck_assert_ptr_null(lh_batch_input_line(all, 40)->custom_id); /* that of line 21 */
    lh_batch_input_close(all);
    lh_buf_clear(&text);
    rig_leave();
}
END_TEST

START_TEST(test_what_holds_no_request_is_refused)
{
    lh_batch_input *input = NULL;
    rig_enter();
    rig_text("blank", "\n \r\n\t\n");
    rig_text("empty", "");
    FAILS(lh_batch_input_open(&input, "blank"), LH_EINPUT, "'blank' holds no request");
    FAILS(lh_batch_input_open(&input, "empty"), LH_EINPUT, "'empty'");
    FAILS(lh_batch_input_open(&input, "none"), LH_EINPUT, "'none'");
    FAILS(lh_batch_input_open(&input, "."), LH_EINPUT, "folder");
    rig_leave();
}
END_TEST

/* A file of another form is refused whole, with the way out; a line of another form fails alone. */
START_TEST(test_a_file_that_is_no_json_lines_is_refused_whole)
{
#define A "{\"custom_id\":\"a\"}"
#define B "{\"custom_id\":\"b\"}"
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"\xFF\xFE{", "'bad' is UTF-16, not UTF-8: 'iconv"},
        {"\037\213\010", "'bad' is compressed by gzip, not text: 'zcat FILE'"},
        {"\050\265\057\375", "compressed by zstd"},
        {"%PDF-1.7\n" A "\n", "'bad' is a PDF"},
        {"[" A "," B "]", "'bad' is a JSON array, not JSON Lines: 'jq -c"},
        {"\xEF\xBB\xBF \n[\n" A ",\n" B "\n]\n", "is a JSON array"},
        {"[\n" A ",\n" B, "is a JSON array"}, /* cut off */
        {"{\n  \"custom_id\": \"a\",\n  \"body\": {}\n}\n", "a JSON value over several lines, not one a line: 'jq"},
        {A "\r" B "\r", "has carriage returns in place of line feeds: \"tr"},
        {"\na b\nc d\n", "'bad' holds no request: line 2 is not a JSON value by itself: column 1:"},
        {"{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "no line is a JSON object with a 'custom_id'"}};
    static const char *const good[] = {"[1]\n" A "\n", "{\"custom_id\":\n" A "\n", "\r\n" A "\r\n", "%\n" A};
    lh_batch_input *input = NULL;
    rig_enter();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rig_text("bad", bad[i].text);
        FAILS(lh_batch_input_open(&input, "bad"), LH_EINPUT, bad[i].part);
    }
    rig_file("bad", "\377\376\0\0{\0\0\0", 8);
    FAILS(lh_batch_input_open(&input, "bad"), LH_EINPUT, "'bad' is UTF-32, not UTF-8: 'iconv -f utf-32");
    rig_file("bad", "{\0\"\0\n\0", 6); /* UTF-16 without a byte order mark */
    FAILS(lh_batch_input_open(&input, "bad"), LH_EINPUT, "'bad' holds zero bytes, it is no text: 'iconv -f utf-16");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        rig_text("good", good[i]);
        OK(lh_batch_input_open(&input, "good"));
        lh_batch_input_close(input);
    }
    rig_leave();
}
END_TEST

START_TEST(test_a_file_that_changes_is_noticed)
{
    static const lh_batch_defaults defaults = {.max_new = 16};
    lh_batch_input *input = NULL;
    lh_batch_request request;
    rig_enter();
    rig_input("in.jsonl", 3);
    OK(lh_batch_input_open(&input, "in.jsonl"));
    OK(lh_batch_request_read(&request, lh_batch_input_line(input, 1), &defaults));
    lh_batch_request_clear(&request);
    FILE *f = fopen("in.jsonl", "r+");
    fseek(f, lh_batch_input_line(input, 1)->text - lh_batch_input_line(input, 0)->text + 30, SEEK_SET);
    fputs("CHANGED", f);
    fclose(f);
    FAILS(lh_batch_request_read(&request, lh_batch_input_line(input, 1), &defaults), LH_EINPUT, "the line changed");
    lh_batch_request_clear(&request);
    FAILS(lh_batch_input_unchanged(input), LH_EINPUT, "changed while it was read");
    lh_batch_input_close(input);
    rig_leave();
}
END_TEST

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The law is far above what it takes, some 0.1 s: machines and sanitizers are slow. */
START_TEST(test_a_hundred_thousand_lines_take_no_time)
{
    enum { LINES = 100000 };
    lh_batch_input *input = NULL;
    lh_buf text = {0};
    char words[1001];
    rig_enter();
    for (int i = 0; i < 1000; i++) words[i] = i % 6 ? 'x' : ' ';
    words[1000] = '\0';
    for (int i = 0; i < LINES; i++)
        OK(lh_buf_printf(&text,
                         "{\"custom_id\":\"request-%d\",\"method\":\"POST\",\"url\":\"/v1/completions\","
                         "\"body\":{\"prompt\":\"%s\"}}\n",
                         i, words));
    rig_file("in.jsonl", text.data, text.bytes);
    const double began = seconds();
    OK(lh_batch_input_open(&input, "in.jsonl"));
    const double took = seconds() - began;
    printf("%d lines of %.1f MB: %.3f s\n", LINES, 1e-6 * (double)text.bytes, took);
    ck_assert_int_eq(lh_batch_input_count(input), LINES);
    ck_assert_int_eq(lh_batch_input_find(input, "request-77777"), 77777);
    ck_assert(took < 10);
    lh_batch_input_close(input);
    lh_buf_clear(&text);
    rig_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_lines_are_found_whatever_ends_them,
                                  test_shards_are_the_input,
                                  test_what_holds_no_request_is_refused,
                                  test_a_file_that_is_no_json_lines_is_refused_whole,
                                  test_a_file_that_changes_is_noticed,
                                  test_a_hundred_thousand_lines_take_no_time,
                                  NULL};
    return suite_run("batch input", tests);
}
