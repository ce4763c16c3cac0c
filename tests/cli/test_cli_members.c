/* Members of requests as people send them to other engines, and the options of the same names: what each does to the
 * prompt and to the answer, on any number of ranks. */
#include <check.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "cli/tiny_suite.h"

#define BATCH "batch -m tiny.h5 -i in.jsonl --deterministic --threads 1 -q"

/* Writes in.jsonl: a request of each body, "c0", "c1", … A body with messages is a chat. */
static void write_bodies(const char *const *bodies)
{
    lh_buf text = {0};
    for (int i = 0; bodies[i]; i++)
        lh_buf_printf(&text, "{\"custom_id\": \"c%d\", \"method\": \"POST\", \"url\": \"/v1/%s\", \"body\": %s}\n", i,
                      strstr(bodies[i], "\"messages\"") ? "chat/completions" : "completions", bodies[i]);
    program_file("in.jsonl", text.data);
    lh_buf_clear(&text);
}

/* Answers them on so many ranks, in order: [lines]. */
static json_t *answer_bodies(const char *const *bodies, int ranks, const char *options)
{
    program_result r = {0};
    json_t *lines = json_array(), *line;
    write_bodies(bodies);
    unlink("out.jsonl");
    program_run(&r, ranks, BATCH " -o out.jsonl --ordered %s", options);
    ck_assert_msg(r.code <= 1, "ended with %d: %s", r.code, r.err.data);
    FILE *f = fopen("out.jsonl", "r");
    ck_assert(f != NULL);
    while ((line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL))) json_array_append_new(lines, line);
    fclose(f);
    program_clear(&r);
    return lines;
}

static json_t *body_of(const json_t *lines, size_t i)
{
    return json_object_get(json_object_get(json_array_get(lines, i), "response"), "body");
}

static json_t *choice_of(const json_t *lines, size_t i)
{
    return json_array_get(json_object_get(body_of(lines, i), "choices"), 0);
}

/* The text of an answer; NULL where a chat has no content. */
static const char *text_of(const json_t *lines, size_t i)
{
    const json_t *choice = choice_of(lines, i), *message = json_object_get(choice, "message");
    ck_assert_msg(choice != NULL, "request %d failed", (int)i);
    return json_string_value(json_object_get(message ? message : choice, message ? "content" : "text"));
}

static int64_t prompt_tokens(const json_t *lines, size_t i)
{
    return json_integer_value(json_object_get(json_object_get(body_of(lines, i), "usage"), "prompt_tokens"));
}

static void check_failure(const json_t *lines, size_t i, const char *part)
{
    const char *message =
        json_string_value(json_object_get(json_object_get(json_array_get(lines, i), "error"), "message"));
    ck_assert_msg(message && strstr(message, part), "request %d says '%s'", (int)i, message ? message : "nothing");
}

/* The answers are the same on 1 to 4 ranks, and alone. */
static void check_ranks(const char *const *bodies, const json_t *lines, const char *options)
{
    char all[256];
    for (int ranks = 2; ranks <= 4; ranks++) {
        snprintf(all, sizeof all, "%s --batch %d", options, ranks == 3 ? 1 : 16);
        json_t *other = answer_bodies(bodies, ranks, all);
        ck_assert_msg(json_equal(other, lines), "on %d ranks", ranks);
        json_decref(other);
    }
}

