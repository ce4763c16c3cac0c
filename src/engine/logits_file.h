/* logits_file.h - rows of logits collected during a run and written as HDF5 (kind `analysis`): /logits [n, vocab] f32,
 * /tokens ids of the whole run, /positions [n] of the tokens that the rows follow. */
#ifndef LH_ENGINE_LOGITS_FILE_H
#define LH_ENGINE_LOGITS_FILE_H

#include "base/status.h"
#include "text/tokenizer.h"

typedef struct lh_logits_file lh_logits_file;

lh_status lh_logits_file_open(lh_logits_file **out, int64_t vocab);
void lh_logits_file_close(lh_logits_file *file); /* NULL is fine */

/* n rows [n, vocab], copied; the first belongs to the token at position `first`. */
lh_status lh_logits_file_add(lh_logits_file *file, const float *rows, int64_t n, int64_t first);

lh_status lh_logits_file_write(const lh_logits_file *file, const char *path, const lh_tokens *tokens, const char *run);

#endif
