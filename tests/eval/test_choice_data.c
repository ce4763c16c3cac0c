/* Multiple-choice questions from JSON lines: the forms of known data sets, and what is refused, with its line. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/temporary.h"
#include "lab/eval/choice.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static void put(const char *text)
{
    char folder[TEMPORARY_BYTES];
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    ck_assert_int_eq(chdir(folder), 0);
    FILE *f = fopen("q.jsonl", "w");
    fputs(text, f);
    fclose(f);
}

START_TEST(test_known_forms_of_choices_are_read)
{
    static const char *const ids[] = {"1", "Mercury_7", "3", "4"};
    lh_choice_data data;
    put("{\"question\": \"q\", \"choices\": [\"a\", \"b\", \"c\"], \"answer\": 2}\n"
        "{\"question\": \"q\", \"choices\": {\"text\": [\"a\", \"b\", \"c\"], \"label\": [\"1\", \"2\", \"3\"]}, "
        "\"answerKey\": \"3\", \"id\": \"Mercury_7\"}\n"
        "{\"query\": \"Roof: he\", \"choices\": [\"a\", \"b\", \"c\"], \"gold\": 2, \"context\": \"text\"}\n"
        "{\"query\": \"Roof: he\", \"choices\": [\"a\", \"b\", \"c\"], \"label\": \"2\"}\n");
    OK(lh_choice_data_read(&data, "q.jsonl", 0));
    ck_assert_int_eq(data.n, 4);
    for (int64_t i = 0; i < data.n; i++) {
        const lh_choice_record *r = &data.at[i];
        ck_assert_str_eq(r->prompt, i < 2 ? "Question: q\nAnswer:" : i == 2 ? "\n\nRoof: he" : "Roof: he");
        ck_assert_str_eq(r->context, i == 2 ? "text" : "");
        ck_assert_str_eq(r->id, ids[i]);
        ck_assert_int_eq(r->choice_count, 3);
        ck_assert_str_eq(r->choices[1], "b");
        ck_assert_int_eq(r->right, 2);
    }
    lh_choice_data_clear(&data);
}
END_TEST

START_TEST(test_an_array_of_records_is_read_up_to_the_count)
{
#define RECORD "{\"question\": \"q\", \"choices\": [\"a\", \"b\"], \"answer\": 1}"
    static const char *const texts[] = {"[" RECORD ",\n" RECORD ", " RECORD "]", RECORD "\n\n" RECORD "\n" RECORD "\n"};
    lh_choice_data data;
    for (int i = 0; i < 2; i++) {
        put(texts[i]);
        OK(lh_choice_data_read(&data, "q.jsonl", 0));
        ck_assert_int_eq(data.n, 3);
        lh_choice_data_clear(&data);
        OK(lh_choice_data_read(&data, "q.jsonl", 2));
        ck_assert_int_eq(data.n, 2);
        ck_assert_int_eq(data.at[1].line, i ? 3 : 2);
        lh_choice_data_clear(&data);
    }
}
END_TEST

START_TEST(test_what_is_no_choice_is_said_with_its_line)
{
#define CHOICES "\"choices\": [\"a\", \"b\"]"
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{" CHOICES ", \"answer\": 0}\n", "line 1 of 'q.jsonl': \"question\" must be a text"},
        {"{\"query\": \"\", " CHOICES ", \"answer\": 0}\n", "\"query\" is empty"},
        {"{\"question\": \"q\", \"choices\": [\"a\"], \"answer\": 0}\n", "\"choices\" must be a list of two"},
        {"{\"question\": \"q\", \"choices\": [\"a\", \"\"], \"answer\": 0}\n", "a choice is empty"},
        {"{\"question\": \"q\", \"choices\": [\"a\", 7], \"answer\": 0}\n", "a choice must be a text"},
        {"{\"question\": \"q\", " CHOICES ", \"answer\": 2}\n", "index of the right choice, from 0 to 1"},
        {"{\"question\": \"q\", " CHOICES ", \"label\": \"b\"}\n", "index of the right choice, from 0 to 1"},
        {"{\"question\": \"q\", " CHOICES "}\n", "index of the right choice, from 0 to 1"},
        {"{\"question\": \"q\", " CHOICES ", \"answerKey\": \"B\"}\n", "must be one of the labels"},
        {"1\n", "every record must be an object"},
        {"[1]\n", "record 1 of 'q.jsonl': every record must be an object"},
        {"", "has no questions"},
    };
    lh_choice_data data;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(cases[i].text);
        ck_assert_int_eq(lh_choice_data_read(&data, "q.jsonl", 0), LH_EINPUT);
        ck_assert_msg(strstr(lh_error_message(), cases[i].part), "%s", lh_error_message());
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_known_forms_of_choices_are_read,
                                  test_an_array_of_records_is_read_up_to_the_count,
                                  test_what_is_no_choice_is_said_with_its_line, NULL};
    return suite_run("choice data", tests);
}
