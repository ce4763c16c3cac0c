/* Requests: what is read of a line, and what is said of one that cannot be answered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy_parts.h"
#include "rig.h"
#include "suite.h"

static lh_batch_input *input;
static lh_batch_request request;
static const lh_batch_defaults defaults = {.max_new = 16, .sampling = {.seed = 5}};

/* After a good line, without which the file as a whole may be refused. */
static lh_status read_bytes(const char *line, int64_t bytes)
{
    lh_buf text = {0};
    OK(lh_buf_puts(&text, "{\"custom_id\":\"first\"}\n"));
    OK(lh_buf_append(&text, line, bytes));
    rig_file("in.jsonl", text.data, text.bytes);
    lh_buf_clear(&text);
    OK(lh_batch_input_open(&input, "in.jsonl"));
    return lh_batch_request_read(&request, lh_batch_input_line(input, lh_batch_input_count(input) - 1), &defaults);
}

static lh_status read_line(const char *line)
{
    return read_bytes(line, (int64_t)strlen(line));
}

static void forget(void)
{
    lh_batch_request_clear(&request);
    lh_batch_input_close(input);
    input = NULL;
}

/* A completion with these members of the body, after its prompt; and with these of the line, after its body. */
static lh_status read_completion(const char *body, const char *line)
{
    char text[4096];
    snprintf(text, sizeof text,
             "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"Hi\"%s}%s}",
             body, line);
    return read_line(text);
}

static lh_status read_chat(const char *body)
{
    char text[4096];
    snprintf(
        text, sizeof text,
        "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":"
        "\"user\",\"content\":\"Hi\"}]%s}}",
        body);
    return read_line(text);
}

START_TEST(test_a_completion_is_read)
{
    rig_enter();
    OK(read_completion(
        ",\"model\":\"m\",\"max_tokens\":3,\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.1,"
        "\"repeat_penalty\":1.5,\"seed\":-2,\"stop\":[\"a\",\"b\"],\"logprobs\":5,\"ignore_eos\":true,"
        "\"user\":\"u\",\"n\":1,\"stream\":false,\"presence_penalty\":0.0,\"logit_bias\":{},\"echo\":null",
        ",\"context_id\":\"book\",\"context_file\":\"books/a..b/.x\",\"policy\":\"snapkv\""));
    ck_assert_int_eq(request.api, LH_BATCH_COMPLETION);
    ck_assert_str_eq(request.line->custom_id, "c");
    ck_assert_int_eq(request.line->number, 2);
    ck_assert_str_eq(request.model, "m");
    ck_assert_str_eq(request.prompt, "Hi");
    ck_assert_int_eq(request.max_new, 3);
    const lh_sampling *s = &request.sampling;
    ck_assert(s->temperature == 0.5 && s->top_p == 0.9 && s->top_k == 40 && s->min_p == 0.1 &&
              s->repeat_penalty == 1.5);
    ck_assert(s->seed == (uint64_t)-2 && s->request == 0 && request.ignore_eos);
    ck_assert_int_eq(request.stop_count, 2);
    ck_assert_str_eq(request.stops[1], "b");
    ck_assert_int_eq(request.logprobs, 5);
    ck_assert_str_eq(request.context_id, "book");
    ck_assert_str_eq(request.context_file, "books/a..b/.x");
    ck_assert_str_eq(request.policy.policy, "snapkv");
    forget();
    OK(read_completion("", ""));
    ck_assert(request.max_new == 16 && request.sampling.seed == 5 && request.sampling.request == request.line->hash);
    ck_assert(request.logprobs == -1 && request.stop_count == 0 && !request.model && !request.ignore_eos);
    ck_assert(!request.policy.policy && !request.policy.budget && !request.context_id);
    forget();
    rig_leave();
}
END_TEST

