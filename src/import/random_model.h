/* random_model.h - checkpoints of named shapes with seeded normal weights: for benchmarks, and for trying things
 * without a download. */
#ifndef LH_IMPORT_RANDOM_MODEL_H
#define LH_IMPORT_RANDOM_MODEL_H

#include "import/import_options.h"

/* Write the shape options->random. Called by lh_import. */
lh_status lh_random_import(const lh_import_options *options);

/* Name and summary of shape i of `random`, NULL after the last. */
const char *lh_random_shape_name(int i);
const char *lh_random_shape_summary(int i);

/* The configuration of a shape, JSON in Hugging Face's words; NULL if there is none of that name. */
const char *lh_random_shape_config(const char *name);

#endif
