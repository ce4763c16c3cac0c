/* generation_json.c - the result of `generate` as JSON: answers, policy, cache sizes, timing. */
#include <string.h>

#include "base/json.h"
#include "base/version.h"
#include "engine/generate.h"

static json_t *ids_of(const lh_tokens *ids)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < ids->n; i++) json_array_append_new(list, json_integer(ids->ids[i]));
    return list;
}

static json_t *logprobs_of(const lh_answer *a)
{
    json_t *list = json_array();
    for (int64_t at = 0; at < a->logprobs.bytes; at += (int64_t)sizeof(double)) {
        double value;
        memcpy(&value, a->logprobs.data + at, sizeof value);
        json_array_append_new(list, json_real(value));
    }
    return list;
}

json_t *lh_answer_json(const lh_answer *a)
{
    json_t *o = json_object();
    const lh_thoughts parts = lh_answer_parts(a, LH_TEXT_WHOLE);
    /* a model's text may end in the middle of a character */
    json_object_set_new(o, "text", lh_json_text(parts.content, parts.content_bytes));
    if (parts.thinks) json_object_set_new(o, "reasoning_content", lh_json_text(parts.thoughts, parts.thoughts_bytes));
    json_object_set_new(o, "token_ids", ids_of(&a->ids));
    if (a->logprobs.bytes) json_object_set_new(o, "logprobs", logprobs_of(a));
    json_object_set_new(o, "finish_reason", json_string(lh_finish_name(a->finish)));
    return o;
}

static json_t *by_rank(const int64_t *values, int ranks)
{
    json_t *list = json_array();
    for (int r = 0; r < ranks; r++) json_array_append_new(list, json_integer(values[r]));
    return list;
}

static json_t *kv_json(const lh_generation *g)
{
    json_t *o = json_object();
    json_object_set_new(o, "budget", g->policy.evicts && !g->given ? json_integer(g->budget) : json_null());
    json_object_set_new(o, "entries", by_rank(g->entries, g->ranks));
    json_object_set_new(o, "entries_kept", by_rank(g->entries_kept, g->ranks));
    json_object_set_new(o, "bytes", by_rank(g->bytes, g->ranks));
    json_object_set_new(o, "bytes_kept", by_rank(g->bytes_kept, g->ranks));
    json_object_set_new(o, "bytes_allocated", by_rank(g->bytes_allocated, g->ranks));
    json_object_set_new(o, "peak_bytes", by_rank(g->peak_bytes, g->ranks));
    json_object_set_new(o, "summary_bytes", by_rank(g->summary_bytes, g->ranks));
    json_object_set_new(o, "model_entries", json_integer(g->counted));
    json_object_set_new(o, "model_entries_kept", json_integer(g->counted_kept));
    return o;
}

static json_t *timing_json(const lh_generation *g)
{
    json_t *o = json_object();
    json_object_set_new(o, "load_s", json_real(g->timing.load_s));
    json_object_set_new(o, "prefill_s", json_real(g->timing.prefill_s));
    json_object_set_new(o, "evict_s", json_real(g->timing.evict_s));
    json_object_set_new(o, "decode_s", json_real(g->timing.decode_s));
    json_object_set_new(o, "prefill_tokens_per_s", json_real(g->timing.prefill_tokens_per_s));
    json_object_set_new(o, "decode_tokens_per_s", json_real(g->timing.decode_tokens_per_s));
    return o;
}

lh_status lh_generation_json(const lh_engine *engine, const lh_generation *g, json_t **out)
{
    lh_status st = LH_OK;
    json_t *o = NULL, *policy = NULL, *answers = json_array();
    if (!g->given) LH_TRY_DONE(lh_policy_json(&g->policy, &policy));
    o = lh_answer_json(&g->answers[0]); /* at top level, for runs without questions */
    json_object_set_new(o, "prompt_tokens", json_integer(g->prompt_tokens));
    json_object_set_new(o, "new_tokens", json_integer(g->new_tokens));
    if (g->left_out) json_object_set_new(o, "truncated_tokens", json_integer(g->left_out));
    for (int64_t i = 0; g->answer_count > 1 && i < g->answer_count; i++)
        json_array_append_new(answers, lh_answer_json(&g->answers[i]));
    if (g->answer_count > 1) json_object_set(o, "answers", answers);
    json_object_set_new(o, "policy", policy ? json_incref(policy) : json_null());
    if (g->given) json_object_set_new(o, "keep_sets_from", lh_json_text(g->given, (int64_t)strlen(g->given)));
    json_object_set_new(o, "kv", kv_json(g));
    json_object_set_new(o, "timing", timing_json(g));
    json_object_set_new(o, "chunk", json_integer(g->chunk));
    json_object_set_new(o, "ranks", json_integer(g->ranks));
    json_object_set_new(o, "threads", json_integer(lh_engine_get(engine)->threads));
    json_object_set_new(o, "device", json_string(lh_device_name(lh_engine_get(engine)->device)));
    json_object_set_new(o, "backend", json_string(lh_engine_get(engine)->exec->ops->name));
    json_object_set_new(o, "dtype", json_string(lh_dtype_name(lh_engine_get(engine)->dtype)));
    json_object_set_new(o, "kv_dtype",
                        json_string(lh_dtype_name(lh_kv_kept_type(&lh_engine_get(engine)->kv_types, &g->policy))));
    json_object_set_new(o, "version", json_string(lh_version()));
    *out = o;
done:
    json_decref(policy);
    json_decref(answers);
    return st;
}
