/* request.c - reads requests. A member of a line, or of the body of OpenAI's completions and chat completions with the
 * sampling options of vLLM and llama.cpp, is a row of a table: it is read, ignored or refused. */
#include "batch/request.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/options.h"
#include "policies/plugin.h"
#include "text/thoughts.h"

enum { STOPS_MAX = 64, CHOICES_MAX = 128, SHOWN = 48 };

enum { IN_COMPLETION = 1 << LH_BATCH_COMPLETION, IN_CHAT = 1 << LH_BATCH_CHAT, IN_BOTH = IN_COMPLETION | IN_CHAT };

typedef struct field {
    const char *name; /* NULL ends a table */
    int apis;         /* IN_… of the APIs that have the member */
    lh_status (*read)(const struct field *field, const json_t *value, lh_batch_request *out);
    size_t at;        /* of a text or a number: offsetof in lh_batch_request */
    double low, high; /* of a number */
    const char *only; /* of an unsupported member: JSON array of the values without effect */
    const char *why;  /* and why others are refused */
    int required;
} field;

/* ---- values by their types ---- */

/* *out: a text without zero bytes. */
static lh_status read_string(const char *name, const json_t *value, const char **out)
{
    if (!json_is_string(value)) LH_FAIL(LH_EINPUT, "'%s' must be a string", name);
    if (strlen(json_string_value(value)) != json_string_length(value))
        LH_FAIL(LH_EINPUT, "'%s' holds a zero byte: it is not text", name);
    *out = json_string_value(value);
    return LH_OK;
}

static lh_status read_text(const field *f, const json_t *value, lh_batch_request *out)
{
    return read_string(f->name, value, (const char **)((char *)out + f->at));
}

static lh_status read_number(const field *f, const json_t *value, lh_batch_request *out)
{
    const double x = json_number_value(value);
    if (!json_is_number(value) || !(x >= f->low && x <= f->high))
        LH_FAIL(LH_EINPUT, "'%s' must be a number between %g and %g", f->name, f->low, f->high);
    memcpy((char *)out + f->at, &x, sizeof x);
    return LH_OK;
}

static lh_status read_count(const field *f, const json_t *value, lh_batch_request *out)
{
    const int64_t n = json_integer_value(value);
    if (!json_is_integer(value) || (double)n < f->low || (double)n > f->high)
        LH_FAIL(LH_EINPUT, "'%s' must be an integer between %.0f and %.0f", f->name, f->low, f->high);
    memcpy((char *)out + f->at, &n, sizeof n);
    return LH_OK;
}

static lh_status read_flag(const field *f, const json_t *value, lh_batch_request *out)
{
    const int is = json_is_true(value);
    if (!json_is_boolean(value)) LH_FAIL(LH_EINPUT, "'%s' must be true or false", f->name);
    memcpy((char *)out + f->at, &is, sizeof is);
    return LH_OK;
}

/* true is the default, which leaves them out. */
static lh_status read_skips_special(const field *f, const json_t *value, lh_batch_request *out)
{
    LH_TRY(read_flag(f, value, out));
    out->keeps_special = !out->keeps_special;
    return LH_OK;
}

static lh_status read_seed(const field *f, const json_t *value, lh_batch_request *out)
{
    if (!json_is_integer(value)) LH_FAIL(LH_EINPUT, "'%s' must be an integer", f->name);
    out->sampling.seed = (uint64_t)json_integer_value(value);
    return LH_OK;
}

static lh_status ignore(const field *f, const json_t *value, lh_batch_request *out)
{
    (void)f, (void)value, (void)out;
    return LH_OK;
}

