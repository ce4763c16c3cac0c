/* matrix.h - the weights of a product: plain numbers row by row, or blocks of few bits as pack_weights lays them out.
 */
#ifndef LH_KERNELS_MATRIX_H
#define LH_KERNELS_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "base/format.h"

typedef struct lh_matrix {
    const void *data;
    const lh_format *format;
    int64_t rows;  /* only read if `next` is set */
    int64_t ld;    /* plain: distance of rows in elements; packed: columns of the packed matrix */
    int64_t first; /* packed: column where the product starts, a multiple of 32; plain: 0, as data points there */
    int64_t phase; /* packed: columns of the first source block that lie before column 0, a multiple of 32 */
    int64_t step;  /* bytes from an expert's matrix to the next expert's */
    const struct lh_matrix *next; /* NULL, or the matrix with the following rows of the product */
} lh_matrix;

/* [rows, ld] of f32 or bf16. */
static inline lh_matrix lh_plain_matrix(const void *data, lh_dtype type, int64_t ld)
{
    const lh_matrix w = {data, lh_format_of(type), 0, ld, 0, 0, 0, NULL};
    return w;
}

/* Rows of the first matrix of a product with `out` rows. */
static inline int64_t lh_matrix_rows(const lh_matrix *w, int64_t out)
{
    return w->next ? w->rows : out;
}

/* The columns of a single matrix from column `col` on, of packed weights a multiple of 32. */
static inline lh_matrix lh_matrix_from(lh_matrix w, int64_t col)
{
    if (w.format->is_plain)
        w.data = (const char *)w.data + col * w.format->bytes;
    else
        w.first += col;
    return w;
}

#endif
