/* vocab_gguf.h - the vocabulary of a GGUF file as a tokenizer.json that gives the same ids. */
#ifndef LH_IMPORT_VOCAB_GGUF_H
#define LH_IMPORT_VOCAB_GGUF_H

#include "base/mem.h"
#include "import/gguf.h"

/* Append tokenizer.json and the companion object of tokenizer.h; nothing, with LH_OK, if the file has no vocabulary.
 * Supported are byte-level BPE ("gpt2", with known pre-tokenizers) and SentencePiece BPE ("llama"), with merges made of
 * its scores. LH_EINPUT names `name`, the file, and the key. */
lh_status lh_vocab_gguf(const lh_gguf *gguf, const char *name, lh_buf *json, lh_buf *meta);

/* Append the names of all known pre-tokenizers (tokenizer.ggml.pre), separated by spaces. */
lh_status lh_vocab_pre_names(lh_buf *out);

#endif
