/* session.c - one timeline over the forward pass and its caches: keeps the tokens, the logits that are asked for, and
 * the tokens and logits of a snapshot. */
#include "engine/session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/sized_struct.h"
#include "engine/chunk.h"
#include "engine/probes.h"
#include "engine/prompt.h"
#include "model/rotations.h"

/* The next possible calls of a session. A call that fails inside the model leaves layers of different lengths. */
typedef enum session_state { WAITS_FOR_PROMPT, READY, FAILED } session_state;

struct lh_session {
    lh_engine *engine;
    session_state state;
    lh_policy policy;     /* options.policy */
    lh_profiles profiles; /* options.profiles */
    lh_kv **caches;       /* [1 + other_count] filled by the prefill, or a fork of another session's */
    int64_t cache;        /* index of the one in use */
    lh_kv *fork;          /* of this cache, for the tokens after a snapshot; NULL: none has come yet */
    lh_forward *forward;
    lh_rotations *rotations;
    int64_t row, rows; /* this session's among the logits of the forward pass: the first, and how many */
    int64_t call;      /* of the forward pass that computed them */
    lh_session *held;  /* whose forward pass or cache is in use, and which is freed after this one; NULL: none */
    int is_fork;       /* true: it shares entries with the cache of the held session */
    int64_t users;     /* the program until it closes the session, calls under way, and the sessions that hold it */
    int64_t forks;     /* of these, the forks: its cache may not change before they are closed */
    lh_tokens tokens;
    lh_session_options options;
    int64_t chunk;
    float *logits;          /* [rows, vocab], rank 0 */
    float *held_logits;     /* last row for the forks, this rank's columns; NULL: they have none */
    float *snapshot_logits; /* last row at the snapshot, this rank's columns; NULL: there is no snapshot */
    int64_t snapshot_tokens;
};

static lh_status push_tokens(lh_session *s, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_tokens_push(&s->tokens, ids[i]));
    return LH_OK;
}

/* The caches: the first one's prefill fills all. */
static lh_status open_caches(lh_session *s)
{
    const lh_session_options *o = &s->options;
    lh_kv_shape shape = lh_model_kv_shape(lh_engine_get(s->engine)->model, &lh_engine_get(s->engine)->kv_types);
    shape.rotations = lh_rotations_layers(s->rotations);
    LH_TRY(lh_profiles_copy(&s->profiles, o->profiles));
    s->options.profiles = shape.profiles = &s->profiles;
    LH_TRY(lh_probe_leads_of(&shape.leads, s->engine, o->policy, &s->profiles));
    LH_TRY(lh_calloc(&s->caches, 1 + o->other_count, sizeof *s->caches));
    for (int64_t i = 0; i <= o->other_count; i++) {
        shape.given = o->given ? o->given[i] : NULL;
        LH_TRY(lh_kv_open(&s->caches[i], lh_engine_get(s->engine)->exec, &shape, i ? &o->others[i - 1] : o->policy));
        lh_kv_seed(s->caches[i], o->seed);
        if (i) LH_TRY(lh_kv_follow(s->caches[i], s->caches[0]));
    }
    if (o->prompt) LH_TRY(lh_kv_begin(s->caches[0], o->prompt, o->more - o->fork_more));
    return LH_OK;
}

/* Collective. */
static lh_status choose_chunk(lh_session *s)
{
    const lh_session_options *o = &s->options;
    lh_model *model = lh_engine_get(s->engine)->model;
    lh_device *device = lh_engine_get(s->engine)->device;
    lh_comm *comm = lh_engine_get(s->engine)->comm;
    lh_session_bytes bytes;
    LH_TRY(lh_comm_agree(comm, lh_session_forecast(&bytes, s->engine, o)));
    LH_TRY(lh_chunk_choose(
        &(lh_chunk_request){.config = lh_model_config(model),
                            .shard = lh_model_shard(model),
                            .options = lh_model_options_of(model),
                            .device = lh_device_kind_of(device),
                            .wanted = lh_engine_get(s->engine)->chunk,
                            .tokens = o->prompt ? o->prompt : lh_max_i64(o->more - o->fork_more, o->fork_more),
                            .room_bytes = lh_device_room(device),
                            .rows = o->rows,
                            .sequences = o->sequences,
                            .else_bytes = lh_max_i64(bytes.prompt, bytes.after)},
        comm, &s->chunk));
    lh_debug("%lld tokens go through a layer together", (long long)s->chunk);
    return LH_OK;
}

