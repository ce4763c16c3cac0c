/* tokenizer_source.h - tokenizers from the files that hold one: a tokenizer.json, a Hugging Face folder, a GGUF file or
 * a checkpoint. `tokenize` opens them, `import` copies them into a checkpoint. */
#ifndef LH_IMPORT_TOKENIZER_SOURCE_H
#define LH_IMPORT_TOKENIZER_SOURCE_H

#include "base/mem.h"
#include "text/tokenizer.h"

/* From what a user names: a tokenizer.json (with what lies beside it), a Hugging Face folder, a GGUF file or a
 * checkpoint. LH_EINPUT where it has no tokenizer. */
lh_status lh_tokenizer_open(lh_tokenizer **out, const char *src);

/* What import stores: tokenizer.json bytes and the companion object of a folder or GGUF file, appended. Both stay
 * empty, and LH_OK, where the source has no tokenizer; one that is not understood is an error. */
lh_status lh_tokenizer_source(const char *src, lh_buf *json, lh_buf *meta);

#endif
