/* Thoughts: where an answer has them, whole and while it grows. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "text/thoughts.h"

static const struct {
    const char *text;
    int opened, thinks, closed;
    const char *thoughts, *content; /* NULL: none */
} answers[] = {
    {"", 0, 0, 0, "", ""},
    {"An answer.", 0, 0, 0, "", "An answer."},
    {"<think>a\nb</think>\n\nc", 0, 1, 1, "a\nb", "\n\nc"},
    {" \n<think></think>c", 0, 1, 1, "", "c"},
    {"<think>a", 0, 1, 0, "a", ""},
    {"a</think>b", 1, 1, 1, "a", "b"},
    {"<think>a</think>b", 1, 1, 1, "a", "b"},
    {"a", 1, 1, 0, "a", ""},
    {"b <think>a</think>", 0, 0, 0, "", "b <think>a</think>"},
    {"<think>a</think>b</think>c", 0, 1, 1, "a", "b</think>c"},
    {"<thin", 0, 0, 0, "", "<thin"},
};

START_TEST(test_answers_are_split)
{
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const lh_thoughts p =
            lh_thoughts_split(answers[i].text, (int64_t)strlen(answers[i].text), answers[i].opened, LH_TEXT_WHOLE);
        ck_assert_msg(p.thinks == answers[i].thinks && p.closed == answers[i].closed, "answer %d", (int)i);
        ck_assert_int_eq(p.thoughts_bytes, (int64_t)strlen(answers[i].thoughts));
        ck_assert_int_eq(p.content_bytes, (int64_t)strlen(answers[i].content));
        ck_assert_mem_eq(p.thoughts, answers[i].thoughts, strlen(answers[i].thoughts));
        ck_assert_mem_eq(p.content, answers[i].content, strlen(answers[i].content));
    }
}
END_TEST

/* What was given of a text that grows is never taken back. */
START_TEST(test_a_growing_answer_is_split_as_the_whole)
{
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const int64_t bytes = (int64_t)strlen(answers[i].text);
        const lh_thoughts whole = lh_thoughts_split(answers[i].text, bytes, answers[i].opened, LH_TEXT_WHOLE);
        int64_t thoughts = 0, content = 0;
        for (int64_t n = 0; n <= bytes; n++) {
            const lh_thoughts p = lh_thoughts_split(answers[i].text, n, answers[i].opened, LH_TEXT_GROWS);
            ck_assert(p.thoughts_bytes >= thoughts && p.content_bytes >= content);
            thoughts = p.thoughts_bytes;
            content = p.content_bytes;
            ck_assert(thoughts <= whole.thoughts_bytes && content <= whole.content_bytes);
            ck_assert_mem_eq(p.thoughts, whole.thoughts, (size_t)thoughts);
            ck_assert_mem_eq(p.content, whole.content, (size_t)content);
        }
    }
}
END_TEST

START_TEST(test_earlier_answers_are_split)
{
    lh_messages messages = {0};
    json_t *json = json_loads("[{\"role\": \"user\", \"content\": \"<think>x</think>y\"}, {\"role\": \"assistant\", "
                              "\"content\": \"<think>a</think>b\"}, {\"role\": \"assistant\", \"content\": "
                              "\"<think>a</think>b\", \"reasoning\": \"own\"}, {\"role\": \"assistant\", "
                              "\"content\": \"<think>a</think>b\"}]",
                              0, NULL);
    ck_assert_int_eq(lh_messages_parse(&messages, "x", json), LH_OK);
    ck_assert_int_eq(lh_messages_split(&messages, 3), LH_OK);
    ck_assert_str_eq(messages.at[0].content, "<think>x</think>y");
    ck_assert_str_eq(messages.at[1].content, "b");
    ck_assert_str_eq(messages.at[1].members[LH_MESSAGE_THOUGHTS], "a");
    ck_assert_str_eq(messages.at[2].content, "<think>a</think>b");
    ck_assert_str_eq(messages.at[2].members[LH_MESSAGE_THOUGHTS], "own");
    ck_assert_ptr_null(messages.at[3].members[LH_MESSAGE_THOUGHTS]);
    lh_messages_clear(&messages);
    json_decref(json);
}
END_TEST

int main(void)
{
    return suite_run("thoughts",
                     (const TTest *const[]){test_answers_are_split, test_a_growing_answer_is_split_as_the_whole,
                                            test_earlier_answers_are_split, NULL});
}
