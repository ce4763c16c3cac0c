/* pieces.c - the table of pieces, and their formats and bytes in memory. */
#include "model/pieces.h"

#include <stddef.h>
#include <string.h>

#include "base/minmax.h"
#include "kernels/packed.h"

#define PIECE(where, field, is_matrix, ...)                               \
    {                                                                     \
        offsetof(where, field), is_matrix, {__VA_ARGS__},                 \
            (int)(sizeof((lh_weight[]){__VA_ARGS__}) / sizeof(lh_weight)) \
    }

const lh_piece lh_layer_pieces[LH_LAYER_PIECES] = {
    PIECE(lh_layer, attn_norm, 0, LH_W_ATTN_NORM),
    PIECE(lh_layer, attn_post_norm, 0, LH_W_ATTN_POST_NORM),
    PIECE(lh_layer, mlp_norm, 0, LH_W_MLP_NORM),
    PIECE(lh_layer, mlp_post_norm, 0, LH_W_MLP_POST_NORM),
    PIECE(lh_layer, q_norm, 0, LH_W_Q_NORM),
    PIECE(lh_layer, k_norm, 0, LH_W_K_NORM),
    PIECE(lh_layer, qkv, 1, LH_W_Q, LH_W_K, LH_W_V),
    PIECE(lh_layer, qkv_bias, 0, LH_W_Q_BIAS, LH_W_K_BIAS, LH_W_V_BIAS),
    PIECE(lh_layer, o, 1, LH_W_O),
    PIECE(lh_layer, o_bias, 0, LH_W_O_BIAS),
    PIECE(lh_layer, router, 0, LH_W_ROUTER),
    PIECE(lh_layer, gate_up, 1, LH_W_GATE, LH_W_UP),
    PIECE(lh_layer, gate_up_bias, 0, LH_W_GATE_BIAS, LH_W_UP_BIAS),
    PIECE(lh_layer, down, 1, LH_W_DOWN),
    PIECE(lh_layer, down_bias, 0, LH_W_DOWN_BIAS),
};

const lh_piece lh_model_pieces[LH_MODEL_PIECES] = {
    PIECE(lh_model, embed, 1, LH_W_EMBED),
    PIECE(lh_model, norm, 0, LH_W_NORM),
    PIECE(lh_model, head, 1, LH_W_HEAD),
};

lh_weight_range lh_range_of(const lh_config *config, const lh_shard *shard, lh_weight w, int64_t expert)
{
    const lh_weight_info *info = lh_weight_info_of(w);
    lh_weight_range range = {.weight = w};
    int64_t first = 0, count = 0;
    lh_weight_shape(config, w, &range.rows, &range.cols);
    range.rows /= lh_weight_parts(config, w);
    range.row = expert * range.rows;
    if (range.rows == 0 || !shard || info->sharding == LH_SHARD_ALL) return range;
    lh_shard_range(shard, config, info->unit, &first, &count);
    if (info->sharding == LH_SHARD_ROWS) {
        range.row += first;
        range.rows = count;
    } else {
        range.col = first;
        range.cols = count;
    }
    return range;
}

/* True if every logical shard of a tensor begins and ends at a multiple of 32 columns: the same on all ranks. */
static int cuts_between_blocks(const lh_config *c, lh_weight w)
{
    const lh_weight_info *info = lh_weight_info_of(w);
    if (info->sharding != LH_SHARD_COLS) return 1;
    return (info->unit == LH_UNIT_HEADS ? c->head_dim : lh_ff_block(c->ff, 1)) % LH_PACKED_COLS == 0;
}

/* The format of a tensor in memory: few bits as stored, if operations take them, else plain. */
static const lh_format *format_of(const lh_rank_weights *of, lh_weight w, int64_t layer)
{
    const lh_format *plain = lh_format_of(lh_weight_type(w, of->options->dtype));
    if (!of->options->formats || !lh_weight_takes_blocks(w)) return plain;
    const lh_format *stored = lh_weight_format(of->options->formats, w, layer);
    return stored && lh_format_is_kept(stored) && cuts_between_blocks(of->config, w) ? stored : plain;
}

