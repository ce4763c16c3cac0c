#include "engine/prompt_fit.h"

#include <string.h>

#include "base/minmax.h"

/* A prompt that is encoded with less and less of its text. */
typedef struct fitting {
    const lh_tokenizer *tok;
    lh_prompt_text in;
    lh_message *messages; /* a copy; NULL: `text` is truncated */
    int64_t longest;      /* of the messages */
    lh_truncation part;
    lh_tokens ids; /* of the text that is truncated */
    lh_buf text;   /* what is kept of it */
    lh_tokens *prompt, *questions;
} fitting;

lh_truncation lh_prompt_limit_part(const lh_prompt_limit *limit)
{
    int part = 0;
    while (strcmp(lh_truncation_names[part], limit->part) != 0) part++;
    return (lh_truncation)part;
}

lh_status lh_prompt_limit_check(const lh_prompt_limit *limit, int64_t tokens)
{
    if (tokens <= limit->max_tokens) return LH_OK;
    const lh_kept_ends kept = lh_truncate(lh_prompt_limit_part(limit), tokens, limit->max_tokens);
    if (kept.first + kept.last == 0)
        LH_FAIL(LH_EUSAGE, "no room for a prompt is left in the positions of the model: generate less ('%s')",
                lh_setting("max_new"));
    return LH_OK;
}

static void drop_questions(fitting *f)
{
    for (int64_t i = 0; f->questions && i < f->in.question_count; i++) lh_tokens_clear(&f->questions[i]);
    lh_free(f->questions);
    f->questions = NULL;
}

/* *tokens: of the prompt with its longest question. */
static lh_status encode(fitting *f, int64_t *tokens)
{
    int64_t longest = 0;
    drop_questions(f);
    f->prompt->n = 0;
    LH_TRY(lh_prompt_encode(f->tok, &f->in, f->prompt, &f->questions));
    for (int64_t i = 0; i < f->in.question_count; i++) longest = lh_max_i64(longest, f->questions[i].n);
    *tokens = f->prompt->n + longest;
    return LH_OK;
}

/* The text of ids, without torn characters. */
static lh_status append_text(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out)
{
    lh_detokenizer d = {.tok = tok, .continues = out->bytes > 0};
    lh_status st = LH_OK;
    for (int64_t i = 0; st == LH_OK && i < n; i++) st = lh_detokenizer_push(&d, ids[i], out);
    if (st == LH_OK) st = lh_detokenizer_finish(&d, out);
    lh_detokenizer_clear(&d);
    return st;
}

/* *cut: what is left out. */
static lh_status keep(fitting *f, int64_t tokens, lh_prompt_cut *cut)
{
    const lh_kept_ends kept = lh_truncate(f->part, f->ids.n, tokens);
    *cut = (lh_prompt_cut){f->ids.n - kept.first - kept.last, f->ids.n};
    f->text.bytes = 0;
    LH_TRY(lh_buf_puts(&f->text, ""));
    LH_TRY(append_text(f->tok, f->ids.ids, kept.first, &f->text));
    LH_TRY(append_text(f->tok, f->ids.ids + f->ids.n - kept.last, kept.last, &f->text));
    if (f->messages) {
        f->messages[f->longest].content = f->text.data;
    } else {
        f->in.text = f->text.data;
        f->in.bytes = f->text.bytes;
    }
    return LH_OK;
}

/* The longest message, or the text. */
static lh_status choose_text(fitting *f)
{
    const char *text = f->in.text;
    int64_t bytes = f->in.bytes;
    if (f->in.messages) {
        LH_TRY(lh_calloc(&f->messages, f->in.message_count, sizeof *f->messages));
        memcpy(f->messages, f->in.messages, (size_t)f->in.message_count * sizeof *f->messages);
        f->in.messages = f->messages;
        for (int64_t i = 1; i < f->in.message_count; i++)
            if (strlen(f->messages[i].content) > strlen(f->messages[f->longest].content)) f->longest = i;
        text = f->messages[f->longest].content;
        bytes = (int64_t)strlen(text);
    }
    return lh_tokenizer_encode(f->tok, text, bytes, LH_ENCODE_PLAIN | LH_ENCODE_CONTINUES, &f->ids);
}

static lh_status shorten(fitting *f, int64_t tokens, const lh_prompt_limit *limit, lh_prompt_cut *cut)
{
    const int64_t max_tokens = limit->max_tokens;
    LH_TRY(lh_prompt_limit_check(limit, tokens));
    LH_TRY(choose_text(f));
    for (int64_t kept = f->ids.n; tokens > max_tokens;) {
        if (kept == 0)
            LH_FAIL(LH_EUSAGE,
                    "%lld tokens of the prompt are left without the text that is truncated, and there is room for "
                    "%lld: generate less ('%s')",
                    (long long)tokens, (long long)max_tokens, lh_setting("max_new"));
        kept = lh_max_i64(kept - (tokens - max_tokens), 0);
        LH_TRY(keep(f, kept, cut));
        LH_TRY(encode(f, &tokens));
    }
    return LH_OK;
}

lh_status lh_prompt_encode_within(const lh_tokenizer *tok, const lh_prompt_text *in, const lh_prompt_limit *limit,
                                  lh_tokens *prompt, lh_tokens **questions, lh_prompt_cut *cut)
{
    lh_status st = LH_OK;
    int64_t tokens;
    *cut = (lh_prompt_cut){0};
    if (!limit->part || !tok) return lh_prompt_encode(tok, in, prompt, questions);
    fitting f = {.tok = tok, .in = *in, .part = lh_prompt_limit_part(limit), .prompt = prompt};
    f.in.positions = 0; /* no text is too long */
    LH_TRY_DONE(encode(&f, &tokens));
    if (tokens > limit->max_tokens) LH_TRY_DONE(shorten(&f, tokens, limit, cut));
    *questions = f.questions;
    f.questions = NULL;
done:
    drop_questions(&f);
    lh_free(f.messages);
    lh_tokens_clear(&f.ids);
    lh_buf_clear(&f.text);
    return st;
}

void lh_prompt_truncate_ids(lh_tokens *ids, lh_truncation part, int64_t max_tokens, lh_prompt_cut *cut)
{
    const lh_kept_ends kept = lh_truncate(part, ids->n, max_tokens);
    *cut = (lh_prompt_cut){ids->n - kept.first - kept.last, ids->n};
    memmove(ids->ids + kept.first, ids->ids + ids->n - kept.last, (size_t)kept.last * sizeof *ids->ids);
    ids->n = kept.first + kept.last;
}

lh_status lh_prompt_cut_text(lh_buf *out, const lh_prompt_limit *limit, const lh_prompt_cut *cut)
{
    return lh_buf_printf(out, "the %s of the prompt is left out, %lld of its %lld tokens", limit->part,
                         (long long)cut->left_out, (long long)cut->of);
}
