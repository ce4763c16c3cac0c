/* queue.h - the requests that have no answer yet, one after another, on the rank that has the input: read, encoded, and
 * with the context that they share. Lines that cannot be answered go to the queue's owner. */
#ifndef LH_BATCH_QUEUE_H
#define LH_BATCH_QUEUE_H

#include "batch/work.h"

typedef struct lh_batch_queue lh_batch_queue;

typedef struct lh_batch_queue_owner {
    void *self;
    int (*has)(void *self, int64_t i); /* 1: line i has its answer */
    lh_status (*refuse)(void *self, const lh_batch_work *w,
                        lh_status); /* it cannot be answered: the thread's message */
    lh_status (*tick)(void *self);  /* now and then */
} lh_batch_queue_owner;

/* All is borrowed. */
typedef struct lh_batch_queue_options {
    const lh_batch_common *common;
    const lh_batch_input *input;
    lh_batch_queue_owner owner;
    int in_order; /* 1: in the order of the input; 0: the longest first */
} lh_batch_queue_options;

lh_status lh_batch_queue_open(lh_batch_queue **out, const lh_batch_queue_options *options);
void lh_batch_queue_close(lh_batch_queue *queue); /* NULL is fine */

/* What comes next. */
typedef struct lh_batch_upcoming {
    lh_batch_work *work;  /* the caller's; NULL: nothing comes any more */
    int64_t context;      /* number of the context that comes before its prompt; 0: none. Requests with one follow
                             each other */
    const lh_tokens *ids; /* of that context, borrowed until the next call; NULL: they are known */
    int64_t more;         /* of lh_context */
} lh_batch_upcoming;

/* LH_EINTERRUPTED, LH_EPARTIAL, LH_EWRITE, LH_ENOMEM. */
lh_status lh_batch_queue_next(lh_batch_queue *queue, lh_batch_upcoming *out);

/* What a run says that was asked to end; and LH_EINTERRUPTED if this process was. */
#define LH_BATCH_INTERRUPTED_TEXT "interrupted: the same command with '--resume' goes on"
lh_status lh_batch_check_interrupt(void);

#endif
