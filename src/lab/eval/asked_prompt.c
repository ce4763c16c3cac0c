/* asked_prompt.c - encodes a text and a question about it, with the question before the eviction and after it. */
#include "lab/eval/asked_prompt.h"

#include "base/minmax.h"

static lh_status open_format(lh_asked_format *out, const lh_tokenizer *tok, const lh_asked_chat *chat)
{
    LH_TRY(lh_prompt_format(tok, &(lh_prompt_text){.chat_template = chat->chat_template}, &out->format));
    return lh_prompt_ends(tok, &(lh_prompt_text){.chat = 1, .format = out->format}, &out->ends);
}

lh_status lh_asked_format_open(lh_asked_format *out, const lh_engine *engine, const lh_asked_chat *chat)
{
    lh_status st = LH_OK;
    lh_comm *comm = lh_engine_get(engine)->comm;
    if (chat->on && lh_comm_rank(comm) == 0) st = open_format(out, lh_engine_tokenizer(engine), chat);
    LH_TRY(lh_comm_agree(comm, st));
    return lh_prompt_share(comm, &out->ends);
}

void lh_asked_format_close(lh_asked_format *format)
{
    lh_chat_close(format->format);
    lh_tokens_clear(&format->ends);
    *format = (lh_asked_format){0};
}

/* For lh_prompt_encode. questions: NULL, or the question if it is separate. */
static lh_prompt_text prompt_text(const lh_asked_text *asked, const lh_buf *text, const char *const *questions)
{
    return (lh_prompt_text){.text = text->data,
                            .bytes = text->bytes,
                            .questions = questions,
                            .question_count = questions != NULL,
                            .joint = asked->joint,
                            .answer = asked->prefix,
                            .chat = asked->format != NULL,
                            .format = asked->format,
                            .system = asked->system};
}

/* Appends what continues the prompt. In plain text a blank stands before it, so that it begins as the model would begin
 * it. */
static lh_status encode_after(lh_tokens *out, const lh_tokenizer *tok, const char *before, const char *text)
{
    lh_status st = LH_OK;
    lh_buf after = {0};
    out->n = 0;
    if (!*text) return LH_OK;
    LH_TRY_DONE(lh_buf_printf(&after, "%s%s", before, text));
    LH_TRY_DONE(lh_tokenizer_encode(tok, after.data, after.bytes, LH_ENCODE_CONTINUES, out));
done:
    lh_buf_clear(&after);
    return st;
}

/* The right answer, with a joint as it is, or the choices. */
static lh_status encode_answers(lh_asked_prompt *out, const lh_tokenizer *tok, const lh_asked_text *text)
{
    if (text->answer) LH_TRY(encode_after(&out->answer, tok, text->format || text->joint ? "" : " ", text->answer));
    if (!text->choice_count) return LH_OK;
    LH_TRY(lh_calloc(&out->choices, text->choice_count, sizeof *out->choices));
    for (; out->choice_count < text->choice_count; out->choice_count++)
        LH_TRY(encode_after(&out->choices[out->choice_count], tok, text->format ? "" : " ",
                            text->choices[out->choice_count]));
    return LH_OK;
}

/* The parts of a prompt, the question after the context. Without a chat format the answer continues the text. */
static lh_status join_parts(lh_buf *context, lh_buf *question, const lh_asked_text *asked)
{
    LH_TRY(lh_buf_append(context, asked->text, asked->bytes));
    if (!asked->joint && !asked->format) return lh_buf_printf(question, "\n\nQuestion: %s\nAnswer:", asked->question);
    if (asked->joint && !asked->format) LH_TRY(lh_buf_puts(context, asked->joint));
    LH_TRY(lh_buf_puts(question, asked->question));
    if (asked->prefix && !asked->format) LH_TRY(lh_buf_puts(question, asked->prefix));
    return LH_OK;
}

