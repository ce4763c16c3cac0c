/* vocab_sentencepiece.h - a model file of SentencePiece (tokenizer.model) as a tokenizer.json that gives the same ids.
 */
#ifndef LH_IMPORT_VOCAB_SENTENCEPIECE_H
#define LH_IMPORT_VOCAB_SENTENCEPIECE_H

#include "base/mem.h"

/* Append the tokenizer.json of the file with these bytes. Supported is BPE without normalisation of texts, as of
 * Llama 1 and 2, Mistral 0.1 and Gemma. LH_EINPUT names `name`, the file, and what is not supported or damaged. */
lh_status lh_vocab_sentencepiece(const char *name, const lh_buf *file, lh_buf *json);

#endif
