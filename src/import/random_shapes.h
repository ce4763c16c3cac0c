/* random_shapes.h - models without files: named shapes, or the configuration of a folder, which `import --random` and
 * "random:SHAPE" as a model fill with random weights (random_weights.h): for benchmarks, and for trying things without
 * a download. */
#ifndef LH_IMPORT_RANDOM_SHAPES_H
#define LH_IMPORT_RANDOM_SHAPES_H

#include "base/status.h"

/* Name and summary of shape i, NULL after the last. */
const char *lh_random_shape_name(int i);
const char *lh_random_shape_summary(int i);

int lh_random_shape_is_known(const char *name);

/* The configuration of a shape in the format of config.json (lh_free), or the config.json of a folder. LH_EUSAGE,
 * listing the names, if there is neither. */
lh_status lh_random_shape_config(const char *name, char **json);

/* Tokenizer of a shape (the caller's) and its companion object, in the format of a checkpoint; NULL if it has none, as
 * a folder's. */
lh_status lh_random_shape_tokenizer(const char *name, char **json, const char **meta);

/* SHAPE of "random:SHAPE", the name of a model with weights that are drawn in memory, not read; NULL for the name of a
 * file. */
const char *lh_random_shape_of(const char *model);

#endif
