/* texts.h - the texts that tasks use: one file, or the text files of a folder. Not collective: rank 0 reads them. */
#ifndef LH_LAB_EVAL_TEXTS_H
#define LH_LAB_EVAL_TEXTS_H

#include "base/mem.h"
#include "text/tokenizer.h"

typedef struct lh_texts {
    lh_buf *at;
    int64_t n;
} lh_texts;

/* Reads a file, or the texts of a folder (text/text_files.h). LH_EINPUT, naming the path, if it does not exist, has no
 * text, is empty, contains a zero byte, or is of another kind (text/text_check.h); a warning names bytes that are not
 * UTF-8. `what`: its name in messages. */
lh_status lh_texts_read(lh_texts *out, const char *what, const char *path);
void lh_texts_clear(lh_texts *texts);

/* Of all texts, in their order. */
uint64_t lh_texts_hash(const lh_texts *texts);

/* Appends the ids of all texts, one after the other; text t has [starts[t], starts[t + 1]) of them. starts: [n + 1]. */
lh_status lh_texts_encode(const lh_texts *texts, const lh_tokenizer *tok, lh_tokens *ids, int64_t *starts);

/* Appends all texts, separated by empty lines. */
lh_status lh_texts_join(const lh_texts *texts, lh_buf *out);

#endif