lh_status lh_asked_prompt_make(lh_asked_prompt *out, const lh_tokenizer *tok, const lh_asked_text *text)
{
    lh_status st = LH_OK;
    lh_buf context = {0}, question = {0}, all = {0};
    lh_tokens *questions = NULL, *none = NULL;
    out->whole.n = out->context.n = 0;
    LH_TRY_DONE(join_parts(&context, &question, text));
    LH_TRY_DONE(lh_buf_append(&all, context.data, context.bytes));
    if (text->format && all.bytes) LH_TRY_DONE(lh_buf_puts(&all, text->joint ? text->joint : "\n\n"));
    LH_TRY_DONE(lh_buf_append(&all, question.data, question.bytes));
    const lh_prompt_text aware = prompt_text(text, &all, NULL);
    const lh_prompt_text apart = prompt_text(text, &context, (const char *const[]){question.data});
    LH_TRY_DONE(lh_prompt_encode(tok, &aware, &out->whole, &none));
    LH_TRY_DONE(lh_prompt_encode(tok, &apart, &out->context, &questions));
    lh_tokens_clear(&out->question);
    out->question = questions[0];
    LH_TRY_DONE(encode_answers(out, tok, text));
done:
    lh_free(questions);
    lh_free(none);
    lh_buf_clear(&context);
    lh_buf_clear(&question);
    lh_buf_clear(&all);
    return st;
}

void lh_asked_prompt_clear(lh_asked_prompt *prompt)
{
    lh_tokens_clear(&prompt->whole);
    lh_tokens_clear(&prompt->context);
    lh_tokens_clear(&prompt->question);
    lh_tokens_clear(&prompt->answer);
    for (int64_t i = 0; prompt->choices && i < prompt->choice_count; i++) lh_tokens_clear(&prompt->choices[i]);
    lh_free(prompt->choices);
    *prompt = (lh_asked_prompt){0};
}

static lh_status share_choices(lh_comm *comm, lh_asked_prompt *prompt)
{
    lh_status st = LH_OK;
    LH_TRY(lh_comm_bcast(comm, 0, &prompt->choice_count, sizeof prompt->choice_count));
    if (prompt->choice_count && !prompt->choices)
        st = lh_calloc(&prompt->choices, prompt->choice_count, sizeof *prompt->choices);
    LH_TRY(lh_comm_agree(comm, st));
    for (int64_t i = 0; i < prompt->choice_count; i++) LH_TRY(lh_prompt_share(comm, &prompt->choices[i]));
    return LH_OK;
}

lh_status lh_asked_prompt_share(lh_comm *comm, lh_asked_prompt *prompt)
{
    LH_TRY(lh_prompt_share(comm, &prompt->whole));
    LH_TRY(lh_prompt_share(comm, &prompt->context));
    LH_TRY(lh_prompt_share(comm, &prompt->question));
    LH_TRY(lh_prompt_share(comm, &prompt->answer));
    return share_choices(comm, prompt);
}

const lh_tokens *lh_asked_prompt_of(const lh_asked_prompt *prompt, lh_scenario scenario)
{
    return scenario == LH_QUESTION_AWARE ? &prompt->whole : &prompt->context;
}

int64_t lh_asked_prompt_tokens(const lh_asked_prompt *prompt, lh_scenario scenario)
{
    return scenario == LH_QUESTION_AWARE ? prompt->whole.n : prompt->context.n + prompt->question.n;
}

int64_t lh_asked_prompt_max(const lh_asked_prompt *prompt)
{
    return lh_max_i64(lh_asked_prompt_tokens(prompt, LH_QUESTION_AWARE),
                      lh_asked_prompt_tokens(prompt, LH_CONTEXT_ONLY));
}

int64_t lh_asked_prompt_longest(const lh_asked_prompt *prompt)
{
    int64_t longest = prompt->answer.n;
    for (int64_t i = 0; i < prompt->choice_count; i++) longest = lh_max_i64(longest, prompt->choices[i].n);
    return longest;
}
