/* status.h - how a function reports a failure.
 *
 * A function that can fail returns lh_status. LH_FAIL writes the message once, where the cause is known, and returns;
 * LH_TRY returns a callee's failure and adds a line to the trace. In a function that owns something, LH_FAIL_DONE and
 * LH_TRY_DONE set its `st` and jump to its label `done`, which frees it. Message and trace belong to the calling thread
 * and last until lh_error_clear or the next failure. */
#ifndef LH_BASE_STATUS_H
#define LH_BASE_STATUS_H

/* The values are the exit codes of the program; 1 is reserved for batches of which some requests failed. */
typedef enum lh_status {
    LH_OK = 0,
    LH_EUSAGE = 2,        /* a bad command line */
    LH_EINPUT = 3,        /* a bad or missing input file (model source, prompt, tokenizer) */
    LH_EFILE = 4,         /* a bad checkpoint, cache or trace */
    LH_ENOMEM = 5,        /* does not fit in memory */
    LH_EWRITE = 6,        /* cannot write */
    LH_ECOMM = 7,         /* communication between ranks */
    LH_EINTERNAL = 8,     /* an internal check failed */
    LH_EINTERRUPTED = 75, /* interrupted, state saved */
} lh_status;

/* Record a failure and return `code`. Keeps the first 2,047 bytes of the message, control characters as '?'. */
lh_status lh_fail(lh_status code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Add "file:line" to the trace of the current failure; returns `code`. */
lh_status lh_fail_trace(lh_status code, const char *file, int line);

/* Put `context` and ": " before the message of the current failure; returns `code`. */
lh_status lh_fail_within(lh_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Never NULL; "" if nothing failed. Borrowed from the calling thread. */
const char *lh_error_message(void);
const char *lh_error_trace(void);
void lh_error_clear(void);

/* Short name of a status, such as "bad input file". */
const char *lh_status_name(lh_status st);

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

#endif