/* Collective. */
static lh_status open_forward(lh_session *s)
{
    const lh_session_options *o = &s->options;
    LH_TRY(choose_chunk(s));
    return lh_comm_agree(lh_engine_get(s->engine)->comm,
                         lh_forward_open(&s->forward, lh_engine_get(s->engine)->model, lh_engine_get(s->engine)->exec,
                                         &(lh_forward_run){.chunk = s->chunk,
                                                           .sequences = lh_max_i64(o->sequences, 1),
                                                           .rows = lh_max_i64(lh_max_i64(o->rows, o->sequences), 1)}));
}

static void hold(lh_session *s, lh_session *held)
{
    s->held = held;
    held->users++;
}

/* With the options, and without caches and forward pass. */
static lh_status make_session(lh_session **out, lh_engine *engine, const lh_session_options *options)
{
    lh_session *s = NULL;
    LH_TRY(lh_calloc(&s, 1, sizeof *s));
    *out = s;
    s->engine = engine;
    s->users = 1;
    lh_engine_hold(engine);
    s->options = *options;
    s->policy = *options->policy;
    s->options.policy = &s->policy;
    s->forward = options->forward;
    if (options->beside) {
        lh_session *owner = options->beside; /* of the forward pass */
        while (owner->options.forward && owner->held) owner = owner->held;
        hold(s, owner);
        s->forward = s->options.forward = owner->forward;
    }
    if (!options->rotates_for) s->options.rotates_for = options->length;
    return LH_OK;
}

lh_status lh_session_open(lh_session **out, lh_engine *engine, const lh_session_options *options)
{
    lh_status st = LH_OK;
    lh_session *s = NULL;
    const lh_exec *exec = lh_engine_get(engine)->exec;
    LH_TRY_DONE(make_session(&s, engine, options));
    if (!s->forward) LH_TRY_DONE(open_forward(s));
    st = lh_rotations_open(&s->rotations, lh_engine_get(engine)->config, exec, s->options.rotates_for);
    if (st == LH_OK) st = open_caches(s);
    LH_TRY_DONE(lh_comm_agree(exec->comm, st));
    if (options->listener) lh_kv_listen(s->caches[0], options->listener);
    *out = s;
    s = NULL;
done:
    lh_session_close(s);
    return st;
}

/* Every call of longhaul.h begins and ends with these. A session that a callback closes lives until its call ends. */
static lh_status enter(lh_session *s)
{
    LH_TRY(lh_check_given(s, "session"));
    LH_TRY(lh_engine_enter(s->engine));
    s->users++;
    return LH_OK;
}

static lh_status leave(lh_session *s, lh_status st)
{
    lh_engine *engine = s->engine;
    lh_session_close(s);
    lh_engine_leave(engine);
    return st;
}

static lh_status check_ready(const lh_session *s)
{
    if (s->state == FAILED) LH_FAIL(LH_EUSAGE, "an earlier call of the session failed: it can only be closed");
    if (s->state == WAITS_FOR_PROMPT) LH_FAIL(LH_EUSAGE, "the session has no tokens yet: a prompt comes first");
    return LH_OK;
}

/* All rows of the last call are this session's. */
static void take_rows(lh_session *s)
{
    const lh_logits_view view = lh_forward_logits(s->forward);
    s->row = 0;
    s->rows = view.rows;
    s->call = view.call;
}

static lh_status put_logits(lh_session *s, const float *part)
{
    LH_TRY(lh_forward_put_logits(s->forward, part));
    take_rows(s);
    return LH_OK;
}

static lh_status fork_state(lh_session *s, lh_session *from)
{
    LH_TRY(push_tokens(s, from->tokens.ids, from->tokens.n));
    LH_TRY(lh_calloc(&s->caches, 1, sizeof *s->caches));
    LH_TRY(lh_kv_fork(&s->caches[0], lh_session_kv(from), s->options.more));
    hold(s, from);
    s->is_fork = 1;
    from->forks++;
    s->state = READY;
    return LH_OK;
}

