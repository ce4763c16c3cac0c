/* status.c - the message and trace of the current failure, one per thread. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/unicode.h"

enum { MESSAGE_BYTES = 2048, TRACE_BYTES = 1024 };

static _Thread_local char message[MESSAGE_BYTES];
static _Thread_local char trace[TRACE_BYTES];

__attribute__((weak)) void lh_name_values(char *text)
{
    (void)text;
}

/* A message is one line, and names taken from a foreign file must not control the terminal. */
static void make_plain(char *text)
{
    text[lh_text_make_plain(text, (int64_t)strlen(text))] = '\0';
    lh_name_values(text);
}

lh_status lh_fail(lh_status code, const char *file, int line, const char *format, ...)
{
    char text[MESSAGE_BYTES]; /* the arguments may quote the current message */
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    make_plain(text);
    memcpy(message, text, sizeof message);
    trace[0] = '\0';
    return lh_fail_trace(code, file, line);
}

lh_status lh_check_given(const void *given, const char *name)
{
    if (!given) LH_FAIL(LH_EUSAGE, "%s is NULL, it must be given", name);
    return LH_OK;
}

lh_status lh_fail_trace(lh_status code, const char *file, int line)
{
    size_t used = strlen(trace);
    const char *src = strstr(file, "src/");
    snprintf(trace + used, sizeof trace - used, "%s%s:%d", used ? " < " : "", src ? src : file, line);
    return code;
}

lh_status lh_fail_within(lh_status code, const char *format, ...)
{
    char inner[MESSAGE_BYTES];
    va_list ap;
    memcpy(inner, message, sizeof inner);
    char text[MESSAGE_BYTES];
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    make_plain(text);
    memcpy(message, text, sizeof message);
    size_t used = strlen(message);
    snprintf(message + used, sizeof message - used, ": %s", inner);
    return code;
}

const char *lh_error_message(void)
{
    return message;
}

const char *lh_error_trace(void)
{
    return trace;
}

void lh_error_clear(void)
{
    message[0] = trace[0] = '\0';
}

const char *lh_status_name(lh_status st)
{
    static const struct {
        lh_status st;
        const char *name;
    } names[] = {
        {LH_OK, "done"},
        {LH_EPARTIAL, "some requests failed"},
        {LH_EUSAGE, "usage"},
        {LH_EINPUT, "bad input file"},
        {LH_EFILE, "bad checkpoint, cache or trace"},
        {LH_ENOMEM, "does not fit in memory"},
        {LH_EWRITE, "cannot write"},
        {LH_ECOMM, "communication"},
        {LH_EINTERNAL, "internal check"},
        {LH_EINTERRUPTED, "interrupted"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].st == st) return names[i].name;
    return "unknown status";
}
