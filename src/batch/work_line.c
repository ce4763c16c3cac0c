/* work_line.c - the line of a finished request: the names and the places of its tokens, and its choices. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/unicode.h"
#include "batch/work.h"
#include "text/thoughts.h"

/* The text of a choice and its tokens; `texts` holds the texts of the latter. */
typedef struct named_tokens {
    lh_buf whole; /* a repeated prompt and the answer; empty: the answer alone */
    lh_batch_token *at;
    lh_batch_likely *all;
    int64_t *starts, *offsets; /* of each text in `texts`; of each token in the text */
    int64_t n;
    lh_buf texts;
} named_tokens;

static void clear_names(named_tokens *t)
{
    lh_buf_clear(&t->whole);
    lh_free(t->at);
    lh_free(t->all);
    lh_free(t->starts);
    lh_free(t->offsets);
    lh_buf_clear(&t->texts);
}

/* ---- a prompt that is repeated ---- */

static int64_t echoed(const lh_batch_work *w)
{
    return w->request.echo ? w->prompt.n : 0;
}

/* Appends the text of the prompt: as it was given, unless it was given as ids or truncated. */
static lh_status put_prompt(const lh_batch_work *w, const lh_tokenizer *tok, lh_buf *out)
{
    const int64_t from = lh_batch_has_added_first(&w->request, tok, &w->prompt);
    if (!w->request.echo) return LH_OK;
    if (w->request.prompt && !w->left_out) return lh_buf_puts(out, w->request.prompt);
    return tok ? lh_tokenizer_decode(tok, w->prompt.ids + from, w->prompt.n - from, out) : LH_OK;
}

/* offsets [prompt.n]: characters that the tokens before each complete; *characters: of all of them. */
static lh_status place_prompt(const lh_batch_work *w, const lh_tokenizer *tok, int64_t *offsets, int64_t *characters)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    int64_t *starts = NULL, i = 0;
    int begins = 1;
    LH_TRY_DONE(lh_calloc(&starts, w->prompt.n, sizeof *starts));
    for (int64_t k = 0; k < w->prompt.n; k++) {
        const int32_t id = w->prompt.ids[k];
        starts[k] = text.bytes;
        if (k == 0 && lh_batch_has_added_first(&w->request, tok, &w->prompt)) continue;
        LH_TRY_DONE((begins ? lh_tokenizer_first_bytes : lh_tokenizer_bytes)(tok, id, &text));
        begins &= lh_tokenizer_is_special(tok, id);
    }
    *characters = 0;
    for (int64_t at = 0; at < text.bytes; (*characters)++) {
        uint32_t cp;
        int skip;
        lh_utf8_read(text.data + at, text.bytes - at, &cp, &skip);
        at += skip;
        while (i < w->prompt.n && starts[i] < at) offsets[i++] = *characters;
    }
    while (i < w->prompt.n) offsets[i++] = *characters;
done:
    lh_buf_clear(&text);
    lh_free(starts);
    return st;
}

/* ---- tokens ---- */

/* The end token is not part of an answer. */
static int64_t tokens_of_answer(const lh_batch_reply *reply)
{
    return reply->answer.n - (reply->finish == LH_FINISH_STOP && !reply->answer_text.stopped);
}

/* The tokens of the choice with their probabilities, [tokens, lh_batch_seen_each]; the first one of a prompt has
 * none. */
static lh_status join_seen(const lh_batch_reply *reply, lh_buf *out)
{
    const lh_batch_work *w = reply->work;
    const lh_batch_seen first = {echoed(w) ? w->prompt.ids[0] : 0, 0};
    for (int64_t k = 0; echoed(w) && k < lh_batch_seen_each(w); k++) LH_TRY(lh_buf_append(out, &first, sizeof first));
    if (echoed(w)) LH_TRY(lh_buf_append(out, w->prompt_seen.data, w->prompt_seen.bytes));
    return lh_buf_append(out, reply->seen.data, reply->seen.bytes);
}

