/* queue.h - the requests without an answer, in the order of work, on the rank that has the input: read, encoded, and
 * with the context that they share. Requests that name the same context are read together: with a context_file the
 * context is the text of the file and the messages before it; with a context_id alone it is the common prefix of their
 * prompts. Requests with another policy, other messages, or other rotary factors because their runs are longer, have
 * separate contexts. A context depends on the input alone, not on the requests that have an answer. */
#ifndef LH_BATCH_QUEUE_H
#define LH_BATCH_QUEUE_H

#include "batch/input.h"
#include "batch/work.h"

/* ---- the order of work ---- */

/* Lines of an input: first those with a context, the lines of a context together, so that one context is in memory at
 * a time; then the longest lines, so that none runs alone at the end. With `in_order` lines keep the order of the
 * input, but the lines of a context follow its first line. */
typedef struct lh_batch_order {
    int64_t *lines;     /* [n] of the input */
    uint64_t *contexts; /* [n] context of each; 0: none */
    int64_t n;
} lh_batch_order;

typedef struct lh_batch_order_options {
    const uint8_t *done; /* [lines] true if a line has an answer. It is dropped, unless another line of its context has
                            none: a context depends on all of its lines */
    int in_order;
} lh_batch_order_options;

lh_status lh_batch_order_make(lh_batch_order *out, const lh_batch_input *input, const lh_batch_order_options *options);
void lh_batch_order_clear(lh_batch_order *order);

/* Number of lines from `at` on that share a context; 1 for a line without context. */
int64_t lh_batch_order_group(const lh_batch_order *order, int64_t at);

/* ---- the queue ---- */

typedef struct lh_batch_queue lh_batch_queue;

typedef struct lh_batch_queue_owner {
    void *self;
    int (*has)(void *self, int64_t i); /* true if line i has an answer */
    /* the request cannot be answered; the reason is lh_error_message() */
    lh_status (*refuse)(void *self, const lh_batch_work *w, lh_status st);
    lh_status (*tick)(void *self); /* called regularly during long work */
} lh_batch_queue_owner;

/* All is borrowed. */
typedef struct lh_batch_queue_options {
    const lh_batch_common *common;
    const lh_batch_input *input;
    lh_batch_queue_owner owner;
    int in_order;
} lh_batch_queue_options;

lh_status lh_batch_queue_open(lh_batch_queue **out, const lh_batch_queue_options *options);
void lh_batch_queue_close(lh_batch_queue *queue); /* NULL is fine */

/* The next request. */
typedef struct lh_batch_upcoming {
    lh_batch_work *work; /* owned by the caller; NULL: the queue is empty */
    int64_t context; /* number of the context before its prompt; 0: none. The requests of a context follow each other */
    const lh_tokens *ids; /* of the context, borrowed until the next call; NULL: the receiver has them */
    int64_t more;         /* of lh_context */
} lh_batch_upcoming;

/* LH_EINTERRUPTED, LH_EPARTIAL, LH_EWRITE, LH_ENOMEM. */
lh_status lh_batch_queue_next(lh_batch_queue *queue, lh_batch_upcoming *out);

/* LH_EINTERRUPTED if this process was asked to end, with the message of an interrupted run. */
#define LH_BATCH_INTERRUPTED_TEXT "interrupted: the same command with '--resume' goes on"
lh_status lh_batch_check_interrupt(void);

#endif
