/* random_shapes.h - named shapes of models, which `import --random` and "random:SHAPE" as a model fill with random
 * weights (random_model.h). */
#ifndef LH_IMPORT_RANDOM_SHAPES_H
#define LH_IMPORT_RANDOM_SHAPES_H

#include "base/status.h"

/* Name and summary of shape i, NULL after the last. */
const char *lh_random_shape_name(int i);
const char *lh_random_shape_summary(int i);

/* The configuration of a shape, JSON in Hugging Face's words; NULL if there is none of that name. */
const char *lh_random_shape_config(const char *name);

/* LH_EUSAGE, listing the names, if there is no such shape. */
lh_status lh_random_shape_check(const char *name);

/* Tokenizer of a shape that there is (the caller's) and its companion object, as a checkpoint holds them; NULL if it
 * has none. */
lh_status lh_random_shape_tokenizer(const char *name, char **json, const char **meta);

/* SHAPE of "random:SHAPE", the name of a model whose weights are drawn in the memory of the device instead of being
 * read; NULL for the name of a file. */
const char *lh_random_shape_of(const char *model);

#endif