/* Lengths of a fork, and the state that it begins with. */
static lh_status check_fork(const lh_session *from, int64_t more, int64_t block)
{
    const int64_t positions = lh_engine_get(from->engine)->config->max_positions;
    LH_TRY(check_ready(from));
    if (from->cache || from->snapshot_logits)
        LH_FAIL(LH_EUSAGE, "a session that has a snapshot is not forked: fork it instead of storing its state");
    if (more < 1 || more > positions - from->tokens.n)
        LH_FAIL(LH_EUSAGE,
                "more is %lld, it must be at least 1 token, and with the %lld tokens of the session at most the %lld "
                "positions of the model",
                (long long)more, (long long)from->tokens.n, (long long)positions);
    if (from->options.bounded && (block < 0 || block > more))
        LH_FAIL(LH_EUSAGE, "block is %lld, it must be between 0 and the %lld tokens of more", (long long)block,
                (long long)more);
    return LH_OK;
}

static lh_status fork_session(lh_session **out, lh_session *from, int64_t more, int64_t block)
{
    lh_status st = LH_OK;
    lh_session *s = NULL;
    lh_session_options options = from->options;
    LH_TRY(check_fork(from, more, block));
    options.others = NULL;
    options.other_count = 0;
    options.prompt = 0;
    options.more = more;
    options.length = from->tokens.n + more;
    options.fork_more = 0;
    options.block = block;
    options.given = NULL;
    options.forward = from->forward;
    options.beside = NULL;
    st = make_session(&s, from->engine, &options);
    if (st == LH_OK) st = fork_state(s, from);
    if (st == LH_OK && from->held_logits) st = put_logits(s, from->held_logits);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(from->engine)->comm, st));
    *out = s;
    s = NULL;
done:
    lh_session_close(s);
    return st;
}

lh_status lh_session_fork(lh_session **out, lh_session *from, int64_t more, int64_t block)
{
    LH_TRY(lh_check_given(out, "session"));
    LH_TRY(enter(from));
    return leave(from, fork_session(out, from, more, block));
}

/* Back to the cache of the snapshot. */
static void close_fork(lh_session *s)
{
    if (!s->fork) return;
    lh_forward_forget(s->forward, s->fork);
    lh_kv_close(s->fork);
    s->fork = NULL;
}

void lh_session_close(lh_session *s)
{
    if (!s || lh_engine_is_forked(s->engine) || --s->users > 0) return;
    lh_session *held = s->held;
    if (s->is_fork) held->forks--;
    close_fork(s);
    for (int64_t i = s->caches ? s->options.other_count : -1; i >= 0; i--) {
        if (s->options.forward && s->caches[i]) lh_forward_forget(s->forward, s->caches[i]);
        lh_kv_close(s->caches[i]);
    }
    if (!s->options.forward) lh_forward_close(s->forward);
    lh_rotations_close(s->rotations);
    lh_tokens_clear(&s->tokens);
    lh_profiles_clear(&s->profiles);
    lh_free(s->logits);
    lh_free(s->held_logits);
    lh_free(s->snapshot_logits);
    lh_free(s->caches);
    lh_engine_release(s->engine);
    lh_free(s);
    lh_session_close(held);
}

static lh_status check_ids(const lh_session *s, const int32_t *ids, int64_t n)
{
    const lh_tokens given = {.ids = (int32_t *)(uintptr_t)ids, .n = n};
    return lh_prompt_check_ids(&given, lh_engine_get(s->engine)->config->vocab);
}

/* ---- a program's calls ---- */

/* n more tokens can follow. */
static lh_status check_more(const lh_session *s, int64_t n)
{
    const lh_session_options *o = &s->options;
    LH_TRY(check_ready(s));
    if (s->options.bounded && s->forks)
        LH_FAIL(LH_EUSAGE, "the session has %lld forks that share its cache: close them before more tokens come",
                (long long)s->forks);
    const int64_t used = s->tokens.n - (o->length - o->more);
    if (o->bounded && n > o->more - used)
        LH_FAIL(
            LH_EUSAGE,
            "more is %lld, %lld tokens have come since the prompt or the fork, and %lld are given: start the session "
            "with as many as will follow",
            (long long)o->more, (long long)used, (long long)n);
    return LH_OK;
}

