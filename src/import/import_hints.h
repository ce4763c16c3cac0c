/* import_hints.h - what a path holds that is no model to import: each function names it and says what would be right.
 * They fail with LH_EINPUT unless they say otherwise. */
#ifndef LH_IMPORT_IMPORT_HINTS_H
#define LH_IMPORT_IMPORT_HINTS_H

#include "import/import_source.h"

/* LH_OK unless the file is a pointer of Git LFS, as a clone without LFS leaves them in place of large files. */
lh_status lh_hint_pointer(const char *path);

lh_status lh_hint_file(const char *path);         /* neither a folder nor a GGUF file */
lh_status lh_hint_no_config(const char *folder);  /* without config.json */
lh_status lh_hint_no_weights(const char *folder); /* with config.json, without the files of weights that are read */

/* LH_OK if the file may hold a language model. */
lh_status lh_hint_gguf(const lh_gguf *gguf);

/* A tensor of `rows` and `cols` is missing in the source. */
lh_status lh_hint_no_tensor(const lh_source *source, const char *name, int64_t rows, int64_t cols);

#endif
