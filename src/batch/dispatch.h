/* dispatch.h - replicas share the requests of a run. The first rank of a replica is its root; the root of the first
 * replica is the coordinator, which has the input and the output. The other roots request work from it, one request
 * ahead of their need, and send it the finished lines. No message is waited for: the coordinator polls after every
 * chunk and step of its replica. A replica without work polls until all replicas have finished, so that an
 * interrupt of any rank ends the run; and all roots send heartbeats: one that is silent for --comm-timeout is stopped,
 * or lost with its host, and ends the run with a message that names it. */
#ifndef LH_BATCH_DISPATCH_H
#define LH_BATCH_DISPATCH_H

#include "batch/output.h"
#include "comm/comm.h"

/* The state of a root. */
typedef struct lh_batch_dispatch lh_batch_dispatch;

/* roots: of all replicas, with the coordinator as rank 0. queue, output: of the coordinator, NULL on other roots. All
 * is borrowed. */
lh_status lh_batch_dispatch_open(lh_batch_dispatch **out, lh_comm *roots, const lh_batch_common *common,
                                 lh_batch_queue *queue, lh_batch_output *output);
void lh_batch_dispatch_close(lh_batch_dispatch *dispatch); /* NULL is fine */

/* Collective over the roots, after all have opened. rank: of this root in the world. */
lh_status lh_batch_dispatch_exchange_names(lh_batch_dispatch *dispatch, int rank);

/* The next request for this replica; out->ids is NULL where its last request had the same context. Waits for the
 * coordinator. LH_EINTERRUPTED: the run has ended on another replica. */
lh_status lh_batch_dispatch_next(lh_batch_dispatch *dispatch, lh_batch_upcoming *out);

/* Sends a line to the output. */
lh_status lh_batch_dispatch_put(lh_batch_dispatch *dispatch, const lh_batch_put *put);

/* To be called after every chunk and step: handles messages, and fails if the run has ended on another replica. */
lh_status lh_batch_dispatch_poll(lh_batch_dispatch *dispatch);

/* This replica has finished with `st`: after a failure the coordinator stops the other replicas. */
lh_status lh_batch_dispatch_send_end(lh_batch_dispatch *dispatch, lh_status st);

/* To be called after that until *finished is 1: waits a moment for the other replicas, and handles messages.
 * interrupted: true if a rank of this replica was asked to end the run (base/interrupt.h). A failure of this call is
 * known to this root alone. */
lh_status lh_batch_dispatch_wait_all(lh_batch_dispatch *dispatch, int interrupted, int64_t *finished);

/* The status of the whole run: on the coordinator the first failure of any replica, on another root its own, `st`. */
lh_status lh_batch_dispatch_final_status(const lh_batch_dispatch *dispatch, lh_status st);

#endif