/* Collective where it forks. Tokens come: those after a snapshot go to a fork of its cache. */
static lh_status fork_snapshot(lh_session *s)
{
    if (!s->snapshot_logits || s->fork) return LH_OK;
    return lh_comm_agree(lh_engine_get(s->engine)->comm,
                         lh_kv_fork(&s->fork, s->caches[s->cache], s->options.fork_more));
}

/* The status of the model's work on tokens. */
static lh_status advanced(lh_session *s, lh_status st)
{
    s->state = st == LH_OK ? READY : FAILED;
    return st;
}

static lh_status append_block(lh_session *s, const int32_t *ids, int64_t n)
{
    if (n < 1) LH_FAIL(LH_EUSAGE, "the block has %lld tokens, it must have at least 1", (long long)n);
    LH_TRY(lh_check_given(ids, "ids"));
    LH_TRY(check_ready(s));
    if (s->options.bounded && n > s->options.block)
        LH_FAIL(LH_EUSAGE, "block is %lld, and a block of %lld tokens is given", (long long)s->options.block,
                (long long)n);
    LH_TRY(check_more(s, n));
    LH_TRY(check_ids(s, ids, n));
    LH_TRY(fork_snapshot(s));
    LH_TRY(push_tokens(s, ids, n));
    LH_TRY(advanced(s, lh_forward_block(s->forward, lh_session_kv(s), ids, n)));
    take_rows(s);
    return LH_OK;
}

lh_status lh_session_block(lh_session *s, const int32_t *ids, int64_t n)
{
    LH_TRY(enter(s));
    return leave(s, append_block(s, ids, n));
}

/* Sessions that may step together. */
static lh_status check_together(lh_session *const *sessions, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        LH_TRY(lh_check_given(sessions[i], "session"));
        LH_TRY(check_more(sessions[i], 1));
        if (sessions[i]->forward != sessions[0]->forward)
            LH_FAIL(LH_EUSAGE,
                    "sessions[%lld] has a forward pass of its own: it steps with its forks, and with sessions "
                    "that were started beside it",
                    (long long)i);
        for (int64_t k = 0; k < i; k++)
            if (sessions[k] == sessions[i])
                LH_FAIL(LH_EUSAGE, "sessions[%lld] and sessions[%lld] are the same session", (long long)k,
                        (long long)i);
    }
    if (n > lh_forward_sequences(sessions[0]->forward))
        LH_FAIL(LH_EUSAGE, "%lld sessions are given, and at most %lld step together: start the first one with as many",
                (long long)n, (long long)lh_forward_sequences(sessions[0]->forward));
    return check_ids(sessions[0], ids, n);
}

static lh_status step_together(lh_session *const *sessions, const int32_t *ids, int64_t n)
{
    lh_status st = LH_OK;
    lh_next_token *next = NULL;
    for (int64_t i = 0; i < n; i++) sessions[i]->users++;
    LH_TRY_DONE(lh_calloc(&next, n, sizeof *next));
    for (int64_t i = 0; i < n; i++) {
        LH_TRY_DONE(fork_snapshot(sessions[i]));
        next[i] = (lh_next_token){lh_session_kv(sessions[i]), ids[i]};
        LH_TRY_DONE(push_tokens(sessions[i], &ids[i], 1));
    }
    st = lh_forward_step(sessions[0]->forward, next, n);
    for (int64_t i = 0; i < n; i++) advanced(sessions[i], st);
    LH_TRY_DONE(st);
    for (int64_t i = 0; i < n; i++) {
        sessions[i]->row = i;
        sessions[i]->rows = 1;
        sessions[i]->call = lh_forward_logits(sessions[i]->forward).call;
    }
done:
    for (int64_t i = 0; i < n; i++) lh_session_close(sessions[i]);
    lh_free(next);
    return st;
}

