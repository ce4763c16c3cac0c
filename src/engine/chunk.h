/* chunk.h - how many tokens of a prompt go through a layer together: as many as do the device good, and fewer where
 * memory is short. A plan and the run that it is made for ask here, with the same numbers. */
#ifndef LH_ENGINE_CHUNK_H
#define LH_ENGINE_CHUNK_H

#include "kv/figures.h"
#include "model/forward.h"

/* With LH_ORDER_FIXED every run has chunks of this length: the bits of a sum may depend on it. */
enum { LH_CHUNK_FIXED = 64 };
enum { LH_CHUNK_SPARE_LEAST = 4 << 20 };

/* What one rank has and needs. */
typedef struct lh_chunk_request {
    const lh_config *config;
    const lh_shard *shard;
    lh_model_options options;
    lh_device_kind device;
    int64_t wanted;     /* this length and no other; 0: chosen. Not with LH_ORDER_FIXED */
    int64_t tokens;     /* of the prompt, or what follows a cache */
    int64_t room_bytes; /* that the run may take on top of what is held */
    int64_t else_bytes; /* of it, for all but the workspace of chunks */
} lh_chunk_request;

/* Workspace of chunks of `length` tokens: of the forward pass, and of operations where it depends on the length. */
int64_t lh_chunk_bytes(const lh_chunk_request *request, int64_t length);

/* The longest of the lengths there are that fits and is of use; 0: not even the shortest one fits, which is what
 * lh_chunk_shortest says. LH_CHUNK_SPARE_LEAST of the room is left free, for what operations take beside, and where
 * there is a choice lh_chunk_spare. */
int64_t lh_chunk_spare(int64_t room_bytes);
int64_t lh_chunk_longest(const lh_chunk_request *request);
int64_t lh_chunk_shortest(const lh_chunk_request *request);

/* Beside weights and chunks, the most that caches and the hidden states of a prompt take at any one time. */
int64_t lh_chunk_else(const lh_kv_forecast *caches, int64_t hidden_bytes);

/* Collective: the longest that fits on every rank. LH_ENOMEM, where none does, says how much is missing. */
lh_status lh_chunk_choose(const lh_chunk_request *request, lh_comm *comm, int64_t *length);

#endif
