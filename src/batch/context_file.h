/* context_file.h - the texts of files that requests name as their context. */
#ifndef LH_BATCH_CONTEXT_FILE_H
#define LH_BATCH_CONTEXT_FILE_H

#include "base/mem.h"

/* *text: of the file `name` in the folder `root`, without a byte order mark, as `generate -f` reads it. LH_EINPUT: it
 * is not there, leads out of the folder, also by symbolic links, is no regular file, is empty or no text. */
lh_status lh_batch_context_read(lh_buf *text, const char *root, const char *name);

/* Of such a text, as lines of an output have it (answer.h); never 0. */
uint64_t lh_batch_context_hash(const lh_buf *text);

#endif
