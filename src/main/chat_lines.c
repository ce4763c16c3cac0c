/* chat_lines.c - lines of standard input without blocking for longer than the other ranks may wait. */
#include "main/chat_lines.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/unicode.h"

/* Takes the first complete line, or the unfinished last line of an ended input. *taken: true if there was one. */
static lh_status take_line(lh_chat_lines *l, lh_buf *line, int *taken)
{
    *taken = 0;
    line->bytes = 0;
    LH_TRY(lh_buf_puts(line, ""));
    for (int64_t at = 0; at < l->read.bytes;) {
        const char *newline = memchr(l->read.data + at, '\n', (size_t)(l->read.bytes - at));
        if (!newline && !l->ended) return LH_OK;
        int64_t end = newline ? newline - l->read.data : l->read.bytes;
        const int64_t text_end = end > at && l->read.data[end - 1] == '\r' ? end - 1 : end;
        const int goes_on = text_end > at && l->read.data[text_end - 1] == '\\' && newline;
        LH_TRY(lh_buf_append(line, l->read.data + at, text_end - at - goes_on));
        if (goes_on) LH_TRY(lh_buf_puts(line, "\n"));
        at = newline ? end + 1 : end;
        if (goes_on && !(l->ended && at == l->read.bytes)) continue;
        if (l->taken++ == 0) lh_text_drop_mark(line, 0);
        memmove(l->read.data, l->read.data + at, (size_t)(l->read.bytes - at));
        l->read.bytes -= at;
        *taken = 1;
        return LH_OK;
    }
    return LH_OK;
}

static void show_prompt(lh_chat_lines *l)
{
    static const char prompt[] = "> ";
    if (!l->terminal || l->shown) return;
    if (write(2, prompt, sizeof prompt - 1) < 0) l->terminal = 0;
    l->shown = 1;
}

/* Reads what comes within wait_ms. */
static lh_status read_more(lh_chat_lines *l, int wait_ms)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char part[4096];
    if (l->editor) return lh_line_editor_read(l->editor, wait_ms, &l->read, &l->ended);
    show_prompt(l);
    if (poll(&input, 1, wait_ms) <= 0) return LH_OK;
    ssize_t n = read(0, part, sizeof part);
    if (n < 0 && errno == EINTR) return LH_OK;
    if (n < 0) LH_FAIL(LH_EINPUT, "cannot read standard input: %s", strerror(errno));
    if (n == 0) l->ended = 1;
    return n ? lh_buf_append(&l->read, part, n) : LH_OK;
}

lh_status lh_chat_next_line(lh_chat_lines *l, int wait_ms, lh_buf *line, lh_chat_event *event)
{
    int taken = 0;
    *event = LH_CHAT_NOTHING;
    if (!lh_interrupt_stop_asked()) LH_TRY(take_line(l, line, &taken));
    if (!taken && !l->ended && !lh_interrupt_stop_asked()) {
        LH_TRY(read_more(l, wait_ms));
        if (!lh_interrupt_stop_asked()) LH_TRY(take_line(l, line, &taken));
    }
    /* A line that is taken is answered, also if a signal came since. */
    if (taken) {
        *event = LH_CHAT_LINE;
        l->shown = 0;
    } else if (lh_interrupt_stop_asked()) {
        *event = LH_CHAT_STOPPED;
        l->shown = 0;
        if (l->editor) lh_line_editor_drop(l->editor);
    } else if (l->ended) {
        *event = LH_CHAT_INPUT_ENDED;
    }
    return LH_OK;
}

void lh_chat_lines_clear(lh_chat_lines *lines)
{
    lh_line_editor_close(lines->editor);
    lh_buf_clear(&lines->read);
}
