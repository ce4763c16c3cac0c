/* text_input.h - texts that the user gives: read from a file, and cut into lines. */
#ifndef LH_SHELL_TEXT_INPUT_H
#define LH_SHELL_TEXT_INPUT_H

#include "base/mem.h"
#include "base/status.h"

/* Appends a file; '-' is standard input. Refuses and warns as lh_text_check (text/text_check.h). */
lh_status lh_text_read(lh_buf *out, const char *path);

/* The lines that are not blank, without their ends, as new strings: (*out)[0 .. *n - 1], to be freed one by one. Cuts
 * `text` up. */
lh_status lh_text_lines(lh_buf *text, char ***out, int64_t *n);

#endif
