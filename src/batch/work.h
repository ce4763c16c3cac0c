/* work.h - one request at work: its line becomes a task of the scheduler on every rank, and the answer a line of the
 * output on rank 0. */
#ifndef LH_BATCH_WORK_H
#define LH_BATCH_WORK_H

#include "batch/answer.h"
#include "batch/common.h"
#include "engine/answer_text.h"
#include "engine/scheduler.h"

/* A context at work, for as long as somebody holds it. */
typedef struct lh_batch_context {
    lh_context shared; /* its policy and ids are those below */
    lh_policy policy;
    lh_tokens ids;
    char *checkpoint;
    int64_t holders;
} lh_batch_context;
lh_batch_context *lh_batch_context_hold(lh_batch_context *context);
void lh_batch_context_release(lh_batch_context *context); /* NULL is fine */

typedef struct lh_batch_work {
    const lh_batch_common *common;
    void *owner; /* the caller's */
    int64_t i;   /* of the line in the input */
    lh_batch_line line;
    char *text; /* of the line, where this rank does not have the input */
    lh_batch_request request;
    lh_batch_context *context; /* that the prompt follows; NULL: none */
    lh_policy policy;          /* of the context, or of the prompt */
    lh_task task;
    char *checkpoint; /* of the task; NULL: none */
    lh_tokens prompt, ends, answer;
    lh_answer_text answer_text;
    lh_buf answer_bytes;
    lh_session *session; /* from the end of the prompt on */
    lh_buf likely;       /* rank 0: for each token that was chosen, itself and the most likely ones */
    lh_batch_kv kv;
    double began_s, prefilled_s;
} lh_batch_work;

/* Of line i: reads the request and resolves its policy, which evicts before the question is known where the request
 * shares a context. Not collective, and the same on all ranks. LH_EINPUT, LH_EUSAGE: the request cannot
 * be answered. *out is there even then, but where memory is out. */
lh_status lh_batch_work_open(lh_batch_work **out, const lh_batch_common *common, int64_t i, const lh_batch_line *line,
                             int shares_context);
void lh_batch_work_close(lh_batch_work *work); /* NULL is fine */

/* On every rank, which has the ids by now: the task; `done` is the caller's, and its `self` the work. LH_ENOMEM. */
lh_status lh_batch_work_make_task(lh_batch_work *work);

/* Rank 0, when the task is done with `st`: its line, a failure's where st is not LH_OK; and its times (output.h), a new
 * object. */
lh_status lh_batch_work_write(const lh_batch_work *work, lh_finish_reason finish, lh_status st, lh_buf *out,
                              json_t **timing);

#endif
