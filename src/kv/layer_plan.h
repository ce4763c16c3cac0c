/* layer_plan.h - a policy applied to a layer of a prompt: budget, protected entries, kept entries and slack of its
 * heads. Pure arithmetic. */
#ifndef LH_KV_LAYER_PLAN_H
#define LH_KV_LAYER_PLAN_H

#include "cache/arena.h"
#include "cache/query_ring.h"
#include "kv/kv.h"

typedef struct lh_prompt {
    int64_t tokens, more;
} lh_prompt;

typedef struct lh_layer_plan {
    int64_t budget;       /* entries per KV head */
    int64_t later;        /* lh_layer_request */
    int64_t visible_from; /* the first position that the row after the prompt sees */
    lh_protection protect;
    int64_t kept;  /* entries a head keeps; adaptive heads on average */
    int64_t slack; /* slots a head gets beyond them */
    int evicts;    /* 0: keeps all and is prefilled in its own arena */
    int ranked;    /* entries compete and not all of them stay */
    int scored;    /* they are ranked by more than their position */
} lh_layer_plan;

typedef struct lh_layer_request {
    int64_t layer, budget;
    int64_t later; /* budget once there is something to evict, if that may be more; 0: the same */
    lh_prompt prompt;
} lh_layer_request;

lh_layer_plan lh_kv_layer_plan(const lh_kv_shape *shape, const lh_policy_numbers *policy,
                               const lh_layer_request *request);

/* Entries that every head keeps regardless of scores. */
int64_t lh_kv_protected(const lh_layer_plan *plan);

/* Slack of a head with `held` entries: slots by which it can grow before the next eviction. */
int64_t lh_kv_slack(const lh_kv_shape *shape, const lh_policy_numbers *policy, const lh_layer_request *request,
                    int64_t held);

int lh_kv_slides(const lh_kv_shape *shape, int64_t layer);

/* The first position that a row at position `seen` sees. */
int64_t lh_kv_visible_from(const lh_kv_shape *shape, int64_t layer, int64_t seen);

/* 1 where keys are rotated by slots. */
int lh_kv_uses_slots(const lh_policy_numbers *policy);

/* Of the arena that a layer keeps after its prefill. */
lh_arena_shape lh_kv_arena_shape(const lh_kv_shape *shape);
lh_arena_form lh_kv_form_of(const lh_kv_shape *shape, const lh_policy_numbers *policy, int64_t layer);

/* The ring of query rows that a layer has; rows 0: none, where decoding does not observe a window. */
lh_ring_shape lh_kv_ring_shape(const lh_kv_shape *shape, const lh_policy_numbers *policy);

/* Evictions of a layer with this budget during a prompt of `tokens` tokens that is prefilled in blocks. */
int64_t lh_kv_block_count(const lh_policy_numbers *policy, int64_t budget, int64_t tokens);

#endif
