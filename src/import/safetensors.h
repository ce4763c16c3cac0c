/* safetensors.h - one safetensors file, mapped. The header is checked completely before it is used: the bytes of every
 * tensor are within the file and match type and shape. A damaged file fails with LH_EINPUT and a message that names
 * file and tensor. */
#ifndef LH_IMPORT_SAFETENSORS_H
#define LH_IMPORT_SAFETENSORS_H

#include <stdint.h>

#include "base/file.h"
#include "base/format.h"

typedef struct lh_safetensors lh_safetensors;

enum { LH_SAFETENSOR_RANK = 8 };

typedef struct lh_safetensor {
    const char *name, *dtype; /* dtype: as in the file, "BF16" */
    const lh_format *format;  /* f32, f16 and bf16; NULL: another */
    int rank;
    int64_t shape[LH_SAFETENSOR_RANK];
    const uint8_t *data; /* in the mapping; not aligned */
    int64_t bytes;
} lh_safetensor;

lh_status lh_safetensors_open(lh_safetensors **out, const char *path);
void lh_safetensors_close(lh_safetensors *file); /* NULL is fine */

const lh_map *lh_safetensors_map(const lh_safetensors *file);
int64_t lh_safetensors_count(const lh_safetensors *file);
const lh_safetensor *lh_safetensors_at(const lh_safetensors *file, int64_t i);

#endif