static const char template[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor "
                               "%}{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is "
                               "defined and not enable_thinking %}<think>{% endif %}{{ reasoning_effort }}{% endif %}";

#define HI "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 6"

START_TEST(test_variables_of_the_template)
{
    static const char *const bodies[] = {
        HI "}",
        HI ", \"chat_template_kwargs\": {\"enable_thinking\": false}}",
        HI ", \"reasoning_effort\": \"low\"}",
        HI ", \"reasoning_effort\": \"low\", \"chat_template_kwargs\": {\"reasoning_effort\": \"high\"}}",
        HI ", \"add_generation_prompt\": false}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"abc\"}], "
        "\"max_tokens\": 6, \"continue_final_message\": true}",
        HI ", \"continue_final_message\": true, \"add_generation_prompt\": true}",
        HI ", \"chat_template_kwargs\": {\"tools\": []}}",
        HI ", \"chat_template_kwargs\": {\"top\": 0.5}}",
        HI ", \"chat_template_kwargs\": \"off\"}",
        NULL};
    program_result r = {0};
    program_file("think.jinja", template);
    json_t *lines = answer_bodies(bodies, 1, "--chat-template think.jinja");
    const int64_t plain = prompt_tokens(lines, 0);
    ck_assert_int_eq(prompt_tokens(lines, 1), plain + 7); /* a token a byte: "<think>" */
    ck_assert_int_eq(prompt_tokens(lines, 2), plain + 3);
    ck_assert_int_eq(prompt_tokens(lines, 3), plain + 4);
    ck_assert_int_eq(prompt_tokens(lines, 4), plain - 11); /* without "<|im_start|>assistant\n" */
    ck_assert_int_eq(prompt_tokens(lines, 5), plain + 3);
    check_failure(lines, 6, "'continue_final_message' continues the last message, and 'add_generation_prompt'");
    check_failure(lines, 7, "'chat_template_kwargs' sets 'tools'");
    check_failure(lines, 8, "'top' holds a number with a fraction");
    check_failure(lines, 9, "'chat_template_kwargs' must be an object");
    check_ranks(bodies, lines, "--chat-template think.jinja");
    /* the options of `generate` */
    program_run(&r, 1,
                "generate -m tiny.h5 --chat-template think.jinja --template-arg enable_thinking=false -p Hi -n 6 "
                "--deterministic --threads 1 --json -q");
    program_exits(&r, 0);
    json_t *alone = json_loads(r.out.data, 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(alone, "prompt_tokens")), plain + 7);
    json_decref(alone);
    program_file("turns.json", "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
                               "\"abc\"}]");
    program_run(&r, 2,
                "generate -m tiny.h5 --chat-template think.jinja --messages turns.json --continue-final-message -n 6 "
                "--deterministic --threads 1 -q");
    program_exits(&r, 0);
    r.out.data[r.out.bytes - 1] = '\0';
    ck_assert_str_eq(r.out.data, text_of(lines, 5));
    program_refuses(1, 2, "give that option", "generate -m tiny.h5 -p Hi --continue-final-message");
    program_refuses(1, 2, "'no' is no JSON", "generate -m tiny.h5 -p Hi --template-arg thinking=no");
    json_decref(lines);
    program_clear(&r);
}
END_TEST

/* A chat format that opens the thoughts, and an answer that is forced to end them. */
START_TEST(test_thoughts_are_no_content)
{
    static const char *const bodies[] = {HI ", \"chat_template_kwargs\": {\"enable_thinking\": false}}", HI "}", NULL};
    static const char force[] =
        "generate -m tiny.h5 --chat-template think.jinja --template-arg enable_thinking=false -p "
        "Hi --force-tokens answer.ids --threads 1 -q";
    program_result r = {0};
    program_file("think.jinja", template);
    json_t *lines = answer_bodies(bodies, 1, "--chat-template think.jinja");
    const json_t *message = json_object_get(choice_of(lines, 0), "message");
    ck_assert(json_is_null(json_object_get(message, "content")));
    json_t *kept = answer_bodies(bodies, 2, "--chat-template think.jinja --keep-thinking");
    ck_assert_str_eq(json_string_value(json_object_get(message, "reasoning_content")), text_of(kept, 0));
    message = json_object_get(choice_of(lines, 1), "message");
    ck_assert_ptr_null(json_object_get(message, "reasoning_content"));
    ck_assert_str_eq(text_of(lines, 1), text_of(kept, 1));
    check_ranks(bodies, lines, "--chat-template think.jinja");
    json_decref(lines);
    json_decref(kept);
    program_run(&r, 1, "tokenize -m tiny.h5 -p 'no!</think>\n\nYes' > answer.ids");
    program_exits(&r, 0);
    program_run(&r, 2, "%s -n 13", force);
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "\n\n"); /* the forced 13 tokens end before "Yes" */
    program_run(&r, 1, "%s -n 13 --keep-thinking", force);
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "no!</think>\n\n");
    program_run(&r, 1, "%s --json -n 15", force);
    program_exits(&r, 0);
    json_t *alone = json_loads(r.out.data, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(alone, "text")), "\n\nYe");
    ck_assert_str_eq(json_string_value(json_object_get(alone, "reasoning_content")), "no!");
    json_decref(alone);
    program_run(&r, 1, "%s -n 3", force);
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "\n");
    ck_assert_ptr_nonnull(strstr(r.err.data, "ends within its thoughts"));
    program_clear(&r);
}
END_TEST

