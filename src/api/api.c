/* api.c - the calls of longhaul.h that combine several of the engine's, for programs that link liblonghaul: policies,
 * forecast, completion, tokenizer. Calls that the engine implements itself are in src/engine. */
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "base/sized_struct.h"
#include "engine/chat_state.h"
#include "engine/generate.h"
#include "engine/plan.h"
#include "engine/prompt.h"
#include "engine/same_file.h"
#include "import/model_header.h"
#include "policies/list.h"
#include "policies/profile.h"
#include "policies/words.h"

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
    if (*words || !scorer) LH_TRY_DONE(lh_policy_options_parse(&options, &text, words, &owned->profiles));
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
    lh_scorer given;
    LH_TRY(lh_struct_read(&given, sizeof given, scorer, "lh_scorer"));
    if (!given.score) LH_FAIL(LH_EUSAGE, "the scorer has no function that scores");
    if (given.reads & ~(int64_t)LH_READS_ALL)
        LH_FAIL(LH_EUSAGE, "reads of the scorer is %lld, it must be a combination of LH_READS_…",
                (long long)given.reads);
    return parse_policy(out, words, &given);
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

/* The same for the cache of an engine. */
static lh_status policy_for(lh_policy *out, const lh_engine *engine, const lh_policy *policy, int asks_later)
{
    const lh_cache_size cache = lh_engine_cache_size(engine);
    LH_TRY(policy_when(out, policy, asks_later));
    return lh_policy_size(out, &cache);
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

static lh_status check_model_positions(const lh_session_start_options *o, const lh_engine_options *engine)
{
    lh_model_header header = {0};
    LH_TRY(lh_check_given(engine->model, "model"));
    lh_status st = lh_model_header_read(&header, engine->model, engine->weights);
    if (st == LH_OK) st = check_positions(o, &header.config);
    lh_model_header_clear(&header);
    return st;
}

static lh_status forecast(lh_forecast *out, const lh_engine_options *options, const lh_session_start_options *run)
{
    lh_policy policy;
    lh_plan plan = {0};
    LH_TRY(check_lengths(run));
    if (run->beside) LH_FAIL(LH_EUSAGE, "beside is for sessions: a forecast is of the first of them");
    const lh_engine_options engine = lh_engine_defaults(options);
    LH_TRY(lh_engine_check(&engine));
    LH_TRY(check_model_positions(run, &engine));
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

lh_status lh_forecast_make(lh_forecast *out, const lh_engine_options *options, const lh_session_start_options *run)
{
    lh_engine_options engine;
    lh_session_start_options session;
    lh_forecast made;
    LH_TRY(lh_check_given(out, "forecast"));
    LH_TRY(lh_struct_read(&engine, sizeof engine, options, "lh_engine_options"));
    LH_TRY(lh_struct_read(&session, sizeof session, run, "lh_session_start_options"));
    LH_TRY(forecast(&made, &engine, &session));
    return lh_struct_write(out, &made, sizeof made, "lh_forecast");
}

/* ---- completion ---- */

/* An lh_completion is the first member of an owned_completion. */
typedef struct owned_completion {
    lh_completion public;
    lh_generation generation; /* owns the texts, ids and positions of the answers */
    lh_completion_answer *answers;
    const lh_completion_answer **pointers;
    lh_kept *kept;
} owned_completion;

/* Points to the answers, complete or interrupted. */
static lh_status show_answers(owned_completion *c)
{
    lh_generation *g = &c->generation;
    LH_TRY(lh_calloc(&c->answers, g->answer_count, sizeof *c->answers));
    LH_TRY(lh_calloc(&c->pointers, g->answer_count, sizeof *c->pointers));
    for (int64_t i = 0; i < g->answer_count; i++) {
        lh_answer *a = &g->answers[i];
        LH_TRY(lh_buf_puts(&a->text, "")); /* never NULL, even if empty */
        c->answers[i] = (lh_completion_answer){.size = sizeof c->answers[i],
                                               .text = a->text.data,
                                               .ids = a->ids.ids,
                                               .tokens = a->ids.n,
                                               .finish = a->finish,
                                               .logprobs = (const double *)(const void *)a->logprobs.data};
        c->pointers[i] = &c->answers[i];
    }
    c->public.answers = c->pointers;
    c->public.answer_count = g->answer_count;
    return LH_OK;
}

static lh_status show_kept(owned_completion *c)
{
    const lh_generation *g = &c->generation;
    const int64_t heads = g->kept ? g->kept[0].heads : 0;
    LH_TRY(lh_calloc(&c->kept, g->layers * heads, sizeof *c->kept));
    for (int64_t i = 0; i < g->layers * heads; i++) {
        const lh_positions *p = &g->kept[i / heads];
        const int64_t *at = p->offsets + i % heads;
        c->kept[i] = (lh_kept){p->positions + at[0], at[1] - at[0]};
    }
    if (heads) c->public.kept = c->kept;
    return LH_OK;
}

static lh_status show_completion(owned_completion *c)
{
    const lh_generation *g = &c->generation;
    c->public.size = sizeof c->public;
    c->public.prompt_tokens = g->prompt_tokens;
    c->public.new_tokens = g->new_tokens;
    c->public.entries = g->counted;
    c->public.entries_kept = g->counted_kept;
    c->public.prefill_s = g->timing.prefill_s;
    c->public.evict_s = g->timing.evict_s;
    c->public.decode_s = g->timing.decode_s;
    LH_TRY(show_answers(c));
    return show_kept(c);
}

/* A request of lh_generate, with the memory that it points to. */
typedef struct completion_request {
    const lh_completion_options *options;
    lh_comm *comm;
    lh_generate_request generate;
    lh_tokens *questions;
    lh_policy policy;
    lh_message *messages;
    lh_chat_state chat; /* of a loaded cache, and of the saved one */
    lh_buf chat_text;
} completion_request;

/* The text, in the chat format that it has by `use`, or that a loaded cache was saved in. */
static lh_status encode_text(completion_request *r, const lh_tokenizer *tok, lh_prompt_text *text, lh_chat_use use)
{
    lh_chat_state *chat = &r->chat;
    if (text->after_cache && use != LH_CHAT_OFF) LH_TRY(lh_chat_state_read(chat, r->generate.load_cache));
    if (use == LH_CHAT_AUTO && !text->after_cache) LH_TRY(lh_prompt_auto_format(tok, text, &chat->format));
    if (use == LH_CHAT_ON && !chat->format) LH_TRY(lh_prompt_format(tok, text, &chat->format));
    text->format = chat->format;
    text->chat = chat->format != NULL;
    text->after_answer = chat->answers;
    r->generate.continues = !text->chat;
    LH_TRY(lh_prompt_encode(tok, text, &r->generate.prompt, &r->questions));
    LH_TRY(lh_prompt_ends(tok, text, &r->generate.ends));
    r->generate.questions = r->questions;
    chat->answers = text->question_count == 0;
    if (r->generate.save_cache) LH_TRY(lh_chat_state_write(chat, &r->chat_text));
    r->generate.chat = r->chat_text.data;
    return LH_OK;
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

/* The turns as messages of the chat format. */
static lh_status read_turns(completion_request *r, const lh_completion_options *o)
{
    if (o->turn_count < 0) LH_FAIL(LH_EUSAGE, "turn_count is %lld, it must be 0 or more", (long long)o->turn_count);
    if (!o->turn_count) return LH_OK;
    if (!o->turns) LH_FAIL(LH_EUSAGE, "turn_count is %lld, and turns is NULL", (long long)o->turn_count);
    if (o->prompt || o->system || o->load_cache || o->chat == LH_CHAT_OFF)
        LH_FAIL(LH_EUSAGE, "turns are a whole conversation: prompt, system, load_cache and LH_CHAT_OFF are left out");
    LH_TRY(lh_calloc(&r->messages, o->turn_count, sizeof *r->messages));
    for (int64_t i = 0; i < o->turn_count; i++) {
        if (!o->turns[i].role || !o->turns[i].text)
            LH_FAIL(LH_EUSAGE, "turns[%lld] has no %s", (long long)i, o->turns[i].role ? "text" : "role");
        r->messages[i] = (lh_message){.role = o->turns[i].role, .content = o->turns[i].text};
    }
    return LH_OK;
}

/* A completion begins with a prompt, turns, or a cache. */
static lh_status check_beginning(const lh_completion_options *o)
{
    if (!o->prompt && !o->turn_count && !o->load_cache)
        LH_FAIL(LH_EUSAGE, "prompt is NULL, it must be a text, unless there are turns or a loaded cache");
    if (o->prompt && !*o->prompt && !o->question_count && !o->load_cache) LH_FAIL(LH_EUSAGE, "prompt is empty");
    if (o->load_cache && o->policy)
        LH_FAIL(LH_EUSAGE, "policy is given, and load_cache is a cache with a policy: leave one of them out");
    if (o->load_cache && o->system)
        LH_FAIL(LH_EUSAGE, "system begins a conversation, and load_cache continues one: leave one of them out");
    return LH_OK;
}

static lh_status encode_request(completion_request *r, const lh_engine *engine, const lh_completion_options *o)
{
    const lh_tokenizer *tok = lh_engine_tokenizer(engine);
    lh_prompt_text text = {.text = o->prompt ? o->prompt : "",
                           .bytes = o->prompt ? (int64_t)strlen(o->prompt) : 0,
                           .questions = o->questions,
                           .question_count = o->question_count,
                           .special = 1,
                           .is_document = o->save_cache != NULL,
                           .stops = {o->stops, o->stop_count},
                           .positions = lh_engine_get(engine)->config->max_positions,
                           .after_cache = o->load_cache != NULL,
                           .system = o->system};
    LH_TRY(check_beginning(o));
    LH_TRY(check_list("question", o->questions, o->question_count));
    LH_TRY(check_list("stop", o->stops, o->stop_count));
    if (!tok) LH_FAIL(LH_EUSAGE, "the model has no tokenizer: a session takes token ids");
    if (o->max_new < 0) LH_FAIL(LH_EUSAGE, "max_new is %lld, it must be 0 (128) or more", (long long)o->max_new);
    LH_TRY(policy_for(&r->policy, engine, o->policy, o->question_count > 0));
    if ((unsigned)o->chat > LH_CHAT_OFF)
        LH_FAIL(LH_EUSAGE, "chat is %d, it must be LH_CHAT_AUTO, LH_CHAT_ON or LH_CHAT_OFF", (int)o->chat);
    if (o->chat == LH_CHAT_OFF && o->system)
        LH_FAIL(LH_EUSAGE, "system is part of a chat, and chat is LH_CHAT_OFF: leave one of them out");
    LH_TRY(read_turns(r, o));
    text.messages = r->messages;
    text.message_count = o->turn_count;
    return encode_text(r, tok, &text, o->chat);
}

enum { MAX_NEW = 128 }; /* of an answer, where the options do not say */

static void clear_request(completion_request *r, int64_t questions)
{
    for (int64_t i = 0; r->questions && i < questions; i++) lh_tokens_clear(&r->questions[i]);
    lh_free(r->questions);
    lh_free(r->messages);
    lh_chat_state_clear(&r->chat);
    lh_buf_clear(&r->chat_text);
    lh_tokens_clear(&r->generate.prompt);
    lh_tokens_clear(&r->generate.ends);
}

static lh_status show_prefill(void *self, int64_t done, int64_t total)
{
    const completion_request *r = self;
    return r->options->prefill(r->options->self, done, total);
}

/* The function of the program may fail on one rank alone. */
static lh_status show_token(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes)
{
    const completion_request *r = self;
    return lh_comm_agree(r->comm, r->options->token(r->options->self, answer, id, text, bytes));
}

/* LH_EINTERRUPTED with what has come before. */
static lh_status complete(owned_completion *out, lh_engine *engine, const lh_completion_options *o)
{
    lh_status st = LH_OK;
    completion_request r = {
        .options = o,
        .comm = lh_engine_get(engine)->comm,
        .generate = {.question_count = o->question_count,
                     .max_new = o->max_new ? o->max_new : MAX_NEW,
                     .stops = o->stops,
                     .stop_count = o->stop_count,
                     .policy = o->load_cache ? NULL : &r.policy,
                     .profiles = profiles_of(o->policy),
                     .load_cache = o->load_cache,
                     .save_cache = o->save_cache,
                     .logprobs = o->logprobs,
                     .kept = o->kept,
                     .run = "{}",
                     .events = {&r, o->prefill ? show_prefill : NULL, o->token ? show_token : NULL}}};
    if (o->sampling) st = lh_struct_read(&r.generate.sampling, sizeof(lh_sampling), o->sampling, "lh_sampling");
    if (st == LH_OK) st = encode_request(&r, engine, o);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
    st = lh_generate(engine, &r.generate, &out->generation);
    if (st != LH_OK && st != LH_EINTERRUPTED) LH_TRY_DONE(st);
    const lh_status shown = show_completion(out);
    if (st == LH_OK) st = lh_comm_agree(lh_engine_get(engine)->comm, shown);
done:
    clear_request(&r, o->question_count);
    return st;
}

lh_status lh_complete(const lh_completion **out, lh_engine *engine, const lh_completion_options *options)
{
    lh_status st = LH_OK;
    lh_completion_options o;
    owned_completion *c = NULL;
    LH_TRY(lh_check_given(out, "completion"));
    *out = NULL;
    LH_TRY(lh_struct_read(&o, sizeof o, options, "lh_completion_options"));
    LH_TRY(lh_engine_enter(engine));
    st = lh_calloc(&c, 1, sizeof *c);
    st = lh_comm_agree(lh_engine_get(engine)->comm, st);
    if (st == LH_OK) st = complete(c, engine, &o);
    if (st == LH_OK || (st == LH_EINTERRUPTED && c->public.size))
        *out = &c->public;
    else
        lh_completion_close(&c->public);
    lh_engine_leave(engine);
    return st;
}

void lh_completion_close(const lh_completion *completion)
{
    owned_completion *c = (owned_completion *)(uintptr_t)completion;
    if (!c) return;
    lh_free(c->kept);
    lh_free(c->pointers);
    lh_free(c->answers);
    lh_generation_clear(&c->generation);
    lh_free(c);
}

/* ---- engine ---- */

lh_status lh_engine_describe(lh_engine_info *out, const lh_engine *engine)
{
    LH_TRY(lh_check_given(out, "lh_engine_info"));
    LH_TRY(lh_check_given(engine, "engine"));
    const lh_engine_view *e = lh_engine_get(engine);
    const lh_config *c = e->config;
    const lh_tokenizer *tok = lh_engine_tokenizer(engine);
    const lh_engine_info info = {.family = lh_config_family_name(c),
                                 .layers = c->layers,
                                 .heads = c->heads,
                                 .kv_heads = c->kv_heads,
                                 .head_dim = c->head_dim,
                                 .hidden = c->hidden,
                                 .vocab = c->vocab,
                                 .max_positions = c->max_positions,
                                 .window = c->window,
                                 .device = lh_device_name(e->device),
                                 .dtype = lh_dtype_name(e->dtype),
                                 .kv_dtype = lh_dtype_name(e->kv_types.full),
                                 .has_chat = tok && lh_tokenizer_chat_format(tok),
                                 .evicted_kv_dtype = lh_dtype_name(e->kv_types.evicted)};
    return lh_struct_write(out, &info, sizeof info, "lh_engine_info");
}

/* ---- tokenizer ---- */

int32_t lh_tokenizer_special(const lh_tokenizer *tok, const char *text)
{
    const int32_t id = tok && text ? lh_tokenizer_find(tok, text) : -1;
    return id >= 0 && lh_tokenizer_is_special(tok, id) ? id : -1;
}

lh_status lh_tokenizer_ids(const lh_tokenizer *tok, const char *text, int64_t bytes, lh_encode how, int32_t **out,
                           int64_t *n)
{
    lh_tokens ids = {0};
    LH_TRY(lh_check_given(out, "ids"));
    LH_TRY(lh_check_given(n, "n"));
    *out = NULL;
    *n = 0;
    const lh_status st = lh_tokenizer_encode(tok, text, bytes, how, &ids);
    if (st == LH_OK) {
        *out = ids.ids;
        *n = ids.n;
        ids = (lh_tokens){0};
    }
    lh_tokens_clear(&ids);
    return st;
}

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

/* A session shares the forward pass of another session of the same engine. */
static lh_status check_beside(const lh_session_start_options *o, const lh_engine *engine)
{
    if (o->together < 0) LH_FAIL(LH_EUSAGE, "together is %lld, it must be 0 or more", (long long)o->together);
    if (!o->beside) return LH_OK;
    if (lh_session_engine(o->beside) != engine) LH_FAIL(LH_EUSAGE, "beside is a session of another engine");
    if (o->together) LH_FAIL(LH_EUSAGE, "together is said of the first session, and not of one beside it");
    return LH_OK;
}

static lh_session_options session_options(const lh_session_start_options *o, const lh_policy *policy)
{
    return (lh_session_options){.policy = policy,
                                .profiles = profiles_of(o->policy),
                                .prompt = o->prompt,
                                .more = o->more,
                                .length = o->prompt + o->more,
                                .block = o->block,
                                .fork_more = o->restores ? o->more : 0,
                                .sequences = o->together,
                                .bounded = 1,
                                .seed = o->seed,
                                .beside = o->beside};
}

static lh_status start(lh_session **out, lh_engine *engine, const lh_session_start_options *o)
{
    lh_policy policy;
    LH_TRY(check_lengths(o));
    LH_TRY(check_positions(o, lh_engine_get(engine)->config));
    LH_TRY(check_beside(o, engine));
    LH_TRY(policy_for(&policy, engine, o->policy, o->asks_later));
    const lh_session_options options = session_options(o, &policy);
    return lh_session_open(out, engine, &options);
}

lh_status lh_session_start(lh_session **out, lh_engine *engine, const lh_session_start_options *options)
{
    lh_session_start_options o;
    LH_TRY(lh_check_given(out, "session"));
    LH_TRY(lh_struct_read(&o, sizeof o, options, "lh_session_start_options"));
    LH_TRY(lh_engine_enter(engine));
    const lh_status st = start(out, engine, &o);
    lh_engine_leave(engine);
    return st;
}

/* A session with the cache of a file, which is open on every rank. */
static lh_status load(lh_session **out, lh_engine *engine, lh_saved_kv *file, const lh_session_start_options *o)
{
    lh_status st = LH_OK;
    lh_session *s = NULL;
    lh_policy policy = file->policy;
    if (o->policy)
        LH_TRY(policy_for(&policy, engine, o->policy, o->asks_later));
    else
        LH_TRY(lh_engine_size_policy(engine, &policy));
    lh_session_options options = session_options(o, &policy);
    if (!o->policy) options.profiles = &file->profiles;
    options.length = file->file.extra.n + o->more;
    options.seed = file->file.extra.seed;
    LH_TRY_DONE(lh_session_open(&s, engine, &options));
    LH_TRY_DONE(lh_session_read(s, file));
    *out = s;
    s = NULL;
done:
    lh_session_close(s);
    return st;
}

/* The lengths of a session that begins with `tokens` tokens of a file. */
static lh_status check_loaded(const lh_session_start_options *o, const lh_engine *engine, int64_t tokens)
{
    lh_session_start_options whole = *o;
    if (o->prompt) LH_FAIL(LH_EUSAGE, "prompt is %lld, it must be 0 for a cache, which has one", (long long)o->prompt);
    whole.prompt = tokens;
    LH_TRY(check_lengths(&whole));
    LH_TRY(check_positions(&whole, lh_engine_get(engine)->config));
    return check_beside(o, engine);
}

static lh_status open_and_load(lh_session **out, lh_engine *engine, const char *path, const lh_session_start_options *o)
{
    lh_saved_kv file = {0};
    lh_status st = lh_saved_kv_open(&file, path);
    if (st == LH_OK) st = check_loaded(o, engine, file.file.extra.n);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
    LH_TRY_DONE(lh_same_file(lh_engine_get(engine)->comm, file.file.h5));
    LH_TRY_DONE(load(out, engine, &file, o));
done:
    lh_saved_kv_close(&file);
    return st;
}

lh_status lh_session_load(lh_session **out, lh_engine *engine, const char *path,
                          const lh_session_start_options *options)
{
    lh_session_start_options o;
    LH_TRY(lh_check_given(out, "session"));
    LH_TRY(lh_check_given(path, "path"));
    LH_TRY(lh_struct_read(&o, sizeof o, options, "lh_session_start_options"));
    LH_TRY(lh_engine_enter(engine));
    const lh_status st = open_and_load(out, engine, path, &o);
    lh_engine_leave(engine);
    return st;
}
