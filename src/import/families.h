/* families.h - the model families, one row each: what they are called, what Hugging Face assumes where a
 * configuration is silent, what is peculiar to them, and what their tensors are called. Adding a family is adding a
 * row; see docs. */
#ifndef LH_IMPORT_FAMILIES_H
#define LH_IMPORT_FAMILIES_H

#include <stdint.h>

#include "import/weights.h"

/* Which layers see a window only, where `layer_types` does not say it. */
typedef enum lh_window_rule {
    LH_WINDOW_NONE,
    LH_WINDOW_ALL,     /* all, when sliding_window is a number */
    LH_WINDOW_LATE,    /* when use_sliding_window: from layer max_window_layers on */
    LH_WINDOW_PATTERN, /* all but every n-th */
} lh_window_rule;

typedef enum lh_bias_rule {
    LH_BIAS_NONE,
    LH_BIAS_QKV,    /* on q, k and v always */
    LH_BIAS_OPTION, /* on q, k, v and o when attention_bias says so, on the MLP when mlp_bias does */
} lh_bias_rule;

/* The name of a tensor behind "model.layers.N." and "blk.N." (or behind "model." and nothing). Where the source keeps
 * several weights in one, they are the rows of `first` to `last`, one after the other, and the name is the whole's. */
typedef struct lh_tensor_name {
    const char *hf, *gguf;
    lh_weight first, last; /* both 0: not fused */
} lh_tensor_name;

typedef struct lh_family_defaults {
    int64_t vocab, hidden, ff, layers, heads; /* 0: the configuration must say it */
    int64_t kv_heads;                         /* 0: as many as heads */
    int64_t head_dim;                         /* 0: hidden / heads */
    int64_t max_positions, original_positions, window, pattern;
    double norm_eps, theta, local_theta; /* local_theta 0: one rotary embedding for all layers */
    double query_scalar;                 /* 0: head_dim */
    double attn_softcap, final_softcap;
    int64_t bos, eos; /* -1: none */
    int tied;
} lh_family_defaults;

struct lh_family {
    const char *name;         /* model_type */
    const char *architecture; /* of the causal language model */
    const char *also;         /* another model_type that holds this one in text_config, or NULL */
    const char *gguf;         /* general.architecture, or NULL: the family before has it */
    lh_family_defaults defaults;
    lh_window_rule window;
    lh_bias_rule bias;
    lh_activation activation;
    const char *activation_key;
    int gemma;         /* norms multiply by 1 + w, embeddings by sqrt(hidden), norms after attention and MLP */
    int qk_norm;       /* q and k are normed per head */
    int attn_softcap;  /* attn_logit_softcapping is honoured (Gemma 3 has the member, but ignores it) */
    int final_softcap; /* final_logit_softcapping is */
    int gguf_permuted; /* GGUF files hold the rows of q and k interleaved */
    const lh_tensor_name *tensors; /* [LH_WEIGHTS] */
};

const lh_family *lh_family_at(int i); /* NULL behind the last */

/* By model_type, or by the name in `architectures`; by GGUF's general.architecture. NULL when there is none. */
const lh_family *lh_family_find(const char *name);
const lh_family *lh_family_find_gguf(const char *name, int64_t bytes);

#endif
