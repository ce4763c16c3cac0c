/* ggml_types.h - the element types of GGUF files and their conversion to float32, bit for bit as ggml's
 * dequantize_row_* and gguf-py's dequantize. Importers of GGUF and safetensors share the table. */
#ifndef LH_IMPORT_GGML_TYPES_H
#define LH_IMPORT_GGML_TYPES_H

#include <stdint.h>

#include "base/dtype.h"

typedef struct lh_ggml_type {
    const char *name; /* such as "Q4_K" */
    int number;       /* in the file */
    int quantised;    /* 0: f32, f16 or bf16, see `plain` */
    lh_dtype plain;
    int64_t block_values, block_bytes;
    /* dst [blocks, block_values] f32 from src [blocks, block_bytes]; NULL: known by name only. */
    void (*to_f32)(float *dst, const uint8_t *src, int64_t blocks);
} lh_ggml_type;

/* NULL if the number is unknown. */
const lh_ggml_type *lh_ggml_type_find(int number);

#endif
