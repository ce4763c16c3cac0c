/* Lines of an output: members and types as OpenAI's, and the same bytes for the same answer.
 * tools/check_batch_output.py compares such lines with the models of the openai package. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "rig.h"
#include "suite.h"

/* A line as JSON; what a path such as "response.body.choices.0.text" leads to. */
static json_t *parse(const lh_buf *line)
{
    json_t *json = NULL;
    ck_assert_int_eq(line->data[line->bytes - 1], '\n');
    OK(lh_json_parse_line(&json, "the line", line->data, line->bytes - 1));
    return json;
}

static const json_t *at(const json_t *json, const char *path)
{
    for (const char *p = path; *p && json;) {
        char step[64];
        const size_t n = strcspn(p, ".");
        memcpy(step, p, n);
        step[n] = '\0';
        json = json_is_array(json) ? json_array_get(json, (size_t)atoi(step)) : json_object_get(json, step);
        p += n + (p[n] == '.');
    }
    ck_assert_msg(json != NULL, "there is no %s", path);
    return json;
}

static void is_text(const json_t *json, const char *path, const char *want)
{
    ck_assert_pstr_eq(json_string_value(at(json, path)), want);
}

static void is_number(const json_t *json, const char *path, double want)
{
    ck_assert_msg(fabs(json_number_value(at(json, path)) - want) < 1e-8, "%s is %.9g", path,
                  json_number_value(at(json, path)));
}

static const lh_batch_defaults defaults = {.max_new = 16};

static void read_request(lh_batch_input **input, lh_batch_request *request, const char *url, const char *body)
{
    lh_buf line = {0};
    OK(lh_buf_printf(&line, "\n{\"custom_id\":\"k\xC3\xB6ln\",\"method\":\"POST\",\"url\":\"%s\",\"body\":%s}\n", url,
                     body));
    rig_file("in.jsonl", line.data, line.bytes);
    OK(lh_batch_input_open(input, "in.jsonl"));
    OK(lh_batch_request_read(request, lh_batch_input_line(*input, 0), &defaults));
    lh_buf_clear(&line);
}

/* "k" and half of an "ö", with what else was likely. */
static const lh_batch_likely first_top[] = {{"k", 1, -0.25, 7}, {"\n", 1, -1.5, 8}, {"\xE2\x82", 2, -2, 9}},
                             second_top[] = {{"\xC3", 1, -INFINITY, 4}};
static const lh_batch_token tokens[] = {{{"k", 1, -0.25, 7}, first_top, 3, 0, 0},
                                        {{"\xC3", 1, (double)-INFINITY, 4}, second_top, 1, 1, 0}};

static lh_batch_choice choice;

static lh_batch_answer answer_of(lh_finish_reason finish)
{
    choice =
        (lh_batch_choice){.text = "k\xC3 \x1B[31m", .bytes = 8, .finish = finish, .tokens = tokens, .token_count = 2};
    return (lh_batch_answer){.model = "tiny",
                             .choices = &choice,
                             .choice_count = 1,
                             .prompt_tokens = 7,
                             .new_tokens = 2,
                             .kv = {.budget = 8, .entries = 70, .entries_kept = 40, .bytes = 700, .bytes_kept = 400}};
}

START_TEST(test_a_completion_is_as_openai_has_it)
{
    lh_batch_input *input;
    lh_batch_request request;
    lh_buf line = {0};
    json_t *run = rig_run();
    rig_enter();
    read_request(&input, &request, "/v1/completions", "{\"prompt\":\"Hi\",\"logprobs\":3,\"model\":\"mine\"}");
    const lh_batch_answer answer = answer_of(LH_FINISH_LENGTH);
    OK(lh_batch_answer_line(&request, &answer, run, &line));
    json_t *json = parse(&line);
    is_text(json, "custom_id", "k\xC3\xB6ln");
    is_number(json, "line", 2);
    ck_assert(json_is_null(at(json, "error")));
    is_number(json, "response.status_code", 200);
    is_text(json, "response.body.object", "text_completion");
    is_text(json, "response.body.model", "mine");
    is_number(json, "response.body.created", 0);
    is_text(json, "response.body.choices.0.text", "k\xEF\xBF\xBD \x1B[31m"); /* half a character is U+FFFD */
    is_text(json, "response.body.choices.0.finish_reason", "length");
    is_number(json, "response.body.usage.total_tokens", 9);
    is_number(json, "usage.prompt_tokens", 7);
    is_text(json, "response.body.choices.0.logprobs.tokens.0", "k");
    is_text(json, "response.body.choices.0.logprobs.tokens.1", "bytes:\\xc3");
    is_number(json, "response.body.choices.0.logprobs.token_logprobs.1", -9999);
    is_number(json, "response.body.choices.0.logprobs.text_offset.1", 1);
    is_number(json, "response.body.choices.0.logprobs.top_logprobs.0.k", -0.25);
    is_number(json, "response.body.choices.0.logprobs.top_logprobs.0.bytes:\\xe2\\x82", -2);
    is_number(json, "kv.budget", 8);
    is_number(json, "kv.entries_kept", 40);
    is_text(json, "run.model", "tiny");
    /* Nothing in a line is taken for its end or for a command by whoever shows it. */
    for (int64_t i = 0; i + 1 < line.bytes; i++) ck_assert(line.data[i] >= 0x20 && line.data[i] < 0x7F);
    json_decref(json);
    json_decref(run);
    lh_batch_request_clear(&request);
    lh_batch_input_close(input);
    lh_buf_clear(&line);
    rig_leave();
}
END_TEST

