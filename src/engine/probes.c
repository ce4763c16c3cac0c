#include "engine/probes.h"

#include <string.h>

#include "engine/prompt.h"
#include "text/chat.h"

/* Sentences of KVzip (arXiv 2505.23416), as in its code: a later segment quotes the tokens before its stretch. */
static const char first_lead[] = "\n\nRepeat the previous context exactly.",
                  later_lead[] = "\n\nRepeat the part of the previous context exactly, starting with";

/* Ids of lead-ins: of the first segment; of later ones, before the quoted tokens; what ends both; and the lines of a
 * text. */
typedef struct lead_ins {
    lh_tokens first, later, ending, *lines; /* lines [line_count] */
    int64_t line_count;
} lead_ins;

static void clear(lead_ins *l)
{
    lh_tokens_clear(&l->first);
    lh_tokens_clear(&l->later);
    lh_tokens_clear(&l->ending);
    for (int64_t i = 0; i < l->line_count; i++) lh_tokens_clear(&l->lines[i]);
    lh_free(l->lines);
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

static lh_status encode_sentences(lead_ins *out, const lh_tokenizer *tok, const lh_chat_format *format)
{
    LH_TRY(encode(tok, first_lead, &out->first));
    LH_TRY(encode(tok, later_lead, &out->later));
    return format ? encode_ending(tok, format, &out->ending) : encode(tok, "\n", &out->ending);
}

/* The lines as questions that are asked after a context. */
static lh_status encode_lines(lead_ins *out, const lh_tokenizer *tok, const lh_chat_format *format,
                              const lh_profile *text)
{
    LH_TRY(lh_prompt_encode(tok,
                            &(lh_prompt_text){.text = "",
                                              .questions = (const char *const *)text->lines,
                                              .question_count = text->line_count,
                                              .special = 1,
                                              .chat = format != NULL,
                                              .format = format},
                            NULL, &out->lines));
    out->line_count = text->line_count;
    return LH_OK;
}

/* text NULL: the lead-ins of segments that repeat. */
static lh_status make_lead_ins(lead_ins *out, const lh_tokenizer *tok, const lh_profile *text)
{
    lh_status st = LH_OK;
    const lh_chat_format *format = NULL;
    if (!tok && !text) return LH_OK;
    if (!tok)
        LH_FAIL(LH_EUSAGE, "the model has no tokenizer, and cannot read the questions of '%s': give '--rows-at repeat'",
                text->name);
    LH_TRY_DONE(lh_chat_of(&format, tok));
    LH_TRY_DONE(text ? encode_lines(out, tok, format, text) : encode_sentences(out, tok, format));
done:
    lh_chat_close(format);
    return st;
}

lh_status lh_probe_leads_of(lh_probe_leads *out, const lh_engine *engine, const lh_policy *policy,
                            const lh_profiles *profiles)
{
    lead_ins l = {.line_count = 0};
    const lh_tokenizer *tok = lh_engine_tokenizer(engine);
    lh_status st = LH_OK;
    *out = (lh_probe_leads){.line_count = 0};
    if (!lh_policy_has_probes(policy)) return LH_OK;
    LH_TRY_DONE(make_lead_ins(&l, tok, lh_profiles_find(profiles, LH_PROFILE_LINES, policy->score.text)));
    if (tok) out->first = l.first.n + l.ending.n, out->later = l.later.n + LH_LEAD_QUOTE + l.ending.n;
    for (; out->line_count < l.line_count; out->line_count++)
        out->lines[out->line_count] = (int32_t)l.lines[out->line_count].n;
done:
    clear(&l);
    return st;
}

static lh_status push(lh_tokens *out, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_tokens_push(out, ids[i]));
    return LH_OK;
}

/* The sentence before a stretch; a later one quotes the tokens before it. */
static lh_status push_sentence(lh_tokens *out, const lead_ins *l, const int32_t *quote)
{
    const lh_tokens *sentence = quote ? &l->later : &l->first;
    LH_TRY(push(out, sentence->ids, sentence->n));
    if (quote) LH_TRY(push(out, quote, LH_LEAD_QUOTE));
    return push(out, l->ending.ids, l->ending.n);
}

/* Segment number i. */
static lh_status push_segment(lh_tokens *out, const lead_ins *l, const lh_probed_prompt *p, int64_t i)
{
    const lh_probe_segment s = lh_kv_probe_segment(p->kv, i);
    if (l->lines) return push(out, l->lines[i].ids, l->lines[i].n);
    if (s.lead) LH_TRY(push_sentence(out, l, i ? p->ids + s.first - LH_LEAD_QUOTE : NULL));
    return push(out, p->ids + s.first, s.tokens);
}

static lh_status append(lh_tokens *out, const lh_engine *engine, const lh_probed_prompt *p)
{
    lh_status st = LH_OK;
    lead_ins l = {.line_count = 0};
    const int64_t segments = lh_kv_probe_segments(p->kv);
    LH_TRY_DONE(push(out, p->ids, p->n));
    if (segments) LH_TRY_DONE(make_lead_ins(&l, lh_engine_tokenizer(engine), p->text));
    for (int64_t i = 0; i < segments; i++) LH_TRY_DONE(push_segment(out, &l, p, i));
done:
    clear(&l);
    return st;
}

lh_status lh_probes_append(lh_tokens *out, const lh_engine *engine, const lh_probed_prompt *prompt)
{
    lh_comm *comm = lh_engine_get(engine)->comm;
    LH_TRY(lh_comm_agree(comm, append(out, engine, prompt)));
    return lh_kv_probe_segments(prompt->kv) ? lh_prompt_share(comm, out) : LH_OK;
}
