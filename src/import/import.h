/* import.h - makes a checkpoint from a Hugging Face folder, a GGUF file or a named shape with random weights. Tensors
 * stream through buffers of a fixed size, so the memory of an import does not depend on the model. */
#ifndef LH_IMPORT_IMPORT_H
#define LH_IMPORT_IMPORT_H

#include "import/import_options.h"

/* Leaves a complete checkpoint at `out`, or what was there before. LH_EUSAGE: unknown dtype or shape. LH_EINPUT: a
 * source that is damaged, contradicts its configuration, or holds values that are not finite; the message names the
 * tensor. Warns about tensors that are not used and about a missing tokenizer. */
lh_status lh_import(const lh_import_options *options);

#endif