START_TEST(test_a_chat_is_read)
{
    rig_enter();
    OK(read_chat(",\"max_completion_tokens\":9,\"logprobs\":true,\"top_logprobs\":3,\"tools\":[],\"stop\":\"end\","
                 "\"response_format\":{\"type\":\"text\"},\"store\":true,\"metadata\":{\"a\":\"b\"}"));
    ck_assert_int_eq(request.api, LH_BATCH_CHAT);
    ck_assert_int_eq(request.messages.n, 1);
    ck_assert_str_eq(request.messages.at[0].content, "Hi");
    ck_assert(request.max_new == 9 && request.logprobs == 3 && request.stop_count == 1);
    forget();
    OK(read_chat(",\"logprobs\":true"));
    ck_assert_int_eq(request.logprobs, 0);
    forget();
    OK(read_line(
        "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{"
        "\"role\":\"system\",\"content\":\"be brief\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"one \"},{\"type\":\"text\",\"text\":\"two\",\"cache_control\":{\"type\":\"ephemeral\"}}]}]}}"));
    ck_assert_int_eq(request.messages.n, 2);
    ck_assert_str_eq(request.messages.at[1].content, "one \ntwo"); /* parts are joined by line feeds */
    forget();
    rig_leave();
}
END_TEST

START_TEST(test_prompts_come_as_text_or_ids)
{
    static const struct {
        const char *prompt, *text;
        int64_t ids;
    } cases[] = {{"\"Hi\"", "Hi", 0}, {"[1,2,3]", NULL, 3}, {"[\"one\"]", "one", 0}, {"[[7,8]]", NULL, 2}};
    char line[256];
    rig_enter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line,
                 "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":%s}}",
                 cases[i].prompt);
        OK(read_line(line));
        ck_assert_pstr_eq(request.prompt, cases[i].text);
        ck_assert_int_eq(request.ids.n, cases[i].ids);
        forget();
    }
    rig_leave();
}
END_TEST

/* A temperature of 0 takes the most likely token; what is to be drawn from matters no more. */
START_TEST(test_greedy_requests_draw_from_nothing)
{
    rig_enter();
    OK(read_completion(",\"temperature\":0,\"top_p\":0.9,\"top_k\":3,\"min_p\":0.5", ""));
    ck_assert(request.sampling.top_p == 1 && request.sampling.top_k == 0 && request.sampling.min_p == 0);
    forget();
    OK(read_completion(",\"top_p\":1,\"top_k\":-1", "")); /* both off */
    forget();
    FAILS(read_completion(",\"top_p\":0.9", ""), LH_EINPUT, "'top_p' has no effect without 'temperature'");
    forget();
    rig_leave();
}
END_TEST

