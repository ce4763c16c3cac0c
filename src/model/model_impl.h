/* model_impl.h - the weights in device memory: filled by model.c, read by the forward pass. */
#ifndef LH_MODEL_MODEL_IMPL_H
#define LH_MODEL_MODEL_IMPL_H

#include "kernels/matrix.h"
#include "model/model.h"

/* A layer of this rank, in device memory; NULL if the family has no such tensor. A matrix is of the model's type, or of
 * few bits; an array of matrices is one product, whose parts follow each other (pieces.h). Vectors are f32. */
typedef struct lh_layer {
    float *attn_norm, *attn_post_norm, *mlp_norm, *mlp_post_norm; /* [hidden] */
    float *q_norm, *k_norm; /* [head_dim], or [heads, head_dim] for a norm over all heads */
    lh_matrix qkv[3];       /* [(q_count + 2 kv_count) * head_dim, hidden]: queries, keys, values */
    float *qkv_bias;
    lh_matrix o;          /* [hidden, q_count * head_dim] */
    float *o_bias;        /* [hidden], on every rank: added after the sum over ranks */
    float *router;        /* [experts, hidden] */
    lh_matrix gate_up[2]; /* [2 ff_count, hidden]: gate, up; in a mixture one for each expert */
    float *gate_up_bias;
    lh_matrix down; /* [hidden, ff_count]; in a mixture one for each expert */
    float *down_bias;
} lh_layer;

struct lh_model {
    lh_config config;
    lh_shard shard;
    lh_model_options options;
    const lh_format **formats; /* of the options; NULL: none has few bits */
    lh_exec exec;
    lh_layer *layers;
    lh_projection *projections; /* [layers], for policies that use them */
    lh_matrix embed, head;      /* [vocab_count, hidden]; head is embed if tied */
    float *norm;
    float *score_weights;  /* device, [layers, kv_count, numbers] (score_weights.h); NULL: none */
    int64_t *layer_shares; /* host, [layers]; NULL: none */
};

#endif
