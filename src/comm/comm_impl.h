/* comm_impl.h - what an implementation of comm.h has to provide. comm.c checks, counts and watches; an implementation
 * only moves bytes. A new one is one table of these and a function that opens it. */
#ifndef LH_COMM_COMM_IMPL_H
#define LH_COMM_COMM_IMPL_H

#include "comm/comm.h"

enum { LH_HOST_BYTES = 64 };

/* watch.c - the watchdog. It records which operation the main thread waits for and since when; a second thread checks
 * that periodically. It makes no MPI call: it writes a message and ends the process, and the launcher ends the rest. */
typedef struct lh_watch lh_watch;

/* timeout_s 0: no thread; only remembers the step for messages. `rank` is the rank in the world. */
lh_status lh_watch_open(lh_watch **out, double timeout_s, int rank, const char *host);
void lh_watch_close(lh_watch *watch); /* NULL is fine */

/* State of the ranks of one host in shared memory: a waiting rank can name the rank that is missing, a dead rank is
 * noticed at once, and only one rank reports. Seats are in rank order. */
typedef struct lh_seat {
    int rank, pid;
    _Atomic int waiting;
    char step[64]; /* as text, torn at worst */
} lh_seat;

typedef struct lh_board {
    _Atomic int spoken;
    lh_seat seats[];
} lh_board;

/* The board outlives its use: leave it with NULL before it goes. Every seat has its rank and pid. */
void lh_watch_sit(lh_watch *watch, lh_board *board, int seats, int own);

/* 1: the process of that rank runs, 0: it has ended, -1: not known. */
int lh_watch_alive(const lh_watch *watch, int rank);

/* 1 the first time on this host: that watchdog reports, the others are silent. */
int lh_watch_speak(lh_watch *watch);

void lh_watch_step(lh_watch *watch, const char *step, int64_t number);

/* Around everything that waits for peers. `operation`: a literal, such as "all-reduce". bytes < 0: unknown. NULL is
 * fine. */
void lh_watch_enter(lh_watch *watch, const char *operation, int64_t bytes);
void lh_watch_leave(lh_watch *watch);

/* Called on the watchdog's thread before it ends the process. NULL: nothing. */
void lh_watch_at_end(lh_watch *watch, void (*end)(void *self), void *self);

/* "all-reduce of 8192 bytes in 'prefill of layer 3'", cut at cap_bytes. */
void lh_watch_describe(const lh_watch *watch, char *out, int64_t cap_bytes);

/* Shared by the communicators that come from one open. */
typedef struct lh_comm_world {
    int refs;
    int broken;      /* a collective failed: no further communication */
    int agreed;      /* the last collective was an agreement that something has failed */
    int finalize;    /* MPI is ours to finalise */
    lh_watch *watch; /* NULL: nobody to wait for */
    void *handle;    /* the implementation's own, for finish */

    void (*finish)(struct lh_comm_world *world); /* after the last was closed; may be NULL */
} lh_comm_world;

/* Semantics as in comm.h. Buffers may be NULL where there are 0 bytes; counts of 0 arrive here. */
typedef struct lh_comm_ops {
    const char *name;
    int enqueues;                 /* of device memory: collectives do not wait, and may be recorded */
    void (*close)(lh_comm *comm); /* frees impl; not the world */
    lh_status (*split)(lh_comm *comm, int color, lh_comm *child);
    lh_status (*allreduce)(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);
    lh_status (*allgather)(lh_comm *comm, const void *send, void *recv, int64_t bytes);
    lh_status (*allgatherv)(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at);
    lh_status (*gatherv)(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                         const int64_t *at);
    lh_status (*bcast)(lh_comm *comm, int root, void *buf, int64_t bytes);
    lh_status (*barrier)(lh_comm *comm);
    lh_status (*flush)(lh_comm *comm); /* NULL: of host memory alone, which cannot be flushed */
} lh_comm_ops;

/* What a rank says of itself in lh_comm_agree and lh_comm_same. */
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
    lh_comm_word *words; /* [size], so that agreeing allocates nothing */
    void *impl;          /* the implementation's own */
};

extern const lh_comm_ops lh_comm_self_ops;

/* 1: the launcher (srun without PMI) started several ranks and gave them no way to find each other. */
int lh_comm_launched_strangers(void);

/* on_stream.c, nccl_comm.c: fill `comm`, which has the ranks of on->host, for device memory. LH_EUSAGE where nccl
 * cannot be had, with the reason; collective over on->host. */
lh_status lh_comm_open_nccl(lh_comm *comm, const lh_comm_on *on);

/* A communicator without ops, as the only rank of a world of its own; the constructor fills in the rest. */
lh_status lh_comm_create(lh_comm **out);

/* For tests of the mpi implementation: messages go as between hosts, in MPI calls of at most so many bytes; 0: as usual
 * again (1 GiB, and ranks of one host reduce in shared memory). Children inherit it. */
void lh_comm_mpi_set_piece(lh_comm *comm, int64_t piece_bytes);

#endif
