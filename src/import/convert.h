/* convert.h - large arrays of floats from one type to another, on all threads, with a check that all values can be
 * computed with: they are finite and below 2^64, so that their square is finite in f32. For importing and for loading
 * weights. */
#ifndef LH_IMPORT_CONVERT_H
#define LH_IMPORT_CONVERT_H

#include <stdint.h>

#include "base/dtype.h"

/* Rows of `cols` values: src is dense, rows of dst are `ld` elements apart. Types are f32, f16 and bf16; f32 and f16
 * become 16-bit by rounding to nearest even. Returns the index (row * cols + col) of the first value that cannot be
 * computed with after conversion, or -1. */
typedef struct lh_convert {
    void *dst;
    lh_dtype dst_type;
    int64_t ld;
    const void *src;
    lh_dtype src_type;
    int64_t rows, cols;
} lh_convert;

int64_t lh_convert_rows(const lh_convert *c);

/* Index of the first of n values that cannot be computed with, or -1. One thread. */
int64_t lh_find_unusable(const void *data, lh_dtype type, int64_t n);

#endif
