/* text_check.h - looks at what is given as text for what is none. */
#ifndef LH_TEXT_TEXT_CHECK_H
#define LH_TEXT_TEXT_CHECK_H

#include <stdint.h>

#include "base/status.h"

/* LH_EINPUT, with the way out, for a PDF, an archive, a compressed file, UTF-16 or UTF-32; and a warning with the first
 * byte that is not UTF-8. `name`: as in messages; lh_text_check_file: the text of a file, "-" is standard input. */
lh_status lh_text_check(const char *name, const char *text, int64_t bytes);
lh_status lh_text_check_file(const char *path, const char *text, int64_t bytes);

/* The first alone: of texts whose bytes are looked at elsewhere. */
lh_status lh_text_check_kind(const char *path, const char *text, int64_t bytes);

/* LH_EINPUT, with the way out, for a file whose lines end with carriage returns alone. */
lh_status lh_text_check_line_ends(const char *path, const char *text, int64_t bytes);

/* As lh_text_check_kind, of a file with a JSON value a line: one array is none. */
lh_status lh_text_check_lines(const char *path, const char *text, int64_t bytes);

#endif