static int is_same_value(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

/* A member that is not supported, and may be there with a value that changes nothing. */
static lh_status refuse(const field *f, const json_t *value, lh_batch_request *out)
{
    lh_status st = LH_OK;
    json_t *only = NULL;
    char *shown = NULL;
    (void)out;
    LH_TRY_DONE(lh_json_parse(&only, f->name, f->only, (int64_t)strlen(f->only)));
    for (size_t i = 0; i < json_array_size(only); i++)
        if (is_same_value(value, json_array_get(only, i))) goto done;
    shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    LH_FAIL_DONE(LH_EINPUT, "'%s' is %.*s%s, which is not supported: %s", f->name, SHOWN, shown ? shown : "…",
                 shown && strlen(shown) > SHOWN ? "…" : "", f->why);
done:
    json_decref(only);
    free(shown);
    return st;
}

/* ---- members of the line ---- */

static lh_status read_id(const field *f, const json_t *value, lh_batch_request *out)
{
    const char *id = NULL;
    LH_TRY(read_string(f->name, value, &id));
    if (!*id) LH_FAIL(LH_EINPUT, "'%s' is empty", f->name);
    if (!out->line->custom_id)
        LH_FAIL(LH_EINPUT, "'%s' has %zu bytes, more than %d", f->name, strlen(id), (int)LH_BATCH_ID_BYTES);
    return LH_OK;
}

static const struct {
    const char *url;
    lh_batch_api api;
} urls[] = {{"/v1/completions", LH_BATCH_COMPLETION}, {"/v1/chat/completions", LH_BATCH_CHAT}};

static lh_status read_url(const field *f, const json_t *value, lh_batch_request *out)
{
    const char *url = NULL;
    LH_TRY(read_string(f->name, value, &url));
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        if (strcmp(url, urls[i].url) == 0) {
            out->api = urls[i].api;
            return LH_OK;
        }
    LH_FAIL(LH_EINPUT, "'url' is '%.*s', it must be /v1/completions or /v1/chat/completions", SHOWN, url);
}

static lh_status read_body(const field *f, const json_t *value, lh_batch_request *out)
{
    (void)out; /* its members are read when the API is known */
    if (!json_is_object(value)) LH_FAIL(LH_EINPUT, "'%s' must be an object", f->name);
    return LH_OK;
}

static lh_status read_context_id(const field *f, const json_t *value, lh_batch_request *out)
{
    LH_TRY(read_string(f->name, value, &out->context_id));
    if (!*out->context_id || strlen(out->context_id) > LH_BATCH_ID_BYTES)
        LH_FAIL(LH_EINPUT, "'%s' must have 1 to %d bytes", f->name, (int)LH_BATCH_ID_BYTES);
    return LH_OK;
}

/* A name that does not leave the folder, except through a symbolic link. */
static lh_status read_context_file(const field *f, const json_t *value, lh_batch_request *out)
{
    LH_TRY(read_string(f->name, value, &out->context_file));
    const char *at = out->context_file;
    if (!*at) LH_FAIL(LH_EINPUT, "'%s' is empty", f->name);
    if (*at == '/')
        LH_FAIL(LH_EINPUT, "'%s' is '%.*s', it must be relative to the folder of contexts", f->name, SHOWN, at);
    for (; *at; at += strspn(at, "/")) {
        const size_t n = strcspn(at, "/");
        if (n == 2 && memcmp(at, "..", 2) == 0)
            LH_FAIL(LH_EINPUT, "'%s' is '%.*s', and '..' leads out of the folder of contexts", f->name, SHOWN,
                    out->context_file);
        at += n;
    }
    return LH_OK;
}

/* ---- the policy: a name, or an object of options as on the command line ---- */

/* "pool_size" is "pool-size". */
static int is_option(const char *name, const char *option)
{
    while (*name && (*name == *option || (*name == '_' && *option == '-'))) name++, option++;
    return *name == *option;
}

/* A number or a truth value as the text of an option; NULL: neither. */
static json_t *option_text(const json_t *value)
{
    if (json_is_boolean(value)) return json_string(json_is_true(value) ? "on" : "off");
    if (json_is_integer(value)) return json_sprintf("%lld", (long long)json_integer_value(value));
    return json_is_real(value) ? json_sprintf("%.9g", json_real_value(value)) : NULL;
}

/* The text of an option; row: of a part, NULL for the name and the budget. */
static lh_status read_option(const char *option, const lh_option *row, json_t *policy, const char *name,
                             const char **text)
{
    json_t *value = json_object_get(policy, name);
    if (!json_is_string(value)) {
        value = option_text(value);
        if (!value) LH_FAIL(LH_EINPUT, "'policy': '%.*s' must be a string, a number, true or false", SHOWN, name);
        if (json_object_set_new(policy, name, value) != 0) LH_FAIL(LH_ENOMEM, "cannot allocate memory for a policy");
    }
    LH_TRY(read_string(option, value, text));
    if (row && row->type == LH_OPT_WORD_OR_FILE && !lh_option_is_choice(row, *text))
        LH_FAIL(LH_EINPUT, "'policy': '%s' must be a word: a request names no files", option);
    return LH_OK;
}

/* The row of an option of policies, or of the plug-in that the policy names; NULL: there is none. */
static const lh_option *row_of(const json_t *policy, const char *name)
{
    const lh_option *row;
    const char *named = json_string_value(json_object_get(policy, "policy"));
    const lh_loaded_plugin *plugin = named ? lh_plugin_find(named) : NULL;
    for (int64_t i = 0; (row = lh_policy_part_row(i)); i++)
        if (is_option(name, row->name)) return row;
    for (int i = 0; plugin && plugin->parts[i].row.name; i++)
        if (is_option(name, plugin->parts[i].row.name)) return &plugin->parts[i].row;
    return NULL;
}

static lh_status read_part(lh_policy_options *out, json_t *policy, const char *name)
{
    const char *text;
    if (is_option(name, "policy")) return read_option("policy", NULL, policy, name, &out->policy);
    if (is_option(name, "budget")) return read_option("budget", NULL, policy, name, &out->budget);
    const lh_option *row = row_of(policy, name);
    if (!row) LH_FAIL(LH_EINPUT, "'policy' has no option '%.*s'", SHOWN, name);
    LH_TRY(read_option(row->name, row, policy, name, &text));
    lh_policy_parts_set(&out->parts, row, text);
    return LH_OK;
}

static lh_status read_policy(const field *f, const json_t *value, lh_batch_request *out)
{
    const char *name;
    void *next;
    json_t *member, *policy = json_object_get(out->json, f->name);
    if (json_is_string(value)) return read_string(f->name, value, &out->policy.policy);
    if (!json_is_object(value)) LH_FAIL(LH_EINPUT, "'%s' must be a name, or an object of options", f->name);
    json_object_foreach_safe(policy, next, name, member)
    {
        LH_TRY(read_part(&out->policy, policy, name));
    }
    return LH_OK;
}

/* ---- members of the body ---- */

static lh_status read_ids(const char *name, const json_t *list, lh_tokens *out)
{
    size_t i;
    json_t *id;
    json_array_foreach((json_t *)(uintptr_t)list, i, id)
    {
        const int64_t n = json_integer_value(id);
        if (!json_is_integer(id) || n < 0 || n > INT32_MAX)
            LH_FAIL(LH_EINPUT, "'%s': element %zu is no token id", name, i);
        LH_TRY(lh_tokens_push(out, (int32_t)n));
    }
    return LH_OK;
}

/* A text or ids; or an array with one of either. */
static lh_status read_prompt(const field *f, const json_t *value, lh_batch_request *out)
{
    const json_t *first = json_array_get(value, 0);
    if (json_is_string(value)) return read_string(f->name, value, &out->prompt);
    if (!json_is_array(value)) LH_FAIL(LH_EINPUT, "'%s' must be a string or an array of token ids", f->name);
    if (!json_is_string(first) && !json_is_array(first)) return read_ids(f->name, value, &out->ids);
    if (json_array_size(value) > 1)
        LH_FAIL(LH_EINPUT, "'%s' holds %zu prompts: give each a line of its own", f->name, json_array_size(value));
    return json_is_string(first) ? read_string(f->name, first, &out->prompt) : read_ids(f->name, first, &out->ids);
}

static lh_status read_messages(const field *f, const json_t *value, lh_batch_request *out)
{
    if (!json_is_array(value)) LH_FAIL(LH_EINPUT, "'%s' must be an array of messages", f->name);
    return lh_messages_parse(&out->messages, "'messages'", value);
}

/* ---- members of a chat for its template ---- */

/* Sets variables of the template, on top of those that are set already. */
static lh_status set_arguments(lh_batch_request *out, const json_t *arguments)
{
    if (!out->arguments) out->arguments = json_object();
    if (json_object_update(out->arguments, (json_t *)(uintptr_t)arguments) != 0)
        LH_FAIL(LH_ENOMEM, "cannot allocate memory for the variables of a chat template");
    return LH_OK;
}

static lh_status read_arguments(const field *f, const json_t *value, lh_batch_request *out)
{
    LH_TRY(lh_chat_arguments_check(f->name, value));
    return set_arguments(out, value);
}

/* A variable with the name of the member, as in vLLM. */
static lh_status read_effort(const field *f, const json_t *value, lh_batch_request *out)
{
    const char *effort = NULL;
    LH_TRY(read_string(f->name, value, &effort));
    json_t *one = json_pack("{s:O}", f->name, (json_t *)(uintptr_t)value);
    lh_status st = set_arguments(out, one);
    json_decref(one);
    return st;
}

static lh_status read_opens_answer(const field *f, const json_t *value, lh_batch_request *out)
{
    if (!json_is_boolean(value)) LH_FAIL(LH_EINPUT, "'%s' must be true or false", f->name);
    if (json_is_false(value)) out->ending = LH_CHAT_ENDS_TURN;
    return LH_OK;
}

/* Read after `add_generation_prompt`. */
static lh_status read_continues_turn(const field *f, const json_t *value, lh_batch_request *out)
{
    const json_t *opens = json_object_get(json_object_get(out->json, "body"), "add_generation_prompt");
    if (!json_is_boolean(value)) LH_FAIL(LH_EINPUT, "'%s' must be true or false", f->name);
    if (json_is_true(value) && json_is_true(opens))
        LH_FAIL(LH_EINPUT, "'%s' continues the last message, and 'add_generation_prompt' opens another one: give one",
                f->name);
    if (json_is_true(value)) out->ending = LH_CHAT_CONTINUES_TURN;
    return LH_OK;
}

static lh_status read_stops(const field *f, const json_t *value, lh_batch_request *out)
{
    const int many = json_is_array(value);
    const size_t n = many ? json_array_size(value) : 1;
    if (n > STOPS_MAX) LH_FAIL(LH_EINPUT, "'%s' has %zu texts, at most %d may end an answer", f->name, n, STOPS_MAX);
    LH_TRY(lh_calloc(&out->stops, (int64_t)n, sizeof *out->stops));
    for (size_t i = 0; i < n; i++) {
        const char **stop = &out->stops[out->stop_count];
        LH_TRY(read_string(f->name, many ? json_array_get(value, i) : value, stop));
        if (!**stop) LH_FAIL(LH_EINPUT, "'%s' holds an empty text", f->name);
        out->stop_count++;
    }
    return LH_OK;
}

static lh_status read_stop_ids(const field *f, const json_t *value, lh_batch_request *out)
{
    if (!json_is_array(value)) LH_FAIL(LH_EINPUT, "'%s' must be an array of token ids", f->name);
    if (json_array_size(value) > STOPS_MAX)
        LH_FAIL(LH_EINPUT, "'%s' has %zu ids, at most %d may end an answer", f->name, json_array_size(value),
                STOPS_MAX);
    return read_ids(f->name, value, &out->stop_ids);
}

/* The id of a member of 'logit_bias': decimal digits, -1 for anything else. */
static int64_t id_of(const char *text)
{
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 9 || text[n] || (n > 1 && *text == '0')) return -1;
    return strtoll(text, NULL, 10);
}

