/* model.h - a rank's weights on its device, sharded by shard.h. Read-only once loaded: any number of forward
 * passes share them. */
#ifndef LH_MODEL_MODEL_H
#define LH_MODEL_MODEL_H

#include "import/checkpoint.h"
#include "kv/kv.h"
#include "model/shard.h"

typedef struct lh_model lh_model;

typedef struct lh_model_options {
    lh_dtype dtype;  /* type of activations and of plain matrices in memory: f32 or bf16 */
    lh_order order;  /* LH_ORDER_FIXED: the same bits on any number of ranks */
    int rounds_sums; /* true if ranks send their parts of a prompt's sums in bf16, overlapping the next rows */
    const lh_format *const *formats; /* formats of the stored tensors (lh_weight_format); few bits stay as they are in
                                        memory. NULL: all matrices are plain */
} lh_model_options;

/* formats: the formats of the model's tensors, borrowed; NULL for plain numbers. rounds_sums: for several GPUs, where
 * the all-reduce of a block of rows takes time in proportion to its bytes, unless a bias or a norm follows the sums, or
 * their bits are fixed. */
lh_model_options lh_model_options_for(const lh_config *config, const lh_shard *shard, lh_device_kind device,
                                      lh_dtype dtype, lh_order order, const lh_format *const *formats);

/* How weights are loaded; all zero and NULL: only by this rank. */
typedef struct lh_load_options {
    /* Called after every piece of this rank; a status other than LH_OK stops all ranks with it. May be NULL. */
    void *self;
    lh_status (*done)(void *self, int64_t bytes, int64_t total_bytes);
    lh_comm *all;        /* ranks that load the model together and read each byte once; NULL: only this rank */
    lh_comm *same;       /* ranks of `all` with the same shard, one of each replica; NULL: only this rank */
    int64_t *read_bytes; /* set to the bytes that this rank has read; may be NULL */
} lh_load_options;

/* Reads this rank's shard of every tensor. Collective over `all`; agree afterwards. */
lh_status lh_model_load(lh_model **out, lh_checkpoint *ck, const lh_exec *exec, const lh_model_options *options,
                        const lh_load_options *load);
void lh_model_close(lh_model *model);

/* The rows of lh_score_weights_put and the shares of layers become the model's. NULL: none. */
void lh_model_take_score_weights(lh_model *model, float *rows, int64_t *layer_shares);

const lh_config *lh_model_config(const lh_model *model);
const lh_shard *lh_model_shard(const lh_model *model);
lh_model_options lh_model_options_of(const lh_model *model);

/* The shape of a cache of this model. */
lh_kv_shape lh_model_kv_shape(const lh_model *model, const lh_kv_types *types);
lh_kv_shape lh_config_kv_shape(const lh_config *config, const lh_shard *shard, const lh_model_options *options,
                               const lh_kv_types *types);

/* The cache of all ranks, for lh_policy_size. score_weights: their hash (score_weights.h), 0: none. */
lh_cache_size lh_config_cache_size(const lh_config *config, const lh_kv_types *types, uint64_t score_weights);

/* Bytes of a rank's weights in memory. `experts` has the weights of all experts, `embedding` the table of embeddings (0
 * if the output projection is the same table), `few_bits` the pieces (pieces.h) with matrices of few bits. `unpacked`
 * is the workspace for a layer whose few bits are unpacked. */
typedef struct lh_model_memory {
    int64_t weights, experts, embedding, few_bits, unpacked;
} lh_model_memory;
lh_model_memory lh_model_memory_of(const lh_config *config, const lh_shard *shard, const lh_model_options *options);

#endif