/* As on the command line: names with dashes or underscores, values as texts or numbers. */
START_TEST(test_a_policy_is_a_name_or_options)
{
    rig_enter();
    OK(read_completion("",
                       ",\"policy\":{\"policy\":\"ada-snapkv\",\"budget\":\"20%\",\"pool_size\":31,\"pool-size\":33,"
                       "\"alpha\":0.2,\"gain\":true,\"head_budget\":\"uniform\",\"window\":\"64\"}"));
    ck_assert_str_eq(request.policy.policy, "ada-snapkv");
    ck_assert_str_eq(request.policy.budget, "20%");
    ck_assert_str_eq(request.policy.parts.pool_size, "33");
    ck_assert_str_eq(part_text(&request.policy.parts, "alpha"), "0.2");
    ck_assert_str_eq(part_text(&request.policy.parts, "gain"), "on");
    ck_assert_str_eq(request.policy.parts.window, "64");
    forget();
    static const struct {
        const char *policy, *part;
    } bad[] = {{"7", "a name, or an object"},
               {"{\"pol\":\"x\"}", "no option 'pol'"},
               {"{\"head-budget\":\"/etc/passwd\"}", "a request names no files"},
               {"{\"window\":[1]}", "must be a string, a number"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char member[128];
        snprintf(member, sizeof member, ",\"policy\":%s", bad[i].policy);
        FAILS(read_completion("", member), LH_EINPUT, bad[i].part);
        forget();
    }
    rig_leave();
}
END_TEST

START_TEST(test_what_is_not_supported_is_refused_by_name)
{
    static const struct {
        const char *body, *part;
    } completions[] = {
        {",\"n\":1000000", "'n' must be an integer between 1 and 128"},
        {",\"n\":0", "'n' must be an integer between 1 and 128"},
        {",\"best_of\":3", "'best_of'"},
        {",\"stream\":true", "'stream'"},
        {",\"echo\":1", "'echo' must be true or false"},
        {",\"suffix\":\"x\"", "'suffix'"},
        {",\"logit_bias\":{\"50256\":-101}", "'logit_bias': the bias of token 50256 must be a number between -100"},
        {",\"logit_bias\":{\"the\":1}", "'logit_bias' names 'the', which is no token id"},
        {",\"logit_bias\":{\"-1\":1}", "which is no token id"},
        {",\"logit_bias\":{\"01\":1}", "which is no token id"},
        {",\"logit_bias\":{\"99999999999\":1}", "which is no token id"},
        {",\"logit_bias\":[1]", "'logit_bias' must be an object of token ids"},
        {",\"presence_penalty\":2.5", "'presence_penalty' must be a number between -2 and 2"},
        {",\"frequency_penalty\":-3", "'frequency_penalty' must be a number between -2 and 2"},
        {",\"stop_token_ids\":[1,\"2\"]", "'stop_token_ids': element 1 is no token id"},
        {",\"stop_token_ids\":[-1]", "'stop_token_ids': element 0 is no token id"},
        {",\"min_tokens\":17", "'min_tokens' is 17, more than the 16 tokens that the answer may have"},
        {",\"min_tokens\":-1", "'min_tokens' must be an integer between 0 and"},
        {",\"max_tokens\":0", "'max_tokens' is 0, which asks for nothing without 'echo'"},
        {",\"max_tokens\":\"9\"", "'max_tokens' must be an integer"},
        {",\"max_tokens\":1.5", "'max_tokens' must be an integer"},
        {",\"max_tokens\":99999999999999999999", "too big integer"},
        {",\"temperature\":-0.1", "'temperature' must be a number between 0 and 100"},
        {",\"top_p\":0,\"temperature\":1", "'top_p'"},
        {",\"seed\":\"x\"", "'seed' must be an integer"},
        {",\"stop\":[\"a\",\"\"]", "'stop' holds an empty text"},
        {",\"stop\":7", "'stop' must be a string"},
        {",\"logprobs\":21", "'logprobs' must be an integer between 0 and 20"},
        {",\"logprobs\":true", "'logprobs' must be an integer"},
        {",\"temprature\":1", "unknown member 'temprature', did you mean 'temperature'?"},
        {",\"messages\":[]", "has 'messages', which a completion does not have"},
        {",\"guided_json\":{}", "unknown member 'guided_json'"},
    };
    static const struct {
        const char *body, *part;
    } chats[] = {
        {",\"tools\":[{\"type\":\"function\"}]", "'tools'"},
        {",\"response_format\":{\"type\":\"json_object\"}", "'response_format'"},
        {",\"modalities\":[\"text\",\"audio\"]", "'modalities'"},
        {",\"top_logprobs\":3", "'top_logprobs' needs 'logprobs'"},
        {",\"logprobs\":3", "'logprobs' must be true or false"},
        {",\"max_tokens\":3,\"max_completion_tokens\":4", "are the same number"},
        {",\"reasoning_effort\":3", "'reasoning_effort' must be a string"},
        {",\"prompt\":\"x\"", "which a chat completion does not have"},
    };
    rig_enter();
    for (size_t i = 0; i < sizeof completions / sizeof *completions; i++) {
        FAILS(read_completion(completions[i].body, ""), LH_EINPUT, completions[i].part);
        forget();
    }
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        FAILS(read_chat(chats[i].body), LH_EINPUT, chats[i].part);
        forget();
    }
    rig_leave();
}
END_TEST

