/* conversation.c - one session after another question: what the last answer left unfed is fed before the next one. */
#include "engine/conversation.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/same_file.h"

struct lh_conversation {
    lh_engine *engine;
    lh_session *session;
    lh_saved_kv cache;
    lh_policy policy;
    uint64_t seed;
    int64_t length; /* positions in all */
    int32_t unfed;  /* the last token of an answer that did not end by itself; -1: none */
};

/* Local. */
static lh_status check_length(lh_conversation *c, const lh_conversation_options *o, int64_t before)
{
    const int64_t positions = lh_engine_get(c->engine)->config->max_positions;
    if (before < 1) LH_FAIL(LH_EUSAGE, "the context is empty");
    if (before + 2 > positions)
        LH_FAIL(LH_EUSAGE, "the context has %lld tokens, which leaves no room in the %lld positions of the model",
                (long long)before, (long long)positions);
    c->length = lh_min_i64(before + o->room, positions);
    return LH_OK;
}

static lh_status show_prefill(void *self, int64_t done, int64_t total)
{
    const lh_conversation_options *o = self;
    return o->prefill ? o->prefill(o->self, done, total) : LH_OK;
}

static lh_status open_session(lh_conversation *c, const lh_conversation_options *o)
{
    const lh_engine_view *parts = lh_engine_get(c->engine);
    lh_status st = o->load_cache ? lh_saved_kv_open(&c->cache, o->load_cache) : LH_OK;
    LH_TRY(lh_comm_agree(parts->comm, st));
    if (o->load_cache) LH_TRY(lh_same_file(parts->comm, c->cache.file.h5));
    const int64_t before = o->load_cache ? c->cache.file.extra.n : o->context.n;
    LH_TRY(lh_comm_agree(parts->comm, check_length(c, o, before)));
    c->policy = o->load_cache ? c->cache.policy : *o->policy;
    c->seed = o->load_cache ? c->cache.file.extra.seed : o->seed;
    LH_TRY(lh_session_open(&c->session, c->engine,
                           &(lh_session_options){.policy = &c->policy,
                                                 .profiles = o->load_cache ? &c->cache.profiles : o->profiles,
                                                 .prompt = o->load_cache ? 0 : before,
                                                 .more = c->length - before,
                                                 .length = c->length,
                                                 .block = c->length - before,
                                                 .restores = 1,
                                                 .seed = c->seed}));
    return LH_OK;
}

lh_status lh_conversation_open(lh_conversation **out, lh_engine *engine, const lh_conversation_options *o)
{
    lh_status st = LH_OK;
    lh_conversation *c = NULL;
    LH_TRY_DONE(lh_calloc(&c, 1, sizeof *c));
    c->engine = engine;
    c->unfed = -1;
    LH_TRY_DONE(open_session(c, o));
    if (o->load_cache) {
        LH_TRY_DONE(lh_session_load(c->session, &c->cache));
    } else {
        lh_forward_progress progress = {(void *)(uintptr_t)o, show_prefill};
        LH_TRY_DONE(lh_session_prefill(c->session, o->context.ids, o->context.n, &progress));
    }
    LH_TRY_DONE(lh_session_snapshot(c->session));
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
    LH_TRY(feed_unfed(c));
    LH_TRY(lh_session_block(c->session, question->ids, question->n));
    decode.max_new = lh_min_i64(how->max_new, room);
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
    return lh_session_save(c->session, path, c->seed, run, chat);
}