static lh_status place_tokens(const lh_batch_reply *reply, const lh_tokenizer *tok, named_tokens *t)
{
    const lh_batch_work *w = reply->work;
    const int64_t before = echoed(w);
    int64_t characters = 0;
    if (before) LH_TRY(place_prompt(w, tok, t->offsets, &characters));
    LH_TRY(lh_detokenizer_offsets(&reply->answer_text.decoder, reply->answer.ids, t->n - before, t->offsets + before));
    for (int64_t i = before; i < t->n; i++) t->offsets[i] += characters;
    return LH_OK;
}

/* Texts of all tokens in `seen`, [t->n, each]. */
static lh_status name_all(const lh_batch_reply *reply, const lh_tokenizer *tok, const lh_batch_seen *seen,
                          named_tokens *t)
{
    const lh_batch_work *w = reply->work;
    const int64_t each = lh_batch_seen_each(w);
    /* before the first text, where a tokenizer may strip a blank */
    int begins = echoed(w) || !reply->answer_text.decoder.continues;
    for (int64_t k = 0; k < t->n * each; k++) {
        if (k && k % each == 0) begins &= !tok || lh_tokenizer_is_special(tok, seen[k - each].id);
        if (tok) LH_TRY((begins ? lh_tokenizer_first_bytes : lh_tokenizer_bytes)(tok, seen[k].id, &t->texts));
        t->starts[k + 1] = t->texts.bytes;
    }
    for (int64_t k = 0; k < t->n * each; k++)
        t->all[k] = (lh_batch_likely){.text = t->texts.data ? t->texts.data + t->starts[k] : "",
                                      .bytes = t->starts[k + 1] - t->starts[k],
                                      .logprob = seen[k].logprob,
                                      .id = seen[k].id};
    for (int64_t n = 0; n < t->n; n++)
        t->at[n] = (lh_batch_token){.chosen = t->all[n * each],
                                    .top = t->all + n * each + 1,
                                    .top_count = each - 1,
                                    .offset = t->offsets[n],
                                    .is_first = n == 0 && echoed(w)};
    return LH_OK;
}

static lh_status name_tokens(const lh_batch_reply *reply, named_tokens *t)
{
    lh_status st = LH_OK;
    const lh_batch_work *w = reply->work;
    const lh_tokenizer *tok = lh_engine_tokenizer(w->common->engine);
    const int64_t each = lh_batch_seen_each(w);
    lh_buf seen = {0};
    if (w->request.logprobs < 0) return LH_OK;
    t->n = echoed(w) + tokens_of_answer(reply);
    LH_TRY_DONE(lh_calloc(&t->at, t->n, sizeof *t->at));
    LH_TRY_DONE(lh_calloc(&t->all, t->n * each, sizeof *t->all));
    LH_TRY_DONE(lh_calloc(&t->starts, t->n * each + 1, sizeof *t->starts));
    LH_TRY_DONE(lh_calloc(&t->offsets, t->n, sizeof *t->offsets));
    if (tok) LH_TRY_DONE(place_tokens(reply, tok, t));
    LH_TRY_DONE(join_seen(reply, &seen));
    LH_TRY_DONE(name_all(reply, tok, (const lh_batch_seen *)(const void *)seen.data, t));
done:
    lh_buf_clear(&seen);
    return st;
}

/* ---- choices ---- */

/* *opened: true if the answer begins within thoughts: the prompt ends with their tag, or with a turn that the answer
 * continues and that has not ended them. */
static lh_status begins_in_thoughts(const lh_batch_work *w, int *opened)
{
    const lh_messages *messages = &w->request.messages;
    LH_TRY(lh_thoughts_opened(lh_engine_tokenizer(w->common->engine), &w->prompt, opened));
    if (*opened || w->request.ending != LH_CHAT_CONTINUES_TURN) return LH_OK;
    *opened = lh_thoughts_begun(messages->at[messages->n - 1].content);
    return LH_OK;
}

