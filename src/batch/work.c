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
#include "policies/profile.h"
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
        if (!limit->part) return LH_OK;
        LH_TRY(lh_prompt_limit_check(limit, prompt->n));
        lh_prompt_truncate_ids(prompt, lh_prompt_limit_part(limit), limit->max_tokens, cut);
        return LH_OK;
    }
    LH_TRY(check_tokenizer(common, r));
    lh_status st = lh_prompt_encode_within(common->tokenizer, &in, limit, prompt, &questions, cut);
    lh_free(questions);
    return st;
}

int lh_batch_has_added_first(const lh_batch_request *r, const lh_tokenizer *tok, const lh_tokens *prompt)
{
    const int32_t bos = tok ? lh_tokenizer_bos(tok) : -1;
    return r->prompt && bos >= 0 && lh_tokenizer_adds_bos(tok) && prompt->n && prompt->ids[0] == bos;
}

/* Keeps the last tokens; a begin-of-sequence token that the tokenizer added is one of them, as in vLLM. */
static void keep_last(const lh_batch_common *common, const lh_batch_request *r, int64_t kept, lh_tokens *prompt,
                      lh_prompt_cut *cut)
{
    const int first = lh_batch_has_added_first(r, common->tokenizer, prompt);
    lh_tokens text = {.ids = prompt->ids + first, .n = prompt->n - first};
    lh_prompt_truncate_ids(&text, LH_TRUNCATE_START, kept - first, cut);
    prompt->n = first + text.n;
}