static lh_status read_bias(const field *f, const json_t *value, lh_batch_request *out)
{
    const char *name;
    json_t *member;
    if (!json_is_object(value)) LH_FAIL(LH_EINPUT, "'%s' must be an object of token ids and numbers", f->name);
    LH_TRY(lh_calloc(&out->bias, (int64_t)json_object_size(value), sizeof *out->bias));
    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        const double bias = json_number_value(member);
        if (id_of(name) < 0) LH_FAIL(LH_EINPUT, "'%s' names '%.*s', which is no token id", f->name, SHOWN, name);
        if (!json_is_number(member) || !(bias >= -100 && bias <= 100))
            LH_FAIL(LH_EINPUT, "'%s': the bias of token %s must be a number between -100 and 100", f->name, name);
        out->bias[out->sampling.bias_count++] = (lh_logit_bias){(int32_t)id_of(name), (float)bias};
    }
    out->sampling.bias = out->bias;
    return LH_OK;
}

/* In a chat `logprobs` is true or false, and `top_logprobs` the number. */
static lh_status read_logprobs(const field *f, const json_t *value, lh_batch_request *out)
{
    if (!json_is_boolean(value)) LH_FAIL(LH_EINPUT, "'%s' must be true or false", f->name);
    if (json_is_true(value) && out->logprobs < 0) out->logprobs = 0;
    if (json_is_false(value)) out->logprobs = -1;
    return LH_OK;
}

