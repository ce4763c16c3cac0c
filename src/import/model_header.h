/* model_header.h - configuration and stored types of a model, without its weights: everything that a memory plan needs.
 */
#ifndef LH_IMPORT_MODEL_HEADER_H
#define LH_IMPORT_MODEL_HEADER_H

#include "base/dtype.h"
#include "base/format.h"
#include "import/config.h"
#include "import/format_tally.h"

typedef struct lh_model_header {
    lh_config config;
    uint64_t identity;         /* of a checkpoint (lh_checkpoint_identity); else 0 */
    lh_dtype stored;           /* type in which 'import' would store the matrices; bf16 for blocks */
    const lh_format **formats; /* of all tensors (lh_weight_format), as a checkpoint, the files of weights or a format
                                  of few bits set them; NULL: plain numbers of the type `stored` */
    lh_format_tally weights;   /* the tensors by these formats; empty without them */
    const char *quantiser;     /* method of a quantised model whose formats are unknown, because its configuration comes
                                  without weights: `stored` is bf16; else NULL */
} lh_model_header;

/* source: a checkpoint, a Hugging Face folder, a GGUF file, a config.json, "random:SHAPE", or, if no such file exists,
 * a shape of 'import --random'. Folders with files of weights and GGUF files are counted as 'import --dtype auto'
 * stores them (lh_import_formats). The type of another folder and of a config.json is its 'torch_dtype' or 'dtype',
 * else f32. All but checkpoints may have the types that `weights` names (lh_random_types). LH_EFILE for a bad
 * checkpoint, LH_EINPUT for a source that cannot be imported, LH_EUSAGE for a format. */
lh_status lh_model_header_read(lh_model_header *out, const char *source, const char *weights);
void lh_model_header_clear(lh_model_header *header);

#endif
