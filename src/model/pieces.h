/* pieces.h - a rank's tensors in device memory. Tensors that are multiplied together (q, k and v; gate and up) are one
 * piece. Plain numbers are stacked to one matrix; if a tensor of the piece has few bits, each tensor is a matrix. */
#ifndef LH_MODEL_PIECES_H
#define LH_MODEL_PIECES_H

#include "import/checkpoint.h"
#include "model/model_impl.h"

enum { LH_PIECE_WEIGHTS = 3 };
typedef struct lh_piece {
    size_t field; /* in lh_layer or lh_model: an lh_matrix for each tensor, or a float pointer */
    int is_matrix;
    lh_weight weights[LH_PIECE_WEIGHTS];
    int count;
} lh_piece;

/* The pieces of a layer, and of the model; count: LH_LAYER_PIECES, LH_MODEL_PIECES. */
enum { LH_LAYER_PIECES = 15, LH_PIECE_O = 8, LH_MODEL_PIECES = 3, LH_PIECE_EMBED = 0 };
extern const lh_piece lh_layer_pieces[LH_LAYER_PIECES], lh_model_pieces[LH_MODEL_PIECES];

/* The weights of a rank. */
typedef struct lh_rank_weights {
    const lh_config *config;
    const lh_shard *shard;
    const lh_model_options *options;
} lh_rank_weights;

/* A matrix of a piece in memory, of a mixture one for each expert: the tensors weights[first .. first + count). */
typedef struct lh_piece_part {
    const lh_format *format;
    int first, count;
    int64_t rows, cols, skip; /* shape of an expert's matrix; skip: columns of another rank in its first block */
    int64_t step, bytes;      /* bytes of an expert's matrix, and of all matrices */
} lh_piece_part;

/* The parts of a piece of a layer, one after the other in memory, each at a multiple of 64 bytes. Returns their
 * number, 0 if the model does not have the piece. */
int lh_piece_parts(const lh_rank_weights *of, const lh_piece *piece, int64_t layer,
                   lh_piece_part parts[LH_PIECE_WEIGHTS]);
int64_t lh_piece_bytes(const lh_rank_weights *of, const lh_piece *piece, int64_t layer);

/* Bytes of a piece as plain numbers if a part of it has few bits, else 0. */
int64_t lh_piece_unpacked_bytes(const lh_rank_weights *of, const lh_piece *piece, int64_t layer);

/* Bytes from part i of n parts to the next one. */
int64_t lh_piece_room(const lh_piece_part *parts, int i, int n);

/* The matrices of a piece at `memory` into its field of a layer or model; the memory that the field has. */
void lh_piece_set(const lh_piece *piece, void *where, const lh_piece_part *parts, int n, char *memory);
void *lh_piece_memory(const lh_piece *piece, void *where);

/* The range of part `expert` of a tensor that a shard owns (shard NULL: all of it); rows 0 if the model does not have
 * the tensor. */
lh_weight_range lh_range_of(const lh_config *config, const lh_shard *shard, lh_weight w, int64_t expert);

#endif