static lh_piece_part part_of(const lh_rank_weights *of, lh_weight w, const lh_format *format)
{
    const lh_weight_range range = lh_range_of(of->config, of->shard, w, 0);
    lh_piece_part part = {.format = format, .rows = range.rows, .cols = range.cols, .count = 1};
    part.skip = format->is_plain ? 0 : range.col % format->values;
    return part;
}

static void set_bytes(lh_piece_part *part, int64_t experts)
{
    part->step = part->format->is_plain ? part->rows * part->cols * part->format->bytes
                                        : lh_packed_bytes(part->format, part->rows, part->skip, part->cols);
    part->bytes = experts * part->step;
}

int lh_piece_parts(const lh_rank_weights *of, const lh_piece *piece, int64_t layer,
                   lh_piece_part parts[LH_PIECE_WEIGHTS])
{
    int n = 0, all_plain = 1;
    for (int i = 0; i < piece->count; i++) {
        const lh_format *format = format_of(of, piece->weights[i], layer);
        parts[n] = part_of(of, piece->weights[i], format);
        parts[n].first = i;
        all_plain &= format->is_plain;
        if (lh_range_of(of->config, NULL, piece->weights[i], 0).rows) n++;
    }
    for (int i = 1; i < n && all_plain; i++) {
        parts[0].rows += parts[i].rows;
        parts[0].count++;
    }
    if (n && all_plain) n = 1;
    for (int i = 0; i < n; i++) set_bytes(&parts[i], lh_weight_parts(of->config, piece->weights[0]));
    return n;
}

int64_t lh_piece_room(const lh_piece_part *parts, int i, int n)
{
    return i + 1 < n ? (parts[i].bytes + LH_LINE - 1) / LH_LINE * LH_LINE : parts[i].bytes;
}

int64_t lh_piece_bytes(const lh_rank_weights *of, const lh_piece *piece, int64_t layer)
{
    lh_piece_part parts[LH_PIECE_WEIGHTS];
    const int n = lh_piece_parts(of, piece, layer, parts);
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += lh_piece_room(parts, i, n);
    return bytes;
}

int64_t lh_piece_unpacked_bytes(const lh_rank_weights *of, const lh_piece *piece, int64_t layer)
{
    lh_piece_part parts[LH_PIECE_WEIGHTS];
    const int n = lh_piece_parts(of, piece, layer, parts);
    int64_t values = 0;
    int packed = 0;
    for (int i = 0; i < n; i++) {
        values += lh_weight_parts(of->config, piece->weights[0]) * parts[i].rows * parts[i].cols;
        packed |= !parts[i].format->is_plain;
    }
    return packed ? values * lh_dtype_bytes(of->options->dtype) : 0;
}

void *lh_piece_memory(const lh_piece *piece, void *where)
{
    const char *field = (const char *)where + piece->field;
    void *memory;
    if (piece->is_matrix) return (void *)((const lh_matrix *)(const void *)field)->data;
    memcpy(&memory, field, sizeof memory);
    return memory;
}

void lh_piece_set(const lh_piece *piece, void *where, const lh_piece_part *parts, int n, char *memory)
{
    char *field = (char *)where + piece->field;
    if (!piece->is_matrix) {
        memcpy(field, &memory, sizeof memory);
        return;
    }
    lh_matrix *matrices = (lh_matrix *)(void *)field;
    for (int i = 0; i < n; i++) {
        matrices[i] = (lh_matrix){.data = memory,
                                  .format = parts[i].format,
                                  .rows = parts[i].rows,
                                  .ld = parts[i].cols,
                                  .phase = parts[i].skip,
                                  .step = parts[i].step,
                                  .next = i + 1 < n ? &matrices[i + 1] : NULL};
        memory += lh_piece_room(parts, i, n);
    }
}