static lh_status read_top_logprobs(const field *f, const json_t *value, lh_batch_request *out)
{
    const int wanted = out->logprobs >= 0;
    LH_TRY(read_count(f, value, out));
    if (!wanted) out->logprobs = -1; /* refused after all members are read (check_logprobs) */
    return LH_OK;
}

#define AT(member) .at = offsetof(lh_batch_request, member)
#define NO(member, which, values, reason)                                            \
    {                                                                                \
        .name = member, .apis = which, .read = refuse, .only = values, .why = reason \
    }
#define NO_EFFECT(member)                               \
    {                                                   \
        .name = member, .apis = IN_BOTH, .read = ignore \
    }

static const char no_tools[] = "tools are not called; put what they return into the messages";

static const field line_fields[] = {
    {.name = "custom_id", .apis = IN_BOTH, .read = read_id, .required = 1},
    {.name = "method", .apis = IN_BOTH, .read = refuse, .only = "[\"POST\"]", .why = "give \"POST\"", .required = 1},
    {.name = "url", .apis = IN_BOTH, .read = read_url, .required = 1},
    {.name = "body", .apis = IN_BOTH, .read = read_body, .required = 1},
    {.name = "context_id", .apis = IN_BOTH, .read = read_context_id},
    {.name = "context_file", .apis = IN_BOTH, .read = read_context_file},
    {.name = "policy", .apis = IN_BOTH, .read = read_policy},
    {0}};

