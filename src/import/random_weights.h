/* random_weights.h - weights of random models: seeded normals, or blocks of few bits with random codes and scales. */
#ifndef LH_IMPORT_RANDOM_WEIGHTS_H
#define LH_IMPORT_RANDOM_WEIGHTS_H

#include "import/stored_types.h"

/* A tensor of a random model: its number i, row by row, is mean + scale * the standard normal i of `stream` of the
 * seed (base/rng.h). Blocks have the same mean, which is 0 for all matrices, and standard deviation. */
typedef struct lh_random_weight {
    uint64_t stream;
    float mean, scale;
} lh_random_weight;

lh_random_weight lh_random_weight_of(const lh_config *config, lh_weight weight, int64_t layer);

/* The stored types of `import --random --quantize WEIGHTS`; bf16 for NULL. LH_EUSAGE for an unknown name. */
lh_status lh_random_types(lh_import_types *out, const char *weights);

/* *out = the formats of all tensors (lh_weight_format; lh_free) with these types. LH_EUSAGE, naming the tensor, if rows
 * are a whole number of none of the blocks. */
lh_status lh_random_formats(const lh_format ***out, const lh_config *config, const lh_import_types *types);

/* dst [rows, blocks]: of each row the blocks from `first` on, numbered over the tensor; the next row's are `step`
 * blocks further. Every block is a function of the seed, the tensor and its number. */
typedef struct lh_random_blocks {
    uint8_t *dst;
    const lh_format *format;
    uint64_t seed;
    int64_t first, step, rows, blocks;
} lh_random_blocks;

void lh_random_blocks_draw(const lh_random_blocks *blocks, const lh_random_weight *weight);

#endif
