/* import.h - from a Hugging Face folder, a GGUF file or nothing but a shape to a checkpoint. Tensors stream through
 * buffers of a fixed size: the memory that an import takes does not depend on the model. */
#ifndef LH_IMPORT_IMPORT_H
#define LH_IMPORT_IMPORT_H

#include <stdint.h>

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

/* Leaves a whole checkpoint at `out`, or what was there before. LH_EUSAGE: unknown dtype or shape. LH_EINPUT: a
 * source that is damaged, contradicts its configuration, or holds values that are not finite; the message names the
 * tensor. Warns about tensors that are not used and about a missing tokenizer. */
lh_status lh_import(const lh_import_options *options);

/* Name and summary of shape i of `random`, NULL behind the last. */
const char *lh_random_shape_name(int i);
const char *lh_random_shape_summary(int i);

/* The configuration of a shape, JSON in Hugging Face's words; NULL: there is none of that name. */
const char *lh_random_shape_config(const char *name);

#endif
