/* stored_types.h - the formats in which a checkpoint or a random model has its tensors. */
#ifndef LH_IMPORT_STORED_TYPES_H
#define LH_IMPORT_STORED_TYPES_H

#include "import/import.h"
#include "import/weights.h"

/* The stored types that the options ask for. */
typedef struct lh_import_types {
    lh_dtype type;           /* of random weights, and of quantised ones that are not kept */
    int automatic;           /* true: else as in the source */
    const char *quantize;    /* name of the blocks of the matrices of plain numbers; NULL: they stay plain */
    const lh_format *blocks; /* these blocks; sensitive: of the matrices to which a mixture gives more bits */
    const lh_format *sensitive;
} lh_import_types;

lh_status lh_import_types_of(lh_import_types *out, const lh_import_options *options);

/* The format if rows of `cols` numbers are whole blocks of it, else llama.cpp's for rows that are no multiple of 256
 * long; NULL: neither fits. */
const lh_format *lh_format_fitting(const lh_format *format, int64_t cols);

/* The format of the blocks that a matrix of plain numbers becomes; NULL: it stays plain, because it may not be in
 * blocks or its rows are no whole number of blocks. */
const lh_format *lh_import_quantised(const lh_import_types *types, const lh_config *config, lh_weight weight,
                                     int64_t layer);

/* dst [rows, bytes of a row] from src [rows, cols]. Returns the index of the largest value of the first block
 * with a scale that is too large for f16, or -1. */
int64_t lh_import_pack(const lh_format *format, char *dst, const float *src, int64_t rows, int64_t cols);

#endif
