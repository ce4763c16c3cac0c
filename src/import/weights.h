/* weights.h - the table of a model's tensors: names in a checkpoint, shapes, and the dimension that is sharded over
 * ranks. Importers, checkpoints and the loading of shards walk it. Matrices are [out, in], row by row. */
#ifndef LH_IMPORT_WEIGHTS_H
#define LH_IMPORT_WEIGHTS_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/format.h"
#include "import/config.h"

typedef enum lh_weight {
    LH_W_EMBED,     /* /weights/embed     [vocab, hidden] */
    LH_W_NORM,      /* /weights/norm      [hidden] */
    LH_W_HEAD,      /* /weights/head      [vocab, hidden], absent when tied */
    LH_W_ATTN_NORM, /* attn_norm      [hidden] */
    LH_W_Q,         /* q              [heads * head_dim, hidden] */
    LH_W_K,         /* k              [kv_heads * head_dim, hidden] */
    LH_W_V,         /* v              [kv_heads * head_dim, hidden] */
    LH_W_O,         /* o              [hidden, heads * head_dim] */
    LH_W_Q_BIAS,
    LH_W_K_BIAS,
    LH_W_V_BIAS,
    LH_W_O_BIAS,
    LH_W_Q_NORM,
    LH_W_K_NORM,         /* [head_dim], or of all heads together: [heads * head_dim], [kv_heads * head_dim] */
    LH_W_ATTN_POST_NORM, /* attn_post_norm [hidden] */
    LH_W_MLP_NORM,       /* mlp_norm       [hidden] */
    LH_W_ROUTER,         /* router         [experts, hidden] */
    LH_W_GATE,
    LH_W_UP,   /* gate, up       [ff, hidden], of a mixture [experts * ff, hidden] */
    LH_W_DOWN, /* down           [hidden, ff], of a mixture [experts * hidden, ff] */
    LH_W_GATE_BIAS,
    LH_W_UP_BIAS,
    LH_W_DOWN_BIAS,
    LH_W_MLP_POST_NORM, /* mlp_post_norm  [hidden] */
    LH_WEIGHTS
} lh_weight;

typedef enum lh_weight_sharding { LH_SHARD_ALL, LH_SHARD_ROWS, LH_SHARD_COLS } lh_weight_sharding;
typedef enum lh_weight_unit { LH_UNIT_NONE, LH_UNIT_HEADS, LH_UNIT_KV_HEADS, LH_UNIT_FF, LH_UNIT_VOCAB } lh_weight_unit;

typedef struct lh_weight_info {
    const char *name; /* dataset name in its group */
    int per_layer;
    int rank;                    /* 1 or 2 */
    lh_weight_sharding sharding; /* the shard of a rank: everything, rows or columns */
    lh_weight_unit unit;         /* ... in units of heads, channels, … */
} lh_weight_info;

const lh_weight_info *lh_weight_info_of(lh_weight w);

/* Type in memory where matrices are of `type`: vectors are f32, and so is the router, because small errors change its
 * choices. */
lh_dtype lh_weight_type(lh_weight w, lh_dtype type);

/* True if a tensor may be stored as blocks of few bits: a matrix of products or of embeddings. */
int lh_weight_takes_blocks(lh_weight w);

/* The formats of all tensors are an array [max(layers, 1), LH_WEIGHTS]; tensors of no layer are in its first row. These
 * are the number of its elements, the index of a tensor's format, and the format. */
int64_t lh_weight_formats_count(const lh_config *config);
int64_t lh_weight_format_index(lh_weight w, int64_t layer);
const lh_format *lh_weight_format(const lh_format *const *formats, lh_weight w, int64_t layer);

/* Type of the matrices with these formats: of the first layer's queries; bf16 for blocks. */
lh_dtype lh_weight_formats_type(const lh_format *const *formats);

/* *out = a copy of the formats (lh_free). */
lh_status lh_weight_formats_copy(const lh_format ***out, const lh_format *const *formats, const lh_config *config);

/* True for the weights of a norm, of rows or of queries and keys. */
int lh_weight_is_norm(lh_weight w);

/* Number of parts of equal size, one after the other in the rows of a tensor: the experts, else 1. */
int64_t lh_weight_parts(const lh_config *config, lh_weight w);

/* Rows and columns (1 for vectors) of a tensor; 0 rows if the model does not have it. */
void lh_weight_shape(const lh_config *config, lh_weight w, int64_t *rows, int64_t *cols);

#endif