lh_status lh_sessions_step(lh_session *const *sessions, const int32_t *ids, int64_t n)
{
    if (n < 1) LH_FAIL(LH_EUSAGE, "n is %lld, it must be at least 1 session", (long long)n);
    LH_TRY(lh_check_given(sessions, "sessions"));
    LH_TRY(lh_check_given(ids, "ids"));
    LH_TRY(enter(sessions[0]));
    lh_status st = check_together(sessions, ids, n);
    if (st == LH_OK) st = step_together(sessions, ids, n);
    return leave(sessions[0], st);
}

lh_status lh_session_step(lh_session *s, int32_t id)
{
    return lh_sessions_step(&s, &id, 1);
}

void lh_session_keep_logits(lh_session *s, int64_t rows)
{
    lh_forward_keep(s->forward, rows);
}

/* This rank's part of the last `rows` rows. */
static lh_logits_view last_rows(const lh_session *s, int64_t rows)
{
    lh_logits_view view = lh_forward_logits(s->forward);
    assert(s->rows >= rows); /* a fork has none before its first block */
    view.logits += (s->row + s->rows - rows) * view.count;
    view.rows = rows;
    return view;
}

/* This rank's part of the last row, to host memory. */
static lh_status copy_last_row(lh_session *s, float **out)
{
    lh_logits_view view = last_rows(s, 1);
    const lh_exec *exec = lh_engine_get(s->engine)->exec;
    lh_free(*out);
    *out = NULL;
    LH_TRY(lh_calloc(out, view.count, sizeof(float)));
    LH_TRY(lh_stream_copy(exec->stream, *out, view.logits, view.count * 4, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(exec->stream));
    return LH_OK;
}

lh_status lh_session_hold_logits(lh_session *s)
{
    return lh_comm_agree(lh_engine_get(s->engine)->comm, copy_last_row(s, &s->held_logits));
}

/* Collective. The prompt's ids, and the probe tokens of the cache that it fills. */
static lh_status add_probes(const lh_session *s, const int32_t *ids, int64_t n, lh_tokens *all)
{
    const lh_profile *text = lh_profiles_find(&s->profiles, LH_PROFILE_LINES, s->policy.score.text);
    return lh_probes_append(all, s->engine, &(lh_probed_prompt){.kv = s->caches[0], .text = text, .ids = ids, .n = n});
}

lh_status lh_session_begin_prefill(lh_session *s, const int32_t *ids, int64_t n, lh_prefill **prefill)
{
    lh_status st = LH_OK;
    lh_tokens all = {0};
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(s->engine)->comm, push_tokens(s, ids, n)));
    LH_TRY_DONE(add_probes(s, ids, n, &all));
    LH_TRY_DONE(lh_prefill_open(prefill, s->forward, s->caches[0], all.ids, n));
done:
    lh_tokens_clear(&all);
    return st;
}

lh_status lh_session_end_prefill(lh_session *s)
{
    take_rows(s);
    s->state = READY;
    return LH_OK;
}

static lh_status prefill(lh_session *s, const int32_t *ids, int64_t n, const lh_forward_progress *progress)
{
    lh_tokens all = {0};
    lh_status st = add_probes(s, ids, n, &all);
    if (st == LH_OK) st = lh_forward_prefill(s->forward, s->caches[0], all.ids, n, progress);
    lh_tokens_clear(&all);
    return st;
}

static lh_status take_prompt(lh_session *s, const int32_t *ids, int64_t n, const lh_forward_progress *progress)
{
    if (s->state == FAILED) LH_TRY(check_ready(s));
    if (s->tokens.n)
        LH_FAIL(LH_EUSAGE, "the session has %lld tokens already: a prompt is its first", (long long)s->tokens.n);
    if (n != s->options.prompt)
        LH_FAIL(LH_EUSAGE, "the session was started for a prompt of %lld tokens, and %lld are given",
                (long long)s->options.prompt, (long long)n);
    LH_TRY(lh_check_given(ids, "ids"));
    LH_TRY(check_ids(s, ids, n));
    LH_TRY(push_tokens(s, ids, n));
    LH_TRY(advanced(s, prefill(s, ids, n, progress)));
    return lh_session_end_prefill(s);
}

lh_status lh_session_prefill(lh_session *s, const int32_t *ids, int64_t n, const lh_forward_progress *progress)
{
    lh_forward_progress given;
    if (progress) LH_TRY(lh_struct_read(&given, sizeof given, progress, "lh_forward_progress"));
    LH_TRY(enter(s));
    return leave(s, take_prompt(s, ids, n, progress ? &given : NULL));
}

