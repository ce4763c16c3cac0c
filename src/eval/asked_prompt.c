#include "eval/asked_prompt.h"

#include "base/minmax.h"

const char *const lh_scenario_names[] = {"question-aware", "context-only", NULL};

/* For lh_prompt_encode. questions: NULL, or the question if it is separate. */
static lh_prompt_text prompt_text(const lh_asked_text *asked, const lh_buf *text, const char *const *questions)
{
    return (lh_prompt_text){.text = text->data,
                            .bytes = text->bytes,
                            .questions = questions,
                            .question_count = questions != NULL,
                            .chat = asked->chat,
                            .chat_template = asked->chat_template,
                            .system = asked->system};
}

lh_status lh_asked_prompt_make(lh_asked_prompt *out, const lh_tokenizer *tok, const lh_asked_text *text)
{
    lh_status st = LH_OK;
    lh_buf question = {0}, all = {0};
    const lh_buf context = {.data = (char *)(uintptr_t)text->text, .bytes = text->bytes};
    lh_tokens *questions = NULL, *none = NULL;
    out->whole.n = out->context.n = 0;
    if (text->chat)
        LH_TRY_DONE(lh_buf_puts(&question, text->question));
    else /* a text that the answer continues */
        LH_TRY_DONE(lh_buf_printf(&question, "\n\nQuestion: %s\nAnswer:", text->question));
    LH_TRY_DONE(lh_buf_append(&all, text->text, text->bytes));
    if (text->chat && all.bytes) LH_TRY_DONE(lh_buf_puts(&all, "\n\n"));
    LH_TRY_DONE(lh_buf_append(&all, question.data, question.bytes));
    const lh_prompt_text aware = prompt_text(text, &all, NULL);
    const lh_prompt_text apart = prompt_text(text, &context, (const char *const[]){question.data});
    LH_TRY_DONE(lh_prompt_encode(tok, &aware, &out->whole, &none));
    LH_TRY_DONE(lh_prompt_encode(tok, &apart, &out->context, &questions));
    lh_tokens_clear(&out->question);
    out->question = questions[0];
done:
    lh_free(questions);
    lh_free(none);
    lh_buf_clear(&question);
    lh_buf_clear(&all);
    return st;
}

void lh_asked_prompt_clear(lh_asked_prompt *prompt)
{
    lh_tokens_clear(&prompt->whole);
    lh_tokens_clear(&prompt->context);
    lh_tokens_clear(&prompt->question);
}

lh_status lh_asked_prompt_share(lh_comm *comm, lh_asked_prompt *prompt)
{
    LH_TRY(lh_prompt_share(comm, &prompt->whole));
    LH_TRY(lh_prompt_share(comm, &prompt->context));
    LH_TRY(lh_prompt_share(comm, &prompt->question));
    return LH_OK;
}

const lh_tokens *lh_asked_prompt_of(const lh_asked_prompt *prompt, lh_scenario scenario)
{
    return scenario == LH_QUESTION_AWARE ? &prompt->whole : &prompt->context;
}

int64_t lh_asked_prompt_tokens(const lh_asked_prompt *prompt)
{
    return lh_max_i64(prompt->whole.n, prompt->context.n + prompt->question.n);
}
