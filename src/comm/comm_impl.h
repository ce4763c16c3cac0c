/* comm_impl.h - the interface between comm.c and the implementations of comm.h, and the watchdog. comm.c checks
 * arguments, counts bytes and calls the watchdog; an implementation only moves bytes. A new implementation is a table
 * (lh_comm_ops) and a function that opens it. */
#ifndef LH_COMM_COMM_IMPL_H
#define LH_COMM_COMM_IMPL_H

#include "comm/comm.h"

enum { LH_HOST_BYTES = 64 };

/* watch.c - the watchdog. It records which operation the main thread waits for and since when; a second thread checks
 * that periodically. It makes no MPI call: it writes a message and ends the process, and the launcher ends the rest. */
typedef struct lh_watch lh_watch;

/* timeout_s 0: no thread; the watchdog only remembers the step for messages. `rank` is the rank in the world. */
lh_status lh_watch_open(lh_watch **out, double timeout_s, int rank, const char *host);
void lh_watch_close(lh_watch *watch); /* NULL is fine */

/* State of the ranks on one host in shared memory: a waiting rank can name the missing rank, a dead rank is noticed
 * immediately, and only one rank reports. Seats are in rank order. */
typedef struct lh_seat {
    int rank, pid;
    _Atomic int waiting;
    _Atomic int64_t checked_ns; /* CLOCK_MONOTONIC at the last check of its watchdog */
    char step[64];              /* may be read while it is written */
} lh_seat;

typedef struct lh_board {
    _Atomic int spoken;
    lh_seat seats[];
} lh_board;

/* Attaches the watchdog to its host's board, whose seats have rank and pid; NULL detaches it, before the board is
 * freed. */
void lh_watch_attach(lh_watch *watch, lh_board *board, int seats, int own);

/* 1: the process of that rank runs, 0: it has ended, -1: not known. */
int lh_watch_alive(const lh_watch *watch, int rank);

/* Returns 1 to the first caller on this host, whose watchdog reports; the other watchdogs are silent. */
int lh_watch_claim_report(lh_watch *watch);

void lh_watch_step(lh_watch *watch, const char *step, int64_t number);

/* Called before and after everything that waits for peers. `operation`: a string literal, such as "all-reduce". bytes <
 * 0: unknown. NULL is fine. */
void lh_watch_enter(lh_watch *watch, const char *operation, int64_t bytes);
void lh_watch_leave(lh_watch *watch);

/* untimed 1: no timeout for peers; a peer that has ended is still noticed. */
void lh_watch_set_untimed(lh_watch *watch, int untimed);

/* See lh_comm_timeout, lh_comm_clock and lh_comm_check_heartbeat (comm.h). NULL: no timeout. */
double lh_watch_timeout(const lh_watch *watch);
double lh_watch_clock(const lh_watch *watch);
void lh_watch_check_heartbeat(lh_watch *watch, double heard_s, const char *peer, const char *what);

/* Called on the watchdog's thread before it ends the process. NULL: nothing. */
void lh_watch_at_end(lh_watch *watch, void (*end)(void *self), void *self);

/* "all-reduce of 8192 bytes in 'prefill of layer 3'", cut at cap_bytes. */
void lh_watch_describe(const lh_watch *watch, char *out, int64_t cap_bytes);

/* Shared by the communicators that come from one open. */
typedef struct lh_comm_world {
    int refs;
    int broken;      /* a collective has failed: no further communication */
    int agreed;      /* the last collective was an agreement on a failure */
    int finalize;    /* true if this process initialised MPI and must finalise it */
    lh_watch *watch; /* NULL for a single rank */
    void *handle;    /* implementation data for `finish` */

    void (*finish)(struct lh_comm_world *world); /* after the last communicator was closed; may be NULL */
} lh_comm_world;

/* Semantics as in comm.h. Counts may be 0, and buffers then NULL. */
typedef struct lh_comm_ops {
    const char *name;
    int enqueues;                 /* true if collectives are only enqueued on the stream, and can be captured */
    void (*close)(lh_comm *comm); /* frees impl, not the world */
    lh_status (*split)(lh_comm *comm, int color, lh_comm *child);
    lh_status (*allreduce)(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);
    /* Both NULL: allreduce is used, and there is nothing to wait for. */
    lh_status (*allreduce_async)(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);
    lh_status (*wait)(lh_comm *comm);
    lh_status (*allgather)(lh_comm *comm, const void *send, void *recv, int64_t bytes);
    lh_status (*allgatherv)(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at);
    lh_status (*gatherv)(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                         const int64_t *at);
    lh_status (*bcast)(lh_comm *comm, int root, void *buf, int64_t bytes);
    lh_status (*barrier)(lh_comm *comm);
    /* All NULL: the communicator sends no messages. */
    lh_status (*post)(lh_comm *comm, int to, const void *data, int64_t bytes);
    lh_status (*arrived)(lh_comm *comm, int *from, int64_t *bytes);
    lh_status (*take)(lh_comm *comm, int from, void *out, int64_t bytes);
    lh_status (*flush)(lh_comm *comm); /* NULL: for host memory, nothing to flush */
} lh_comm_ops;

/* A rank's contribution to lh_comm_agree and lh_comm_same. */
typedef struct lh_comm_word {
    int64_t bytes;
    uint64_t hash[2];
    char host[LH_HOST_BYTES];
} lh_comm_word;

struct lh_comm {
    const lh_comm_ops *ops;
    lh_comm_world *world;
    int rank, size, local_rank, local_size, world_rank;
    char host[LH_HOST_BYTES];
    int64_t sent_bytes;
    lh_comm_word *words; /* [size], allocated in advance, so that agreeing cannot fail */
    void *impl;          /* implementation data */
};

extern const lh_comm_ops lh_comm_self_ops;

/* 1 if the launcher (srun without PMI) started several ranks without a way to find each other. */
int lh_comm_launched_strangers(void);

/* on_stream.c, nccl_comm.c: fill `comm`, which has the ranks of on->host, for device memory. LH_EUSAGE with the reason
 * if nccl is not available; collective over on->host. */
lh_status lh_comm_open_nccl(lh_comm *comm, const lh_comm_on *on);

/* A communicator without ops, the only rank of a new world; the constructor fills in the rest. */
lh_status lh_comm_create(lh_comm **out);

/* For tests of the mpi implementation: communicate as between hosts, in MPI calls of at most piece_bytes; 0: back to
 * the default (1 GiB, and shared memory between ranks on one host). Children inherit it. */
void lh_comm_mpi_set_piece(lh_comm *comm, int64_t piece_bytes);

#endif
