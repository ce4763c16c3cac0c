/* log.c - log lines and the progress bar. The only file with process-wide state, because stderr is one too. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/job.h"
#include "base/mem.h"
#include "base/unicode.h"

static struct {
    lh_log_level level;
    int rank, ranks, file;
    int bar;        /* 1: the last line of the terminal is a bar */
    int lost;       /* 1: a line could not be written to the log file */
    char name[256]; /* of the log file, perhaps cut */
    char job[64];   /* " job 17", or empty */
    char host[64];
    lh_log_sink sink; /* NULL: standard error */
    void *self;
} state = {.level = LH_LOG_INFO, .ranks = 1, .file = -1};

void lh_log_set_level(lh_log_level level)
{
    state.level = level;
}

void lh_log_set_sink(lh_log_sink sink, void *self)
{
    state.sink = sink;
    state.self = self;
}

void lh_log_set_rank(int rank, int ranks)
{
    state.rank = rank;
    state.ranks = ranks;
}

lh_status lh_log_name(lh_buf *out, const char *path, int rank)
{
    LH_TRY(lh_buf_puts(out, ""));
    for (const char *c = path; *c; c++) {
        if (c[0] == '%' && c[1] == 'r') {
            LH_TRY(lh_buf_printf(out, "%d", rank));
            c++;
        } else {
            LH_TRY(lh_buf_append(out, c, 1));
        }
    }
    return LH_OK;
}

/* Host and job, which do not change. */
static void find_place(void)
{
    const char *job = lh_job_name();
    if (gethostname(state.host, sizeof state.host - 1) != 0) snprintf(state.host, sizeof state.host, "unknown");
    state.job[0] = '\0';
    if (job) snprintf(state.job, sizeof state.job, " job %s", job);
}

lh_status lh_log_open(const char *path)
{
    lh_status st = LH_OK;
    lh_buf name = {0};
    find_place();
    LH_TRY_DONE(lh_log_name(&name, path, state.rank));
    lh_log_close();
    snprintf(state.name, sizeof state.name, "%s", name.data);
    LH_TRY_DONE(lh_destination_open(&state.file, name.data));
    if (state.file < 0) state.file = open(name.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    if (state.file < 0) LH_FAIL_DONE(LH_EWRITE, "cannot open log file '%s': %s", path, strerror(errno));
done:
    lh_buf_clear(&name);
    return st;
}

void lh_log_close(void)
{
    if (state.file >= 0) close(state.file);
    state.file = -1;
    state.lost = 0;
}

lh_log_level lh_log_level_now(void)
{
    return state.level;
}

int lh_log_rank(void)
{
    return state.rank;
}

int lh_log_ranks(void)
{
    return state.ranks;
}

/* Bytes of a bar's text that are shown in `columns`: whole fields, which commas separate, or the begin of the first
 * field. */
static int fitting(const char *text, int bytes, int columns)
{
    int n = columns;
    if (bytes <= columns) return bytes;
    while (n > 0 && strncmp(text + n, ", ", 2) != 0) n--;
    return n > 0 ? n : columns;
}

void lh_log_bar(const char *format, ...)
{
    static const char erase[] = "\r\033[K";
    char text[512] = "";
    struct winsize size = {0};
    int n = 0, columns = ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    if ((!format && !state.bar) || state.sink) return;
    if (format) {
        va_list ap;
        va_start(ap, format);
        n = snprintf(text, sizeof text, "%s", erase);
        int m = vsnprintf(text + n, sizeof text - (size_t)n, format, ap);
        va_end(ap);
        if (m > (int)sizeof text - n - 1) m = (int)sizeof text - n - 1;
        m = fitting(text + n, m, columns - 1);
        if (m > 0) n += (int)lh_text_make_plain(text + n, m);
    } else {
        n = snprintf(text, sizeof text, "%s", erase);
    }
    state.bar = format != NULL;
    if (write(2, text, (size_t)n) < 0) return;
}

enum { LINE_BYTES = 4096, PLACE_BYTES = 256 };

/* A line in the log file, in one write. The first that cannot be written there is reported on stderr. */
static void append_to_file(const char *line, size_t bytes)
{
    char text[PLACE_BYTES + LINE_BYTES], when[32] = "";
    struct tm utc;
    const time_t now = time(NULL);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    int n = snprintf(text, PLACE_BYTES, "%s %s rank %d%s: ", when, state.host, state.rank, state.job);
    memcpy(text + n, line, bytes);
    bytes += (size_t)n;
    errno = 0;
    ssize_t done = write(state.file, text, bytes);
    if (done == (ssize_t)bytes || state.lost) return;
    state.lost = 1;
    n = snprintf(text, sizeof text,
                 "longhaul: warning: [rank %d] cannot write the log file '%s': %s; lines are missing there\n",
                 state.rank, state.name, errno ? strerror(errno) : "the disk is full");
    if (write(2, text, (size_t)n) < 0) return;
}

void lh_log(lh_log_level level, int all_ranks, const char *format, ...)
{
    static const char *const prefix[] = {"longhaul: ", "longhaul: warning: ", "", ""};
    char line[LINE_BYTES];
    if (level > state.level || (state.rank != 0 && !all_ranks && state.file < 0)) return;
    lh_log_bar(NULL);
    int n = snprintf(line, sizeof line, "%s", prefix[level]);
    if (all_ranks && state.ranks > 1) n += snprintf(line + n, sizeof line - (size_t)n, "[rank %d] ", state.rank);
    va_list ap;
    va_start(ap, format);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, ap);
    va_end(ap);
    if (m > (int)sizeof line - n - 2) m = (int)sizeof line - n - 2;
    if (m > 0) {
        line[n + (int)lh_text_make_plain(line + n, m)] = '\0';
        n += (int)strlen(line + n);
    }
    const int shows = state.rank == 0 || all_ranks;
    if (shows && state.sink) state.sink(state.self, level, line + strlen(prefix[level]));
    line[n++] = '\n';
    /* Standard error that fails cannot be reported; the file still gets the line. */
    ssize_t shown = shows && !state.sink ? write(2, line, (size_t)n) : 0;
    (void)shown;
    if (state.file >= 0) append_to_file(line, (size_t)n);
}