static const field body_fields[] = {
    {.name = "model", .apis = IN_BOTH, .read = read_text, AT(model)},
    {.name = "prompt", .apis = IN_COMPLETION, .read = read_prompt, .required = 1},
    {.name = "messages", .apis = IN_CHAT, .read = read_messages, .required = 1},
    {.name = "reasoning_effort", .apis = IN_CHAT, .read = read_effort},
    {.name = "chat_template_kwargs", .apis = IN_CHAT, .read = read_arguments},
    {.name = "add_generation_prompt", .apis = IN_CHAT, .read = read_opens_answer},
    {.name = "continue_final_message", .apis = IN_CHAT, .read = read_continues_turn},
    {.name = "truncate_prompt_tokens", .apis = IN_BOTH, .read = read_count, AT(keep_last), .low = -1, .high = 1 << 30},
    {.name = "max_tokens", .apis = IN_BOTH, .read = read_count, AT(max_new), .high = 1 << 30},
    {.name = "max_completion_tokens", .apis = IN_CHAT, .read = read_count, AT(max_new), .low = 1, .high = 1 << 30},
    {.name = "temperature", .apis = IN_BOTH, .read = read_number, AT(sampling.temperature), .high = 100},
    {.name = "top_p", .apis = IN_BOTH, .read = read_number, AT(sampling.top_p), .low = 1e-6, .high = 1},
    {.name = "top_k", .apis = IN_BOTH, .read = read_count, AT(sampling.top_k), .low = -1, .high = 1 << 30},
    {.name = "min_p", .apis = IN_BOTH, .read = read_number, AT(sampling.min_p), .high = 0.999999},
    {.name = "repeat_penalty",
     .apis = IN_BOTH,
     .read = read_number,
     AT(sampling.repeat_penalty),
     .low = 0.01,
     .high = 100},
    {.name = "repetition_penalty",
     .apis = IN_BOTH,
     .read = read_number,
     AT(sampling.repeat_penalty),
     .low = 0.01,
     .high = 100},
    {.name = "presence_penalty",
     .apis = IN_BOTH,
     .read = read_number,
     AT(sampling.presence_penalty),
     .low = -2,
     .high = 2},
    {.name = "frequency_penalty",
     .apis = IN_BOTH,
     .read = read_number,
     AT(sampling.frequency_penalty),
     .low = -2,
     .high = 2},
    {.name = "logit_bias", .apis = IN_BOTH, .read = read_bias},
    {.name = "stop_token_ids", .apis = IN_BOTH, .read = read_stop_ids},
    {.name = "min_tokens", .apis = IN_BOTH, .read = read_count, AT(min_new), .high = 1 << 30},
    {.name = "seed", .apis = IN_BOTH, .read = read_seed},
    {.name = "stop", .apis = IN_BOTH, .read = read_stops},
    {.name = "split_special_tokens", .apis = IN_COMPLETION, .read = read_flag, AT(split_special)},
    {.name = "skip_special_tokens", .apis = IN_BOTH, .read = read_skips_special, AT(keeps_special)},
    {.name = "ignore_eos", .apis = IN_BOTH, .read = read_flag, AT(ignore_eos)},
    {.name = "logprobs", .apis = IN_COMPLETION, .read = read_count, AT(logprobs), .high = 20},
    {.name = "logprobs", .apis = IN_CHAT, .read = read_logprobs},
    {.name = "top_logprobs", .apis = IN_CHAT, .read = read_top_logprobs, AT(logprobs), .high = 20},
    {.name = "n", .apis = IN_BOTH, .read = read_count, AT(choices), .low = 1, .high = CHOICES_MAX},
    NO("best_of", IN_COMPLETION, "[1]", "answers are not compared: 'n' gives all of them"),
    NO("stream", IN_BOTH, "[false]", "a batch is not streamed"),
    {.name = "echo", .apis = IN_COMPLETION, .read = read_flag, AT(echo)},
    NO("suffix", IN_COMPLETION, "[\"\"]", "nothing is inserted before a text"),
    NO("tools", IN_CHAT, "[[]]", no_tools),
    NO("tool_choice", IN_CHAT, "[\"none\", \"auto\"]", no_tools),
    NO("functions", IN_CHAT, "[[]]", no_tools),
    NO("function_call", IN_CHAT, "[\"none\", \"auto\"]", no_tools),
    NO("response_format", IN_CHAT, "[{\"type\": \"text\"}]", "answers are free text"),
    NO("modalities", IN_CHAT, "[[\"text\"]]", "answers are text"),
    NO("audio", IN_CHAT, "[]", "answers are text"),
    NO("prediction", IN_CHAT, "[]", "answers are not predicted"),
    NO("moderation", IN_CHAT, "[]", "there is no moderation"),
    NO("verbosity", IN_CHAT, "[]", "it is no part of chat formats; say it in the messages"),
    NO("web_search_options", IN_CHAT, "[]", "nothing is searched"),
    NO_EFFECT("user"),
    NO_EFFECT("metadata"),
    NO_EFFECT("store"),
    NO_EFFECT("service_tier"),
    NO_EFFECT("safety_identifier"),
    NO_EFFECT("prompt_cache_key"),
    NO_EFFECT("prompt_cache_options"),
    NO_EFFECT("prompt_cache_retention"),
    NO_EFFECT("parallel_tool_calls"),
    NO_EFFECT("stream_options"),
    {0}};

