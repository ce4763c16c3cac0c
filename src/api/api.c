/* api.c - the calls of longhaul.h that combine several of the engine's, for programs that link liblonghaul: policies,
 * forecast, completion, tokenizer. Calls that the engine implements itself are in src/engine. */
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/generate.h"
#include "engine/plan.h"
#include "engine/prompt.h"
#include "import/model_header.h"
#include "policies/list.h"
#include "policies/profile.h"

/* ---- policy ---- */

/* A policy for questions that come at one time, or why there is none. */
typedef struct resolved_policy {
    lh_policy policy;
    lh_status st;
    char *why;
} resolved_policy;

/* Every lh_policy of a program is the first member of an owned_policy. */
typedef struct owned_policy {
    lh_policy policy;        /* the first of `when` that there is: all have its budget */
    resolved_policy when[2]; /* [lh_policy_asked] two policies where the default is meant, else the same twice */
    lh_profiles profiles;    /* those that they name */
} owned_policy;

static const lh_profiles *profiles_of(const lh_policy *policy)
{
    return policy ? &((const owned_policy *)policy)->profiles : NULL;
}

static lh_status resolve_policy(owned_policy *out, lh_policy_options *options)
{
    for (int i = 1; i >= 0; i--) {
        resolved_policy *r = &out->when[i];
        options->asked = (lh_policy_asked)i;
        r->st = lh_policy_resolve(&r->policy, options);
        if (r->st == LH_OK) out->policy = r->policy;
        if (r->st != LH_OK) LH_TRY(lh_strdup(&r->why, lh_error_message()));
    }
    const resolved_policy *usual = &out->when[LH_ASKED_IN_PROMPT];
    if (usual->st != LH_OK && out->when[LH_ASKED_LATER].st != LH_OK) LH_FAIL(usual->st, "%s", usual->why);
    lh_error_clear();
    return LH_OK;
}

static lh_status parse_policy(lh_policy **out, const char *words, const lh_scorer *scorer)
{
    lh_status st = LH_OK;
    owned_policy *owned = NULL;
    lh_policy_options options = {0};
    char *text = NULL;
    LH_TRY_DONE(lh_check_given(out, "policy"));
    LH_TRY_DONE(lh_check_given(words, "words"));
    LH_TRY_DONE(lh_calloc(&owned, 1, sizeof *owned));
    LH_TRY_DONE(lh_policy_options_parse(&options, &text, words));
    options.profiles = &owned->profiles;
    options.scorer = scorer;
    LH_TRY_DONE(resolve_policy(owned, &options));
    *out = &owned->policy;
    owned = NULL;
done:
    lh_free(text);
    lh_policy_close(owned ? &owned->policy : NULL);
    return st;
}

lh_status lh_policy_parse(lh_policy **out, const char *words)
{
    return parse_policy(out, words, NULL);
}

lh_status lh_policy_of_scorer(lh_policy **out, const lh_scorer *scorer, const char *words)
{
    LH_TRY(lh_check_given(scorer, "scorer"));
    if (!scorer->score) LH_FAIL(LH_EUSAGE, "the scorer has no function that scores");
    return parse_policy(out, words, scorer);
}

void lh_policy_close(lh_policy *policy)
{
    owned_policy *owned = (owned_policy *)policy;
    for (int i = 0; owned && i < 2; i++) lh_free(owned->when[i].why);
    if (owned) lh_profiles_clear(&owned->profiles);
    lh_free(owned);
}

/* The policy for questions that come then, or `full` if it is NULL. */
static lh_status policy_when(lh_policy *out, const lh_policy *policy, int asks_later)
{
    if (!policy) return lh_policy_resolve(out, &(lh_policy_options){0});
    const resolved_policy *r = &((const owned_policy *)policy)->when[asks_later ? LH_ASKED_LATER : LH_ASKED_IN_PROMPT];
    if (r->st != LH_OK) LH_FAIL(r->st, "%s", r->why);
    *out = r->policy;
    return LH_OK;
}

/* ---- forecast ---- */

/* The lengths of a session, but for the model's positions. */
static lh_status check_lengths(const lh_session_start_options *o)
{
    if (o->prompt < 1) LH_FAIL(LH_EUSAGE, "prompt is %lld, it must be at least 1 token", (long long)o->prompt);
    if (o->more < 0) LH_FAIL(LH_EUSAGE, "more is %lld, it must be 0 or more", (long long)o->more);
    if (o->block < 0) LH_FAIL(LH_EUSAGE, "block is %lld, it must be 0 or more", (long long)o->block);
    if (o->block > o->more)
        LH_FAIL(LH_EUSAGE, "block is %lld, it must be at most the %lld tokens of more", (long long)o->block,
                (long long)o->more);
    return LH_OK;
}

/* Prompt and more in the positions of the model. */
static lh_status check_positions(const lh_session_start_options *o, const lh_config *config)
{
    if (o->more > config->max_positions - o->prompt)
        LH_FAIL(LH_EUSAGE,
                "a prompt of %lld tokens and more, which is %lld, are longer than the %lld positions of the model",
                (long long)o->prompt, (long long)o->more, (long long)config->max_positions);
    return LH_OK;
}

