/* engine.h - a model that is ready to run: weights of this rank, tokenizer, device, communicators. Read-only once open,
 * shared by any number of sessions. */
#ifndef LH_ENGINE_ENGINE_H
#define LH_ENGINE_ENGINE_H

#include "comm/comm.h"
#include "import/checkpoint.h"
#include "kv/kv.h"
#include "model/model.h"
#include "text/tokenizer.h"

typedef struct lh_engine lh_engine;

typedef struct lh_engine_options {
    const char *model;    /* a checkpoint; for a plan whatever lh_model_header_read takes */
    int64_t tp;           /* ranks that share the model: all of the world, which 0 means, too; of a plan: any number */
    const char *device;   /* "auto", "cpu", "cuda", "ref" */
    int share_device;     /* 1: ranks of one host may compute on the same CUDA device */
    const char *dtype;    /* "auto", "f32", "bf16" */
    const char *kv_dtype; /* "auto" (as dtype), "f32", "bf16" */
    int64_t threads;      /* of this rank; 0: the cores of the host, shared by its ranks */
    int deterministic;    /* 1: the same bits on any number of ranks */
    int64_t memory;       /* bytes that a rank may take at most; 0: what is free, shared by those who share it */
    int64_t chunk;        /* tokens of a prompt that go through a layer together; 0: chosen (chunk.h) */
} lh_engine_options;

/* Collective over `world`, which stays the caller's and is closed later. Fails on all ranks or on none. */
lh_status lh_engine_open(lh_engine **out, lh_comm *world, const lh_engine_options *options);
void lh_engine_close(lh_engine *engine);

lh_model *lh_engine_model(const lh_engine *engine);
const lh_config *lh_engine_config(const lh_engine *engine);
const lh_tokenizer *lh_engine_tokenizer(const lh_engine *engine); /* NULL: the model has none */
const lh_exec *lh_engine_place(const lh_engine *engine);
lh_comm *lh_engine_comm(const lh_engine *engine);                 /* the one it was opened with */
lh_device *lh_engine_device(const lh_engine *engine);
lh_dtype lh_engine_kv_dtype(const lh_engine *engine);
lh_dtype lh_engine_dtype(const lh_engine *engine);
int64_t lh_engine_chunk(const lh_engine *engine);     /* as asked for */
uint64_t lh_engine_identity(const lh_engine *engine); /* of the checkpoint */
double lh_engine_load_s(const lh_engine *engine);

/* LH_EUSAGE where options exclude each other. */
lh_status lh_engine_check(const lh_engine_options *options);

/* What "auto" means for a model whose matrices are stored as `stored`: bf16 where that is bf16, else f32. */
lh_status lh_engine_dtypes(const lh_engine_options *options, lh_dtype stored, lh_dtype *dtype, lh_dtype *kv_dtype);

#endif
