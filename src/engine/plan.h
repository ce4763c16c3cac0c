/* plan.h - forecast of a run: memory and communication of every rank, from the header of a model, without its
 * weights. */
#ifndef LH_ENGINE_PLAN_H
#define LH_ENGINE_PLAN_H

#include <jansson.h>

#include "engine/engine.h"
#include "import/format_tally.h"

typedef struct lh_plan_request {
    const lh_engine_options *engine; /* model, tp (0: 1), device, dtype, kv_dtype, deterministic, memory, chunk */
    const lh_policy *policy;
    int64_t context, max_new;
    int64_t question;            /* tokens of the longest one that comes after the eviction; 0: none does */
    int64_t forks;               /* questions that are answered together, each in a fork of the cache; 0: no forks */
    const lh_profiles *profiles; /* includes those that the policy names; NULL if it names none */
} lh_plan_request;

/* Bytes of one rank. */
typedef struct lh_plan_rank {
    int64_t heads, kv_heads;
    int64_t weights, kv_kept, kv_allocated, kv_one_layer, hidden;
    int64_t unpacked;                  /* plain numbers of a layer with weights of few bits; 0: none */
    int64_t work;                      /* other workspace of chunks and of evictions */
    int64_t peak;                      /* maximum at any time */
    int64_t decode_read;               /* weights and cache that one token reads */
    int64_t prefill_sent, decode_sent; /* to other ranks: for the prompt (score summaries included), per token */
} lh_plan_rank;

typedef struct lh_plan {
    lh_plan_rank *ranks;                       /* [tp] */
    int64_t tp, budget, entries_kept, entries; /* of the model */
    int64_t full_bytes;                        /* of the cache with all entries, on all ranks together */
    int64_t *layer_budgets;                    /* [layers] entries per KV head */
    int64_t layers;
    int64_t chunk; /* tokens per chunk of the prompt */
    lh_device_kind device;
    int64_t free_bytes;       /* usable per rank if all `tp` ranks ran here, or of the memory of the options */
    int fits;                 /* 1: every rank's peak is below it by at least LH_CHUNK_SPARE_LEAST */
    lh_dtype dtype, kv_dtype; /* of the weights, and of the kept entries */
    lh_kv_types kv_types;     /* of any cache of the engine */
    uint64_t score_weights;   /* hash of the model's score weights, 0: none */
    int64_t *layer_shares;    /* [layers] of '--layer-budget learnt', NULL: none */
    lh_format_tally stored;   /* the tensors of the checkpoint that is given, or that an import makes */
    const char *quantiser;    /* lh_model_header: the method of weights that are counted as bf16; else NULL */
    lh_policy policy;         /* the request's, with its budget in entries */
} lh_plan;

/* Makes the forecast. Not collective. LH_EFILE, LH_EINPUT (invalid configuration), LH_EUSAGE. */
lh_status lh_plan_make(lh_plan *out, const lh_plan_request *request);
void lh_plan_clear(lh_plan *plan);

/* The smallest number of ranks above the request's on which the run fits; 0: there is none. For requests that
 * lh_plan_make accepts. */
int64_t lh_plan_ranks_needed(const lh_plan_request *request);

/* Weights of a layer that a token is multiplied by; and the query-key pairs of a prefill in all layers, full or
 * sliding-window, for each query head. */
double lh_plan_layer_weights(const lh_config *config);
double lh_plan_attended(const lh_config *config, int64_t tokens);

/* FLOPs of a prefill: the products of all layers, full or sliding-window attention, and one row of logits. */
double lh_plan_prefill_flops(const lh_config *config, int64_t tokens);

/* Share of these FLOPs, 0 to 1, after `done` tokens of all layers, which follow each other: tokens late in a layer cost
 * more, because they attend to more entries. Without the logits. */
double lh_plan_prefill_share(const lh_config *config, int64_t tokens, int64_t done);

/* ranks_needed: as above, 0 if the run fits or does on no number of ranks. */
lh_status lh_plan_json(const lh_plan *plan, const lh_plan_request *request, int64_t ranks_needed, json_t **out);

#endif
