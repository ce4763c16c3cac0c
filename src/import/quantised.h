/* quantised.h - a matrix of a quantised Hugging Face folder, which lies there as several tensors: codes, scales, zero
 * points. Its rows become blocks of a format of base/format.h if blocks hold every value exactly (integers of 4 and 8
 * bits with f16 scales of at least 32 columns, floats of 8 bits with scales of at least 128 columns), else f32 numbers.
 * Importers see one tensor. */
#ifndef LH_IMPORT_QUANTISED_H
#define LH_IMPORT_QUANTISED_H

#include "base/format.h"
#include "import/quantiser.h"
#include "import/source_tensors.h"

typedef struct lh_quantised lh_quantised;

typedef struct lh_quantised_info {
    int64_t rows, cols;
    const lh_format *format; /* of the rows that are made */
    const lh_format *stored; /* of the codes in the folder, for messages: "fp8" */
    const char *obstacle;    /* why the rows are no blocks, for messages: "their codes are floats"; NULL: they are */
} lh_quantised_info;

/* True if the tensor, NAME.qweight for instance, holds the codes of the matrix NAME.weight. */
int lh_quantised_is_codes(const lh_quantiser *quantiser, const lh_source_tensor *tensor);

/* The matrix with these codes; marks its other tensors in the source as used, and borrows their data. LH_EINPUT, naming
 * the tensor: a tensor is missing, or of another type or shape; a group is out of range. */
lh_status lh_quantised_open(lh_quantised **out, const lh_quantiser *quantiser, const lh_source_tensors *source,
                            lh_source_tensor *codes);
void lh_quantised_close(lh_quantised *q); /* NULL is fine */

const lh_quantised_info *lh_quantised_info_of(const lh_quantised *q);

/* dst: lh_format_bytes(format, cols) bytes. Any number of threads. */
void lh_quantised_row(const lh_quantised *q, int64_t row, void *dst);

/* Drops the pages of the codes of rows [row, row + n), which are not read again: where the codes of a row are
 * scattered, of all rows after the last one. */
void lh_quantised_release(const lh_quantised *q, int64_t row, int64_t n);

/* LH_EINPUT if a file of the matrix changed since it was opened. */
lh_status lh_quantised_unchanged(const lh_quantised *q);

#endif
