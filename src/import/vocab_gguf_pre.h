/* vocab_gguf_pre.h - what the names in tokenizer.ggml.pre stand for. */
#ifndef LH_IMPORT_VOCAB_GGUF_PRE_H
#define LH_IMPORT_VOCAB_GGUF_PRE_H

#include "base/mem.h"

typedef struct lh_vocab_pre {
    const char *names;    /* separated by spaces */
    const char *split[6]; /* regular expressions, one after another; NULL behind the last */
    int ignore_merges;    /* a word that is a token needs no merges */
    int add_bos;          /* unless the file says otherwise */
    int nfc;              /* text is normalised first */
} lh_vocab_pre;

/* NULL when there is none of that name; lh_vocab_pre_names appends all names, for a message. */
const lh_vocab_pre *lh_vocab_pre_find(const char *name, int64_t bytes);
lh_status lh_vocab_pre_names(lh_buf *out);

#endif
