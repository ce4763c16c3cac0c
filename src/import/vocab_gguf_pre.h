/* vocab_gguf_pre.h - the pre-tokenizers that tokenizer.ggml.pre of a GGUF file names. */
#ifndef LH_IMPORT_VOCAB_GGUF_PRE_H
#define LH_IMPORT_VOCAB_GGUF_PRE_H

#include "base/mem.h"

typedef struct lh_vocab_pre {
    const char *names;    /* separated by spaces */
    const char *split[6]; /* regular expressions, one after another; NULL after the last */
    int ignore_merges;    /* a word that is a token is not merged */
    int add_bos;          /* default if the file has no value */
    int nfc;              /* text is normalised first */
} lh_vocab_pre;

/* NULL if there is none of that name; lh_vocab_pre_names appends all names, for messages. */
const lh_vocab_pre *lh_vocab_pre_find(const char *name, int64_t bytes);
lh_status lh_vocab_pre_names(lh_buf *out);

#endif
