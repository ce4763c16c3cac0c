/* line_editor.h - lines typed on a terminal, with arrow keys and a history. While no line is edited, as during an
 * answer, the terminal echoes nothing, and what is typed waits for the next line. line_editor.c uses libedit; a build
 * without it has no_line_editor.c, and the terminal edits lines as for any program. */
#ifndef LH_MAIN_LINE_EDITOR_H
#define LH_MAIN_LINE_EDITOR_H

#include "base/mem.h"

typedef struct lh_line_editor lh_line_editor;

/* "libedit", or "none". */
const char *lh_line_editor_name(void);

/* *out is NULL where there is no editor: standard input or standard error is no terminal, or one that cannot move its
 * cursor, or the build has none. */
lh_status lh_line_editor_open(lh_line_editor **out);

/* Edits a line after a prompt, for about wait_ms without a key and until a signal. Appends a finished line with its
 * "\n" to `read` and adds it to the history. *ended: true after Ctrl-D on an empty line. LH_ENOMEM. */
lh_status lh_line_editor_read(lh_line_editor *e, int wait_ms, lh_buf *read, int *ended);

/* Drops the line that is edited, if there is one. */
void lh_line_editor_drop(lh_line_editor *e);

/* The terminal is as before. `e` may be NULL. */
void lh_line_editor_close(lh_line_editor *e);

#endif
