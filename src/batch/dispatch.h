/* dispatch.h - replicas share the requests of a run. The first rank of each is its leader; the first leader is the
 * head, which has the input and the output. The others ask it for requests, one ahead of what they need, and send it
 * the lines of those that are done. Nobody waits in a message: the head looks for them after every chunk and step of
 * its own. Who has nothing left to do waits for the others, so that an interrupt counts wherever it arrives; and all
 * send signs of life (peers.h). */
#ifndef LH_BATCH_DISPATCH_H
#define LH_BATCH_DISPATCH_H

#include "batch/ledger.h"
#include "comm/comm.h"

/* A leader's view. */
typedef struct lh_batch_dispatch lh_batch_dispatch;

/* leaders: of all replicas, the head is its rank 0. queue, ledger: the head's, NULL elsewhere. All is borrowed. */
lh_status lh_batch_dispatch_open(lh_batch_dispatch **out, lh_comm *leaders, const lh_batch_common *common,
                                 lh_batch_queue *queue, lh_batch_ledger *ledger);
void lh_batch_dispatch_close(lh_batch_dispatch *dispatch); /* NULL is fine */

/* Collective over the leaders, after all have opened. rank: in the world. */
lh_status lh_batch_dispatch_meet(lh_batch_dispatch *dispatch, int rank);

/* The next request for this replica; out->ids is NULL where its last request had the same context. Waits for the head.
 * LH_EINTERRUPTED: the run has ended elsewhere. */
lh_status lh_batch_dispatch_next(lh_batch_dispatch *dispatch, lh_batch_upcoming *out);

/* A line for the output. */
lh_status lh_batch_dispatch_put(lh_batch_dispatch *dispatch, const lh_batch_put *put);

/* To be called after every chunk and step: serves the others, and notices if the run has ended elsewhere. */
lh_status lh_batch_dispatch_pulse(lh_batch_dispatch *dispatch);

/* This replica has ended with `st`: if that is a failure, the head ends the others. Then lh_batch_dispatch_wait until
 * all have: it waits for a moment, serves the others, and sets *over to 1 when they have. asked: 1 if a rank of this
 * replica was asked to end the run (base/interrupt.h). What these themselves fail with was not told to the others. */
lh_status lh_batch_dispatch_end(lh_batch_dispatch *dispatch, lh_status st);
lh_status lh_batch_dispatch_wait(lh_batch_dispatch *dispatch, int asked, int64_t *over);

/* What the run has ended with: the first failure, which the head knows; of another leader its own, `st`. */
lh_status lh_batch_dispatch_verdict(const lh_batch_dispatch *dispatch, lh_status st);

#endif
