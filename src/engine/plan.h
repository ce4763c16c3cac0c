/* plan.h - forecast of a run: memory and communication of every rank, from the configuration alone. */
#ifndef LH_ENGINE_PLAN_H
#define LH_ENGINE_PLAN_H

#include <jansson.h>

#include "engine/engine.h"

typedef struct lh_plan_request {
    const lh_engine_options *engine; /* model, tp (0: 1), device, dtype, kv_dtype, deterministic, memory, chunk */
    const lh_policy *policy;
    int64_t context, max_new;
    const lh_profiles *profiles; /* those that the policy names are in it; NULL where it names none */
} lh_plan_request;

/* Bytes of one rank. */
typedef struct lh_plan_rank {
    int64_t heads, kv_heads;
    int64_t weights, kv_kept, kv_allocated, kv_one_layer, hidden;
    int64_t work;                      /* of chunks, and while layers are evicted */
    int64_t peak;                      /* the most at any one time */
    int64_t decode_read;               /* weights and cache that one token reads */
    int64_t prefill_sent, decode_sent; /* to other ranks, all-reduces and summaries: of the prompt, of one token */
} lh_plan_rank;

typedef struct lh_plan {
    lh_plan_rank *ranks;                       /* [tp] */
    int64_t tp, budget, entries_kept, entries; /* of the model */
    int64_t *layer_budgets;                    /* [layers] entries per KV head */
    int64_t layers;
    int64_t chunk; /* tokens of the prompt that go through a layer together */
    lh_device_kind device;
    int64_t free_bytes; /* of one of `tp` ranks, were they all here; or the memory that the options say */
    int fits;           /* every rank's peak is below it, by LH_CHUNK_SPARE_LEAST at least */
    lh_dtype dtype, kv_dtype;
} lh_plan;

/* Not collective. LH_EFILE, LH_EINPUT (a configuration that cannot be), LH_EUSAGE. */
lh_status lh_plan_make(lh_plan *out, const lh_plan_request *request);
void lh_plan_clear(lh_plan *plan);
lh_status lh_plan_json(const lh_plan *plan, const lh_plan_request *request, json_t **out);

#endif
