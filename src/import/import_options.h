/* import_options.h - options and progress of an import, shared by import.c, which reads models, and random_model.c,
 * which makes them. */
#ifndef LH_IMPORT_IMPORT_OPTIONS_H
#define LH_IMPORT_IMPORT_OPTIONS_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

/* Called repeatedly with the bytes written so far and in total. Any status but LH_OK stops the import with it. */
typedef struct lh_import_progress {
    void *self;
    lh_status (*done)(void *self, int64_t done_bytes, int64_t total_bytes); /* NULL: none */
} lh_import_progress;

typedef struct lh_import_options {
    const char *src;    /* folder or GGUF file; NULL: `random` names a shape */
    const char *random; /* "tiny", "llama-3.1-8b", …: seeded weights */
    const char *out;
    /* Stored type: "f32", "f16", "bf16" or "auto" (as the source; bf16 for quantised and random weights). Vectors
     * (norms, biases) become f32 unless they are of this type already. */
    const char *dtype;
    uint64_t seed;
    lh_import_progress progress;
} lh_import_options;

/* Values that pass through the buffers at a time. */
enum { LH_IMPORT_VALUES = 1 << 22 };

/* Progress over all tensors. */
typedef struct lh_import_meter {
    lh_import_progress progress;
    int64_t done_bytes, total_bytes;
} lh_import_meter;

lh_status lh_import_advance(lh_import_meter *meter, int64_t bytes);

/* The argument of --dtype: *automatic is 1 for "auto". */
lh_status lh_import_dtype(const char *name, lh_dtype *type, int *automatic);

#endif