/* keys, values: room for the entries of a layer. */
static lh_status fill_layer(lh_session *s, const lh_session_prompt *p, int64_t layer, void *keys, void *values)
{
    lh_ragged *view = NULL;
    LH_TRY(lh_kv_prefill_begin(s->caches[0], layer, &view));
    LH_TRY(p->read(p->self, layer, keys, values));
    return lh_kv_fill(s->caches[0], layer, keys, values);
}

lh_status lh_session_fill(lh_session *s, const lh_session_prompt *p)
{
    lh_status st = LH_OK;
    const lh_engine_view *e = lh_engine_get(s->engine);
    const lh_kv_shape shape = lh_model_kv_shape(e->model, &e->kv_types);
    const int64_t floats = shape.heads.kv_count * p->n * shape.head_dim;
    void *keys = NULL, *values = NULL;
    st = push_tokens(s, p->ids, p->n);
    if (st == LH_OK) st = lh_calloc(&keys, floats, lh_dtype_bytes(shape.types.prompt));
    if (st == LH_OK) st = lh_calloc(&values, floats, lh_dtype_bytes(shape.types.prompt));
    LH_TRY_DONE(lh_comm_agree(e->comm, st));
    for (int64_t l = 0; l < shape.layers; l++) {
        LH_TRY_DONE(lh_comm_agree(e->comm, fill_layer(s, p, l, keys, values)));
        LH_TRY_DONE(lh_kv_prefill_end(s->caches[0], l));
    }
    st = put_logits(s, p->logits + lh_forward_logits(s->forward).first);
    LH_TRY_DONE(advanced(s, lh_comm_agree(e->comm, st)));
done:
    lh_free(keys);
    lh_free(values);
    return st;
}

static lh_status check_rows(const lh_session *s)
{
    if (s->state == FAILED) LH_TRY(check_ready(s));
    if (!s->rows)
        LH_FAIL(LH_EUSAGE, "the session has no logits yet: %s",
                s->is_fork ? "a fork begins with a token" : "a prompt comes first");
    if (s->call != lh_forward_logits(s->forward).call)
        LH_FAIL(LH_EUSAGE, "the logits of the session are gone: tokens of another session with the same forward pass "
                           "came after its own");
    return LH_OK;
}

static lh_status check_restores(const lh_session *s)
{
    if (s->options.bounded && s->options.fork_more < s->options.more)
        LH_FAIL(LH_EUSAGE, "restores is 0: a session that restores a snapshot is started with 1");
    return LH_OK;
}

/* The fork becomes the cache that further forks start from. */
static lh_status keep_fork(lh_session *s)
{
    LH_TRY(lh_kv_unshare(s->fork));
    lh_forward_forget(s->forward, s->caches[s->cache]);
    lh_kv_close(s->caches[s->cache]);
    s->caches[s->cache] = s->fork;
    s->fork = NULL;
    return LH_OK;
}

static lh_status take_snapshot(lh_session *s)
{
    lh_status st = LH_OK;
    LH_TRY(check_rows(s));
    LH_TRY(check_restores(s));
    if (s->fork) st = keep_fork(s);
    if (st == LH_OK) st = copy_last_row(s, &s->snapshot_logits);
    if (st == LH_OK) s->snapshot_tokens = s->tokens.n;
    return lh_comm_agree(lh_engine_get(s->engine)->comm, st);
}

lh_status lh_session_snapshot(lh_session *s)
{
    LH_TRY(enter(s));
    return leave(s, take_snapshot(s));
}

static lh_status restore_snapshot(lh_session *s)
{
    LH_TRY(check_ready(s));
    LH_TRY(check_restores(s));
    if (!s->snapshot_logits) LH_FAIL(LH_EUSAGE, "there is no snapshot to restore: lh_session_snapshot comes first");
    close_fork(s);
    s->tokens.n = s->snapshot_tokens;
    return put_logits(s, s->snapshot_logits);
}

lh_status lh_session_restore(lh_session *s)
{
    LH_TRY(enter(s));
    return leave(s, restore_snapshot(s));
}

