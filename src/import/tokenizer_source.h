/* tokenizer_source.h - tokenizers from files: a tokenizer.json, a model of SentencePiece (tokenizer.model), a Hugging
 * Face folder with one of them, a GGUF file or a checkpoint.
 * `tokenize` opens them, `import` copies them into a checkpoint. */
#ifndef LH_IMPORT_TOKENIZER_SOURCE_H
#define LH_IMPORT_TOKENIZER_SOURCE_H

#include "base/mem.h"
#include "text/tokenizer.h"

/* src: a tokenizer.json or tokenizer.model (read with its companion files), a Hugging Face folder, a GGUF file or a
 * checkpoint. LH_EINPUT if it has no tokenizer. */
lh_status lh_tokenizer_open(lh_tokenizer **out, const char *src);

/* For import: the tokenizer of a folder or GGUF file, and its tokenizer.json bytes and companion object, appended. If
 * the source has no tokenizer, LH_OK: *out is NULL and nothing is appended; an unsupported tokenizer is an error. */
lh_status lh_tokenizer_source(lh_tokenizer **out, const char *src, lh_buf *json, lh_buf *meta);

/* Append the message about a source without a tokenizer: the files that would be one, and the names of a folder's files
 * that are not read, with what to do about them. */
lh_status lh_tokenizer_missing(const char *src, lh_buf *out);

#endif
