/* conversation.c - one session, question after question: the token that the last answer left unfed is fed before the
 * next question. A model with rotary factors that depend on the length of the run reads the conversation again where a
 * question and its answer make the run so long that the factors change: the cached keys have the earlier factors, and
 * so have the entries of deeper layers, which were computed from them. */
#include "engine/conversation.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "engine/same_file.h"

struct lh_conversation {
    lh_engine *engine;
    lh_session *session;
    lh_conversation_options options; /* without the ids of the context, which the session has */
    lh_saved_kv cache;
    lh_policy policy;
    uint64_t seed;
    int64_t before;      /* tokens of the context */
    int64_t prompt;      /* prefilled tokens at its beginning; a saved cache may hold later tokens, too */
    int64_t length;      /* positions in all */
    int64_t rotates_for; /* tokens of the run that the rotary factors were chosen for */
    int32_t unfed;       /* the last token of an answer that did not end by itself; -1: none */
};

/* Local. */
static lh_status check_length(lh_conversation *c)
{
    const int64_t positions = lh_engine_get(c->engine)->config->max_positions;
    if (c->before < 1) LH_FAIL(LH_EUSAGE, "the context is empty");
    if (c->before + 2 > positions)
        LH_FAIL(LH_EUSAGE, "the context has %lld tokens, which leaves no room in the %lld positions of the model",
                (long long)c->before, (long long)positions);
    c->length = lh_min_i64(c->before + c->options.room, positions);
    return LH_OK;
}

static lh_status show_prefill(void *self, int64_t done, int64_t total)
{
    const lh_conversation_options *o = self;
    return o->prefill ? o->prefill(o->self, done, total) : LH_OK;
}

static lh_status open_cache(lh_conversation *c)
{
    const lh_conversation_options *o = &c->options;
    const lh_engine_view *parts = lh_engine_get(c->engine);
    const lh_cache_extra *saved = &c->cache.file.extra;
    LH_TRY(lh_comm_agree(parts->comm, lh_saved_kv_open(&c->cache, o->load_cache)));
    LH_TRY(lh_same_file(parts->comm, c->cache.file.h5));
    c->before = saved->n;
    c->prompt = c->cache.file.numbers.prompt_tokens;
    c->rotates_for = saved->run_tokens ? saved->run_tokens : saved->n;
    c->policy = c->cache.policy;
    c->seed = saved->seed;
    c->options.profiles = &c->cache.profiles;
    return lh_engine_size_policy(c->engine, &c->policy);
}

/* prompt: tokens of a prefill that comes first, 0: a cache is loaded; held: tokens of the prefill or of the cache. */
static lh_session_options session_options(const lh_conversation *c, int64_t prompt, int64_t held)
{
    const int64_t more = c->length - held;
    return (lh_session_options){.policy = &c->policy,
                                .profiles = c->options.profiles,
                                .prompt = prompt,
                                .more = more,
                                .fork_more = c->length - c->before,
                                .length = c->length,
                                .rotates_for = c->rotates_for,
                                .block = more,
                                .seed = c->seed};
}

static lh_status load_session(lh_conversation *c, lh_saved_kv *saved)
{
    const lh_session_options options = session_options(c, 0, saved->file.extra.n);
    LH_TRY(lh_session_open(&c->session, c->engine, &options));
    return lh_session_read(c->session, saved);
}

/* A session that has the first c->prompt tokens: from the store, or through the model. */
static lh_status read_prompt(lh_conversation *c, const lh_tokens *ids)
{
    const lh_forward_progress progress = {sizeof progress, &c->options, show_prefill};
    const lh_session_options options = session_options(c, c->prompt, c->prompt);
    const lh_tokens prompt = {.ids = ids->ids, .n = c->prompt};
    lh_saved_kv saved = {0};
    int found = 0;
    lh_status st = lh_context_store_find(c->options.store, &options, &prompt, &saved, &found);
    if (st == LH_OK && found) st = load_session(c, &saved);
    lh_context_store_loaded(c->options.store);
    lh_saved_kv_close(&saved);
    if (st != LH_OK || found) return st;
    LH_TRY(lh_session_open(&c->session, c->engine, &options));
    LH_TRY(lh_session_prefill(c->session, ids->ids, c->prompt, &progress));
    return lh_context_store_keep(c->options.store, c->session);
}

static lh_status block(lh_conversation *c, const int32_t *ids, int64_t n)
{
    return n > 0 ? lh_session_block(c->session, ids, n) : LH_OK;
}

/* Prefill the prompt and feed the later tokens, with a snapshot after the context. */
static lh_status read_ids(lh_conversation *c, const lh_tokens *ids)
{
    LH_TRY(read_prompt(c, ids));
    LH_TRY(block(c, ids->ids + c->prompt, c->before - c->prompt));
    LH_TRY(lh_session_snapshot(c->session));
    return block(c, ids->ids + c->before, ids->n - c->before);
}

