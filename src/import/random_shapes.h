/* random_shapes.h - named shapes of models, which `import --random` and "random:SHAPE" as a model fill with seeded
 * normal weights: for benchmarks, and for trying things without a download. */
#ifndef LH_IMPORT_RANDOM_SHAPES_H
#define LH_IMPORT_RANDOM_SHAPES_H

#include "base/status.h"
#include "import/weights.h"

/* Name and summary of shape i, NULL after the last. */
const char *lh_random_shape_name(int i);
const char *lh_random_shape_summary(int i);

/* The configuration of a shape in the format of config.json; NULL for an unknown name. */
const char *lh_random_shape_config(const char *name);

/* LH_EUSAGE, listing the names, if there is no such shape. */
lh_status lh_random_shape_check(const char *name);

/* Tokenizer of a known shape (the caller's) and its companion object, in the format of a checkpoint; NULL if it has
 * none. */
lh_status lh_random_shape_tokenizer(const char *name, char **json, const char **meta);

/* SHAPE of "random:SHAPE", the name of a model with weights that are drawn in the memory of the device, not read; NULL
 * for the name of a file. */
const char *lh_random_shape_of(const char *model);

/* A tensor of a random model: its number i, row by row, is mean + scale * the standard normal i of `stream` of the
 * seed (base/rng.h). */
typedef struct lh_random_weight {
    uint64_t stream;
    float mean, scale;
} lh_random_weight;

lh_random_weight lh_random_weight_of(const lh_config *config, lh_weight weight, int64_t layer);

#endif
