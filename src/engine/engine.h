/* engine.h - what is inside an engine (longhaul.h): weights of this rank, tokenizer, device, communicator. Read-only
 * once open, shared by any number of sessions. */
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
    lh_comm *comm;                 /* the one it was opened with */
    const lh_exec *exec;
    lh_device *device;
    lh_dtype dtype, kv_dtype;
    int64_t chunk;     /* as asked for */
    uint64_t identity; /* of the checkpoint */
    double load_s;
} lh_engine_view;

/* Borrowed. */
const lh_engine_view *lh_engine_get(const lh_engine *engine);

/* lh_engine_open with all options given, over a communicator that stays the caller's and is closed later. */
lh_status lh_engine_open_on(lh_engine **out, lh_comm *world, const lh_engine_options *options);

/* NULL words are "auto". */
lh_engine_options lh_engine_defaults(const lh_engine_options *options);

/* LH_EUSAGE where options exclude each other. */
lh_status lh_engine_check(const lh_engine_options *options);

/* What "auto" means for a model whose matrices are stored as `stored`: bf16 where that is bf16, else f32. */
lh_status lh_engine_dtypes(const lh_engine_options *options, lh_dtype stored, lh_dtype *dtype, lh_dtype *kv_dtype);

#endif
