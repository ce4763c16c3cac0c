/* outline.h - what a model is without its weights: all that a plan needs. */
#ifndef LH_IMPORT_OUTLINE_H
#define LH_IMPORT_OUTLINE_H

#include "base/dtype.h"
#include "import/config.h"

typedef struct lh_outline {
    lh_config config;
    lh_dtype stored; /* type of the matrices, as 'import' would keep it */
} lh_outline;

/* Of a checkpoint, of a Hugging Face folder or its config.json (no other file is looked at), or, where there is no such
 * file, of a shape that 'import --random' knows. Type of a config.json: its 'torch_dtype' or 'dtype', f32 where it has
 * none. LH_EFILE for a checkpoint, LH_EINPUT for a configuration that cannot be used. */
lh_status lh_outline_read(lh_outline *out, const char *source);
void lh_outline_clear(lh_outline *outline);

#endif
