/* Prompts and scores of `path` (LongProc's path_traversal, princeton-pli/LongProc 78e873a) and `kv`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "import/tokenizer_source.h"
#include "lab/eval/synthetic_prompt.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static void make(lh_synthetic_sample *out, lh_synthetic_spec spec, int64_t asked, int chat)
{
    lh_tokenizer *tok = NULL;
    const lh_chat_format *format = NULL;
    OK(lh_tokenizer_open(&tok, "tiny"));
    if (chat) OK(lh_chat_of(&format, tok));
    const lh_synthetic_form form = {NULL, tok, format, NULL, asked};
    OK(lh_synthetic_fit(&form, &spec));
    OK(lh_synthetic_make(out, &form, &spec));
    /* a quarter more than the right answer has */
    ck_assert_int_eq(spec.max_new, out->prompt.answer.n * 5 / 4 + 16);
    const int64_t tokens = lh_asked_prompt_max(&out->prompt) + spec.max_new;
    ck_assert_msg(tokens <= spec.length && tokens > spec.length - 130, "%lld tokens", (long long)tokens);
    lh_chat_close(format);
    lh_tokenizer_close(tok);
}

/* ---- path ---- */

typedef struct connection {
    char from[64], to[64], transit[8];
} connection;

static int find_city(const connection *all, int n, const char *from)
{
    int found = -1;
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i].from, from) != 0) continue;
        ck_assert_int_eq(found, -1); /* every city has one connection */
        found = i;
    }
    return found;
}

/* Reads the connections of the problem. */
static connection *read_connections(const lh_synthetic_sample *s, int *n)
{
    const char *at = strstr(s->text.data, "[PROBLEM]\nIn a hypothetical world, ");
    connection *all = calloc((size_t)s->units + 5000, sizeof *all);
    *n = 0;
    for (at = strstr(at, "as follows:\n") + 12; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        char again[64];
        connection *c = &all[(*n)++];
        ck_assert_int_eq(sscanf(at, "%63[^.]. You can travel from %63[A-Za-z ]", c->from, again), 2);
        ck_assert_ptr_nonnull(strstr(c->from, " is a lively city"));
        *strstr(c->from, " is a lively city") = '\0';
        at = strstr(at, " to ") + 4;
        const char *by = strstr(at, " by ");
        snprintf(c->to, sizeof c->to, "%.*s", (int)(by - at), at);
        ck_assert_int_eq(sscanf(by, " by %7[a-z].", c->transit), 1);
    }
    return all;
}

/* The only route from the first to the last city of the question is the expected answer. */
static void check_route(int64_t steps, uint64_t seed, int chat)
{
    lh_synthetic_sample s;
    lh_buf route = {0};
    char from[64], to[64];
    int n, at;
    make(&s, (lh_synthetic_spec){.task = &lh_path_task, .length = 9000, .seed = seed}, steps, chat);
    connection *all = read_connections(&s, &n);
    ck_assert_int_eq(n, s.units + steps);
    ck_assert_int_eq(sscanf(s.question.data, "Now find the route from %63[A-Za-z ]", from), 1);
    *strstr(from, " based") = '\0';
    snprintf(to, sizeof to, "%s", strstr(from, " to ") + 4);
    *strstr(from, " to ") = '\0';
    for (int64_t i = 0; i < steps; i++) {
        ck_assert_int_ge(at = find_city(all, n, from), 0);
        OK(lh_buf_printf(&route, "From %s, take a %s to %s.\n", all[at].from, all[at].transit, all[at].to));
        snprintf(from, sizeof from, "%s", all[at].to);
    }
    OK(lh_buf_puts(&route, "</Route>"));
    ck_assert_str_eq(from, to);
    ck_assert_int_eq(find_city(all, n, to), -1);
    ck_assert_str_eq(s.expected.data, route.data);
    ck_assert_str_eq(s.prefix.data, chat ? "<Route>\n" : "\n\n<Route>\n");
    free(all);
    lh_buf_clear(&route);
    lh_synthetic_sample_clear(&s);
}