lh_status lh_batch_encode(const lh_batch_common *common, const lh_batch_request *r, lh_tokens *prompt,
                          int64_t *left_out)
{
    const int64_t fitting = common->config->max_positions - r->max_new;
    const char *part = r->keep_last ? NULL : common->defaults->truncate;
    lh_prompt_cut cut = {0};
    LH_TRY(encode_whole(common, r, &(lh_prompt_limit){part, fitting}, prompt, &cut));
    const int64_t kept = r->keep_last < 0 ? fitting : r->keep_last; /* below 1: the answer alone is too long */
    if (kept > 0) keep_last(common, r, kept, prompt, &cut);
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
    const int truncates = common->defaults->truncate != NULL;
    if (prompt->n == 0) LH_FAIL(LH_EINPUT, "the prompt is empty");
    if (before + prompt->n + r->max_new > c->max_positions)
        LH_FAIL(LH_EINPUT,
                "%lld tokens of prompt and %lld more to come are longer than the %lld positions of the model: shorten "
                "the prompt%s, or generate less",
                (long long)(before + prompt->n), (long long)r->max_new, (long long)c->max_positions,
                truncates || before || r->keep_last ? "" : " ('--truncate' does)");
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
    LH_TRY(lh_profiles_check_loaded(w->common->profiles, &w->policy));
    LH_TRY(lh_policy_size(&w->policy, &w->common->cache));
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

static void clear_reply(lh_batch_reply *reply)
{
    lh_answer_text_clear(&reply->answer_text);
    lh_tokens_clear(&reply->answer);
    lh_buf_clear(&reply->answer_bytes);
    lh_buf_clear(&reply->seen);
}

void lh_batch_work_close(lh_batch_work *w)
{
    if (!w) return;
    for (int64_t i = 0; w->replies && i < w->request.choices; i++) clear_reply(&w->replies[i]);
    lh_free(w->replies);
    lh_batch_context_release(w->context);
    lh_batch_context_release(w->origin);
    lh_batch_request_clear(&w->request);
    lh_tokens_clear(&w->prompt);
    lh_tokens_clear(&w->ends);
    lh_buf_clear(&w->why);
    lh_buf_clear(&w->prompt_seen);
    lh_free(w->bias);
    lh_free(w->checkpoint);
    lh_free(w->text);
    lh_free(w);
}

/* ---- the task ---- */

int64_t lh_batch_seen_each(const lh_batch_work *w)
{
    return 1 + lh_max_i64(lh_min_i64(w->request.logprobs, w->common->config->vocab), 0);
}

/* Appends the token `id` and those with the largest logits of a row, in descending order, the lower id among equals. */
static lh_status store_seen(const lh_batch_work *w, const float *row, int32_t id, lh_buf *out)
{
    enum { TOP_MAX = 32 };
    const int64_t vocab = w->common->config->vocab, top = lh_min_i64(lh_batch_seen_each(w) - 1, TOP_MAX);
    int32_t best[TOP_MAX];
    int64_t n = 0;
    const double nll = lh_nll_of(row, vocab, id), log_sum = nll + row[id];
    for (int64_t i = 0; i < vocab; i++) {
        int64_t at = n < top ? n++ : top;
        for (; at > 0 && row[i] > row[best[at - 1]]; at--)
            if (at < top) best[at] = best[at - 1];
        if (at < top) best[at] = (int32_t)i;
    }
    lh_batch_seen one = {id, -nll};
    LH_TRY(lh_buf_append(out, &one, sizeof one));
    for (int64_t k = 0; k < n; k++) {
        one = (lh_batch_seen){best[k], (double)row[best[k]] - log_sum};
        LH_TRY(lh_buf_append(out, &one, sizeof one));
    }
    return LH_OK;
}

static lh_status see_choice(void *self, int32_t id)
{
    lh_status st = LH_OK;
    lh_batch_reply *reply = self;
    const lh_engine_view *e = lh_engine_get(reply->work->common->engine);
    const float *rows = NULL;
    int64_t n = 0;
    LH_TRY(lh_session_logits(reply->session, &rows, &n));
    if (rows) st = store_seen(reply->work, rows + (n - 1) * e->config->vocab, id, &reply->seen);
    return lh_comm_agree(e->comm, st);
}

/* Rows of logits of the prompt: each is of the token after its own. */
static lh_status see_prompt_rows(void *self, int64_t first, const float *logits, int64_t n)
{
    lh_status st = LH_OK;
    lh_batch_work *w = ((lh_batch_reply *)self)->work;
    const lh_engine_view *e = lh_engine_get(w->common->engine);
    const int64_t end = lh_min_i64(first + n, w->prompt.n - 1);
    for (int64_t i = first; logits && st == LH_OK && i < end; i++)
        st = store_seen(w, logits + (i - first) * e->config->vocab, w->prompt.ids[i + 1], &w->prompt_seen);
    return lh_comm_agree(e->comm, st);
}

static lh_status see_token(void *self, int32_t id, int *stop)
{
    lh_answer_text *text = &((lh_batch_reply *)self)->answer_text;
    LH_TRY(lh_answer_text_push(text, id));
    text->shown = lh_max_i64(text->shown, text->final); /* no stop text begins before it */
    *stop = text->stopped;
    return LH_OK;
}

int64_t lh_batch_context_tokens(const lh_batch_work *w)
{
    return w->context ? w->context->ids.n : 0;
}

/* Collective. */
static lh_status see_prompt(void *self, lh_session *session)
{
    lh_batch_reply *reply = self;
    lh_batch_work *w = reply->work;
    const lh_engine_view *e = lh_engine_get(w->common->engine);
    const lh_config *c = e->config;
    lh_kv_stats stats = {0};
    reply->session = session;
    if (w->prefilled_s == 0) w->prefilled_s = lh_clock_s();
    LH_TRY(lh_comm_agree(e->comm, lh_kv_stats_of(lh_session_kv(session), &stats)));
    LH_TRY(lh_comm_allreduce(e->comm, &stats.entries_counted, 1, LH_I64, LH_SUM));
    const int64_t tokens = lh_batch_context_tokens(w) + w->prompt.n,
                  evicted_at = w->context ? lh_batch_context_tokens(w) : tokens;
    const int64_t all = tokens * c->layers * c->kv_heads;
    const lh_dtype kept = lh_kv_kept_type(&e->kv_types, &w->policy);
    w->kv = (lh_batch_kv){.budget = w->policy.evicts ? lh_policy_entries(&w->policy, evicted_at) : -1,
                          .entries = all,
                          .entries_kept = stats.entries_counted,
                          .bytes = all * lh_entry_bytes(e->kv_types.full, c->head_dim),
                          .bytes_kept = stats.entries_counted * lh_entry_bytes(kept, c->head_dim)};
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

/* The prompt as the context of several answers. */
static lh_status make_origin(lh_batch_work *w)
{
    lh_batch_context *c = NULL;
    LH_TRY(lh_calloc(&c, 1, sizeof *c));
    w->origin = lh_batch_context_retain(c);
    LH_TRY(push_ids(&w->prompt, &c->ids));
    c->policy = w->policy;
    c->checkpoint = w->checkpoint;
    w->checkpoint = NULL;
    c->shared = (lh_context){.prompt = c->ids,
                             .policy = &c->policy,
                             .profiles = w->common->profiles,
                             .seed = w->request.sampling.seed,
                             .more = w->request.max_new,
                             .checkpoint = c->checkpoint};
    return LH_OK;
}

/* The i-th answer. bans: make_bans. */
static void make_task(lh_batch_work *w, int64_t i, int64_t bans)
{
    const lh_batch_request *r = &w->request;
    const lh_tokenizer *tok = lh_engine_tokenizer(w->common->engine);
    const lh_batch_context *context = w->origin ? w->origin : w->context;
    lh_batch_reply *reply = &w->replies[i];
    reply->work = w;
    reply->answer_text = (lh_answer_text){
        .decoder = {.tok = tok, .keeps_special = r->keeps_special, .continues = continues_text(w, tok)},
        .stops = {r->stops, r->stop_count},
        .min_tokens = r->min_new,
        .text = &reply->answer_bytes};
    reply->task = (lh_task){.context = context ? &context->shared : NULL,
                            .prompt = w->origin ? (lh_tokens){0} : w->prompt,
                            .policy = &w->policy,
                            .profiles = w->common->profiles,
                            .how = {.sampling = r->sampling,
                                    .max_new = r->max_new,
                                    .min_new = r->min_new,
                                    .bans = bans,
                                    .ignore_eos = r->ignore_eos,
                                    .ends = &w->ends,
                                    .self = reply,
                                    .chosen = r->logprobs >= 0 ? see_choice : NULL,
                                    .token = see_token},
                            .seed = r->sampling.seed,
                            .checkpoint = w->checkpoint,
                            .answer = &reply->answer,
                            .self = reply,
                            .prompt_rows = r->echo && r->logprobs >= 0 ? see_prompt_rows : NULL,
                            .prefilled = see_prompt};
    reply->task.how.sampling.request += (uint64_t)i;
    if (bans) reply->task.how.sampling.bias = w->bias;
}

lh_status lh_batch_work_make_tasks(lh_batch_work *w)
{
    const char *prefills = w->common->prefills;
    int64_t bans = 0;
    if (prefills) LH_TRY(lh_batch_prefills_file(&w->checkpoint, prefills, w->line.number));
    LH_TRY(make_bans(w, lh_engine_tokenizer(w->common->engine), &bans));
    if (w->request.choices > 1 && !w->context) LH_TRY(make_origin(w));
    LH_TRY(lh_calloc(&w->replies, w->request.choices, sizeof *w->replies));
    for (int64_t i = 0; i < w->request.choices; i++) make_task(w, i, bans);
    return LH_OK;
}

lh_status lh_batch_reply_end(lh_batch_reply *reply, lh_finish_reason finish, lh_status st)
{
    lh_batch_work *w = reply->work;
    reply->finish = finish;
    w->finished++;
    if (st == LH_OK) return lh_answer_text_finish(&reply->answer_text);
    if (w->failure == LH_OK) LH_TRY(lh_buf_puts(&w->why, lh_error_message()));
    if (w->failure == LH_OK) w->failure = st;
    lh_error_clear();
    return LH_OK;
}