lh_status lh_session_switch(lh_session *s, int64_t cache)
{
    if (!s->snapshot_logits) LH_TRY(take_snapshot(s));
    LH_TRY(restore_snapshot(s));
    s->cache = cache;
    return LH_OK;
}

static lh_status gather_logits(lh_session *s, const float **logits, int64_t *rows)
{
    LH_TRY(lh_check_given(logits, "logits"));
    LH_TRY(lh_check_given(rows, "rows"));
    LH_TRY(check_rows(s));
    const lh_exec *exec = lh_engine_get(s->engine)->exec;
    int64_t vocab = lh_engine_get(s->engine)->config->vocab;
    lh_logits_view view = last_rows(s, s->rows);
    int root = lh_comm_rank(exec->comm) == 0;
    if (root) LH_TRY(lh_realloc(&s->logits, view.rows * vocab, sizeof(float)));
    LH_TRY(lh_logits_gather(exec, &view, vocab, 0, s->logits));
    *logits = root ? s->logits : NULL;
    *rows = view.rows;
    return LH_OK;
}

lh_status lh_session_logits(lh_session *s, const float **logits, int64_t *rows)
{
    LH_TRY(enter(s));
    return leave(s, gather_logits(s, logits, rows));
}

static lh_status draw(lh_session *s, const lh_sampling *sampling, int64_t step, int32_t *id)
{
    LH_TRY(lh_check_given(id, "id"));
    LH_TRY(check_rows(s));
    lh_logits_view row = last_rows(s, 1);
    lh_sample_at at = {lh_engine_get(s->engine)->exec, s->tokens.ids, s->tokens.n, step};
    LH_TRY(lh_sampling_check(sampling));
    if (lh_sampling_is_greedy(sampling)) return lh_forward_greedy(s->forward, s->row + s->rows - 1, id);
    return lh_sample(sampling, &at, &row, id);
}

lh_status lh_session_draw(lh_session *s, const lh_sampling *sampling, int64_t step, int32_t *id)
{
    LH_TRY(enter(s));
    return leave(s, draw(s, sampling, step, id));
}

lh_status lh_session_sample(lh_session *s, const lh_sampling *sampling, int64_t step, int32_t *id)
{
    lh_sampling given = {0};
    if (sampling) LH_TRY(lh_struct_read(&given, sizeof given, sampling, "lh_sampling"));
    return lh_session_draw(s, &given, step, id);
}

const lh_tokens *lh_session_tokens(const lh_session *s)
{
    return s ? &s->tokens : NULL;
}

int64_t lh_session_chunk(const lh_session *s)
{
    return s->chunk;
}

const lh_engine *lh_session_engine(const lh_session *s)
{
    return s->engine;
}

lh_forward *lh_session_forward(const lh_session *s)
{
    return s->forward;
}

const lh_session_options *lh_session_options_of(const lh_session *s)
{
    return &s->options;
}

lh_kv *lh_session_kv(const lh_session *s)
{
    return s->fork ? s->fork : s->caches[s->cache];
}

lh_status lh_session_write(lh_session *s, const char *path, const lh_cache_extra *about)
{
    lh_status st = LH_OK;
    const lh_exec *exec = lh_engine_get(s->engine)->exec;
    lh_logits_view row = last_rows(s, 1);
    lh_cache_extra extra = *about;
    float *logits = NULL;
    extra.model = lh_engine_get(s->engine)->identity;
    extra.tokens = s->tokens.ids;
    extra.n = s->tokens.n;
    extra.run_tokens = s->options.rotates_for;
    extra.vocab = lh_engine_get(s->engine)->config->vocab;
    if (lh_comm_rank(exec->comm) == 0) LH_TRY_DONE(lh_calloc(&logits, extra.vocab, sizeof *logits));
    LH_TRY_DONE(lh_logits_gather(exec, &row, extra.vocab, 0, logits));
    extra.logits = logits;
    LH_TRY_DONE(lh_kv_save(lh_session_kv(s), path, &extra));
done:
    lh_free(logits);
    return st;
}

static lh_status save(lh_session *s, const char *path)
{
    LH_TRY(lh_check_given(path, "path"));
    LH_TRY(check_rows(s));
    return lh_session_write(s, path, &(lh_cache_extra){.seed = s->options.seed, .run = "{}"});
}