static int64_t truncated_tokens(const json_t *lines, size_t i)
{
    return json_integer_value(json_object_get(json_array_get(lines, i), "truncated_tokens"));
}

/* A prompt of many tokens, one a byte: the model has 4096 positions. */
START_TEST(test_prompts_are_truncated)
{
    enum { POSITIONS = 4096, LONG = 5000 };
    static const char *const parts[] = {"start", "middle", "end"};
    char text[LONG + 1], completion[LONG + 100], chat[LONG + 200], last[LONG + 200], options[64];
    for (int i = 0; i < LONG; i++) text[i] = (char)('a' + i / 200);
    text[LONG] = '\0';
    snprintf(completion, sizeof completion, "{\"prompt\": \"%s\", \"max_tokens\": 8}", text);
    snprintf(last, sizeof last, "{\"prompt\": \"%s\", \"max_tokens\": 8, \"truncate_prompt_tokens\": 10}", text);
    snprintf(chat, sizeof chat,
             "{\"messages\": [{\"role\": \"system\", \"content\": \"Be\"}, {\"role\": \"user\", \"content\": "
             "\"%s\"}], \"max_tokens\": 8}",
             text);
    const char *const bodies[] = {completion, chat, last, NULL};
    program_result r = {0};
    json_t *lines = answer_bodies(bodies, 1, "");
    check_failure(lines, 0, "longer than the 4096 positions of the model");
    ck_assert_int_eq(prompt_tokens(lines, 2), 10);
    ck_assert_int_eq(truncated_tokens(lines, 2), LONG - 10);
    json_decref(lines);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(options, sizeof options, "--truncate %s", parts[i]);
        lines = answer_bodies(bodies, 1, options);
        ck_assert_int_eq(prompt_tokens(lines, 0), POSITIONS - 8);
        ck_assert_int_eq(truncated_tokens(lines, 0), LONG - (POSITIONS - 8));
        ck_assert_int_le(prompt_tokens(lines, 1), POSITIONS - 8); /* with the tokens of the chat format */
        ck_assert_int_gt(prompt_tokens(lines, 1), POSITIONS - 8 - 2);
        if (i == 0) check_ranks(bodies, lines, options);
        /* the same text, cut by hand */
        const int kept = POSITIONS - 8, first = i == 0 ? 0 : i == 1 ? kept / 2 : kept;
        char cut[LONG + 1], line[LONG + 100];
        snprintf(cut, sizeof cut, "%.*s%s", first, text, text + LONG - (kept - first));
        snprintf(line, sizeof line, "{\"prompt\": \"%s\", \"max_tokens\": 8}", cut);
        const char *const by_hand[] = {line, NULL};
        json_t *same = answer_bodies(by_hand, 1, "");
        ck_assert_str_eq(text_of(same, 0), text_of(lines, 0));
        json_decref(same);
        json_decref(lines);
    }
    program_file("long.txt", text);
    program_run(&r, 2,
                "generate -m tiny.h5 -f long.txt --question 'Who is it?' -n 8 --truncate middle --threads 1 --json");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "the middle of the prompt is left out, "));
    json_t *alone = json_loads(r.out.data, 0, NULL);
    ck_assert_int_gt(json_integer_value(json_object_get(alone, "truncated_tokens")), LONG - POSITIONS);
    ck_assert_int_ge(json_integer_value(json_object_get(alone, "prompt_tokens")), POSITIONS - 8 - 1);
    json_decref(alone);
    program_run(&r, 1, "chat -m tiny.h5 -f long.txt --room 100 -n 4 --truncate end --threads 1 < /dev/null");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "the end of the prompt is left out, "));
    program_refuses(1, 2, "'--truncate' got 'left'", "generate -m tiny.h5 -p x --truncate left");
    program_clear(&r);
}
END_TEST