static lh_status check_model_positions(const lh_session_start_options *o, const char *model)
{
    lh_model_header header = {0};
    LH_TRY(lh_check_given(model, "model"));
    lh_status st = lh_model_header_read(&header, model);
    if (st == LH_OK) st = check_positions(o, &header.config);
    lh_model_header_clear(&header);
    return st;
}

lh_status lh_forecast_make(lh_forecast *out, const lh_engine_options *options, const lh_session_start_options *run)
{
    lh_policy policy;
    lh_plan plan = {0};
    LH_TRY(lh_check_given(out, "forecast"));
    LH_TRY(lh_check_given(options, "options"));
    LH_TRY(lh_check_given(run, "run"));
    LH_TRY(check_lengths(run));
    const lh_engine_options engine = lh_engine_defaults(options);
    LH_TRY(lh_engine_check(&engine));
    LH_TRY(check_model_positions(run, engine.model));
    LH_TRY(policy_when(&policy, run->policy, run->asks_later));
    LH_TRY(lh_plan_make(&plan, &(lh_plan_request){.engine = &engine,
                                                  .policy = &policy,
                                                  .context = run->prompt,
                                                  .max_new = run->more - run->block,
                                                  .question = run->block,
                                                  .forks = run->restores ? 1 : 0,
                                                  .profiles = profiles_of(run->policy)}));
    *out = (lh_forecast){.free = plan.free_bytes, .fits = plan.fits};
    for (int64_t r = 0; r < plan.tp; r++) {
        out->weights = lh_max_i64(out->weights, plan.ranks[r].weights);
        out->cache = lh_max_i64(out->cache, plan.ranks[r].kv_kept);
        out->peak = lh_max_i64(out->peak, plan.ranks[r].peak);
    }
    lh_plan_clear(&plan);
    return LH_OK;
}

/* ---- completion ---- */

/* Moves the answers to the public struct. */
static lh_status take_answers(lh_completion *out, lh_generation *g)
{
    LH_TRY(lh_calloc(&out->answers, g->answer_count, sizeof *out->answers));
    out->answer_count = g->answer_count;
    for (int64_t i = 0; i < g->answer_count; i++) {
        lh_answer *a = &g->answers[i];
        LH_TRY(lh_buf_puts(&a->text, "")); /* never NULL, even if empty */
        out->answers[i] = (lh_completion_answer){a->text.data, a->ids.ids, a->ids.n, a->finish};
        a->text = (lh_buf){0};
        a->ids = (lh_tokens){0};
    }
    out->prompt_tokens = g->prompt_tokens;
    out->new_tokens = g->new_tokens;
    out->entries = g->counted;
    out->entries_kept = g->counted_kept;
    out->prefill_s = g->timing.prefill_s;
    out->evict_s = g->timing.evict_s;
    out->decode_s = g->timing.decode_s;
    return LH_OK;
}

/* A request of lh_generate, with the memory that it points to. */
typedef struct completion_request {
    lh_generate_request generate;
    lh_tokens *questions;
    lh_policy policy;
} completion_request;

/* The text, in the chat format that it has by `use`. */
static lh_status encode_text(completion_request *r, const lh_tokenizer *tok, lh_prompt_text *text, lh_chat_use use)
{
    lh_status st = LH_OK;
    const lh_chat_format *format = NULL;
    if (use == LH_CHAT_AUTO) LH_TRY_DONE(lh_prompt_auto_format(tok, text, &format));
    if (use == LH_CHAT_ON) LH_TRY_DONE(lh_prompt_format(tok, text, &format));
    text->format = format;
    text->chat = text->format != NULL;
    r->generate.continues = !text->chat;
    LH_TRY_DONE(lh_prompt_encode(tok, text, &r->generate.prompt, &r->questions));
    LH_TRY_DONE(lh_prompt_ends(tok, text, &r->generate.ends));
    r->generate.questions = r->questions;
done:
    lh_chat_close(format);
    return st;
}

/* The texts of a member NAMEs with its count NAME_count. */
static lh_status check_list(const char *name, const char *const *texts, int64_t count)
{
    if (count < 0) LH_FAIL(LH_EUSAGE, "%s_count is %lld, it must be 0 or more", name, (long long)count);
    if (count && !texts) LH_FAIL(LH_EUSAGE, "%s_count is %lld, and %ss is NULL", name, (long long)count, name);
    for (int64_t i = 0; i < count; i++)
        if (!texts[i] || !*texts[i])
            LH_FAIL(LH_EUSAGE, "%ss[%lld] is %s, it must be a text", name, (long long)i, texts[i] ? "empty" : "NULL");
    return LH_OK;
}

