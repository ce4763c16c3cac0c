/* config.h - sizes, norms, rotary embeddings and other properties of a model, from a configuration in the format of
 * Hugging Face's config.json, which every checkpoint holds as /config. A family is one row of families.c; no other file
 * knows its name. */
#ifndef LH_IMPORT_CONFIG_H
#define LH_IMPORT_CONFIG_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

typedef enum lh_activation { LH_ACT_SILU, LH_ACT_GELU_TANH, LH_ACT_GELU } lh_activation;

/* Norms of queries and keys before their rotation: of each head, or of all heads of a token together. */
typedef enum lh_qk_norm { LH_QK_NORM_NONE, LH_QK_NORM_HEADS, LH_QK_NORM_ROWS } lh_qk_norm;

/* A mixture of experts: each has an MLP of `ff` channels, and a token goes to `top_k` of them. */
typedef struct lh_experts {
    int64_t count; /* 0: one MLP for all tokens */
    int64_t top_k;
    int normalised; /* true: the routing weights of a token's experts add up to 1; else the weights of all experts do */
} lh_experts;

typedef enum lh_rope_kind {
    LH_ROPE_DEFAULT,
    LH_ROPE_LINEAR,
    LH_ROPE_DYNAMIC, /* dynamic NTK, at the fixed length of the run */
    LH_ROPE_YARN,
    LH_ROPE_LLAMA3,
    LH_ROPE_LONGROPE,
    LH_ROPE_KINDS
} lh_rope_kind;

/* Rotary embedding of full or sliding layers. Fields that a scaling does not use are 0. */
typedef struct lh_rope {
    lh_rope_kind kind;
    double theta, factor;
    double low_freq_factor, high_freq_factor;            /* llama3 */
    double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn */
    double attention_factor;                             /* yarn, longrope; 0: derived */
    int truncate;                                        /* yarn: integer correction dims (the default) */
    int64_t original_positions, max_positions;
    double query_beta; /* 0, or queries are multiplied by 1 + query_beta * ln(1 + floor(position / query_positions)) */
    int64_t query_positions;
    double *long_factor, *short_factor; /* longrope: [rotary_dim / 2] */
} lh_rope;

typedef struct lh_config {
    const struct lh_family *family;
    int64_t layers, hidden, heads, kv_heads, head_dim, ff, vocab, max_positions;
    int64_t rotary_dim; /* first dimensions of a head that are rotated, head_dim unless partial */
    double norm_eps;    /* of rows and heads */
    double norm_offset; /* 1 where a norm multiplies by 1 + w (Gemma), else 0 */
    double embed_scale; /* of the embedded tokens */
    double logit_scale; /* of the vocabulary's logits */
    double attn_scale;  /* of the logits q·k, 1/sqrt(head_dim) unless query_pre_attn_scalar says otherwise */
    double attn_softcap, final_softcap; /* 0: none. s -> cap * tanh(s / cap) */
    lh_experts experts;
    lh_activation activation;
    int tied; /* lm_head is the embedding */
    int qkv_bias, o_bias, mlp_bias;
    lh_qk_norm qk_norm;
    int pre_norms, post_norms; /* norms before attention and MLP, and after them, before the residual */
    int64_t window;            /* keys that a query of a sliding layer sees, its own included; 0: no layer slides */
    uint8_t *sliding;          /* [layers] 1: the layer sees `window` keys only */
    uint8_t *unrotated;        /* [layers] 1: the layer rotates no queries and keys */
    lh_rope rope_global, rope_local; /* rope_local: of sliding layers; equal if the family has one only */
    int64_t bos, eos[16];            /* -1: none */
    int eos_count;
} lh_config;

/* One model family: names of its members and tensors, and its peculiarities (families.h). */
typedef struct lh_family lh_family;

#define LH_CONFIG_BYTES_MAX (INT64_C(64) << 20) /* of a config.json that is read */

/* Fill *config from `json`; `name` is its name in messages. Fails with LH_EINPUT, naming the member, on an unknown
 * architecture, missing or contradicting sizes, an unknown rope scaling. All owned by *config. */
lh_status lh_config_parse(lh_config *config, const json_t *json, const char *name);

/* The same from text. LH_EINPUT also if it is not JSON. */
lh_status lh_config_parse_text(lh_config *config, const char *text, int64_t bytes, const char *name);
void lh_config_clear(lh_config *config);

/* A copy that owns its arrays; cleared also after a failure. */
lh_status lh_config_copy(lh_config *out, const lh_config *of);

/* The configuration of the text model: 'text_config' in a model for images and text, or else all of `json`. */
const json_t *lh_config_text_of(const json_t *json);

const char *lh_config_family_name(const lh_config *config);

/* Channels of the MLPs of a layer: of all experts, and of the experts of one token. */
int64_t lh_config_mlp_channels(const lh_config *config);
int64_t lh_config_mlp_channels_passed(const lh_config *config);

/* inv_freq [rotary_dim / 2] and *scale, a factor of cos and sin, for a run of `length` tokens in total (dynamic and
 * longrope depend on it). In float32 where Hugging Face computes in float32. */
void lh_rope_frequencies(const lh_rope *rope, int64_t rotary_dim, int64_t length, float *inv_freq, float *scale);

/* Tokens of the longest run with the rotary factors of a run of `length` tokens; INT64_MAX if they do not depend on
 * the length. Equal for two lengths if and only if their factors are equal. */
int64_t lh_config_rotates_until(const lh_config *config, int64_t length);

#endif
