/* chat_lines.c - lines of standard input without blocking for longer than the other ranks may wait. */
#include "cli/chat_lines.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Signal handlers have no argument for state. */
static volatile sig_atomic_t stop_asked, end_asked;

static void ask(int number)
{
    if (number == SIGINT || number == SIGUSR2)
        stop_asked = 1;
    else
        end_asked = 1;
}

void lh_chat_ignore_stop(void)
{
    const struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGUSR2, &action, NULL);
}

void lh_chat_catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGUSR2, SIGTERM, SIGUSR1};
    struct sigaction action = {.sa_handler = ask}; /* without SA_RESTART: a wait for a line ends */
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
}

int lh_chat_stop_asked(void)
{
    return stop_asked || end_asked;
}

void lh_chat_forget_stop(void)
{
    stop_asked = 0;
}

int lh_chat_end_asked(void)
{
    return end_asked;
}

/* Takes the first line that is complete, or all that is left of an ended input. 0: there is none. */
static lh_status take_line(lh_chat_lines *l, lh_buf *line, int *taken)
{
    *taken = 0;
    line->bytes = 0;
    LH_TRY(lh_buf_puts(line, ""));
    for (int64_t at = 0; at < l->read.bytes;) {
        const char *newline = memchr(l->read.data + at, '\n', (size_t)(l->read.bytes - at));
        if (!newline && !l->ended) return LH_OK;
        int64_t end = newline ? newline - l->read.data : l->read.bytes;
        const int goes_on = end > at && l->read.data[end - 1] == '\\' && newline;
        LH_TRY(lh_buf_append(line, l->read.data + at, end - at - goes_on));
        if (goes_on) LH_TRY(lh_buf_puts(line, "\n"));
        at = newline ? end + 1 : end;
        if (goes_on && !(l->ended && at == l->read.bytes)) continue;
        memmove(l->read.data, l->read.data + at, (size_t)(l->read.bytes - at));
        l->read.bytes -= at;
        *taken = 1;
        return LH_OK;
    }
    return LH_OK;
}

static lh_status read_more(lh_chat_lines *l)
{
    char part[4096];
    ssize_t n = read(0, part, sizeof part);
    if (n < 0 && errno == EINTR) return LH_OK;
    if (n < 0) LH_FAIL(LH_EINPUT, "cannot read standard input: %s", strerror(errno));
    if (n == 0) l->ended = 1;
    return n ? lh_buf_append(&l->read, part, n) : LH_OK;
}

lh_status lh_chat_next_line(lh_chat_lines *l, int wait_ms, lh_buf *line, lh_chat_event *event)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    int taken = 0;
    *event = LH_CHAT_NOTHING;
    if (!lh_chat_stop_asked()) LH_TRY(take_line(l, line, &taken));
    if (!taken && !l->ended && !lh_chat_stop_asked()) {
        if (l->terminal && !l->shown) {
            static const char prompt[] = "> ";
            if (write(2, prompt, sizeof prompt - 1) < 0) l->terminal = 0;
            l->shown = 1;
        }
        if (poll(&input, 1, wait_ms) > 0) LH_TRY(read_more(l));
        if (!lh_chat_stop_asked()) LH_TRY(take_line(l, line, &taken));
    }
    /* A line that is taken is answered, also if a signal came since. */
    if (taken) {
        *event = LH_CHAT_LINE;
        l->shown = 0;
    } else if (lh_chat_stop_asked()) {
        *event = LH_CHAT_STOPPED;
        l->shown = 0;
    } else if (l->ended) {
        *event = LH_CHAT_INPUT_ENDED;
    }
    return LH_OK;
}

void lh_chat_lines_clear(lh_chat_lines *lines)
{
    lh_buf_clear(&lines->read);
}
