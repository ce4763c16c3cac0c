/* import.h - from a Hugging Face folder, a GGUF file or nothing but a shape to a checkpoint. Tensors stream through
 * buffers of a fixed size: the memory that an import takes does not depend on the model. */
#ifndef LH_IMPORT_IMPORT_H
#define LH_IMPORT_IMPORT_H

#include "import/import_options.h"

/* Leaves a whole checkpoint at `out`, or what was there before. LH_EUSAGE: unknown dtype or shape. LH_EINPUT: a
 * source that is damaged, contradicts its configuration, or holds values that are not finite; the message names the
 * tensor. Warns about tensors that are not used and about a missing tokenizer. */
lh_status lh_import(const lh_import_options *options);

#endif