static lh_status encode_request(completion_request *r, const lh_engine *engine, const lh_completion_options *o)
{
    const lh_tokenizer *tok = lh_engine_tokenizer(engine);
    lh_prompt_text text = {.text = o->prompt,
                           .bytes = o->prompt ? (int64_t)strlen(o->prompt) : 0,
                           .questions = o->questions,
                           .question_count = o->question_count,
                           .special = 1,
                           .stops = {o->stops, o->stop_count},
                           .positions = lh_engine_get(engine)->config->max_positions,
                           .system = o->system};
    if (!o->prompt) LH_FAIL(LH_EUSAGE, "prompt is NULL, it must be a text");
    if (!*o->prompt && !o->question_count) LH_FAIL(LH_EUSAGE, "prompt is empty");
    LH_TRY(check_list("question", o->questions, o->question_count));
    LH_TRY(check_list("stop", o->stops, o->stop_count));
    if (!tok) LH_FAIL(LH_EUSAGE, "the model has no tokenizer: a session takes token ids");
    if (o->max_new < 0) LH_FAIL(LH_EUSAGE, "max_new is %lld, it must be 0 (128) or more", (long long)o->max_new);
    LH_TRY(policy_when(&r->policy, o->policy, o->question_count > 0));
    if ((unsigned)o->chat > LH_CHAT_OFF)
        LH_FAIL(LH_EUSAGE, "chat is %d, it must be LH_CHAT_AUTO, LH_CHAT_ON or LH_CHAT_OFF", (int)o->chat);
    if (o->chat == LH_CHAT_OFF && o->system)
        LH_FAIL(LH_EUSAGE, "system is part of a chat, and chat is LH_CHAT_OFF: leave one of them out");
    return encode_text(r, tok, &text, o->chat);
}

enum { MAX_NEW = 128 }; /* of an answer, where the options do not say */

static lh_status complete(lh_completion *out, lh_engine *engine, const lh_completion_options *o)
{
    lh_status st = LH_OK;
    lh_generation g = {0};
    completion_request r = {.generate = {.question_count = o->question_count,
                                         .max_new = o->max_new ? o->max_new : MAX_NEW,
                                         .stops = o->stops,
                                         .stop_count = o->stop_count,
                                         .sampling = o->sampling ? *o->sampling : (lh_sampling){0},
                                         .policy = &r.policy,
                                         .profiles = profiles_of(o->policy),
                                         .events = {o->self, o->prefill, o->token}}};
    st = encode_request(&r, engine, o);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
    LH_TRY_DONE(lh_generate(engine, &r.generate, &g));
    LH_TRY_DONE(take_answers(out, &g));
done:
    if (st != LH_OK) lh_completion_clear(out);
    lh_generation_clear(&g);
    for (int64_t i = 0; r.questions && i < o->question_count; i++) lh_tokens_clear(&r.questions[i]);
    lh_free(r.questions);
    lh_tokens_clear(&r.generate.prompt);
    lh_tokens_clear(&r.generate.ends);
    return st;
}

lh_status lh_complete(lh_completion *out, lh_engine *engine, const lh_completion_options *o)
{
    LH_TRY(lh_check_given(out, "completion"));
    *out = (lh_completion){0};
    LH_TRY(lh_check_given(o, "options"));
    LH_TRY(lh_engine_enter(engine));
    const lh_status st = complete(out, engine, o);
    lh_engine_leave(engine);
    return st;
}

void lh_completion_clear(lh_completion *c)
{
    if (!c) return;
    for (int64_t i = 0; c->answers && i < c->answer_count; i++) {
        lh_free(c->answers[i].text);
        lh_free(c->answers[i].ids);
    }
    lh_free(c->answers);
    *c = (lh_completion){0};
}

/* ---- tokenizer ---- */

lh_status lh_tokenizer_text(const lh_tokenizer *tok, const int32_t *ids, int64_t n, char **out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_check_given(tok, "tokenizer"));
    LH_TRY_DONE(lh_check_given(out, "text"));
    if (n < 0) LH_FAIL_DONE(LH_EUSAGE, "n is %lld, it must be 0 or more", (long long)n);
    if (n) LH_TRY_DONE(lh_check_given(ids, "ids"));
    LH_TRY_DONE(lh_buf_puts(&text, ""));
    LH_TRY_DONE(lh_tokenizer_decode(tok, ids, n, &text));
    *out = text.data;
    text = (lh_buf){0};
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- session ---- */

static lh_status start(lh_session **out, lh_engine *engine, const lh_session_start_options *o)
{
    lh_policy policy;
    LH_TRY(check_lengths(o));
    LH_TRY(check_positions(o, lh_engine_get(engine)->config));
    LH_TRY(policy_when(&policy, o->policy, o->asks_later));
    LH_TRY(lh_session_open(out, engine,
                           &(lh_session_options){.policy = &policy,
                                                 .profiles = profiles_of(o->policy),
                                                 .prompt = o->prompt,
                                                 .more = o->more,
                                                 .length = o->prompt + o->more,
                                                 .block = o->block,
                                                 .fork_more = o->restores ? o->more : 0,
                                                 .bounded = 1,
                                                 .seed = o->seed}));
    return LH_OK;
}

lh_status lh_session_start(lh_session **out, lh_engine *engine, const lh_session_start_options *o)
{
    LH_TRY(lh_check_given(out, "session"));
    LH_TRY(lh_check_given(o, "options"));
    LH_TRY(lh_engine_enter(engine));
    const lh_status st = start(out, engine, o);
    lh_engine_leave(engine);
    return st;
}