/* The text of the answer; in a chat without its thoughts, in a completion perhaps after its prompt. */
static lh_status split_answer(const lh_batch_reply *reply, named_tokens *names, lh_thoughts *out)
{
    int opened = 0;
    const lh_batch_work *w = reply->work;
    const char *text = reply->answer_bytes.data ? reply->answer_bytes.data : "";
    *out = (lh_thoughts){.content = text, .content_bytes = reply->answer_bytes.bytes};
    if (w->request.echo) {
        LH_TRY(put_prompt(w, lh_engine_tokenizer(w->common->engine), &names->whole));
        LH_TRY(lh_buf_append(&names->whole, text, reply->answer_bytes.bytes));
        *out = (lh_thoughts){.content = names->whole.data, .content_bytes = names->whole.bytes};
    }
    if (w->request.api != LH_BATCH_CHAT || w->common->defaults->keep_thinking) return LH_OK;
    LH_TRY(begins_in_thoughts(w, &opened));
    *out = lh_thoughts_split(text, reply->answer_bytes.bytes, opened, LH_TEXT_WHOLE);
    return LH_OK;
}

/* The choice borrows from `names`. */
static lh_status make_choice(const lh_batch_reply *reply, named_tokens *names, lh_batch_choice *out)
{
    lh_thoughts parts;
    LH_TRY(split_answer(reply, names, &parts));
    LH_TRY(name_tokens(reply, names));
    *out = (lh_batch_choice){.text = parts.content,
                             .bytes = parts.content_bytes,
                             .thoughts = parts.thinks ? parts.thoughts : NULL,
                             .thoughts_bytes = parts.thoughts_bytes,
                             .no_content = parts.thinks && !parts.closed,
                             .finish = reply->finish,
                             .tokens = names->at,
                             .token_count = names->n};
    return LH_OK;
}

static int64_t new_tokens(const lh_batch_work *w)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->request.choices; i++) n += w->replies[i].answer.n;
    return n;
}

static lh_status write_answers(const lh_batch_work *w, lh_buf *out)
{
    lh_status st = LH_OK;
    const int64_t n = w->request.choices;
    named_tokens *names = NULL;
    lh_batch_choice *choices = NULL;
    LH_TRY_DONE(lh_calloc(&names, n, sizeof *names));
    LH_TRY_DONE(lh_calloc(&choices, n, sizeof *choices));
    for (int64_t i = 0; i < n; i++) LH_TRY_DONE(make_choice(&w->replies[i], &names[i], &choices[i]));
    LH_TRY_DONE(lh_batch_answer_line(&w->request,
                                     &(lh_batch_answer){.model = w->common->model,
                                                        .choices = choices,
                                                        .choice_count = n,
                                                        .prompt_tokens = lh_batch_context_tokens(w) + w->prompt.n,
                                                        .context_tokens = lh_batch_context_tokens(w),
                                                        .new_tokens = new_tokens(w),
                                                        .left_out = w->left_out,
                                                        .kv = w->kv},
                                     w->common->run, out));
done:
    for (int64_t i = 0; names && i < n; i++) clear_names(&names[i]);
    lh_free(names);
    lh_free(choices);
    return st;
}

static lh_status fail(const lh_batch_work *w)
{
    LH_FAIL(w->failure, "%s", w->why.data);
}

lh_status lh_batch_work_write(const lh_batch_work *w, lh_buf *out, json_t **timing)
{
    const double now = lh_clock_s();
    *timing = NULL;
    if (w->failure != LH_OK) {
        const lh_status st = lh_batch_failure_line(&w->line, fail(w), w->common->run, out);
        lh_error_clear();
        return st;
    }
    LH_TRY(write_answers(w, out));
    *timing = json_pack("{s:I, s:I, s:I, s:I, s:f, s:f}", "line", (json_int_t)w->line.number, "context_tokens",
                        (json_int_t)lh_batch_context_tokens(w), "prompt_tokens", (json_int_t)w->prompt.n, "new_tokens",
                        (json_int_t)new_tokens(w), "prefill_s", w->prefilled_s - w->began_s, "decode_s",
                        now - w->prefilled_s);
    return LH_OK;
}
