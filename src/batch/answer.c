/* answer.c - makes the lines of answer.h. */
#include "batch/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/unicode.h"

static const struct {
    lh_status st;
    const char *code;
} codes[] = {{LH_EUSAGE, "invalid_request"}, {LH_EINPUT, "invalid_request"}, {LH_ENOMEM, "out_of_memory"}};

const char *lh_batch_code(lh_status st)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].st == st) return codes[i].code;
    return "internal_error";
}

/* ---- log-probabilities ---- */

/* OpenAI writes -9999 for an impossible token. */
static double finite_logprob(double logprob)
{
    return logprob > -9999.0 ? logprob : -9999.0; /* NaN, too */
}

/* The bytes of a token that is no text, as OpenAI's API names them: "bytes:\xe2\x82". */
static json_t *bytes_name(const lh_batch_likely *token)
{
    lh_buf text = {0};
    json_t *name = NULL;
    lh_status st = lh_buf_puts(&text, "bytes:");
    for (int64_t i = 0; st == LH_OK && i < token->bytes; i++)
        st = lh_buf_printf(&text, "\\x%02x", (unsigned char)token->text[i]);
    if (st == LH_OK) name = json_string(text.data);
    lh_buf_clear(&text);
    return name;
}

/* In a completion tokens are names. An id may have no text: of a model without a tokenizer, of the padding of a
 * vocabulary. */
static json_t *token_name(const lh_batch_likely *token)
{
    if (token->bytes == 0) return json_sprintf("token_id:%d", (int)token->id);
    const int is_text = lh_utf8_valid(token->text, token->bytes) && !memchr(token->text, '\0', (size_t)token->bytes);
    return is_text ? json_stringn(token->text, (size_t)token->bytes) : bytes_name(token);
}

/* Two tokens may have the same text, such as a piece and a byte piece: the less likely token is named by its bytes. */
static json_t *top_names(const lh_batch_token *t)
{
    json_t *top = json_object();
    for (int64_t k = 0; k < t->top_count; k++) {
        json_t *name = token_name(&t->top[k]);
        if (json_object_get(top, json_string_value(name))) {
            json_decref(name);
            name = bytes_name(&t->top[k]);
        }
        if (!json_object_get(top, json_string_value(name)))
            json_object_set_new(top, json_string_value(name), json_real(finite_logprob(t->top[k].logprob)));
        json_decref(name);
    }
    return top;
}

static json_t *completion_logprobs(const lh_batch_choice *a)
{
    json_t *offsets = json_array(), *values = json_array(), *names = json_array(), *tops = json_array();
    for (int64_t i = 0; i < a->token_count; i++) {
        const lh_batch_token *t = &a->tokens[i];
        json_array_append_new(offsets, json_integer(t->offset));
        json_array_append_new(values, t->is_first ? json_null() : json_real(finite_logprob(t->chosen.logprob)));
        json_array_append_new(names, token_name(&t->chosen));
        json_array_append_new(tops, t->is_first ? json_null() : top_names(t));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", names, "token_logprobs", values, "top_logprobs", tops,
                     "text_offset", offsets);
}

static json_t *likely_json(const lh_batch_likely *token)
{
    json_t *bytes = json_array();
    for (int64_t i = 0; i < token->bytes; i++)
        json_array_append_new(bytes, json_integer((unsigned char)token->text[i]));
    return json_pack("{s:o, s:f, s:o}", "token", lh_json_text(token->text, token->bytes), "logprob",
                     finite_logprob(token->logprob), "bytes", bytes);
}

static json_t *chat_logprobs(const lh_batch_choice *a)
{
    json_t *content = json_array();
    for (int64_t i = 0; i < a->token_count; i++) {
        json_t *token = likely_json(&a->tokens[i].chosen), *top = json_array();
        for (int64_t k = 0; k < a->tokens[i].top_count; k++)
            json_array_append_new(top, likely_json(&a->tokens[i].top[k]));
        json_object_set_new(token, "top_logprobs", top);
        json_array_append_new(content, token);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

/* ---- bodies ---- */

/* Differences between the APIs. */
static const struct {
    const char *object, *prefix;
    json_t *(*logprobs)(const lh_batch_choice *choice);
} apis[LH_BATCH_APIS] = {{"text_completion", "cmpl-", completion_logprobs},
                         {"chat.completion", "chatcmpl-", chat_logprobs}};

static json_t *usage_json(const lh_batch_answer *a)
{
    json_t *usage =
        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)a->prompt_tokens, "completion_tokens",
                  (json_int_t)a->new_tokens, "total_tokens", (json_int_t)(a->prompt_tokens + a->new_tokens));
    if (usage && a->context_tokens)
        json_object_set_new(usage, "prompt_tokens_details",
                            json_pack("{s:I}", "cached_tokens", (json_int_t)a->context_tokens));
    return usage;
}

