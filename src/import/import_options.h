/* import_options.h - what is asked of an import, and the progress it reports. Shared by import.c, which reads models, and
 * random_model.c, which makes them. */
#ifndef LH_IMPORT_IMPORT_OPTIONS_H
#define LH_IMPORT_IMPORT_OPTIONS_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

/* Called now and then with the bytes written of all. Not LH_OK: the import stops with this status. */
typedef struct lh_import_progress {
    void *self;
    lh_status (*done)(void *self, int64_t done_bytes, int64_t total_bytes); /* NULL: nobody asks */
} lh_import_progress;

typedef struct lh_import_options {
    const char *src;    /* folder or GGUF file; NULL: `random` names a shape */
    const char *random; /* "tiny", "llama-3.1-8b", …: seeded weights */
    const char *out;
    /* What is stored: "f32", "f16", "bf16", or "auto": as the source, quantised and random ones as bf16. Vectors
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