/* A piece and a byte piece of one text, ids without text, a zero byte. */
START_TEST(test_no_likely_token_is_lost_for_its_name)
{
    static const lh_batch_likely top[] = {
        {"A", 1, -1, 5}, {"A", 1, -2, 6}, {"", 0, -3, 7}, {"", 0, -4, 8}, {"\0", 1, -5, 9}};
    static const lh_batch_token token = {{"A", 1, -2, 6}, top, 5, 3, 0};
    static const char *const names[] = {"A", "bytes:\\x41", "token_id:7", "token_id:8", "bytes:\\x00"};
    lh_batch_input *input;
    lh_batch_request request;
    lh_buf line = {0};
    json_t *run = rig_run();
    rig_enter();
    read_request(&input, &request, "/v1/completions", "{\"prompt\":\"Hi\",\"logprobs\":5}");
    const lh_batch_answer answer = answer_of(LH_FINISH_LENGTH);
    choice.tokens = &token;
    choice.token_count = 1;
    OK(lh_batch_answer_line(&request, &answer, run, &line));
    json_t *json = parse(&line);
    const json_t *likely = at(json, "response.body.choices.0.logprobs.top_logprobs.0");
    ck_assert_uint_eq(json_object_size(likely), 5);
    for (int i = 0; i < 5; i++) ck_assert(json_number_value(json_object_get(likely, names[i])) == -1 - i);
    is_number(json, "response.body.choices.0.logprobs.text_offset.0", 3);
    json_decref(json);
    json_decref(run);
    lh_batch_request_clear(&request);
    lh_batch_input_close(input);
    lh_buf_clear(&line);
    rig_leave();
}
END_TEST

START_TEST(test_a_chat_completion_is_as_openai_has_it)
{
    lh_batch_input *input;
    lh_batch_request request;
    lh_buf line = {0}, again = {0};
    json_t *run = rig_run();
    rig_enter();
    read_request(&input, &request, "/v1/chat/completions",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"logprobs\":true,\"top_logprobs\":3}");
    lh_batch_answer answer = answer_of(LH_FINISH_STOP);
    answer.kv.budget = -1;
    OK(lh_batch_answer_line(&request, &answer, run, &line));
    json_t *json = parse(&line);
    is_text(json, "response.body.object", "chat.completion");
    is_text(json, "response.body.model", "tiny");
    is_text(json, "response.body.choices.0.message.role", "assistant");
    is_text(json, "response.body.choices.0.message.content", "k\xEF\xBF\xBD \x1B[31m");
    ck_assert(json_is_null(at(json, "response.body.choices.0.message.refusal")));
    is_text(json, "response.body.choices.0.finish_reason", "stop");
    is_text(json, "response.body.choices.0.logprobs.content.0.token", "k");
    is_number(json, "response.body.choices.0.logprobs.content.1.bytes.0", 0xC3);
    is_number(json, "response.body.choices.0.logprobs.content.0.top_logprobs.2.logprob", -2);
    ck_assert(json_is_null(at(json, "kv.budget")));
    OK(lh_batch_answer_line(&request, &answer, run, &again));
    ck_assert_str_eq(line.data, again.data);
    request.logprobs = -1;
    again.bytes = 0;
    OK(lh_batch_answer_line(&request, &answer, run, &again));
    json_decref(json);
    json = parse(&again);
    ck_assert(json_is_null(at(json, "response.body.choices.0.logprobs")));
    choice.finish = LH_FINISH_INTERRUPTED;
    ck_assert_int_eq(lh_batch_answer_line(&request, &answer, run, &again), LH_EINTERNAL);
    json_decref(json);
    json_decref(run);
    lh_batch_request_clear(&request);
    lh_batch_input_close(input);
    lh_buf_clear(&line);
    lh_buf_clear(&again);
    rig_leave();
}
END_TEST

START_TEST(test_a_failure_says_its_code_and_reason)
{
    static const struct {
        lh_status st;
        const char *code;
    } cases[] = {{LH_EINPUT, "invalid_request"},
                 {LH_EUSAGE, "invalid_request"},
                 {LH_ENOMEM, "out_of_memory"},
                 {LH_EINTERNAL, "internal_error"}};
    lh_batch_input *input;
    lh_buf line = {0};
    json_t *run = rig_run();
    rig_enter();
    rig_text("in.jsonl", "nonsense\n{\"custom_id\":\"a\"}\n");
    OK(lh_batch_input_open(&input, "in.jsonl"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        line.bytes = 0;
        const lh_status st = lh_fail(cases[i].st, "here", 1, "no \xE4 such \"thing\"");
        OK(lh_batch_failure_line(lh_batch_input_line(input, 0), st, run, &line));
        json_t *json = parse(&line);
        ck_assert(json_is_null(at(json, "custom_id")) && json_is_null(at(json, "response")));
        is_number(json, "line", 1);
        is_text(json, "error.code", cases[i].code);
        is_text(json, "error.message", "no ? such \"thing\"");
        ck_assert_ptr_nonnull(strstr(lh_error_message(), "such"));
        json_decref(json);
    }
    json_decref(run);
    lh_batch_input_close(input);
    lh_buf_clear(&line);
    rig_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_completion_is_as_openai_has_it, test_no_likely_token_is_lost_for_its_name,
                                  test_a_chat_completion_is_as_openai_has_it, test_a_failure_says_its_code_and_reason,
                                  NULL};
    return suite_run("batch answer", tests);
}
