/* rig.h - a folder, texts as files, and a batch whose answers are made from the requests themselves. */
#ifndef LH_TESTS_BATCH_RIG_H
#define LH_TESTS_BATCH_RIG_H

#include <check.h>

#include "batch/answer.h"
#include "batch/output.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

/* A call ended with this status, and a message with `part` in it. */
#define FAILS(call, status, part)                                                                            \
    do {                                                                                                     \
        ck_assert_int_eq((call), (status));                                                                  \
        ck_assert_msg(strstr(lh_error_message(), (part)), "'%s' is not in: %s", (part), lh_error_message()); \
    } while (0)

/* A folder of its own for the test's process, entered; it is removed by rig_leave. */
void rig_enter(void);
void rig_leave(void);

void rig_file(const char *name, const void *data, int64_t bytes);
void rig_text(const char *name, const char *text);
void rig_read(const char *name, lh_buf *out);
int64_t rig_size(const char *name); /* -1: there is none */

/* An input of `count` requests with custom_ids r0, r1, …; every seventh is no JSON, and has no custom_id. */
void rig_input(const char *name, int64_t count);

/* The line of request i, an answer or the reason why there is none; *failed. As rig_answer it asserts nothing: Check's
 * messages must not come from processes that are killed. */
lh_status rig_line(const lh_batch_input *input, int64_t i, const json_t *run, lh_buf *out, int *failed);

/* What the tests' runs have in common, a new reference. */
json_t *rig_run(void);

/* Opens in.jsonl and out.jsonl and answers requests, those of `order` (NULL: of the input) that have no answer, `limit`
 * of them; ends as a kill does, or with `how` if that is not negative. Returns what opening or putting gave. */
typedef struct rig_batch {
    int resume, ordered, retry_failed;
    int64_t parts, part; /* 0 parts: the whole input */
    int64_t limit;
    const int64_t *order; /* [count of the input] */
    int how;
    unsigned pause_us; /* before each answer */
    int64_t answered;  /* set */
} rig_batch;
lh_status rig_answer(rig_batch *batch);

#endif
