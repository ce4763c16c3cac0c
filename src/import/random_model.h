/* random_model.h - models of named shapes (random_shapes.h) with seeded normal weights: for benchmarks, and for trying
 * things without a download. */
#ifndef LH_IMPORT_RANDOM_MODEL_H
#define LH_IMPORT_RANDOM_MODEL_H

#include "import/import_options.h"
#include "import/weights.h"

/* A tensor of a random model: number i of it, row by row, is mean + scale * the standard normal i of `stream` of the
 * seed (base/rng.h). */
typedef struct lh_random_weight {
    uint64_t stream;
    float mean, scale;
} lh_random_weight;

lh_random_weight lh_random_weight_of(const lh_config *config, lh_weight weight, int64_t layer);

/* Write the shape options->random. Called by lh_import. */
lh_status lh_random_import(const lh_import_options *options);

#endif
