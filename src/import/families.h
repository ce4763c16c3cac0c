/* families.h - the model families, one row each: names, Hugging Face's defaults for absent members of a configuration,
 * peculiarities, names of tensors. A new family is a new row; see docs/adding.md. */
#ifndef LH_IMPORT_FAMILIES_H
#define LH_IMPORT_FAMILIES_H

#include <stdint.h>

#include "import/weights.h"

/* Layers with a sliding window, if `layer_types` does not list them. */
typedef enum lh_window_rule {
    LH_WINDOW_NONE,
    LH_WINDOW_ALL,       /* all, if sliding_window is a number */
    LH_WINDOW_LATE,      /* if use_sliding_window: from layer max_window_layers on */
    LH_WINDOW_PATTERN,   /* all but every n-th */
    LH_WINDOW_UNROTATED, /* if use_sliding_window: layers that are not rotated */
    LH_WINDOW_ASKED,     /* if use_sliding_window: all */
} lh_window_rule;

/* Layers that do not rotate queries and keys. */
typedef enum lh_unrotated_rule {
    LH_UNROTATED_NONE,
    LH_UNROTATED_LISTED, /* zeros of no_rope_layers, or else every n-th */
    LH_UNROTATED_FULL,   /* full layers, if other layers slide */
} lh_unrotated_rule;

/* Norms of a layer: before attention and MLP, after them (before the residual), or both. */
typedef enum lh_norm_rule { LH_NORMS_BEFORE, LH_NORMS_AROUND, LH_NORMS_AFTER } lh_norm_rule;

typedef enum lh_bias_rule {
    LH_BIAS_NONE,
    LH_BIAS_QKV,    /* on q, k and v always */
    LH_BIAS_PARTS,  /* on q, k and v unless attention_bias is false, on o if attention_out_bias is set */
    LH_BIAS_OPTION, /* on q, k, v and o if attention_bias is set, on the MLP if mlp_bias is */
} lh_bias_rule;

/* The name of a tensor after "model.layers.N." and "blk.N." (or after "model." and nothing). If the source fuses
 * several weights in one tensor of that name, they are the rows of `first` to `last`, in order. If the name holds a
 * '*', there is a tensor for each expert, with its number in that place. */
typedef struct lh_tensor_name {
    const char *hf, *gguf;
    lh_weight first, last; /* both 0: not fused */
} lh_tensor_name;

/* Members of a mixture of experts, and their defaults. */
typedef struct lh_expert_rule {
    const char *ff_key;
    int64_t count, top_k, ff; /* ff 0: required in the configuration */
    int always_normalised;    /* else norm_topk_prob says it, by default 0 */
} lh_expert_rule;

typedef struct lh_family_defaults {
    int64_t vocab, hidden, ff, layers, heads; /* 0: required in the configuration */
    int64_t kv_heads;                         /* 0: as many as heads */
    int64_t head_dim;                         /* 0: hidden / heads */
    int64_t max_positions, original_positions, window, pattern;
    int64_t unrotated;                   /* every n-th layer, for LH_UNROTATED_LISTED */
    double norm_eps, theta, local_theta; /* local_theta 0: one rotary embedding for all layers */
    double query_scalar;                 /* 0: head_dim */
    double attn_softcap, final_softcap;
    int64_t bos, eos; /* -1: none */
    int tied;
} lh_family_defaults;

struct lh_family {
    const char *name;         /* model_type */
    const char *architecture; /* of the causal language model */
    const char *also[4];      /* other values of model_type with the same text model, ended by NULL */
    const char *gguf;         /* general.architecture; NULL: its GGUF files are not read */
    const char
        *gguf_key; /* a key: a number above 0 means this family, not another one of the same architecture; NULL: none */
    lh_family_defaults defaults;
    lh_window_rule window;
    lh_bias_rule bias;
    lh_activation activation;
    const char *activation_key;
    lh_norm_rule norms;
    lh_unrotated_rule unrotated;
    int gemma;       /* norms multiply by 1 + w, embeddings by sqrt(hidden), q by query_pre_attn_scalar */
    int multipliers; /* of embeddings, attention logits and residuals, and logits_scaling (Granite) */
    lh_qk_norm qk_norm;
    const lh_expert_rule *experts; /* NULL: one MLP for all tokens */
    int local_plain;               /* sliding layers take rope_theta without the scaling */
    int scaled_queries;            /* by position, with llama_4_scaling_beta of the rope parameters */
    int attn_softcap;              /* attn_logit_softcapping is used (Gemma 3 has the member, but ignores it) */
    int final_softcap;             /* final_logit_softcapping is used */
    int gguf_permuted;             /* GGUF files hold the rows of q and k interleaved */
    const lh_tensor_name *tensors; /* [LH_WEIGHTS] */
};

/* A property that decides whether a member of a configuration, or a key of a GGUF file, is read for a family. */
typedef enum lh_trait {
    LH_TRAIT_ANY,
    LH_TRAIT_WINDOWS,     /* layers may slide */
    LH_TRAIT_PATTERNS,    /* ... all but every n-th */
    LH_TRAIT_LOCAL_THETA, /* ... with a separate rotary base */
    LH_TRAIT_UNROTATED,   /* layers that are not rotated are listed */
    LH_TRAIT_SCALED_QUERIES,
    LH_TRAIT_QK_NORMS,
    LH_TRAIT_BIASES, /* members say whether there are biases */
    LH_TRAIT_OUT_BIAS,
    LH_TRAIT_GEMMA,
    LH_TRAIT_ATTN_CAPS,
    LH_TRAIT_FINAL_CAPS,
    LH_TRAIT_MULTIPLIERS,
    LH_TRAIT_EXPERTS,
    LH_TRAITS
} lh_trait;

int lh_family_has(const lh_family *family, lh_trait trait);

const lh_family *lh_family_at(int i); /* NULL after the last */

/* By a value of model_type, or by a name in `architectures`. NULL if there is none. */
const lh_family *lh_family_find(const char *name);

#endif
