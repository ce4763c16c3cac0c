/* comm.h - ranks and what they say to each other. Every rank of a communicator calls every collective, in the
 * same order: local work first, then agree, then talk. Buffers are host memory, but those of a communicator that was
 * opened for a stream (lh_comm_open_on): memory of its device. Counts are int64: messages above 2^31 bytes are
 * split inside. A collective that takes longer than the time-out ends the program with LH_ECOMM and a message that
 * names rank, host, operation and step: MPI itself never notices a hung peer. */
#ifndef LH_COMM_COMM_H
#define LH_COMM_COMM_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"
#include "device/device.h"

typedef struct lh_comm lh_comm;

typedef enum lh_reduce { LH_SUM, LH_MAX, LH_MIN } lh_reduce;

/* One rank, no MPI. */
lh_status lh_comm_open_self(lh_comm **out);

/* All ranks of mpirun or srun: initialises MPI (once). timeout_s: 0 turns the watchdog off. Communication happens on
 * the calling thread only (MPI_THREAD_FUNNELED). */
lh_status lh_comm_open_mpi(lh_comm **out, double timeout_s);

/* self, unless the environment says that this process was started by an MPI launcher with more than one rank. Fails
 * with LH_ECOMM when srun gave the ranks no way to find each other, and when the launcher and MPI do not agree on their
 * number. */
lh_status lh_comm_open_world(lh_comm **out, double timeout_s);

/* 1 when the environment shows an MPI launcher; rank and size as it says (0 and 1 without one). No MPI call:
 * usable before MPI starts. */
int lh_comm_launched(int *rank, int *size);

/* For a failure before MPI has started, as of a wrong option: mostly all ranks have it, and rank 0 tells it. The others
 * must not be gone before, mpirun would end rank 0: so they wait here for it to end them. 1: it did not within wait_s
 * seconds, since no other rank has failed; this one has to tell. 0 on rank 0, and where the launcher (srun) ends
 * nobody. The process has to end afterwards. */
int lh_comm_failed_alone(double wait_s);

/* Collective over `comm`: ranks with the same color make a new communicator, ordered by their rank. */
lh_status lh_comm_split(lh_comm *comm, int color, lh_comm **out);

/* How device memory goes from rank to rank. */
typedef enum lh_comm_way {
    LH_COMM_AUTO,   /* direct for a host's own memory; else nccl where it can be had, and staged where it cannot */
    LH_COMM_DIRECT, /* the buffers are host memory */
    LH_COMM_STAGED, /* through page-locked memory of the host, over `host` */
    LH_COMM_NCCL,   /* enqueued on the stream; nothing waits for it but lh_stream_sync */
    LH_COMM_WAYS
} lh_comm_way;

/* Collective over `host`, of which it has the ranks, and which stays the caller's and is closed later. Its collectives
 * take memory of the stream's device and come in the order of the stream; with nccl they fail, or are found to hang, at
 * the next lh_stream_sync. It can reduce, gather and broadcast; agreements are for `host`. A way that cannot be had
 * fails on all ranks with LH_EUSAGE; `apart` is 1 when every rank has a device of its own, without which there is no
 * nccl. */
typedef struct lh_comm_on {
    lh_comm *host;
    lh_stream *stream;
    lh_comm_way way;
    int apart;
} lh_comm_on;
lh_status lh_comm_open_on(lh_comm **out, const lh_comm_on *on);

/* Before a collective of device memory: waits for the stream's work, unless the collective itself does. Local: gives
 * the first error of that work. */
lh_status lh_comm_flush(lh_comm *comm);

/* 1 when collectives are only enqueued on the stream, so that they can be recorded with other work (lh_stream_record);
 * and what is said each time recorded collectives of `bytes` sent bytes are run again. LH_ECOMM after a failure. */
int lh_comm_enqueues(const lh_comm *comm);
lh_status lh_comm_again(lh_comm *comm, int64_t bytes);

/* Waits for nobody but when it closes the last communicator of a world: that gives back what the ranks share and
 * finalises MPI, unless communication has failed: the peers may be gone then. So a rank that failed alone may close
 * what it split off, report, and leave. NULL is fine. */
void lh_comm_close(lh_comm *comm);

int lh_comm_rank(const lh_comm *comm);
int lh_comm_size(const lh_comm *comm);
int lh_comm_local_size(const lh_comm *comm);   /* ranks of the world on this host */
int lh_comm_local_rank(const lh_comm *comm);   /* among the ranks of the world on this host */
const char *lh_comm_name(const lh_comm *comm); /* "self", "mpi"; "direct", … */
const char *lh_comm_host(const lh_comm *comm);

/* What the watchdog calls the work under way: "prefill of layer", 3; number < 0 is not shown. One for all communicators
 * of a world. Borrowed until the next call: a literal or memory that outlives it. */
void lh_comm_step(lh_comm *comm, const char *step, int64_t number);

/* Collectives. After one has failed with LH_ECOMM every other fails with it at once. `type` is f32, i32 or i64 for
 * reductions. In-place reduction; every rank gets the result, but not necessarily the same bits twice: where bits
 * matter, all-gather and add in order. */
lh_status lh_comm_allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);

/* recv = size blocks of `bytes` bytes in rank order; send may be its own block in recv. */
lh_status lh_comm_allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes);

/* bytes[r] from rank r at recv + at[r]; both arrays equal on all ranks. Own block may be in place. */
lh_status lh_comm_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at);

/* As allgatherv, but only `root` gets the result; recv may be NULL elsewhere. */
lh_status lh_comm_gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                          const int64_t *at);

lh_status lh_comm_bcast(lh_comm *comm, int root, void *buf, int64_t bytes);
lh_status lh_comm_barrier(lh_comm *comm);

/* A failure on one rank becomes everyone's. `st` is the caller's own status so far, its message the calling thread's.
 * Returns LH_OK on every rank or on none: then the status of the lowest failing rank, with its message, prefixed on
 * every other rank by "rank N on HOST". One all-gather of 4 bytes when all is well. A rank whose own status is LH_ECOMM
 * from a collective cannot be heard: it gets its status back at once. */
lh_status lh_comm_agree(lh_comm *comm, lh_status st);

/* 1 when the last collective of this world was an lh_comm_agree or lh_comm_same that ended in a failure: every rank of
 * its communicator has it, rank 0 reports it and all may close. A failure for which it is 0 is this rank's alone: it
 * reports and leaves. */
int lh_comm_agreed(const lh_comm *comm);

/* All ranks must hold the same `bytes` bytes, as the options of a run; else LH_EUSAGE naming `what` and the first rank
 * that differs. */
lh_status lh_comm_same(lh_comm *comm, const void *data, int64_t bytes, const char *what);

/* Bytes this rank has sent in collectives of this communicator so far: its own contribution, each counted once,
 * whatever the way it takes. all-reduce: the buffer; gathers: the own block (not at the root of a gatherv); broadcast:
 * the buffer, at the root; agree: 4, and the message of a failure at the rank that has it. With one rank nothing is
 * sent. */
int64_t lh_comm_sent_bytes(const lh_comm *comm);

/* Leave without a collective: flush what is written and end this process with `code`; under MPI the launcher is not
 * waited for. For Ctrl-C and for failures that were not agreed on. Watchdogs of peers on this host end them quietly
 * then. Launchers end the other ranks when one has left with a code other than 0, and report the first code. So with
 * LH_EINTERRUPTED, which comes to all, ranks other than 0 stay until rank 0 has left, 10 s at most. */
void lh_comm_leave(lh_comm *comm, int code) __attribute__((noreturn));

#endif
