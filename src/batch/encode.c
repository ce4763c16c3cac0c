/* encode.c - requests through the tokenizer and the chat format. */
#include "batch/encode.h"

#include <string.h>

#include "base/mem.h"
#include "engine/prompt.h"

static lh_prompt_text prompt_text(const lh_batch_common *common, const lh_batch_request *r)
{
    return (lh_prompt_text){.text = r->prompt ? r->prompt : "",
                            .bytes = r->prompt ? (int64_t)strlen(r->prompt) : 0,
                            .special = !r->split_special,
                            .chat = r->api == LH_BATCH_CHAT,
                            .format = common->format,
                            .messages = r->messages.at,
                            .message_count = r->messages.n,
                            .positions = common->config->max_positions,
                            .stops = {r->stops, r->stop_count},
                            .ignore_eos = r->ignore_eos};
}

static lh_status check_means(const lh_batch_common *common, const lh_batch_request *r)
{
    if (!common->tokenizer) LH_FAIL(LH_EUSAGE, "the model has no tokenizer: give 'prompt' as an array of token ids");
    if (r->api == LH_BATCH_CHAT && !common->format)
        LH_FAIL(LH_EUSAGE, "the model has no known chat format: name one with '--chat-template', or use "
                           "/v1/completions");
    return LH_OK;
}

static lh_status push_ids(const lh_tokens *ids, lh_tokens *out)
{
    for (int64_t n = 0; n < ids->n; n++) LH_TRY(lh_tokens_push(out, ids->ids[n]));
    return LH_OK;
}

lh_status lh_batch_encode(const lh_batch_common *common, const lh_batch_request *r, lh_tokens *prompt)
{
    lh_tokens *questions = NULL;
    const lh_prompt_text in = prompt_text(common, r);
    if (r->api == LH_BATCH_COMPLETION && !r->prompt) return push_ids(&r->ids, prompt);
    LH_TRY(check_means(common, r));
    lh_status st = lh_prompt_encode(common->tokenizer, &in, prompt, &questions);
    lh_free(questions);
    return st;
}

/* The text takes the place of the prompt or of the last message, which becomes the question. messages: [message_count],
 * NULL in a completion. */
static const char *put_context(lh_prompt_text *in, const lh_buf *context, lh_message *messages)
{
    const char *question = in->text;
    in->text = context->data;
    in->bytes = context->bytes;
    if (!messages) return question;
    lh_message *last = &messages[in->message_count - 1];
    question = last->content;
    last->content = context->data;
    in->messages = messages;
    return question;
}

static lh_status encode_question(const lh_batch_common *common, const lh_batch_request *r, const lh_buf *context,
                                 lh_tokens *before, lh_tokens *prompt)
{
    lh_status st = LH_OK;
    lh_prompt_text in = prompt_text(common, r);
    const char *question = NULL;
    lh_message *messages = NULL;
    lh_tokens *questions = NULL;
    if (in.chat) {
        LH_TRY_DONE(lh_calloc(&messages, in.message_count, sizeof *messages));
        memcpy(messages, in.messages, (size_t)in.message_count * sizeof *messages);
        if (strcmp(messages[in.message_count - 1].role, "user") != 0)
            LH_FAIL_DONE(LH_EINPUT,
                         "the last message is of the role '%.40s': the question about a context is a message of the "
                         "user",
                         messages[in.message_count - 1].role);
    }
    question = put_context(&in, context, messages);
    in.is_document = 1;
    in.questions = &question;
    in.question_count = r->prompt || in.chat;
    LH_TRY_DONE(lh_prompt_encode(common->tokenizer, &in, before, &questions));
    if (in.question_count)
        LH_TRY_DONE(push_ids(&questions[0], prompt));
    else
        LH_TRY_DONE(push_ids(&r->ids, prompt));
done:
    if (questions && in.question_count) lh_tokens_clear(&questions[0]);
    lh_free(questions);
    lh_free(messages);
    return st;
}

lh_status lh_batch_encode_question(const lh_batch_common *common, const lh_batch_request *r, const lh_buf *context,
                                   lh_tokens *before, lh_tokens *prompt)
{
    LH_TRY(check_means(common, r));
    return encode_question(common, r, context, before, prompt);
}

lh_status lh_batch_encode_ends(const lh_batch_common *common, const lh_batch_request *r, lh_tokens *ends)
{
    const lh_prompt_text in = prompt_text(common, r);
    return lh_prompt_ends(common->tokenizer, &in, ends);
}

lh_status lh_batch_check_tokens(const lh_batch_common *common, const lh_batch_request *r, int64_t before,
                                const lh_tokens *prompt)
{
    const lh_config *c = common->config;
    if (prompt->n == 0) LH_FAIL(LH_EINPUT, "the prompt is empty");
    if (before + prompt->n + r->max_new > c->max_positions)
        LH_FAIL(LH_EINPUT,
                "%lld tokens of prompt and %lld more to come are longer than the %lld positions of the model: shorten "
                "the prompt, or generate less",
                (long long)(before + prompt->n), (long long)r->max_new, (long long)c->max_positions);
    return lh_prompt_check_ids(prompt, c->vocab);
}
