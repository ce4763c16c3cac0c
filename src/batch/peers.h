/* peers.h - leaders of replicas hear from each other while they work and wait. One that says nothing for --comm-timeout
 * is stopped, or lost with its host, and ends the run with a message that names it. */
#ifndef LH_BATCH_PEERS_H
#define LH_BATCH_PEERS_H

#include "comm/comm.h"

typedef struct lh_batch_peers lh_batch_peers;

/* Collective over the leaders. rank: in the world. */
lh_status lh_batch_peers_open(lh_batch_peers **out, lh_comm *leaders, int rank);
void lh_batch_peers_close(lh_batch_peers *peers); /* NULL is fine */

/* A message of leader r has arrived. */
void lh_batch_peers_heard(lh_batch_peers *peers, int r);

/* 1 if it is time for the next sign of life, which the caller sends then. */
int lh_batch_peers_beat(lh_batch_peers *peers);

/* Ends the program if leader r has been silent for too long (lh_comm_check_heartbeat). To be called when all messages
 * that have arrived were taken. */
void lh_batch_peers_check(const lh_batch_peers *peers, int r, const char *what);

#endif
