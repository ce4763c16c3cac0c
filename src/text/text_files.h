/* text_files.h - the texts of a folder, wherever an option takes a folder of texts: files '*.txt', '*.md' and
 * '*.markdown', in capitals or not, not those in folders below. */
#ifndef LH_TEXT_TEXT_FILES_H
#define LH_TEXT_TEXT_FILES_H

#include "base/file.h"

extern const char *const lh_text_endings[]; /* ends with NULL */

/* Paths of the texts in the order of their bytes. One warning says how many other files the folder has, and names the
 * first of them. LH_EINPUT: the folder cannot be read, or has no text. Clear *out also after a failure. */
lh_status lh_text_files(lh_paths *out, const char *folder);

#endif
