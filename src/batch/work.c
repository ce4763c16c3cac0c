/* work.c - a request from its line in the input to its line in the output. */
#include "batch/work.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/unicode.h"
#include "batch/prefills.h"
#include "engine/prompt.h"
#include "kv/figures.h"
#include "model/sampler.h"
#include "text/text_check.h"
#include "text/thoughts.h"

/* ---- context files ---- */

/* real: [PATH_MAX] path of the file without symbolic links, which must be in the folder. */
static lh_status find_file(const char *root, const char *name, char *real)
{
    lh_status st = LH_OK;
    char real_root[PATH_MAX];
    size_t n;
    lh_buf path = {0};
    LH_TRY_DONE(lh_buf_printf(&path, "%s/%s", root, name));
    if (!realpath(root, real_root)) LH_FAIL_DONE(LH_EINPUT, "the folder of contexts '%s' cannot be read", root);
    if (!realpath(path.data, real))
        LH_FAIL_DONE(LH_EINPUT, "'context_file': there is no '%s' in the folder '%s' ('--context-root')", name, root);
    n = strlen(real_root);
    if (strncmp(real, real_root, n) != 0 || (real[n] != '/' && n > 1))
        LH_FAIL_DONE(LH_EINPUT, "'context_file': '%s' leads out of the folder '%s'", name, root);
done:
    lh_buf_clear(&path);
    return st;
}

static lh_status check_text(const lh_buf *text, const char *name)
{
    lh_status st = LH_OK;
    lh_buf said = {0};
    LH_TRY_DONE(lh_buf_printf(&said, "'context_file': '%s'", name));
    if (text->bytes == 0) LH_FAIL_DONE(LH_EINPUT, "%s is empty", said.data);
    LH_TRY_DONE(lh_text_check(said.data, text->data, text->bytes));
    if (memchr(text->data, 0, (size_t)text->bytes))
        LH_FAIL_DONE(LH_EINPUT, "%s holds a zero byte: it is not text", said.data);
done:
    lh_buf_clear(&said);
    return st;
}

lh_status lh_batch_context_read(lh_buf *text, const char *root, const char *name)
{
    const int64_t max_bytes = INT64_C(1) << 30;
    char real[PATH_MAX];
    text->bytes = 0;
    LH_TRY(find_file(root, name, real));
    LH_TRY(lh_file_read_regular(text, real, max_bytes));
    lh_text_drop_mark(text, 0);
    return check_text(text, name);
}

uint64_t lh_batch_context_hash(const lh_buf *text)
{
    const uint64_t hash = lh_hash64(text->data, text->bytes);
    return hash ? hash : 1;
}

/* ---- token ids ---- */

static lh_prompt_text prompt_text(const lh_batch_common *common, const lh_batch_request *r)
{
    return (lh_prompt_text){.text = r->prompt ? r->prompt : "",
                            .bytes = r->prompt ? (int64_t)strlen(r->prompt) : 0,
                            .special = !r->split_special,
                            .chat = r->api == LH_BATCH_CHAT,
                            .format = common->format,
                            .arguments = r->arguments,
                            .ending = r->ending,
                            .messages = r->messages.at,
                            .message_count = r->messages.n,
                            .positions = r->keep_last ? 0 : common->config->max_positions,
                            .stops = {r->stops, r->stop_count},
                            .ignore_eos = r->ignore_eos};
}

static lh_status check_tokenizer(const lh_batch_common *common, const lh_batch_request *r)
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

static lh_status encode_whole(const lh_batch_common *common, const lh_batch_request *r, const lh_prompt_limit *limit,
                              lh_tokens *prompt, lh_prompt_cut *cut)
{
    lh_tokens *questions = NULL;
    const lh_prompt_text in = prompt_text(common, r);
    if (r->api == LH_BATCH_COMPLETION && !r->prompt) {
        LH_TRY(push_ids(&r->ids, prompt));
        if (limit->part) lh_prompt_truncate_ids(prompt, lh_prompt_limit_part(limit), limit->max_tokens, cut);
        return LH_OK;
    }
    LH_TRY(check_tokenizer(common, r));
    lh_status st = lh_prompt_encode_within(common->tokenizer, &in, limit, prompt, &questions, cut);
    lh_free(questions);
    return st;
}