/* ---- the members of an object ---- */

static const field *find_field(const field *fields, const char *name, int api)
{
    for (; fields->name; fields++)
        if (fields->apis & api && strcmp(fields->name, name) == 0) return fields;
    return NULL;
}

/* LH_EINPUT for a member without a row. */
static lh_status fail_unknown(const field *fields, const char *where, const char *name, int api)
{
    const char *names[64];
    int n = 0;
    if (find_field(fields, name, IN_BOTH))
        LH_FAIL(LH_EINPUT, "%s has '%s', which %s does not have", where, name,
                api == IN_CHAT ? "a chat completion" : "a completion");
    for (; fields->name; fields++)
        if (fields->apis & api && n < 63) names[n++] = fields->name;
    names[n] = NULL;
    const char *near = lh_nearest(name, names);
    LH_FAIL(LH_EINPUT, "%s has the unknown member '%.*s'%s%s%s", where, SHOWN, name, near ? ", did you mean '" : "",
            near ? near : "", near ? "'?" : "");
}

static lh_status read_members(const field *fields, int api, const char *where, const json_t *object,
                              lh_batch_request *out)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) if (!find_field(fields, name, api))
        LH_TRY(fail_unknown(fields, where, name, api));
    for (; fields->name; fields++) {
        value = json_object_get(object, fields->name);
        if (!(fields->apis & api)) continue;
        if (value && !json_is_null(value))
            LH_TRY(fields->read(fields, value, out));
        else if (fields->required)
            LH_FAIL(LH_EINPUT, "%s has no '%s'", where, fields->name);
    }
    return LH_OK;
}

