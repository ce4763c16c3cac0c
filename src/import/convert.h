/* convert.h - converts large arrays of floats on all threads, and finds unusable values: values that are not finite or
 * not below 2^64, with a square that is not finite in f32; of blocks, scales that are not finite, without which no
 * value is unusable. For importing and loading weights. */
#ifndef LH_IMPORT_CONVERT_H
#define LH_IMPORT_CONVERT_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/format.h"

/* src [rows, cols], dst [rows, ld]. Types are f32, f16 and bf16; values are rounded to nearest even. Returns the index
 * (row * cols + col) of the first value that is unusable after conversion, or -1. */
typedef struct lh_convert {
    void *dst;
    lh_dtype dst_type;
    int64_t ld;
    const void *src;
    lh_dtype src_type;
    int64_t rows, cols;
} lh_convert;

int64_t lh_convert_rows(const lh_convert *c);

/* Index of the first unusable one of n values, or -1. One thread. */
int64_t lh_find_unusable(const void *data, lh_dtype type, int64_t n);

/* Index of the first one of n blocks with a scale or a code that is not finite, or -1. One thread. */
int64_t lh_find_unusable_block(const lh_format *format, const uint8_t *blocks, int64_t n);

#endif
