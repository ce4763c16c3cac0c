/* text_input.h - texts that the user gives: read from a file, looked at for what is no text, and cut into lines. */
#ifndef LH_CLI_TEXT_INPUT_H
#define LH_CLI_TEXT_INPUT_H

#include "base/mem.h"
#include "base/status.h"

/* Appends a file; '-' is standard input. Refuses and warns as lh_text_check. */
lh_status lh_text_read(lh_buf *out, const char *path);

/* LH_EINPUT, with the way out, for a PDF, an archive, a compressed file or UTF-16; a warning with the first byte that
 * is not UTF-8. `name`: as in messages. */
lh_status lh_text_check(const char *name, const char *text, int64_t bytes);

/* The lines that are not blank, without their ends, as new strings: (*out)[0 .. *n - 1], to be freed one by one. Cuts
 * `text` up. */
lh_status lh_text_lines(lh_buf *text, char ***out, int64_t *n);

#endif
