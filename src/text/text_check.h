/* text_check.h - checks of text that users give, its lines, and the texts of a folder. */
#ifndef LH_TEXT_TEXT_CHECK_H
#define LH_TEXT_TEXT_CHECK_H

#include <stdint.h>

#include "base/file.h"

/* LH_EINPUT, with a remedy, for a PDF, an archive, a compressed file, UTF-16 or UTF-32; and a warning with the first
 * byte that is not UTF-8. `name` is used in messages; lh_text_check_file: the text of a file, "-" is standard input. */
lh_status lh_text_check(const char *name, const char *text, int64_t bytes);
lh_status lh_text_check_file(const char *path, const char *text, int64_t bytes);

/* The same without the warning, for texts with another check of their bytes. */
lh_status lh_text_check_kind(const char *path, const char *text, int64_t bytes);

/* LH_EINPUT, with a remedy, for a file with lines that end with carriage returns alone. */
lh_status lh_text_check_line_ends(const char *path, const char *text, int64_t bytes);

/* lh_text_check_kind for JSON Lines: refuses a JSON array, too. */
lh_status lh_text_check_lines(const char *path, const char *text, int64_t bytes);

/* The lines that are not blank, without their ends, as new strings: (*out)[0 .. *n - 1], to be freed one by one. Cuts
 * `text` up. */
lh_status lh_text_lines(lh_buf *text, char ***out, int64_t *n);

/* ---- folders of texts: files '*.txt', '*.md' and '*.markdown' in any case, without subfolders ---- */
extern const char *const lh_text_endings[]; /* ends with NULL */

/* Paths of the texts in the order of their bytes. One warning has the number of other files in the folder, and the
 * first of their names. LH_EINPUT: the folder cannot be read, or has no text. Clear *out also after a failure. */
lh_status lh_text_files(lh_paths *out, const char *folder);

#endif
