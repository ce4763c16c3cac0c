/* chunk.h - the chunk length of the prefill: the tokens that pass through a layer together, an efficient number or
 * fewer if memory is short. A forecast and the run that it is made for ask here, with the same numbers. */
#ifndef LH_ENGINE_CHUNK_H
#define LH_ENGINE_CHUNK_H

#include "model/forward.h"

/* With LH_ORDER_FIXED every run has chunks of this length: the bits of a sum may depend on it. */
enum { LH_CHUNK_FIXED = 64 };
enum { LH_CHUNK_SPARE_LEAST = 4 << 20 };

/* Memory that one rank has and needs. */
typedef struct lh_chunk_request {
    const lh_config *config;
    const lh_shard *shard;
    lh_model_options options;
    lh_device_kind device;
    int64_t wanted;          /* exactly this length; 0: chosen. Not with LH_ORDER_FIXED */
    int64_t tokens;          /* of the prompt, or what follows a cache */
    int64_t rows, sequences; /* of lh_forward_run; 0: one */
    int64_t room_bytes;      /* free memory that the run may use */
    int64_t else_bytes;      /* memory of the run without the workspace of chunks */
} lh_chunk_request;

/* Workspace of chunks of `length` tokens, with rows of logits: of the forward pass, and of operations where it depends
 * on the length. */
int64_t lh_chunk_bytes(const lh_chunk_request *request, int64_t length);

/* The longest useful chunk that fits; 0: not even the shortest, lh_chunk_shortest, fits. At least LH_CHUNK_SPARE_LEAST
 * bytes stay free for other workspace of operations, and lh_chunk_spare where there is a choice. */
int64_t lh_chunk_spare(int64_t room_bytes);
int64_t lh_chunk_longest(const lh_chunk_request *request);
int64_t lh_chunk_shortest(const lh_chunk_request *request);

/* Collective: the longest that fits on every rank. LH_ENOMEM, with the missing bytes, if none does. */
lh_status lh_chunk_choose(const lh_chunk_request *request, lh_comm *comm, int64_t *length);

#endif
