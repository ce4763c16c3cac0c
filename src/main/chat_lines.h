/* chat_lines.h - input of `chat` on rank 0: lines of standard input, and signals between them (base/interrupt.h). */
#ifndef LH_MAIN_CHAT_LINES_H
#define LH_MAIN_CHAT_LINES_H

#include "base/mem.h"
#include "main/line_editor.h"

typedef struct lh_chat_lines {
    lh_buf read;            /* and not yet taken */
    int ended, shown;       /* no more input; the prompt is on the terminal */
    int terminal;           /* 1: a person types */
    lh_line_editor *editor; /* of the terminal; NULL: it edits lines itself, or input is a file */
    int64_t taken;          /* lines */
} lh_chat_lines;

typedef enum lh_chat_event { LH_CHAT_NOTHING, LH_CHAT_LINE, LH_CHAT_INPUT_ENDED, LH_CHAT_STOPPED } lh_chat_event;

/* Waits for a line, but no longer than wait_ms. A line that ends with a backslash continues in the next one.
 * LH_CHAT_LINE: *line is the line without its end, "\n" or "\r\n". LH_CHAT_STOPPED: Ctrl-C where no answer is made, or
 * the session is to end; no line is taken then. */
lh_status lh_chat_next_line(lh_chat_lines *lines, int wait_ms, lh_buf *line, lh_chat_event *event);
void lh_chat_lines_clear(lh_chat_lines *lines);

#endif
