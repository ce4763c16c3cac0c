/* Members of requests as people send them to other engines, and the options of the same names: what each does to the
 * prompt and to the answer, on any number of ranks. */
#include <check.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "cli/tiny_suite.h"

#define ANSWER " -i in.jsonl --deterministic --threads 1 -q"
#define BATCH "batch -m tiny.h5" ANSWER

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
    program_run(&r, ranks, "batch %s" ANSWER " -o out.jsonl --ordered %s", strstr(options, "-m ") ? "" : "-m tiny.h5",
                options);
    ck_assert_msg(r.code <= 1, "ended with %d: %s", r.code, r.err.data);
    FILE *f = fopen("out.jsonl", "r");
    ck_assert(f != NULL);
    while ((line = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL))) json_array_append_new(lines, line);
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
    const json_t *error = json_object_get(json_array_get(lines, i), "error");
    ck_assert_msg(choice != NULL, "request %d failed: %s", (int)i,
                  json_string_value(json_object_get(error, "message")));
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

/* An answer that ended within its thoughts is continued, and another without content is a turn that says nothing. */
START_TEST(test_an_answer_without_content_is_a_message)
{
#define TURNS(assistant)                                                                                   \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\"" assistant "}], " \
    "\"max_tokens\": 6, \"continue_final_message\": true}"
    static const char *const bodies[] = {
        TURNS(", \"content\": \"<think>ab\""),
        TURNS(", \"content\": \"<think>ab</think>\""),
        TURNS(", \"content\": \"\""),
        TURNS(", \"content\": null, \"reasoning_content\": \"ab\", \"tool_calls\": []"),
        TURNS(""),
        "{\"messages\": [{\"role\": \"user\", \"content\": null}], \"max_tokens\": 6}",
        NULL};
#undef TURNS
    program_file("think.jinja", template);
    json_t *lines = answer_bodies(bodies, 1, "--ignore-eos --chat-template think.jinja");
    json_t *kept = answer_bodies(bodies, 2, "--ignore-eos --chat-template think.jinja --keep-thinking");
    const json_t *message = json_object_get(choice_of(lines, 0), "message");
    ck_assert(json_is_null(json_object_get(message, "content")));
    ck_assert_str_eq(json_string_value(json_object_get(message, "reasoning_content")), text_of(kept, 0));
    message = json_object_get(choice_of(lines, 1), "message");
    ck_assert_ptr_null(json_object_get(message, "reasoning_content"));
    ck_assert_str_eq(text_of(lines, 3), text_of(lines, 2));
    ck_assert_str_eq(text_of(lines, 4), text_of(lines, 2));
    check_failure(lines, 5, "must have the texts 'role' and 'content'");
    program_file("begun.json", "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
                               "\"<think>ab\"}]");
    for (int ranks = 1; ranks <= 2; ranks++) {
        program_result r = {0};
        program_run(&r, ranks,
                    "generate -m tiny.h5 --chat-template think.jinja --messages begun.json --continue-final-message "
                    "-n 6 --ignore-eos --deterministic --threads 1 --json -q");
        program_exits(&r, 0);
        json_t *alone = json_loads(r.out.data, 0, NULL);
        ck_assert_str_eq(json_string_value(json_object_get(alone, "text")), "");
        ck_assert_str_eq(json_string_value(json_object_get(alone, "reasoning_content")), text_of(kept, 0));
        ck_assert_ptr_nonnull(strstr(r.err.data, "ends within its thoughts"));
        json_decref(alone);
        program_clear(&r);
    }
    json_decref(lines);
    json_decref(kept);
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
    char fits[LONG + 200], never[LONG + 200];
    snprintf(fits, sizeof fits, "{\"prompt\": \"%s\", \"max_tokens\": 8, \"truncate_prompt_tokens\": -1}", text);
    snprintf(never, sizeof never, "{\"prompt\": \"%s\", \"max_tokens\": 5000, \"truncate_prompt_tokens\": -1}", text);
    const char *const bodies[] = {completion, chat, last, fits, never, NULL};
    program_result r = {0};
    json_t *lines = answer_bodies(bodies, 1, "");
    check_failure(lines, 0, "longer than the 4096 positions of the model");
    ck_assert_int_eq(prompt_tokens(lines, 2), 10);
    ck_assert_int_eq(truncated_tokens(lines, 2), LONG - 10);
    ck_assert_int_eq(prompt_tokens(lines, 3), POSITIONS - 8);
    check_failure(lines, 4, "longer than the 4096 positions of the model");
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

/* Of a tokenizer that puts <|im_start|>, 256, before a text: vLLM truncates the text, and adds that token then. */
START_TEST(test_truncation_keeps_the_first_token_that_the_tokenizer_adds)
{
    static const char *const bodies[] = {
        "{\"prompt\": \"It was\", \"max_tokens\": 5, \"truncate_prompt_tokens\": 4, \"echo\": true}",
        "{\"prompt\": \"was\", \"max_tokens\": 5, \"echo\": true}",
        "{\"prompt\": [256, 73, 116, 32, 119, 97, 115], \"max_tokens\": 5, \"truncate_prompt_tokens\": 3}",
        "{\"prompt\": [119, 97, 115], \"max_tokens\": 5}",
        "{\"prompt\": \"It was\", \"max_tokens\": 5, \"truncate_prompt_tokens\": 7}",
        "{\"prompt\": \"It was\", \"max_tokens\": 5}",
        "{\"prompt\": \"It was\", \"max_tokens\": 5, \"truncate_prompt_tokens\": 1}",
        NULL};
    program_result r = {0};
    program_run(&r, 1,
                "--version > v && cp -r tiny first && echo '{\"bos_token\": \"<|im_start|>\", \"add_bos_token\": "
                "true}' > first/tokenizer_config.json && " LONGHAUL " import first -o first.h5 -q");
    program_exits(&r, 0);
    json_t *lines = answer_bodies(bodies, 1, "--ignore-eos -m first.h5");
    for (size_t i = 0; i < 6; i += 2) {
        ck_assert_str_eq(text_of(lines, i), text_of(lines, i + 1));
        ck_assert_int_eq(prompt_tokens(lines, i), prompt_tokens(lines, i + 1));
    }
    ck_assert_int_eq(truncated_tokens(lines, 0), 3);
    ck_assert_int_eq(prompt_tokens(lines, 6), 1);
    json_t *other = answer_bodies(bodies, 3, "--ignore-eos -m first.h5");
    ck_assert(json_equal(other, lines));
    json_decref(other);
    json_decref(lines);
    program_clear(&r);
}
END_TEST

/* Advice that was followed, or does not apply, is not given. */
START_TEST(test_a_prompt_without_room_is_refused)
{
    enum { LONG = 4200 };
    char text[LONG + 1], last[LONG + 100];
    memset(text, 'a', LONG);
    text[LONG] = '\0';
    snprintf(last, sizeof last, "{\"prompt\": \"%s\", \"max_tokens\": 8, \"truncate_prompt_tokens\": 4100}", text);
    const char *const bodies[] = {
        "{\"prompt\": [65, 66, 67], \"max_tokens\": 4096}", "{\"prompt\": \"abc\", \"max_tokens\": 5000}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 5000}", last, NULL};
    json_t *lines = answer_bodies(bodies, 1, "--truncate start");
    for (size_t i = 0; i < 3; i++) check_failure(lines, i, "no room for a prompt is left in the positions");
    check_failure(lines, 3, "of the model: shorten the prompt, or generate less");
    json_decref(lines);
    lines = answer_bodies(bodies, 1, "");
    check_failure(lines, 0, "of the model: shorten the prompt ('--truncate' does), or generate less");
    check_failure(lines, 3, "of the model: shorten the prompt, or generate less");
    json_decref(lines);
    program_refuses(1, 2, "no room for a prompt is left", "generate -m tiny.h5 -p abc -n 4096 --truncate end");
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

/* The first choice is the answer of a request with one; the others are draws of their own from one prefill. */
START_TEST(test_a_request_has_several_answers)
{
    static const char *const policies[] = {"", "--budget 24", "--policy h2o --budget 16",
                                           "--policy snapkv --budget 50%"};
    static const char *const bodies[] = {
        "{\"prompt\": \"It was the best of times, it was the worst\", \"max_tokens\": 9, \"temperature\": 1.2, "
        "\"seed\": 5, \"logprobs\": 2}",
        "{\"prompt\": \"It was the best of times, it was the worst\", \"max_tokens\": 9, \"temperature\": 1.2, "
        "\"seed\": 5, \"logprobs\": 2, \"n\": 5}",
        HI ", \"n\": 2}",
        "{\"prompt\": \"Who\", \"max_tokens\": 3}",
        HI ", \"n\": 20, \"temperature\": 2}",
        NULL};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        char options[128];
        snprintf(options, sizeof options, "--ignore-eos %s", policies[p]);
        json_t *lines = answer_bodies(bodies, 1, options);
        json_t *choices = json_object_get(body_of(lines, 1), "choices");
        ck_assert_int_eq(json_array_size(choices), 5);
        ck_assert(json_equal(json_array_get(choices, 0), choice_of(lines, 0)));
        int others = 0;
        for (size_t i = 0; i < 5; i++) {
            json_t *choice = json_array_get(choices, i);
            ck_assert_int_eq(json_integer_value(json_object_get(choice, "index")), (json_int_t)i);
            others += !json_equal(json_object_get(choice, "text"), json_object_get(choice_of(lines, 0), "text"));
        }
        ck_assert_int_eq(others, 4);
        const json_t *one = json_array_get(lines, 0), *all = json_array_get(lines, 1);
        ck_assert(json_equal(json_object_get(one, "kv"), json_object_get(all, "kv")));
        const json_t *usage = json_object_get(all, "usage");
        ck_assert(json_equal(json_object_get(usage, "prompt_tokens"),
                             json_object_get(json_object_get(one, "usage"), "prompt_tokens")));
        ck_assert_int_eq(json_integer_value(json_object_get(usage, "completion_tokens")), 45);
        ck_assert_ptr_null(json_object_get(usage, "prompt_tokens_details"));
        choices = json_object_get(body_of(lines, 2), "choices"); /* greedy: the same twice */
        ck_assert(json_equal(json_object_get(json_array_get(choices, 0), "message"),
                             json_object_get(json_array_get(choices, 1), "message")));
        ck_assert_ptr_nonnull(text_of(lines, 4));
        ck_assert_int_eq(json_array_size(json_object_get(body_of(lines, 4), "choices")), 20);
        check_ranks(bodies, lines, options);
        if (p == 1) { /* replicas */
            json_t *other = answer_bodies(bodies, 4, "--ignore-eos --budget 24 --tp 2 --batch 2");
            ck_assert(json_equal(other, lines));
            json_decref(other);
        }
        json_decref(lines);
    }
}
END_TEST

/* A run that ended has a line of all answers of a request, or none. */
START_TEST(test_several_answers_are_resumed)
{
    static const char *const bodies[] = {HI ", \"n\": 3, \"temperature\": 2}",
                                         HI ", \"n\": 4, \"temperature\": 2, \"seed\": 1}",
                                         HI ", \"n\": 2, \"temperature\": 2, \"seed\": 2}", NULL};
    program_result r = {0};
    json_t *lines = answer_bodies(bodies, 1, "--ignore-eos");
    program_run(&r, 1,
                "--version; cp out.jsonl whole.jsonl; head -n 1 whole.jsonl > out.jsonl; head -c 300 whole.jsonl >> "
                "out.jsonl; rm -f out.jsonl.state");
    program_run(&r, 2, BATCH " -o out.jsonl --ignore-eos --resume");
    program_exits(&r, 0);
    program_run(&r, 1, "merge out.jsonl -o - -q | cmp - whole.jsonl");
    program_exits(&r, 0);
    json_decref(lines);
    program_clear(&r);
}
END_TEST

static const json_t *logprobs_of(const json_t *lines, size_t i, const char *name)
{
    return json_object_get(json_object_get(choice_of(lines, i), "logprobs"), name);
}

/* The tokens of a prompt with their log-probabilities, as lm-eval asks for them: equal to those of the same tokens in
 * an answer. */
START_TEST(test_a_prompt_is_repeated_with_its_probabilities)
{
    static const char *const first[] = {"{\"prompt\": \"It was\", \"max_tokens\": 9, \"logprobs\": 3}", NULL};
    program_result r = {0};
    json_t *lines = answer_bodies(first, 1, "--ignore-eos");
    lh_buf all = {0}, none = {0}, ids = {0};
    program_run(&r, 1, "tokenize -m tiny.h5 -p 'It was' | tr ' ' ','");
    program_exits(&r, 0);
    lh_buf_printf(&ids, "[%.*s", (int)r.out.bytes - 1, r.out.data);
    program_run(&r, 1,
                "generate -m tiny.h5 -p 'It was' --chat=off -n 9 --ignore-eos --deterministic --threads 1 --json -q");
    program_exits(&r, 0);
    json_t *alone = json_loads(r.out.data, 0, NULL);
    for (size_t t = 0; t < 9; t++)
        lh_buf_printf(&ids, ",%lld",
                      (long long)json_integer_value(json_array_get(json_object_get(alone, "token_ids"), t)));
    json_decref(alone);
    lh_buf_printf(&all, "{\"prompt\": %s], \"max_tokens\": 0, \"echo\": true, \"logprobs\": 3}", ids.data);
    lh_buf_printf(&none, "{\"prompt\": %s], \"max_tokens\": 2, \"echo\": true}", ids.data);
    const char *const bodies[] = {
        all.data,
        none.data,
        "{\"prompt\": \"It was\", \"max_tokens\": 9, \"logprobs\": 3, \"echo\": true}",
        "{\"prompt\": \"It was\", \"max_tokens\": 9, \"logprobs\": 3, \"echo\": true, \"n\": 2}",
        "{\"prompt\": \"I\", \"max_tokens\": 0, \"logprobs\": 0, \"echo\": true}",
        "{\"prompt\": \"It was\", \"max_tokens\": 0}",
        "{\"prompt\": \"It was\", \"max_tokens\": 0, \"echo\": true, \"n\": 2}",
        NULL};
    json_t *echo = answer_bodies(bodies, 1, "--ignore-eos --budget 4");
    const json_t *was = logprobs_of(lines, 0, "token_logprobs"), *is = logprobs_of(echo, 0, "token_logprobs");
    ck_assert_int_eq(json_array_size(is), 6 + 9);
    ck_assert(json_is_null(json_array_get(is, 0)));
    ck_assert(json_is_null(json_array_get(logprobs_of(echo, 0, "top_logprobs"), 0)));
    ck_assert_int_eq(json_object_size(json_array_get(logprobs_of(echo, 0, "top_logprobs"), 1)), 3);
    for (size_t t = 0; t < 9; t++)
        ck_assert_double_eq_tol(json_number_value(json_array_get(is, 6 + t)), json_number_value(json_array_get(was, t)),
                                1e-5);
    ck_assert_int_eq(
        json_integer_value(json_object_get(json_object_get(body_of(echo, 0), "usage"), "completion_tokens")), 0);
    ck_assert(json_is_null(json_object_get(choice_of(echo, 1), "logprobs")));
    ck_assert_int_eq(strncmp(text_of(echo, 0), "It was", 6), 0);
    ck_assert_int_eq(strncmp(text_of(echo, 2), "It was", 6), 0);
    ck_assert_int_eq(json_array_size(logprobs_of(echo, 2, "tokens")), 15);
    const json_t *offsets = logprobs_of(echo, 2, "text_offset");
    for (size_t t = 0; t < 7; t++) ck_assert_int_eq(json_integer_value(json_array_get(offsets, t)), (json_int_t)t);
    ck_assert(json_equal(choice_of(echo, 2), choice_of(echo, 3)));
    ck_assert_int_eq(json_array_size(logprobs_of(echo, 4, "token_logprobs")), 1);
    check_failure(echo, 5, "'max_tokens' is 0, which asks for nothing without 'echo'");
    check_failure(echo, 6, "'max_tokens' is 0, which asks for nothing that 'n' could give");
    check_ranks(bodies, echo, "--ignore-eos --budget 4");
    json_decref(lines);
    json_decref(echo);
    lh_buf_clear(&all);
    lh_buf_clear(&none);
    lh_buf_clear(&ids);
    program_clear(&r);
}
END_TEST

START_TEST(test_special_tokens_and_defaults)
{
    static const char *const bodies[] = {
        "{\"prompt\": \"It was\", \"max_tokens\": 4, \"logit_bias\": {\"256\": 100}}",
        "{\"prompt\": \"It was\", \"max_tokens\": 4, \"logit_bias\": {\"256\": 100}, \"skip_special_tokens\": false}",
        "{\"prompt\": \"It was\", \"max_tokens\": 9, \"top_p\": 0.9, \"seed\": 1}",
        "{\"prompt\": \"It was\", \"max_tokens\": 9, \"top_p\": 0.9, \"seed\": 1, \"temperature\": 1}",
        "{\"prompt\": \"It was\", \"max_tokens\": 9, \"top_p\": 0.9, \"seed\": 1, \"temperature\": 0}",
        NULL};
    program_result r = {0};
    json_t *lines = answer_bodies(bodies, 1, "--ignore-eos --openai-defaults");
    ck_assert_str_eq(text_of(lines, 0), "");
    ck_assert_int_eq(strncmp(text_of(lines, 1), "<|im_", 5), 0);
    ck_assert_str_eq(text_of(lines, 2), text_of(lines, 3));
    ck_assert_str_ne(text_of(lines, 2), text_of(lines, 4));
    check_ranks(bodies, lines, "--ignore-eos --openai-defaults");
    json_decref(lines);
    /* what a check finds, as data */
    write_bodies(bodies);
    program_run(&r, 2, BATCH " --check --json --ignore-eos");
    program_exits(&r, 1);
    json_t *found = json_loads(r.out.data, 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(found, "requests")), 5);
    const json_t *refusals = json_object_get(found, "refusals"), *first = json_array_get(refusals, 0);
    ck_assert_int_eq(json_array_size(refusals), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(first, "line")), 3);
    ck_assert_str_eq(json_string_value(json_object_get(first, "custom_id")), "c2");
    ck_assert_str_eq(json_string_value(json_object_get(first, "code")), "invalid_request");
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(first, "message")), "'top_p' has no effect"));
    ck_assert(json_number_value(json_object_get(found, "seconds")) > 0);
    ck_assert(json_integer_value(json_object_get(found, "memory_bytes")) > 0);
    json_decref(found);
    program_refuses(1, 2, "give '--check', too", BATCH " -o x.jsonl --json");
    program_clear(&r);
}
END_TEST

int main(void)
{
    return tiny_suite_run(
        "members", (const TTest *const[]){test_variables_of_the_template, test_thoughts_are_no_content,
                                          test_an_answer_without_content_is_a_message, test_prompts_are_truncated,
                                          test_truncation_keeps_the_first_token_that_the_tokenizer_adds,
                                          test_a_prompt_without_room_is_refused, test_biases_penalties_and_ends,
                                          test_a_request_has_several_answers, test_several_answers_are_resumed,
                                          test_a_prompt_is_repeated_with_its_probabilities,
                                          test_special_tokens_and_defaults, NULL});
}
