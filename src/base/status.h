/* status.h - how a function reports a failure.
 *
 * A function that can fail returns lh_status. LH_FAIL writes the message once, where the cause is known, and returns;
 * LH_TRY returns a callee's failure and adds a line to the trace. In a function that owns something, LH_FAIL_DONE and
 * LH_TRY_DONE set its `st` and jump to its label `done`, which frees it. Message and trace belong to the calling thread
 * and last until lh_error_clear or the next failure. */
#ifndef LH_BASE_STATUS_H
#define LH_BASE_STATUS_H

#include <longhaul/longhaul.h>

/* Record a failure and return `code`. Keeps the first 2,047 bytes of the message, control characters as '?'. */
lh_status lh_fail(lh_status code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* LH_EUSAGE, naming the argument, if the pointer `given` is NULL. */
lh_status lh_check_given(const void *given, const char *name);

/* Add "file:line" to the trace of the current failure; returns `code`. */
lh_status lh_fail_trace(lh_status code, const char *file, int line);

/* Put `context` and ": " before the message of the current failure; returns `code`. */
lh_status lh_fail_within(lh_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Name of a setting in a message: `member` of longhaul.h as it is ("max_new") in a program that uses the library. In
 * longhaul itself, which calls lh_settings_use_options before its first message, the option ("--max-new"). */
const char *lh_setting(const char *member);
void lh_settings_use_options(void);

#define LH_FAIL(code, ...) return lh_fail((code), __FILE__, __LINE__, __VA_ARGS__)

#define LH_TRY(call)                                   \
    do {                                               \
        const lh_status tried_ = (call);               \
        if (tried_ != LH_OK) {                         \
            lh_fail_trace(tried_, __FILE__, __LINE__); \
            return tried_;                             \
        }                                              \
    } while (0)

#define LH_FAIL_DONE(code, ...)                                \
    do {                                                       \
        st = lh_fail((code), __FILE__, __LINE__, __VA_ARGS__); \
        goto done;                                             \
    } while (0)

#define LH_TRY_DONE(call)                          \
    do {                                           \
        st = (call);                               \
        if (st != LH_OK) {                         \
            lh_fail_trace(st, __FILE__, __LINE__); \
            goto done;                             \
        }                                          \
    } while (0)

/* ---- steps that do not depend on each other, such as the outputs of a run: all are tried, and all failures reported.
 * All zero is no failure. ---- */
enum { LH_FAILURES_BYTES = 2048 };

typedef struct lh_failures {
    lh_status st; /* of the first failure */
    char text[LH_FAILURES_BYTES];
} lh_failures;

/* `st` is the status of a step, its message the calling thread's; LH_OK adds nothing. */
void lh_failures_add(lh_failures *failures, lh_status st);

/* LH_OK if there are none, else the status of the first, with the messages of all. */
lh_status lh_failures_end(const lh_failures *failures);

#endif
