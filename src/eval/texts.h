/* texts.h - the texts that tasks are made of: one file, or the text files of a folder. Not collective: rank 0's. */
#ifndef LH_EVAL_TEXTS_H
#define LH_EVAL_TEXTS_H

#include "base/mem.h"

typedef struct lh_texts {
    lh_buf *at;
    int64_t n;
} lh_texts;

/* A file, or in the order of their names all '*.txt' and '*.md' of a folder (not of folders in it). LH_EINPUT naming
 * the path: not there, none in it, empty, no text (a zero byte). `what` is what messages call it. */
lh_status lh_texts_read(lh_texts *out, const char *what, const char *path);
void lh_texts_clear(lh_texts *texts);

/* All of them, an empty line between two. Appended. */
lh_status lh_texts_join(const lh_texts *texts, lh_buf *out);

#endif
