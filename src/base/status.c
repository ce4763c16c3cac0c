/* status.c - the message and trace of the current failure, one per thread; a list of failures; names of statuses. */
#include "base/status.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/unicode.h"

enum { MESSAGE_BYTES = 2048, TRACE_BYTES = 1024 };

static _Thread_local char message[MESSAGE_BYTES];
static _Thread_local char trace[TRACE_BYTES];

/* A message is one line, and names taken from a foreign file must not control the terminal. The arguments may quote the
 * current message. */
static void set_message(const char *format, va_list ap)
{
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof text, format, ap);
    text[lh_text_make_plain(text, (int64_t)strlen(text))] = '\0';
    memcpy(message, text, sizeof message);
}

/* Adds as much of `text` as the message can hold. */
static void append(const char *text)
{
    const size_t used = strlen(message), n = strnlen(text, sizeof message - 1 - used);
    memcpy(message + used, text, n);
    message[used + n] = '\0';
}

lh_status lh_fail(lh_status code, const char *file, int line, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    set_message(format, ap);
    va_end(ap);
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
    va_start(ap, format);
    set_message(format, ap);
    va_end(ap);
    append(": ");
    append(inner);
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

void lh_failures_add(lh_failures *failures, lh_status st)
{
    const size_t used = strlen(failures->text);
    if (st == LH_OK) return;
    if (failures->st == LH_OK) failures->st = st;
    snprintf(failures->text + used, sizeof failures->text - used, "%s%s", used ? "; " : "", lh_error_message());
    lh_error_clear();
}

lh_status lh_failures_end(const lh_failures *failures)
{
    if (failures->st == LH_OK) return LH_OK;
    LH_FAIL(failures->st, "%s", failures->text);
}

/* A setting that only the program has is named for the member of the request that holds it. */
static const struct {
    const char *member, *option;
} settings[] = {
    {"chat", "--chat"},
    {"chat_template", "--chat-template"},
    {"chunk", "--chunk"},
    {"comm_timeout_s", "--comm-timeout"},
    {"context", "--context"},
    {"deterministic", "--deterministic"},
    {"device", "--device"},
    {"dtype", "--dtype"},
    {"frequency_penalty", "--frequency-penalty"},
    {"keep_sets", "--keep-sets"},
    {"kv_dtype", "--kv-dtype"},
    {"load_cache", "--load-cache"},
    {"context_cache", "--context-cache"},
    {"logits", "--logits"},
    {"max_new", "--max-new"},
    {"max_running", "--batch"},
    {"memory", "--memory"},
    {"min_p", "--min-p"},
    {"model", "--model"},
    {"presence_penalty", "--presence-penalty"},
    {"prompt_tokens", "--prompt-tokens"},
    {"questions", "--question"},
    {"repeat_penalty", "--repeat-penalty"},
    {"resume", "--resume"},
    {"score_weights", "--score-weights"},
    {"share_device", "--share-device"},
    {"temperature", "--temperature"},
    {"threads", "--threads"},
    {"top_k", "--top-k"},
    {"top_p", "--top-p"},
    {"tp", "--tp"},
    {"weights", "--weights"},
};

static int uses_options;

const char *lh_setting(const char *member)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strcmp(settings[i].member, member) == 0) return uses_options ? settings[i].option : settings[i].member;
    assert(!"a setting without a row");
    return member;
}

void lh_settings_use_options(void)
{
    uses_options = 1;
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
