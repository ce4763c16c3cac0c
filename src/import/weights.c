/* weights.c - the table of tensors and their shapes. */
#include "import/weights.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"

#define NORM(label)                             \
    {                                           \
        label, 1, 1, LH_SHARD_ALL, LH_UNIT_NONE \
    }

/* clang-format off */
static const lh_weight_info infos[LH_WEIGHTS] = {
    [LH_W_EMBED] = {"embed", 0, 2, LH_SHARD_ROWS, LH_UNIT_VOCAB},
    [LH_W_NORM] = {"norm", 0, 1, LH_SHARD_ALL, LH_UNIT_NONE},
    [LH_W_HEAD] = {"head", 0, 2, LH_SHARD_ROWS, LH_UNIT_VOCAB},
    [LH_W_ATTN_NORM] = NORM("attn_norm"),
    [LH_W_Q] = {"q", 1, 2, LH_SHARD_ROWS, LH_UNIT_HEADS},
    [LH_W_K] = {"k", 1, 2, LH_SHARD_ROWS, LH_UNIT_KV_HEADS},
    [LH_W_V] = {"v", 1, 2, LH_SHARD_ROWS, LH_UNIT_KV_HEADS},
    [LH_W_O] = {"o", 1, 2, LH_SHARD_COLS, LH_UNIT_HEADS},
    [LH_W_Q_BIAS] = {"q_bias", 1, 1, LH_SHARD_ROWS, LH_UNIT_HEADS},
    [LH_W_K_BIAS] = {"k_bias", 1, 1, LH_SHARD_ROWS, LH_UNIT_KV_HEADS},
    [LH_W_V_BIAS] = {"v_bias", 1, 1, LH_SHARD_ROWS, LH_UNIT_KV_HEADS},
    [LH_W_O_BIAS] = {"o_bias", 1, 1, LH_SHARD_ALL, LH_UNIT_NONE},
    [LH_W_Q_NORM] = NORM("q_norm"),
    [LH_W_K_NORM] = NORM("k_norm"),
    [LH_W_ATTN_POST_NORM] = NORM("attn_post_norm"),
    [LH_W_MLP_NORM] = NORM("mlp_norm"),
    [LH_W_ROUTER] = {"router", 1, 2, LH_SHARD_ALL, LH_UNIT_NONE},
    [LH_W_GATE] = {"gate", 1, 2, LH_SHARD_ROWS, LH_UNIT_FF},
    [LH_W_UP] = {"up", 1, 2, LH_SHARD_ROWS, LH_UNIT_FF},
    [LH_W_DOWN] = {"down", 1, 2, LH_SHARD_COLS, LH_UNIT_FF},
    [LH_W_GATE_BIAS] = {"gate_bias", 1, 1, LH_SHARD_ROWS, LH_UNIT_FF},
    [LH_W_UP_BIAS] = {"up_bias", 1, 1, LH_SHARD_ROWS, LH_UNIT_FF},
    [LH_W_DOWN_BIAS] = {"down_bias", 1, 1, LH_SHARD_ALL, LH_UNIT_NONE},
    [LH_W_MLP_POST_NORM] = NORM("mlp_post_norm"),
};
/* clang-format on */

const lh_weight_info *lh_weight_info_of(lh_weight w)
{
    assert(w >= 0 && w < LH_WEIGHTS);
    return &infos[w];
}

int lh_weight_takes_blocks(lh_weight w)
{
    return lh_weight_info_of(w)->rank == 2 && w != LH_W_ROUTER;
}

lh_dtype lh_weight_type(lh_weight w, lh_dtype type)
{
    return lh_weight_takes_blocks(w) ? type : LH_F32;
}

int64_t lh_weight_formats_count(const lh_config *config)
{
    return lh_max_i64(config->layers, 1) * LH_WEIGHTS;
}

int64_t lh_weight_format_index(lh_weight w, int64_t layer)
{
    return (lh_weight_info_of(w)->per_layer ? layer : 0) * LH_WEIGHTS + w;
}

const lh_format *lh_weight_format(const lh_format *const *formats, lh_weight w, int64_t layer)
{
    return formats[lh_weight_format_index(w, layer)];
}

lh_dtype lh_weight_formats_type(const lh_format *const *formats)
{
    const lh_format *format = lh_weight_format(formats, LH_W_Q, 0);
    return format && format->is_plain ? format->plain : LH_BF16;
}

lh_status lh_weight_formats_copy(const lh_format ***out, const lh_format *const *formats, const lh_config *config)
{
    const int64_t count = lh_weight_formats_count(config);
    LH_TRY(lh_calloc(out, count, sizeof **out));
    memcpy(*out, formats, (size_t)count * sizeof **out);
    return LH_OK;
}

int lh_weight_is_norm(lh_weight w)
{
    const lh_weight_info *info = lh_weight_info_of(w);
    return info->rank == 1 && info->sharding == LH_SHARD_ALL && w != LH_W_O_BIAS && w != LH_W_DOWN_BIAS;
}

int64_t lh_weight_parts(const lh_config *config, lh_weight w)
{
    int per_expert = w == LH_W_GATE || w == LH_W_UP || w == LH_W_DOWN;
    return per_expert && config->experts.count ? config->experts.count : 1;
}

/* Weights of the norm of queries or keys. Every rank has all of them. */
static int64_t norm_of_heads(const lh_config *c, int64_t heads)
{
    return c->qk_norm == LH_QK_NORM_NONE ? 0 : c->qk_norm == LH_QK_NORM_HEADS ? c->head_dim : heads * c->head_dim;
}

void lh_weight_shape(const lh_config *c, lh_weight w, int64_t *rows, int64_t *cols)
{
    int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, parts = lh_weight_parts(c, w);
    *cols = infos[w].rank == 1 ? 1 : c->hidden;
    switch (w) {
    case LH_W_EMBED: *rows = c->vocab; break;
    case LH_W_HEAD: *rows = c->tied ? 0 : c->vocab; break;
    case LH_W_NORM: *rows = c->hidden; break;
    case LH_W_ATTN_NORM:
    case LH_W_MLP_NORM: *rows = c->pre_norms ? c->hidden : 0; break;
    case LH_W_Q: *rows = q; break;
    case LH_W_K:
    case LH_W_V: *rows = kv; break;
    case LH_W_O:
        *rows = c->hidden;
        *cols = q;
        break;
    case LH_W_Q_BIAS: *rows = c->qkv_bias ? q : 0; break;
    case LH_W_K_BIAS:
    case LH_W_V_BIAS: *rows = c->qkv_bias ? kv : 0; break;
    case LH_W_O_BIAS: *rows = c->o_bias ? c->hidden : 0; break;
    case LH_W_Q_NORM: *rows = norm_of_heads(c, c->heads); break;
    case LH_W_K_NORM: *rows = norm_of_heads(c, c->kv_heads); break;
    case LH_W_ATTN_POST_NORM:
    case LH_W_MLP_POST_NORM: *rows = c->post_norms ? c->hidden : 0; break;
    case LH_W_ROUTER: *rows = c->experts.count; break;
    case LH_W_GATE:
    case LH_W_UP: *rows = parts * c->ff; break;
    case LH_W_DOWN:
        *rows = parts * c->hidden;
        *cols = c->ff;
        break;
    case LH_W_GATE_BIAS:
    case LH_W_UP_BIAS: *rows = c->mlp_bias ? c->ff : 0; break;
    case LH_W_DOWN_BIAS: *rows = c->mlp_bias ? c->hidden : 0; break;
    default: *rows = 0;
    }
}