/* ---- requests ---- */

static int is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* The first option of random sampling in the body; NULL: none. */
static const char *sampling_member(const json_t *body)
{
    static const char *const names[] = {"top_p", "top_k", "min_p"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_given(json_object_get(body, names[i]))) return names[i];
    return NULL;
}

/* Sampling is greedy at temperature 0: other options have no effect then. */
static lh_status check_sampling(const json_t *body, lh_batch_request *out)
{
    lh_sampling *s = &out->sampling;
    const char *draws = sampling_member(body);
    const int chosen = s->top_k > 0 || s->min_p > 0 || (s->top_p > 0 && s->top_p < 1);
    s->request = is_given(json_object_get(body, "seed")) ? 0 : out->line->hash;
    if (s->temperature > 0) return LH_OK;
    if (draws && chosen && !is_given(json_object_get(body, "temperature")))
        LH_FAIL(LH_EINPUT,
                "'%s' has no effect without 'temperature', which is 0 unless it is given: then the most likely token "
                "is taken",
                draws);
    s->top_k = 0;
    s->top_p = 1;
    s->min_p = 0;
    return LH_OK;
}

static lh_status check_logprobs(const json_t *body, lh_batch_request *out)
{
    if (out->api != LH_BATCH_CHAT || out->logprobs >= 0 || !is_given(json_object_get(body, "top_logprobs")))
        return LH_OK;
    LH_FAIL(LH_EINPUT, "'top_logprobs' needs 'logprobs' to be true");
}