START_TEST(test_lines_that_are_no_requests_say_why)
{
#define LINE(id, method, url, body) "{\"custom_id\":" id ",\"method\":" method ",\"url\":" url ",\"body\":" body "}"
#define COMPLETION(body) LINE("\"c\"", "\"POST\"", "\"/v1/completions\"", body)
#define CHAT(body) LINE("\"c\"", "\"POST\"", "\"/v1/chat/completions\"", body)
    static const struct {
        const char *line, *part;
    } cases[] = {
        {"{\"custom_id\":", "is not a JSON value"},
        {"[]", "not a JSON object"},
        {"7", "not a JSON object"},
        {"{\"custom_id\":\"c\xE4\"}", "is not a JSON value"},
        {COMPLETION("{\"prompt\":\"\xFF\"}"), "is not a JSON value"},
        {LINE("null", "\"POST\"", "\"/v1/completions\"", "{}"), "the line has no 'custom_id'"},
        {LINE("7", "\"POST\"", "\"/v1/completions\"", "{}"), "'custom_id' must be a string"},
        {LINE("\"\"", "\"POST\"", "\"/v1/completions\"", "{}"), "'custom_id' is empty"},
        {LINE("\"a\\u0000b\"", "\"POST\"", "\"/v1/completions\"", "{}"), "zero byte"},
        {LINE("\"c\"", "\"GET\"", "\"/v1/completions\"", "{}"), "'method' is \"GET\""},
        {LINE("\"c\"", "\"POST\"", "\"/v1/embeddings\"", "{}"), "'url' is '/v1/embeddings'"},
        {LINE("\"c\"", "\"POST\"", "\"/v1/completions\"", "[]"), "'body' must be an object"},
        {"{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/completions\"}", "the line has no 'body'"},
        {"{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{},\"context\":1}",
         "the line has the unknown member 'context'"},
        {COMPLETION("{}"), "'body' has no 'prompt'"},
        {COMPLETION("{\"prompt\":\"a\",\"prompt\":\"b\"}"), "duplicate object key"},
        {COMPLETION("{\"prompt\":\"\"}"), "'prompt' is empty"},
        {COMPLETION("{\"prompt\":[]}"), "'prompt' is empty"},
        {COMPLETION("{\"prompt\":\"a\\u0000\"}"), "zero byte"},
        {COMPLETION("{\"prompt\":[1,-2]}"), "element 1 is no token id"},
        {COMPLETION("{\"prompt\":[1,3000000000]}"), "element 1 is no token id"},
        {COMPLETION("{\"prompt\":[\"a\",\"b\"]}"), "holds 2 prompts"},
        {COMPLETION("{\"prompt\":{}}"), "'prompt' must be a string"},
        {CHAT("{}"), "'body' has no 'messages'"},
        {CHAT("{\"messages\":[]}"), "'messages' holds no message"},
        {CHAT("{\"messages\":[{\"role\":\"user\"}]}"), "'messages': message 0"},
        {CHAT("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}"), "'image_url'"},
        {CHAT("{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{}]}]}"), "'tool_calls'"},
    };
    rig_enter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FAILS(read_line(cases[i].line), LH_EINPUT, cases[i].part);
        ck_assert_ptr_null(strchr(lh_error_message(), '\n'));
        forget();
    }
    FAILS(read_line(COMPLETION("{\"prompt\":\"a\"}") "\n\n" COMPLETION("{\"prompt\":\"b\"}")), LH_EINPUT,
          "the 'custom_id' is that of line 2, too");
    forget();
    static const char *const files[] = {"/etc/passwd", "../x", "a/../../x", "a/..", ""};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char member[64];
        snprintf(member, sizeof member, ",\"context_file\":\"%s\"", files[i]);
        FAILS(read_completion("", member), LH_EINPUT, "'context_file'");
        forget();
    }
    rig_leave();
}
END_TEST

/* As an answer that is copied back has them: empty ones change nothing, texts reach the template, the others are
 * refused by name. */