static json_t *choice_json(const lh_batch_request *request, const lh_batch_choice *a, int64_t index)
{
    json_t *choice = json_pack("{s:I}", "index", (json_int_t)index),
           *text = a->no_content ? json_null() : lh_json_text(a->text, a->bytes);
    if (request->api == LH_BATCH_CHAT)
        json_object_set_new(choice, "message",
                            json_pack("{s:s, s:o, s:o*, s:n}", "role", "assistant", "content", text,
                                      "reasoning_content",
                                      a->thoughts ? lh_json_text(a->thoughts, a->thoughts_bytes) : NULL, "refusal"));
    else
        json_object_set_new(choice, "text", text);
    json_object_set_new(choice, "logprobs", request->logprobs < 0 ? json_null() : apis[request->api].logprobs(a));
    json_object_set_new(choice, "finish_reason", json_string(a->finish == LH_FINISH_STOP ? "stop" : "length"));
    return choice;
}

static json_t *choices_json(const lh_batch_request *request, const lh_batch_answer *a)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < a->choice_count; i++) json_array_append_new(list, choice_json(request, &a->choices[i], i));
    return list;
}

static json_t *body_json(const lh_batch_request *request, const lh_batch_answer *a)
{
    const char *model = request->model ? request->model : a->model;
    return json_pack("{s:o, s:s, s:i, s:o, s:o, s:o}", "id",
                     json_sprintf("%s%016llx", apis[request->api].prefix, (unsigned long long)request->line->hash),
                     "object", apis[request->api].object, "created", 0, "model",
                     lh_json_text(model, (int64_t)strlen(model)), "choices", choices_json(request, a), "usage",
                     usage_json(a));
}

/* ---- lines ---- */

/* Members of a line; the references are consumed, NULL is written as null. */
typedef struct parts {
    json_t *response, *error, *usage, *truncated, *kv;
} parts;

static json_t *hash_text(uint64_t hash)
{
    return json_sprintf("%016llx", (unsigned long long)hash);
}

static json_t *or_null(json_t *value)
{
    return value ? value : json_null();
}

static lh_status append_line(const lh_batch_line *line, parts p, const json_t *run, lh_buf *out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    json_t *id = json_sprintf("batch_req_%016llx", (unsigned long long)line->hash);
    json_t *object = json_pack("{s:o, s:o, s:I, s:o, s:o*, s:o, s:o, s:o, s:o*, s:o, s:O}", "id", id, "custom_id",
                               line->custom_id ? json_string(line->custom_id) : json_null(), "line",
                               (json_int_t)line->number, "hash", hash_text(line->hash), "context_hash",
                               line->context_hash ? hash_text(line->context_hash) : NULL, "error", or_null(p.error),
                               "response", or_null(p.response), "usage", or_null(p.usage), "truncated_tokens",
                               p.truncated, "kv", or_null(p.kv), "run", run);
    /* Nothing but ASCII: no reader takes a character of the text for the end of a line, no terminal for a command. */
    if (object && (p.response || p.error))
        text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(LH_BATCH_DIGITS));
    if (!text) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for an answer");
    LH_TRY_DONE(lh_json_put_plain(out, text, (int64_t)strlen(text))); /* DEL is ASCII */
    LH_TRY_DONE(lh_buf_puts(out, "\n"));
done:
    json_decref(object);
    free(text);
    return st;
}

lh_status lh_batch_answer_line(const lh_batch_request *request, const lh_batch_answer *answer, const json_t *run,
                               lh_buf *out)
{
    const lh_batch_kv *kv = &answer->kv;
    parts p = {.usage = usage_json(answer), .truncated = answer->left_out ? json_integer(answer->left_out) : NULL};
    int interrupted = 0;
    for (int64_t i = 0; i < answer->choice_count; i++)
        interrupted |= answer->choices[i].finish == LH_FINISH_INTERRUPTED;
    if (interrupted) {
        json_decref(p.usage);
        json_decref(p.truncated);
        LH_FAIL(LH_EINTERNAL, "an interrupted answer is none");
    }
    p.response =
        json_pack("{s:i, s:o, s:o}", "status_code", 200, "request_id",
                  json_sprintf("%016llx", (unsigned long long)request->line->hash), "body", body_json(request, answer));
    p.kv = json_pack("{s:o, s:I, s:I, s:I, s:I}", "budget", kv->budget < 0 ? json_null() : json_integer(kv->budget),
                     "entries", (json_int_t)kv->entries, "entries_kept", (json_int_t)kv->entries_kept, "bytes",
                     (json_int_t)kv->bytes, "bytes_kept", (json_int_t)kv->bytes_kept);
    return append_line(request->line, p, run, out);
}

lh_status lh_batch_failure_line(const lh_batch_line *line, lh_status st, const json_t *run, lh_buf *out)
{
    const char *message = lh_error_message();
    parts p = {.error = json_pack("{s:s, s:o}", "code", lh_batch_code(st), "message",
                                  lh_json_text(message, (int64_t)strlen(message)))};
    return append_line(line, p, run, out);
}