lh_status lh_session_save(lh_session *s, const char *path)
{
    LH_TRY(enter(s));
    return leave(s, save(s, path));
}

/* The keys of the file are rotated already, and a query of other factors would meet them at wrong distances. */
static lh_status check_rotation(const lh_session *s, const lh_saved_kv *file)
{
    const lh_config *c = lh_engine_get(s->engine)->config;
    const int64_t saved = file->file.extra.run_tokens ? file->file.extra.run_tokens : file->file.extra.n,
                  wanted = s->options.rotates_for;
    if (lh_config_rotates_until(c, saved) != lh_config_rotates_until(c, wanted))
        LH_FAIL(LH_EUSAGE,
                "'%s' was saved in a run of %lld tokens, and the model rotates the keys of a run of %lld tokens by "
                "other factors: make the question and the maximum length of the answer %s, or read the text again and "
                "save it in a run of %lld tokens",
                lh_h5_path(file->file.h5), (long long)saved, (long long)wanted, saved < wanted ? "shorter" : "longer",
                (long long)wanted);
    return LH_OK;
}

static lh_status restore(lh_session *s, lh_saved_kv *file)
{
    const lh_cache_extra extra = file->file.extra;
    int64_t vocab = lh_engine_get(s->engine)->config->vocab;
    LH_TRY(check_rotation(s, file));
    LH_TRY(lh_kv_load(s->caches[0], file, lh_engine_get(s->engine)->identity, s->options.more - s->options.fork_more));
    if (extra.vocab != vocab)
        LH_FAIL(LH_EFILE, "'%s' holds %lld logits of the last token, the model has %lld", lh_h5_path(file->file.h5),
                (long long)extra.vocab, (long long)vocab);
    LH_TRY(push_tokens(s, extra.tokens, extra.n));
    LH_TRY(put_logits(s, extra.logits + lh_forward_logits(s->forward).first));
    s->state = READY;
    return LH_OK;
}

lh_status lh_session_read(lh_session *s, lh_saved_kv *file)
{
    lh_status st = restore(s, file);
    if (st == LH_OK) st = lh_h5_unchanged(file->file.h5);
    return lh_comm_agree(lh_engine_get(s->engine)->comm, st);
}

static lh_status copy_kept(int32_t **out, int64_t *n, const lh_positions *p, int64_t head)
{
    const int64_t first = p->offsets[head], count = p->offsets[head + 1] - first;
    LH_TRY(lh_calloc(out, count, sizeof **out));
    memcpy(*out, p->positions + first, (size_t)count * sizeof **out);
    *n = count;
    return LH_OK;
}

static lh_status gather_kept(lh_session *s, int64_t layer, int64_t head, int32_t **out, int64_t *n)
{
    lh_positions all = {0};
    const lh_config *c = lh_engine_get(s->engine)->config;
    LH_TRY(lh_check_given(out, "positions"));
    LH_TRY(lh_check_given(n, "n"));
    LH_TRY(check_ready(s));
    if (layer < 0 || layer >= c->layers || head < 0 || head >= c->kv_heads)
        LH_FAIL(LH_EUSAGE, "KV head %lld of layer %lld: the model has %lld layers of %lld KV heads", (long long)head,
                (long long)layer, (long long)c->layers, (long long)c->kv_heads);
    lh_status st = lh_kv_gather_positions(lh_session_kv(s), layer, &all);
    if (st == LH_OK) st = lh_positions_share(&all, lh_engine_get(s->engine)->comm);
    if (st == LH_OK) st = lh_comm_agree(lh_engine_get(s->engine)->comm, copy_kept(out, n, &all, head));
    lh_positions_clear(&all);
    return st;
}

lh_status lh_session_kept(lh_session *s, int64_t layer, int64_t kv_head, int32_t **positions, int64_t *n)
{
    LH_TRY(enter(s));
    return leave(s, gather_kept(s, layer, kv_head, positions, n));
}

int64_t lh_session_ids(const lh_session *s, const int32_t **ids)
{
    if (ids) *ids = s ? s->tokens.ids : NULL;
    return s ? s->tokens.n : 0;
}