START_TEST(test_no_member_of_a_message_is_dropped)
{
    static const struct {
        const char *members, *part; /* of the refusal; NULL: read */
    } cases[] = {
        {"\"tool_calls\":[],\"function_call\":null,\"images\":[],\"audio\":null,\"refusal\":\"\",\"annotations\":[],"
         "\"prefix\":false,\"reasoning\":null",
         NULL},
        {"\"tool_calls\":[{}]", "message 0 has 'tool_calls', which is not rendered: put it into words in 'content'"},
        {"\"function_call\":{\"name\":\"f\"}", "message 0 has 'function_call'"},
        {"\"images\":[\"aGk=\"]", "message 0 has 'images', which is not rendered: the model reads text alone"},
        {"\"audio\":{\"id\":\"a\"}", "message 0 has 'audio'"},
        {"\"refusal\":\"No.\"", "message 0 has 'refusal'"},
        {"\"thinking\":\"Hm.\"", "message 0 has 'thinking', which is not rendered: templates read 'reasoning_content'"},
        {"\"prefix\":true", "message 0 has 'prefix'"},
        {"\"name\":7", "message 0: 'name' must be a string"},
        {"\"name\":\"a\\u0000b\"", "message 0: 'name' holds a zero byte"},
        {"\"picture\":null", "message 0 has the unknown member 'picture'"},
        {"\"nane\":\"x\"", "message 0 has the unknown member 'nane', did you mean 'name'?"},
    };
    static const char parts[] = CHAT("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                                     "\"a\",\"image\":\"b\"}]}]}");
    char line[512];
    rig_enter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, CHAT("{\"messages\":[{\"role\":\"assistant\",\"content\":\"Hi\",%s}]}"),
                 cases[i].members);
        if (cases[i].part)
            FAILS(read_line(line), LH_EINPUT, cases[i].part);
        else
            OK(read_line(line));
        forget();
    }
    FAILS(read_line(parts), LH_EINPUT, "message 0 has the unknown member 'image'");
    forget();
    OK(read_line(CHAT("{\"messages\":[{\"role\":\"tool\",\"content\":\"Hi\",\"tool_call_id\":\"7\",\"name\":\"f\","
                      "\"reasoning_content\":\"So.\"}]}")));
    for (int k = 0; k < LH_MESSAGE_MEMBERS; k++) {
        const char *want = strcmp(lh_message_members[k], "name") == 0           ? "f"
                           : strcmp(lh_message_members[k], "tool_call_id") == 0 ? "7"
                                                                                : "So.";
        ck_assert_str_eq(request.messages.at[0].members[k], want);
    }
    forget();
    rig_leave();
}
END_TEST

/* Hostile ones: brackets without end, a line that is too long, a name that is. */
START_TEST(test_enormous_lines_fail_alone)
{
    enum { DEPTH = 100000 };
    lh_buf text = {0};
    rig_enter();
    OK(lh_buf_puts(&text, "{\"custom_id\":\"deep\",\"body\":"));
    for (int i = 0; i < DEPTH; i++) OK(lh_buf_puts(&text, "["));
    FAILS(read_bytes(text.data, text.bytes), LH_EINPUT, "depth");
    forget();
    text.bytes = 0;
    OK(lh_buf_puts(&text, "{\"custom_id\":\""));
    for (int i = 0; i <= LH_BATCH_ID_BYTES; i++) OK(lh_buf_puts(&text, "i"));
    OK(lh_buf_puts(&text, "\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"a\"}}"));
    FAILS(read_bytes(text.data, text.bytes), LH_EINPUT, "'custom_id' has 513 bytes");
    forget();
    text.bytes = 0;
    OK(lh_buf_puts(&text,
                   "{\"custom_id\":\"long\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\""));
    char *words = malloc(LH_BATCH_LINE_BYTES);
    memset(words, 'w', LH_BATCH_LINE_BYTES);
    OK(lh_buf_append(&text, words, LH_BATCH_LINE_BYTES));
    OK(lh_buf_puts(&text, "\"}}"));
    FAILS(read_bytes(text.data, text.bytes), LH_EINPUT, "more than the 67108864");
    ck_assert_ptr_null(request.line->custom_id);
    forget();
    free(words);
    lh_buf_clear(&text);
    rig_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_completion_is_read,
                                  test_a_chat_is_read,
                                  test_prompts_come_as_text_or_ids,
                                  test_greedy_requests_draw_from_nothing,
                                  test_a_policy_is_a_name_or_options,
                                  test_what_is_not_supported_is_refused_by_name,
                                  test_lines_that_are_no_requests_say_why,
                                  test_no_member_of_a_message_is_dropped,
                                  test_enormous_lines_fail_alone,
                                  NULL};
    return suite_run("batch request", tests);
}