START_TEST(test_there_is_one_route_and_it_is_the_answer)
{
    check_route(2, 1, 0);
    check_route(20, 2, 1);
    check_route(31, 3, 0);
}
END_TEST

START_TEST(test_steps_count_up_to_the_first_wrong_one)
{
    static const struct {
        const char *answer;
        double score;
    } cases[] = {{"a\nb\nc\nd\n</Route>", 100},
                 {"a\nb\nc\nd", 100},
                 {" a\nb\nc\nd\n</Route>\nDone", 100},
                 {"a\nb\nx\nd", 50},
                 {"a\nb\nd\nc", 50},
                 {"", 0},
                 {"b\nc\nd", 0},
                 {"a\nb\nc\nd\ne\n", 75},
                 {"ab\nc", 0},
                 {"a\nb\nc", 75},
                 {"a\n</Route>\nb\nc\nd", 25},
                 {"a\nb\nc\nd and", 75}};
    char *steps[] = {"a", "b", "c", "d"};
    lh_synthetic_sample s = {.references = steps, .reference_count = 4};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double score = -1;
        OK(lh_synthetic_score(&s, &lh_path_task, cases[i].answer, &score));
        ck_assert_msg(score == cases[i].score, "case %zu: %g", i, score);
    }
}
END_TEST

/* ---- kv ---- */

START_TEST(test_values_are_those_of_their_keys)
{
    static const char head[] =
        "Extract the values corresponding to the specified keys in the JSON object below.\n\nJSON data:\n";
    for (int keys = 1; keys <= 8; keys += 7) {
        lh_synthetic_sample s;
        json_t *object = NULL;
        lh_buf question = {0}, expected = {0};
        make(&s, (lh_synthetic_spec){.task = &lh_kv_task, .length = 5000, .seed = 5}, keys, keys > 1);
        ck_assert_int_eq(strncmp(s.text.data, head, strlen(head)), 0);
        OK(lh_json_parse(&object, "kv", s.text.data + strlen(head), s.text.bytes - (int64_t)strlen(head)));
        ck_assert_int_eq((int)json_object_size(object), keys + (int)s.units);
        OK(lh_buf_puts(&question, "Keys:"));
        const char *at = s.question.data;
        for (int i = 0; i < keys; i++) {
            char key[40];
            ck_assert_int_eq(sscanf(strchr(at, '"'), "\"%36[^\"]", key), 1);
            at = strchr(strchr(at, '"') + 1, '"') + 1;
            const char *value = json_string_value(json_object_get(object, key));
            ck_assert_str_eq(value, s.references[i]);
            OK(lh_buf_printf(&question, "%s \"%s\"", i ? "," : "", key));
            OK(lh_buf_printf(&expected, "%s \"%s\"", i ? "," : "", value));
        }
        ck_assert_str_eq(s.question.data, question.data);
        ck_assert_str_eq(s.expected.data, expected.data);
        ck_assert_str_eq(s.prefix.data, keys > 1 ? "Corresponding values:" : "\nCorresponding values:");
        json_decref(object);
        lh_buf_clear(&question);
        lh_buf_clear(&expected);
        lh_synthetic_sample_clear(&s);
    }
}
END_TEST

START_TEST(test_a_length_that_is_too_short_is_refused)
{
    lh_tokenizer *tok = NULL;
    OK(lh_tokenizer_open(&tok, "tiny"));
    const lh_synthetic_form form = {NULL, tok, NULL, NULL, 8};
    ck_assert_int_eq(lh_synthetic_fit(&form, &(lh_synthetic_spec){.task = &lh_kv_task, .length = 700}), LH_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "the shortest prompt of task 'kv'"));
    lh_tokenizer_close(tok);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_there_is_one_route_and_it_is_the_answer,
                                  test_steps_count_up_to_the_first_wrong_one, test_values_are_those_of_their_keys,
                                  test_a_length_that_is_too_short_is_refused, NULL};
    program_enter();
    tiny_write("tiny");
    int code = suite_run("long answers", tests);
    program_leave();
    return code;
}
