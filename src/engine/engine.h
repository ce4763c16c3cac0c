/* engine.h - the members of an engine (longhaul.h): this rank's weights, tokenizer, device and communicators. Read-only
 * once open, shared by any number of sessions (session.h). Opening ends every phase in an agreement: all ranks fail or
 * none. */
#ifndef LH_ENGINE_ENGINE_H
#define LH_ENGINE_ENGINE_H

#include "comm/comm.h"
#include "import/checkpoint.h"
#include "kv/kv.h"
#include "model/model.h"
#include "text/tokenizer.h"

typedef struct lh_engine_view {
    lh_model *model;
    const lh_config *config;
    const lh_tokenizer *tokenizer; /* NULL: the model has none */
    lh_comm *comm;                 /* the communicator it was opened with */
    const lh_exec *exec;
    lh_device *device;
    lh_dtype dtype;
    lh_kv_types kv_types;
    int64_t chunk;          /* as given in the options */
    int64_t threads;        /* of this rank */
    uint64_t identity;      /* of the checkpoint */
    uint64_t score_weights; /* hash of the model's score weights (model/score_weights.h), 0: none */
    double load_s;
} lh_engine_view;

/* Bounds of lh_engine_options. */
enum { LH_RANKS_MAX = 1 << 20, LH_THREADS_MAX = 1024, LH_CHUNK_MAX = 1 << 16 };

/* Between the two calls the engine works for the calling thread, with its OpenMP threads (threads.h); they nest.
 * LH_EUSAGE if another thread is at work in it, or if this process is a fork of the one that opened it. NULL is
 * refused. Not collective. */
lh_status lh_engine_enter(lh_engine *engine);
void lh_engine_leave(lh_engine *engine);

/* A session uses the engine: lh_engine_close waits for the last lh_engine_release. */
void lh_engine_hold(lh_engine *engine);
void lh_engine_release(lh_engine *engine);

/* 1: this process is a fork of the one that opened the engine. */
int lh_engine_is_forked(const lh_engine *engine);

/* Borrowed. */
const lh_engine_view *lh_engine_get(const lh_engine *engine);

/* The cache of its sessions, for budgets in bytes; and lh_policy_size with it, collective. */
lh_cache_size lh_engine_cache_size(const lh_engine *engine);
lh_status lh_engine_size_policy(const lh_engine *engine, lh_policy *policy);

/* As lh_engine_open, over a communicator that the caller owns and closes later, without a look at the size of the
 * options. */
lh_status lh_engine_open_on(lh_engine **out, lh_comm *world, const lh_engine_options *options);

/* The same by the ranks of `comm`, which share the hosts of `world` with other replicas: each replica opens its engine
 * in the same call, collective over `world`. */
lh_status lh_engine_open_replica(lh_engine **out, lh_comm *world, lh_comm *comm, const lh_engine_options *options);

/* An engine of a model that is open already: the model's name in the options is not read. The engine closes the model,
 * also after a failure. */
lh_status lh_engine_open_model(lh_engine **out, lh_comm *world, lh_checkpoint *model, const lh_engine_options *options);

/* The options, with "auto" for NULL. */
lh_engine_options lh_engine_defaults(const lh_engine_options *options);

/* LH_EUSAGE if a number is out of its bounds, or options exclude each other. */
lh_status lh_engine_check(const lh_engine_options *options);

/* Types of weights and caches. "auto" for weights is bf16 if the matrices are stored as bf16, else f32; for caches the
 * type of the weights, and q8 if a cache evicts: in the same bytes, more entries in q8 are nearer to the full cache
 * than fewer in bf16 (docs/quality.md). */
lh_status lh_engine_dtypes(const lh_engine_options *options, lh_dtype stored, lh_dtype *dtype, lh_kv_types *types);

#endif
