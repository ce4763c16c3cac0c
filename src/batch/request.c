/* request.c - a line as a request: JSON, the members by their tables, and what they must have in common. */
#include "batch/request.h"

#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "batch/request_fields.h"

static int is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* The first member of the body that draws, and is in the request; NULL: none. */
static const char *drawing_member(const json_t *body)
{
    static const char *const names[] = {"top_p", "top_k", "min_p"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_given(json_object_get(body, names[i]))) return names[i];
    return NULL;
}

/* Greedy where the temperature is 0: what is drawn from does not matter then. */
static lh_status settle_sampling(const json_t *body, lh_batch_request *out)
{
    lh_sampling *s = &out->sampling;
    const char *draws = drawing_member(body);
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

static lh_status settle_logprobs(const json_t *body, lh_batch_request *out)
{
    if (out->api != LH_BATCH_CHAT || out->logprobs >= 0 || !is_given(json_object_get(body, "top_logprobs")))
        return LH_OK;
    LH_FAIL(LH_EINPUT, "'top_logprobs' needs 'logprobs' to be true");
}

static lh_status settle_prompt(const json_t *body, lh_batch_request *out)
{
    const int both =
        is_given(json_object_get(body, "max_tokens")) && is_given(json_object_get(body, "max_completion_tokens"));
    if (both) LH_FAIL(LH_EINPUT, "'max_tokens' and 'max_completion_tokens' are the same number: give one of them");
    if (out->api == LH_BATCH_CHAT && out->messages.n == 0) LH_FAIL(LH_EINPUT, "'messages' holds no message");
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
    LH_TRY(lh_batch_fields_take(lh_batch_line_fields, LH_IN_BOTH, "the line", out->json, out));
    body = json_object_get(out->json, "body");
    LH_TRY(lh_batch_fields_take(lh_batch_body_fields, 1 << out->api, "'body'", body, out));
    LH_TRY(settle_sampling(body, out));
    LH_TRY(settle_logprobs(body, out));
    return settle_prompt(body, out);
}

lh_status lh_batch_request_read(lh_batch_request *out, const lh_batch_line *line, const lh_batch_defaults *defaults)
{
    *out = (lh_batch_request){.line = line,
                              .max_new = defaults->max_new,
                              .sampling = defaults->sampling,
                              .ignore_eos = defaults->ignore_eos,
                              .logprobs = -1};
    /* A mapping shows what the file holds now. */
    if (lh_hash64(line->text, line->bytes) != line->hash)
        LH_FAIL(LH_EINPUT, "the line changed after the run had begun: run again");
    return read_json(out);
}

void lh_batch_request_clear(lh_batch_request *request)
{
    lh_tokens_clear(&request->ids);
    lh_messages_clear(&request->messages);
    lh_free(request->stops);
    json_decref(request->json);
    *request = (lh_batch_request){.line = NULL};
}