static lh_status check_prompt(const json_t *body, lh_batch_request *out)
{
    const int both =
        is_given(json_object_get(body, "max_tokens")) && is_given(json_object_get(body, "max_completion_tokens"));
    if (both) LH_FAIL(LH_EINPUT, "'max_tokens' and 'max_completion_tokens' are the same number: give one of them");
    if (out->max_new == 0 && (!out->echo || out->choices > 1))
        LH_FAIL(LH_EINPUT, "'max_tokens' is 0, which asks for nothing%s",
                out->echo ? " that 'n' could give several times" : " without 'echo'");
    if (out->echo && (out->context_id || out->context_file))
        LH_FAIL(LH_EINPUT,
                "'echo' repeats the whole prompt, and a shared context is not read for each request: leave "
                "out '%s'",
                out->context_id ? "context_id" : "context_file");
    if (out->min_new > out->max_new)
        LH_FAIL(LH_EINPUT, "'min_tokens' is %lld, more than the %lld tokens that the answer may have",
                (long long)out->min_new, (long long)out->max_new);
    if (out->api == LH_BATCH_CHAT && out->messages.n == 0) LH_FAIL(LH_EINPUT, "'messages' holds no message");
    if (out->keep_last && out->context_file)
        LH_FAIL(LH_EINPUT, "'truncate_prompt_tokens' would cut into the context of other requests: leave it out where "
                           "there is a 'context_file'");
    if (out->ending != LH_CHAT_OPENS_ANSWER && out->context_file)
        LH_FAIL(LH_EINPUT, "'%s' leaves the last turn to the request, and with 'context_file' it is a question",
                out->ending == LH_CHAT_ENDS_TURN ? "add_generation_prompt" : "continue_final_message");
    if (out->api == LH_BATCH_COMPLETION && out->ids.n == 0 && !(out->prompt && *out->prompt))
        LH_FAIL(LH_EINPUT, "'prompt' is empty");
    return LH_OK;
}

static lh_status read_json(lh_batch_request *out)
{
    const lh_batch_line *line = out->line;
    json_t *body;
    if (line->bytes > LH_BATCH_LINE_BYTES)
        LH_FAIL(LH_EINPUT, "the line has %lld bytes, more than the %d that a request may have", (long long)line->bytes,
                (int)LH_BATCH_LINE_BYTES);
    if (line->same_as)
        LH_FAIL(LH_EINPUT, "the 'custom_id' is that of line %lld, too: each request needs its own",
                (long long)line->same_as);
    LH_TRY(lh_json_parse_line(&out->json, "the line", line->text, line->bytes));
    if (!json_is_object(out->json)) LH_FAIL(LH_EINPUT, "the line is not a JSON object");
    LH_TRY(read_members(line_fields, IN_BOTH, "the line", out->json, out));
    body = json_object_get(out->json, "body");
    LH_TRY(read_members(body_fields, 1 << out->api, "'body'", body, out));
    LH_TRY(check_sampling(body, out));
    LH_TRY(check_logprobs(body, out));
    return check_prompt(body, out);
}

/* Thoughts of earlier answers are no content; the answer that is continued stays whole. */
static lh_status split_thoughts(lh_batch_request *out)
{
    return lh_messages_split(&out->messages, out->messages.n - (out->ending == LH_CHAT_CONTINUES_TURN ? 1 : 0));
}

lh_status lh_batch_request_read(lh_batch_request *out, const lh_batch_line *line, const lh_batch_defaults *defaults)
{
    *out = (lh_batch_request){.line = line,
                              .choices = 1,
                              .max_new = defaults->max_new,
                              .sampling = defaults->sampling,
                              .ignore_eos = defaults->ignore_eos,
                              .logprobs = -1};
    if (defaults->arguments) LH_TRY(set_arguments(out, defaults->arguments));
    /* The mapping shows changes of the file. */
    if (lh_hash64(line->text, line->bytes) != line->hash)
        LH_FAIL(LH_EINPUT, "the line changed after the run had begun: run again");
    LH_TRY(read_json(out));
    return defaults->keep_thinking ? LH_OK : split_thoughts(out);
}

void lh_batch_request_clear(lh_batch_request *request)
{
    lh_tokens_clear(&request->ids);
    lh_tokens_clear(&request->stop_ids);
    lh_free(request->bias);
    lh_messages_clear(&request->messages);
    lh_free(request->stops);
    json_decref(request->arguments);
    json_decref(request->json);
    *request = (lh_batch_request){.line = NULL};
}