/* The log-probabilities are the model's own, before bias and penalties: what a greedy answer chose follows from them.
 */
static double own_logprob(const json_t *lines, size_t i, size_t token)
{
    const json_t *logprobs = json_object_get(choice_of(lines, i), "logprobs");
    return json_number_value(json_array_get(json_object_get(logprobs, "token_logprobs"), token));
}

#define ASK(members) "{\"prompt\": \"It was\", \"max_tokens\": 12, \"logprobs\": 20" members "}"

START_TEST(test_biases_penalties_and_ends)
{
    static const char *const bodies[] = {
        ASK(""),
        ASK(", \"logit_bias\": {\"98\": 100}"),
        ASK(", \"logit_bias\": {\"98\": 100}, \"frequency_penalty\": 2, \"presence_penalty\": -1"),
        ASK(", \"presence_penalty\": 2"),
        ASK(", \"logit_bias\": {\"98\": 100}, \"stop_token_ids\": [98]"),
        ASK(", \"logit_bias\": {\"98\": 100}, \"stop_token_ids\": [98], \"min_tokens\": 3"),
        ASK(", \"logit_bias\": {\"98\": 100}, \"stop\": \"bb\""),
        ASK(", \"logit_bias\": {\"98\": 100}, \"stop\": \"bb\", \"min_tokens\": 5"),
        ASK(", \"logit_bias\": {\"258\": 1}"),
        ASK(", \"stop_token_ids\": [300]"),
        ASK(", \"temperature\": 1.5, \"seed\": 3, \"frequency_penalty\": 0.5, \"presence_penalty\": 0.5"),
        NULL};
    json_t *lines = answer_bodies(bodies, 1, "--ignore-eos");
    program_result r = {0};
    const char *b = text_of(lines, 1);
    ck_assert_int_eq(strlen(b), 12);
    for (int i = 0; i < 12; i++) ck_assert_int_eq(b[i], b[0]); /* id 98 */
    ck_assert_str_eq(text_of(lines, 2), b);                    /* 100 is more than the penalties */
    for (size_t t = 0; t < 12; t++)                            /* each chosen although others are as likely */
        ck_assert(own_logprob(lines, 1, t) <= 0);
    ck_assert_str_ne(text_of(lines, 3), text_of(lines, 0));
    ck_assert_str_eq(text_of(lines, 4), "");
    ck_assert_str_eq(json_string_value(json_object_get(choice_of(lines, 4), "finish_reason")), "stop");
    ck_assert_ptr_null(strchr(text_of(lines, 5), b[0])); /* it is forbidden until the third token */
    json_t *usage = json_object_get(body_of(lines, 5), "usage");
    ck_assert_int_eq(json_integer_value(json_object_get(usage, "completion_tokens")), 4);
    ck_assert_int_eq(b[0], 'b');
    ck_assert_str_eq(text_of(lines, 6), "");
    ck_assert_int_eq(strlen(text_of(lines, 7)), 4); /* before the first stop text that ends after 5 tokens */
    check_failure(lines, 8, "'logit_bias': token id 258 is not in the model's vocabulary of 258");
    check_failure(lines, 9, "token id 300 is not in the model's vocabulary of 258");
    check_ranks(bodies, lines, "--ignore-eos");
    program_run(&r, 2,
                "generate -m tiny.h5 -p 'It was' --chat=off -n 12 --ignore-eos --presence-penalty 2 "
                "--deterministic --threads 1 -q");
    program_exits(&r, 0);
    r.out.data[12] = '\0';
    ck_assert_mem_eq(r.out.data, text_of(lines, 3), 12);
    json_decref(lines);
    program_clear(&r);
}
END_TEST

int main(void)
{
    return tiny_suite_run("members",
                          (const TTest *const[]){test_variables_of_the_template, test_thoughts_are_no_content,
                                                 test_prompts_are_truncated, test_biases_penalties_and_ends, NULL});
}