static lh_status load(lh_conversation *c)
{
    LH_TRY(load_session(c, &c->cache));
    return lh_session_snapshot(c->session);
}

lh_status lh_conversation_open(lh_conversation **out, lh_engine *engine, const lh_conversation_options *o)
{
    lh_status st = LH_OK;
    lh_conversation *c = NULL;
    LH_TRY_DONE(lh_calloc(&c, 1, sizeof *c));
    c->engine = engine;
    c->options = *o;
    c->options.context = (lh_tokens){0};
    c->before = c->prompt = o->context.n;
    c->rotates_for = o->context.n + 1;
    c->seed = o->seed;
    c->unfed = -1;
    if (o->load_cache) LH_TRY_DONE(open_cache(c));
    if (!o->load_cache) c->policy = *o->policy;
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, check_length(c)));
    LH_TRY_DONE(o->load_cache ? load(c) : read_ids(c, &o->context));
    *out = c;
    c = NULL;
done:
    lh_conversation_close(c);
    return st;
}

void lh_conversation_close(lh_conversation *c)
{
    if (!c) return;
    lh_session_close(c->session);
    lh_saved_kv_close(&c->cache);
    lh_free(c);
}

int64_t lh_conversation_tokens(const lh_conversation *c)
{
    return lh_session_tokens(c->session)->n + (c->unfed >= 0);
}

int64_t lh_conversation_room(const lh_conversation *c)
{
    return c->length - lh_conversation_tokens(c);
}

static lh_status feed_unfed(lh_conversation *c)
{
    const int32_t id = c->unfed;
    if (id < 0) return LH_OK;
    c->unfed = -1;
    return lh_session_block(c->session, &id, 1);
}

/* Read the conversation again, with the rotary factors of a run of `tokens`, unless the cached keys have them. The
 * result depends on the ids alone, so it is the same as of `generate` for this conversation. */
static lh_status rotate_for(lh_conversation *c, int64_t tokens)
{
    lh_status st = LH_OK;
    const lh_engine_view *parts = lh_engine_get(c->engine);
    lh_tokens ids = {0};
    if (lh_config_rotates_until(parts->config, c->rotates_for) == lh_config_rotates_until(parts->config, tokens))
        return LH_OK;
    const lh_tokens *said = lh_session_tokens(c->session);
    for (int64_t i = 0; st == LH_OK && i < said->n; i++) st = lh_tokens_push(&ids, said->ids[i]);
    LH_TRY_DONE(lh_comm_agree(parts->comm, st));
    lh_info("the rotary factors of this model depend on the length of the run: %lld tokens are read again for a run of "
            "%lld",
            (long long)ids.n, (long long)tokens);
    lh_session_close(c->session);
    c->session = NULL;
    c->rotates_for = tokens;
    LH_TRY_DONE(read_ids(c, &ids));
done:
    lh_tokens_clear(&ids);
    return st;
}

/* The caller's decoding, and how many tokens it was shown: one that ends the answer is not. */
typedef struct listener {
    const lh_decode *how;
    int64_t shown;
} listener;

static lh_status show_token(void *self, int32_t id, int *stop)
{
    listener *l = self;
    l->shown++;
    return l->how->token ? l->how->token(l->how->self, id, stop) : LH_OK;
}

lh_status lh_conversation_ask(lh_conversation *c, const lh_tokens *question, const lh_decode *how, lh_tokens *answer)
{
    const int64_t room = lh_conversation_room(c) - question->n;
    listener l = {.how = how};
    lh_decode decode = *how;
    if (room < 1)
        LH_FAIL(LH_EUSAGE, "the question has %lld tokens and there is room for %lld with its answer",
                (long long)question->n, (long long)lh_conversation_room(c));
    decode.max_new = lh_min_i64(how->max_new, room);
    LH_TRY(rotate_for(c, lh_conversation_tokens(c) + question->n + decode.max_new));
    LH_TRY(feed_unfed(c));
    LH_TRY(lh_session_block(c->session, question->ids, question->n));
    decode.self = &l;
    decode.token = show_token;
    LH_TRY(lh_session_decode(c->session, &decode, answer, NULL));
    if (answer->n == l.shown) c->unfed = answer->ids[answer->n - 1]; /* the next turn closes the answer itself */
    return LH_OK;
}

lh_status lh_conversation_reset(lh_conversation *c)
{
    c->unfed = -1;
    return lh_session_restore(c->session);
}

lh_status lh_conversation_save(lh_conversation *c, const char *path, const char *run, const char *chat)
{
    LH_TRY(feed_unfed(c));
    return lh_session_write(c->session, path, &(lh_cache_extra){.seed = c->seed, .run = run, .chat = chat});
}