lh_status lh_batch_encode(const lh_batch_common *common, const lh_batch_request *r, lh_tokens *prompt,
                          int64_t *left_out)
{
    const int64_t fitting = common->config->max_positions - r->max_new;
    const char *part = r->keep_last ? NULL : common->defaults->truncate;
    lh_prompt_cut cut = {0};
    LH_TRY(encode_whole(common, r, &(lh_prompt_limit){part, fitting}, prompt, &cut));
    if (r->keep_last)
        lh_prompt_truncate_ids(prompt, LH_TRUNCATE_START, r->keep_last < 0 ? fitting : r->keep_last, &cut);
    *left_out = cut.left_out;
    return LH_OK;
}

/* Replaces the prompt, or the content of the last message, by the context, and returns it: the question. messages:
 * [message_count], NULL in a completion. */
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

lh_status lh_batch_encode_question(const lh_batch_common *common, const lh_batch_request *r, const lh_buf *context,
                                   lh_tokens *before, lh_tokens *prompt)
{
    lh_status st = LH_OK;
    lh_prompt_text in = prompt_text(common, r);
    const char *question = NULL;
    lh_message *messages = NULL;
    lh_tokens *questions = NULL;
    LH_TRY(check_tokenizer(common, r));
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

lh_status lh_batch_encode_ends(const lh_batch_common *common, const lh_batch_request *r, lh_tokens *ends)
{
    const lh_prompt_text in = prompt_text(common, r);
    LH_TRY(lh_prompt_ends(common->tokenizer, &in, ends));
    return push_ids(&r->stop_ids, ends);
}

/* LH_EUSAGE for ids of the request that the model lacks. */
static lh_status check_ids(const lh_batch_request *r, int64_t vocab)
{
    for (int64_t k = 0; k < r->sampling.bias_count; k++)
        if (r->bias[k].id >= vocab)
            LH_FAIL(LH_EUSAGE, "'logit_bias': token id %d is not in the model's vocabulary of %lld", r->bias[k].id,
                    (long long)vocab);
    return lh_prompt_check_ids(&r->stop_ids, vocab);
}

lh_status lh_batch_check_tokens(const lh_batch_common *common, const lh_batch_request *r, int64_t before,
                                const lh_tokens *prompt)
{
    const lh_config *c = common->config;
    if (prompt->n == 0) LH_FAIL(LH_EINPUT, "the prompt is empty");
    if (before + prompt->n + r->max_new > c->max_positions)
        LH_FAIL(LH_EINPUT,
                "%lld tokens of prompt and %lld more to come are longer than the %lld positions of the model: shorten "
                "the prompt ('--truncate' does), or generate less",
                (long long)(before + prompt->n), (long long)r->max_new, (long long)c->max_positions);
    LH_TRY(check_ids(r, c->vocab));
    return lh_prompt_check_ids(prompt, c->vocab);
}

/* ---- contexts ---- */

lh_batch_context *lh_batch_context_retain(lh_batch_context *context)
{
    context->references++;
    return context;
}

void lh_batch_context_release(lh_batch_context *context)
{
    if (!context || --context->references > 0) return;
    lh_tokens_clear(&context->ids);
    lh_free(context->checkpoint);
    lh_free(context);
}

/* ---- the request ---- */

static int gives_policy(const lh_policy_options *o)
{
    const lh_policy_parts none = {0};
    return o->policy || memcmp(&o->parts, &none, sizeof none) != 0;
}

/* The policy of the request or of the run, with the budget of the request if it gives one. */
static lh_status resolve_policy(lh_batch_work *w, lh_policy_asked asked)
{
    const lh_policy_options *own = &w->request.policy;
    lh_policy_options options = *w->common->policy;
    if (!gives_policy(own) && !own->budget) {
        w->policy = w->common->plans[asked];
        return LH_OK;
    }
    options.asked = asked;
    if (gives_policy(own)) {
        options.policy = own->policy;
        options.parts = own->parts;
        options.profiles = NULL; /* a request names no files */
    }
    if (own->budget) options.budget = own->budget;
    if (own->policy && strcmp(own->policy, "full") == 0) options.budget = NULL;
    LH_TRY(lh_policy_resolve(&w->policy, &options));
    return lh_policy_check_question(&w->policy);
}

lh_status lh_batch_work_open(lh_batch_work **out, const lh_batch_common *common, int64_t i, const lh_batch_line *line,
                             int shares_context)
{
    lh_batch_work *w = NULL;
    LH_TRY(lh_calloc(&w, 1, sizeof *w));
    *out = w;
    w->common = common;
    w->i = i;
    w->line = *line;
    w->began_s = lh_clock_s();
    LH_TRY(lh_batch_request_read(&w->request, &w->line, common->defaults));
    return resolve_policy(w, shares_context ? LH_ASKED_LATER : LH_ASKED_IN_PROMPT);
}

void lh_batch_work_close(lh_batch_work *w)
{
    if (!w) return;
    lh_batch_context_release(w->context);
    lh_answer_text_clear(&w->answer_text);
    lh_batch_request_clear(&w->request);
    lh_tokens_clear(&w->prompt);
    lh_tokens_clear(&w->ends);
    lh_tokens_clear(&w->answer);
    lh_buf_clear(&w->answer_bytes);
    lh_buf_clear(&w->likely);
    lh_free(w->bias);
    lh_free(w->checkpoint);
    lh_free(w->text);
    lh_free(w);
}

/* ---- the task ---- */

typedef struct likely {
    int32_t id;
    double logprob;
} likely;

/* Stores the chosen token and those with the largest logits of a row, in descending order, the lower id among equals.
 */
static lh_status store_likely(lh_batch_work *w, const float *row, int64_t vocab, int32_t id)
{
    enum { TOP_MAX = 32 };
    const int64_t top = lh_min_i64(lh_min_i64(w->request.logprobs, TOP_MAX), vocab);
    int32_t best[TOP_MAX];
    int64_t n = 0;
    const double nll = lh_nll_of(row, vocab, id), log_sum = nll + row[id];
    for (int64_t i = 0; i < vocab; i++) {
        int64_t at = n < top ? n++ : top;
        for (; at > 0 && row[i] > row[best[at - 1]]; at--)
            if (at < top) best[at] = best[at - 1];
        if (at < top) best[at] = (int32_t)i;
    }
    likely one = {id, -nll};
    LH_TRY(lh_buf_append(&w->likely, &one, sizeof one));
    for (int64_t k = 0; k < n; k++) {
        one = (likely){best[k], (double)row[best[k]] - log_sum};
        LH_TRY(lh_buf_append(&w->likely, &one, sizeof one));
    }
    return LH_OK;
}

static lh_status see_choice(void *self, int32_t id)
{
    lh_batch_work *w = self;
    const int64_t vocab = lh_engine_get(w->common->engine)->config->vocab;
    const float *rows = NULL;
    int64_t n = 0;
    LH_TRY(lh_session_logits(w->session, &rows, &n));
    return lh_comm_agree(lh_engine_get(w->common->engine)->comm,
                         rows ? store_likely(w, rows + (n - 1) * vocab, vocab, id) : LH_OK);
}

static lh_status see_token(void *self, int32_t id, int *stop)
{
    lh_batch_work *w = self;
    LH_TRY(lh_answer_text_push(&w->answer_text, id));
    w->answer_text.shown = lh_max_i64(w->answer_text.shown, w->answer_text.final); /* no stop text begins before it */
    *stop = w->answer_text.stopped;
    return LH_OK;
}

static int64_t context_tokens(const lh_batch_work *w)
{
    return w->context ? w->context->ids.n : 0;
}

/* Collective. */
static lh_status see_prompt(void *self, lh_session *session)
{
    lh_batch_work *w = self;
    const lh_engine_view *e = lh_engine_get(w->common->engine);
    const lh_config *c = e->config;
    lh_kv_stats stats = {0};
    w->session = session;
    w->prefilled_s = lh_clock_s();
    LH_TRY(lh_comm_agree(e->comm, lh_kv_stats_of(lh_session_kv(session), &stats)));
    LH_TRY(lh_comm_allreduce(e->comm, &stats.entries_counted, 1, LH_I64, LH_SUM));
    const int64_t tokens = context_tokens(w) + w->prompt.n, evicted_at = w->context ? context_tokens(w) : tokens;
    const int64_t entry = 2 * c->head_dim * lh_dtype_bytes(e->kv_dtype), all = tokens * c->layers * c->kv_heads;
    w->kv = (lh_batch_kv){.budget = w->policy.evicts ? lh_policy_entries(&w->policy, evicted_at) : -1,
                          .entries = all,
                          .entries_kept = stats.entries_counted,
                          .bytes = all * entry,
                          .bytes_kept = stats.entries_counted * entry};
    return LH_OK;
}

/* True for a completion, or an answer that continues a turn: its text follows the text of the prompt. */
static int continues_text(const lh_batch_work *w, const lh_tokenizer *tok)
{
    if (!tok || (w->request.api == LH_BATCH_CHAT && w->request.ending != LH_CHAT_CONTINUES_TURN)) return 0;
    return (w->context && lh_tokenizer_has_text(tok, &w->context->ids)) || lh_tokenizer_has_text(tok, &w->prompt);
}

/* *bans: the number of tokens that end the answer; they follow the biases of the request. */
static lh_status make_bans(lh_batch_work *w, const lh_tokenizer *tok, int64_t *bans)
{
    const lh_batch_request *r = &w->request;
    const int64_t given = r->sampling.bias_count, vocab = tok && !r->ignore_eos ? lh_tokenizer_vocab(tok) : 0;
    *bans = 0;
    if (!r->min_new) return LH_OK;
    LH_TRY(lh_calloc(&w->bias, given + w->ends.n + vocab, sizeof *w->bias));
    if (given) memcpy(w->bias, r->bias, (size_t)given * sizeof *w->bias);
    for (int64_t i = 0; i < w->ends.n; i++) w->bias[given + (*bans)++] = (lh_logit_bias){w->ends.ids[i], -INFINITY};
    for (int32_t id = 0; id < vocab; id++)
        if (lh_tokenizer_is_eos(tok, id)) w->bias[given + (*bans)++] = (lh_logit_bias){id, -INFINITY};
    return LH_OK;
}

lh_status lh_batch_work_make_task(lh_batch_work *w)
{
    const lh_batch_request *r = &w->request;
    const char *prefills = w->common->prefills;
    if (prefills) LH_TRY(lh_batch_prefills_file(&w->checkpoint, prefills, w->line.number));
    const lh_tokenizer *tok = lh_engine_tokenizer(w->common->engine);
    int64_t bans = 0;
    LH_TRY(make_bans(w, tok, &bans));
    w->answer_text = (lh_answer_text){.decoder = {.tok = tok, .continues = continues_text(w, tok)},
                                      .stops = {r->stops, r->stop_count},
                                      .min_tokens = r->min_new,
                                      .text = &w->answer_bytes};
    w->task = (lh_task){.context = w->context ? &w->context->shared : NULL,
                        .prompt = w->prompt,
                        .policy = &w->policy,
                        .profiles = w->common->profiles,
                        .how = {.sampling = r->sampling,
                                .max_new = r->max_new,
                                .min_new = r->min_new,
                                .bans = bans,
                                .ignore_eos = r->ignore_eos,
                                .ends = &w->ends,
                                .self = w,
                                .chosen = r->logprobs >= 0 ? see_choice : NULL,
                                .token = see_token},
                        .seed = r->sampling.seed,
                        .checkpoint = w->checkpoint,
                        .answer = &w->answer,
                        .self = w,
                        .prefilled = see_prompt};
    if (bans) w->task.how.sampling.bias = w->bias;
    return LH_OK;
}

/* ---- the line ---- */

/* Tokens of the answer; `texts` holds their texts. */
typedef struct named_tokens {
    lh_batch_token *at;
    lh_batch_likely *all;
    int64_t *starts, *offsets; /* of each text in `texts`; of each token in the answer */
    int64_t n;
    lh_buf texts;
} named_tokens;

static void clear_names(named_tokens *t)
{
    lh_free(t->at);
    lh_free(t->all);
    lh_free(t->starts);
    lh_free(t->offsets);
    lh_buf_clear(&t->texts);
}

/* The end token is not part of an answer. */
static int64_t tokens_of_answer(const lh_batch_work *w, lh_finish_reason finish)
{
    return finish == LH_FINISH_STOP && !w->answer_text.stopped ? w->answer.n - 1 : w->answer.n;
}

static lh_status name_tokens(const lh_batch_work *w, lh_finish_reason finish, named_tokens *t)
{
    const lh_tokenizer *tok = lh_engine_tokenizer(w->common->engine);
    const likely *seen = (const likely *)(const void *)w->likely.data;
    const int64_t total = w->likely.bytes / (int64_t)sizeof *seen, each = w->answer.n ? total / w->answer.n : 0;
    t->n = tokens_of_answer(w, finish);
    if (w->request.logprobs < 0) t->n = 0;
    LH_TRY(lh_calloc(&t->at, t->n, sizeof *t->at));
    LH_TRY(lh_calloc(&t->all, t->n * each, sizeof *t->all));
    LH_TRY(lh_calloc(&t->starts, t->n * each + 1, sizeof *t->starts));
    LH_TRY(lh_calloc(&t->offsets, t->n, sizeof *t->offsets));
    if (tok) LH_TRY(lh_detokenizer_offsets(&w->answer_text.decoder, w->answer.ids, t->n, t->offsets));
    int begins = !w->answer_text.decoder.continues; /* before the first text, where a tokenizer may strip a blank */
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
        t->at[n] = (lh_batch_token){
            .chosen = t->all[n * each], .top = t->all + n * each + 1, .top_count = each - 1, .offset = t->offsets[n]};
    return LH_OK;
}

/* The text of the answer; in a chat without its thoughts. */
static lh_status split_answer(const lh_batch_work *w, lh_thoughts *out)
{
    int opened = 0;
    const char *text = w->answer_bytes.data ? w->answer_bytes.data : "";
    *out = (lh_thoughts){.content = text, .content_bytes = w->answer_bytes.bytes};
    if (w->request.api != LH_BATCH_CHAT || w->common->defaults->keep_thinking) return LH_OK;
    LH_TRY(lh_thoughts_opened(lh_engine_tokenizer(w->common->engine), &w->prompt, &opened));
    *out = lh_thoughts_split(text, w->answer_bytes.bytes, opened, LH_TEXT_WHOLE);
    return LH_OK;
}

static lh_status write_answer(const lh_batch_work *w, lh_finish_reason finish, lh_buf *out)
{
    named_tokens tokens = {0};
    lh_thoughts parts;
    LH_TRY(split_answer(w, &parts));
    lh_status st = name_tokens(w, finish, &tokens);
    if (st == LH_OK)
        st = lh_batch_answer_line(&w->request,
                                  &(lh_batch_answer){.model = w->common->model,
                                                     .text = parts.content,
                                                     .bytes = parts.content_bytes,
                                                     .thoughts = parts.thinks ? parts.thoughts : NULL,
                                                     .thoughts_bytes = parts.thoughts_bytes,
                                                     .no_content = parts.thinks && !parts.closed,
                                                     .finish = finish,
                                                     .prompt_tokens = context_tokens(w) + w->prompt.n,
                                                     .context_tokens = context_tokens(w),
                                                     .new_tokens = w->answer.n,
                                                     .left_out = w->left_out,
                                                     .tokens = tokens.at,
                                                     .token_count = tokens.n,
                                                     .kv = w->kv},
                                  w->common->run, out);
    clear_names(&tokens);
    return st;
}

lh_status lh_batch_work_write(const lh_batch_work *w, lh_finish_reason finish, lh_status how, lh_buf *out,
                              json_t **timing)
{
    const double now = lh_clock_s();
    *timing = NULL;
    if (how != LH_OK) return lh_batch_failure_line(&w->line, how, w->common->run, out);
    LH_TRY(write_answer(w, finish, out));
    *timing =
        json_pack("{s:I, s:I, s:I, s:I, s:f, s:f}", "line", (json_int_t)w->line.number, "context_tokens",
                  (json_int_t)context_tokens(w), "prompt_tokens", (json_int_t)w->prompt.n, "new_tokens",
                  (json_int_t)w->answer.n, "prefill_s", w->prefilled_s - w->began_s, "decode_s", now - w->prefilled_s);
    return LH_OK;
}
