#include "engine/probes.h"

#include <string.h>

#include "engine/prompt.h"
#include "text/chat.h"

const lh_probe_leads lh_typical_leads = {16, 32};

/* Sentences of KVzip (arXiv 2505.23416), as in its code: a later segment quotes the tokens before its stretch. */
static const char first_lead[] = "\n\nRepeat the previous context exactly.",
                  later_lead[] = "\n\nRepeat the part of the previous context exactly, starting with";

/* Ids of lead-ins: of the first segment; of later ones, before the quoted tokens; and what ends both. */
typedef struct lead_ins {
    lh_tokens first, later, ending;
} lead_ins;

static void clear(lead_ins *l)
{
    lh_tokens_clear(&l->first);
    lh_tokens_clear(&l->later);
    lh_tokens_clear(&l->ending);
}

/* The text of the format between a user's message and the answer to it. */
static lh_status encode_ending(const lh_tokenizer *tok, const lh_chat_format *format, lh_tokens *out)
{
    lh_status st = LH_OK;
    lh_buf bos = {0}, eos = {0};
    lh_chat_text text = {0};
    const lh_message message = {.role = "user", .content = "text"};
    LH_TRY_DONE(lh_chat_tokens(tok, &bos, &eos));
    LH_TRY_DONE(lh_chat_render(
        format,
        &(lh_chat_request){.messages = &message, .n = 1, .add_generation_prompt = 1, .bos = bos.data, .eos = eos.data},
        &text));
    const int64_t cut = lh_chat_cut(&text, 0, (int64_t)strlen(message.content));
    LH_TRY_DONE(lh_chat_encode(tok, &text, cut < 0 ? text.text.bytes : cut, text.text.bytes, out));
done:
    lh_chat_text_clear(&text);
    lh_buf_clear(&bos);
    lh_buf_clear(&eos);
    return st;
}

static lh_status encode(const lh_tokenizer *tok, const char *text, lh_tokens *out)
{
    return lh_tokenizer_encode(tok, text, (int64_t)strlen(text), LH_ENCODE_PLAIN | LH_ENCODE_CONTINUES, out);
}

static lh_status make_lead_ins(lead_ins *out, const lh_tokenizer *tok)
{
    lh_status st = LH_OK;
    const lh_chat_format *format = NULL;
    LH_TRY_DONE(lh_chat_of(&format, tok));
    LH_TRY_DONE(encode(tok, first_lead, &out->first));
    LH_TRY_DONE(encode(tok, later_lead, &out->later));
    LH_TRY_DONE(format ? encode_ending(tok, format, &out->ending) : encode(tok, "\n", &out->ending));
done:
    lh_chat_close(format);
    return st;
}

lh_status lh_probe_leads_of(lh_probe_leads *out, const lh_engine *engine, const lh_policy *policy)
{
    lead_ins l = {0};
    *out = (lh_probe_leads){0};
    if (!lh_policy_repeats(policy) || !lh_engine_tokenizer(engine)) return LH_OK;
    const lh_status st = make_lead_ins(&l, lh_engine_tokenizer(engine));
    *out = (lh_probe_leads){l.first.n + l.ending.n, l.later.n + LH_LEAD_QUOTE + l.ending.n};
    clear(&l);
    return st;
}

static lh_status push(lh_tokens *out, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_tokens_push(out, ids[i]));
    return LH_OK;
}

static lh_status push_segment(lh_tokens *out, const lead_ins *l, const int32_t *ids, const lh_probe_segment *s)
{
    const lh_tokens *lead = s->first ? &l->later : &l->first;
    if (s->lead) {
        LH_TRY(push(out, lead->ids, lead->n));
        if (s->first) LH_TRY(push(out, ids + s->first - LH_LEAD_QUOTE, LH_LEAD_QUOTE));
        LH_TRY(push(out, l->ending.ids, l->ending.n));
    }
    return push(out, ids + s->first, s->tokens);
}

static lh_status append(lh_tokens *out, const lh_engine *engine, const lh_kv *kv, const int32_t *ids, int64_t n)
{
    lh_status st = LH_OK;
    lead_ins l = {0};
    const int64_t segments = lh_kv_probe_segments(kv);
    LH_TRY_DONE(push(out, ids, n));
    if (segments && lh_engine_tokenizer(engine)) LH_TRY_DONE(make_lead_ins(&l, lh_engine_tokenizer(engine)));
    for (int64_t i = 0; i < segments; i++) {
        const lh_probe_segment s = lh_kv_probe_segment(kv, i);
        LH_TRY_DONE(push_segment(out, &l, ids, &s));
    }
done:
    clear(&l);
    return st;
}

lh_status lh_probes_append(lh_tokens *out, const lh_engine *engine, const lh_kv *kv, const int32_t *ids, int64_t n)
{
    lh_comm *comm = lh_engine_get(engine)->comm;
    LH_TRY(lh_comm_agree(comm, append(out, engine, kv, ids, n)));
    return lh_kv_probe_segments(kv) ? lh_prompt_share(comm, out) : LH_OK;
}
