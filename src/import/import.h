/* import.h - makes a checkpoint from a Hugging Face folder, a GGUF file or a named shape with random weights. Tensors
 * stream through buffers of a fixed size, so the memory of an import does not depend on the model. */
#ifndef LH_IMPORT_IMPORT_H
#define LH_IMPORT_IMPORT_H

#include <stdint.h>

#include "base/status.h"

/* Called repeatedly with the bytes done so far and in total. Any status but LH_OK stops the work with it. */
typedef struct lh_import_progress {
    void *self;
    lh_status (*done)(void *self, int64_t done_bytes, int64_t total_bytes); /* NULL: none */
} lh_import_progress;

typedef struct lh_import_options {
    const char *src;    /* folder or GGUF file; NULL: `random` names a shape */
    const char *random; /* "tiny", "llama-3.1-8b", … or a folder (random_shapes.h): seeded weights */
    const char *out;
    /* Stored type: "f32", "f16", "bf16" or "auto" (the format of the source, blocks of at least 4 bits included; bf16
     * for other blocks and for random weights).
     * Vectors (norms, biases) become f32 unless they are of this type already. */
    const char *dtype;
    /* With dtype "auto": the blocks that matrices of plain numbers become, by a name of lh_import_quantize_names. NULL:
     * they stay plain. */
    const char *quantize;
    uint64_t seed;
    lh_import_progress progress;
} lh_import_options;

/* Formats of blocks, and llama.cpp's mixtures of formats; the last is NULL. */
extern const char *const lh_import_quantize_names[];

/* Leaves a complete checkpoint at `out`, or the previous file. LH_EUSAGE: unknown dtype, format or shape. LH_EINPUT: a
 * source that is damaged, contradicts its configuration, or holds values that are not finite; the message names the
 * tensor. Warns about tensors that are not used and about a missing tokenizer. */
lh_status lh_import(const lh_import_options *options);

/* LH_EFILE unless the weights of a checkpoint are those of a source: blocks byte by byte, plain numbers as an import
 * to the stored type converts them. *bytes: compared. */
lh_status lh_import_compare(const char *src, const char *checkpoint, const lh_import_progress *progress,
                            int64_t *bytes);

#endif
