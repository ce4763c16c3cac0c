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
    lh_dtype dtype, kv_dtype;
    int64_t chunk;     /* as given in the options */
    int64_t threads;   /* of this rank */
    uint64_t identity; /* of the checkpoint */
    double load_s;
} lh_engine_view;

/* Borrowed. */
const lh_engine_view *lh_engine_get(const lh_engine *engine);

/* As lh_engine_open, over a communicator that the caller owns and closes later; all options must be set. */
lh_status lh_engine_open_on(lh_engine **out, lh_comm *world, const lh_engine_options *options);

/* The same by the ranks of `comm`, which share the hosts of `world` with other replicas: each of these opens an engine
 * of its own in the same call, collective over `world`. */
lh_status lh_engine_open_replica(lh_engine **out, lh_comm *world, lh_comm *comm, const lh_engine_options *options);

/* The options with "auto" in place of NULL. */
lh_engine_options lh_engine_defaults(const lh_engine_options *options);

/* LH_EUSAGE if options exclude each other. */
lh_status lh_engine_check(const lh_engine_options *options);

/* Types of weights and cache; "auto" for weights is bf16 if the matrices are stored as bf16, else f32. */
lh_status lh_engine_dtypes(const lh_engine_options *options, lh_dtype stored, lh_dtype *dtype, lh_dtype *kv_dtype);

#endif
