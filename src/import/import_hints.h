/* import_hints.h - paths that hold no model to import: each function names the path and says what would be right. They
 * fail with LH_EINPUT unless they say otherwise. */
#ifndef LH_IMPORT_IMPORT_HINTS_H
#define LH_IMPORT_IMPORT_HINTS_H

#include "import/gguf.h"

lh_status lh_hint_file(const char *path);         /* neither a folder nor a GGUF file */
lh_status lh_hint_no_config(const char *folder);  /* without config.json */
lh_status lh_hint_no_weights(const char *folder); /* with config.json, without the files of weights that are read */

/* LH_OK if the file may hold a language model. */
lh_status lh_hint_gguf(const lh_gguf *gguf);

/* LH_OK unless the file is a pointer of Git LFS, which a clone without LFS leaves for a large file. */
lh_status lh_hint_lfs(const char *path);

#endif
