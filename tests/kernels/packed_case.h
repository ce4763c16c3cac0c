/* packed_case.h - random matrices of few bits in a test: source blocks, packed weights, values. */
#ifndef LH_TESTS_KERNELS_PACKED_CASE_H
#define LH_TESTS_KERNELS_PACKED_CASE_H

#include "rig.h"

/* Formats with a layout, NULL after the last. */
const lh_format *packed_format(int i);

/* Rows of blocks of a format. */
typedef struct source_blocks {
    const lh_format *format;
    int64_t rows, cols, row_bytes; /* cols: whole blocks */
    uint8_t *data;
} source_blocks;

/* Every byte of a block is random, but for the f16 numbers, which have magnitudes as in models, or are 0 or
 * subnormal. */
source_blocks blocks_make(lot *m, const lh_format *format, int64_t rows, int64_t cols, uint64_t seed);

/* Their values, [rows, cols]. */
float *blocks_values(lot *m, const source_blocks *b);

/* Columns [skip, skip + cols) of all rows as packed weights on the device; skip may lie in any block. */
lh_matrix blocks_pack(rig *g, const source_blocks *b, int64_t skip, int64_t cols);

#endif
