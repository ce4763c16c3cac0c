/* comm.h - communicators and their collectives. Every rank of a communicator calls every collective, in the same order:
 * local work first, then agree, then communicate. Buffers are host memory, except those of a communicator opened for a
 * stream (lh_comm_open_on), which are memory of its device. Counts are int64; messages above 2^31 bytes are split
 * internally. A collective that exceeds the timeout ends the program with LH_ECOMM and a message that names rank, host,
 * operation and step: MPI itself never notices a hung peer. */
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

/* Rank `rank` of `size` whose peers do not exist, for a device that only counts: of host memory all ranks send what
 * this one sends; of device memory nothing is moved. */
typedef struct lh_comm_counting {
    int rank, size;
    int device_memory; /* 1: for buffers on the device */
} lh_comm_counting;
lh_status lh_comm_open_counting(lh_comm **out, const lh_comm_counting *as);

/* All ranks of mpirun or srun: initialises MPI (once). timeout_s: 0 turns the watchdog off. Communication happens on
 * the calling thread only (MPI_THREAD_FUNNELED). */
lh_status lh_comm_open_mpi(lh_comm **out, double timeout_s);

/* The ranks of `ranks`, which points to an MPI_Comm of the program: a duplicate of it is used. LH_ECOMM if MPI is not
 * running. */
lh_status lh_comm_open_mpi_on(lh_comm **out, const void *ranks, double timeout_s);

/* self, unless the environment says that an MPI launcher started this process with more than one rank. LH_ECOMM if srun
 * gave the ranks no way to find each other, or if the launcher and MPI disagree on their number. */
lh_status lh_comm_open_world(lh_comm **out, double timeout_s);

/* 1 if the environment shows an MPI launcher; its rank and size (0 and 1 without one). Makes no MPI call, so usable
 * before MPI_Init. */
int lh_comm_launched(int *rank, int *size);

/* For a failure before MPI_Init, such as a bad option. Usually every rank fails alike and rank 0 reports it; the others
 * must outlive its report, because mpirun kills the job on the first exit. Waits up to wait_s seconds to be killed;
 * returns 1 if that did not happen, i.e. only this rank failed and must report. Returns 0 on rank 0, and at once where
 * the launcher (srun) kills nobody. The process must end afterwards. */
int lh_comm_failed_alone(double wait_s);

/* Collective over `comm`: ranks with the same color make a new communicator, ordered by their rank. */
lh_status lh_comm_split(lh_comm *comm, int color, lh_comm **out);

/* How device memory is sent between ranks. */
typedef enum lh_comm_way {
    LH_COMM_AUTO,   /* direct for host memory; else nccl if available, else staged */
    LH_COMM_DIRECT, /* the buffers are host memory */
    LH_COMM_STAGED, /* through page-locked memory of the host, over `host` */
    LH_COMM_NCCL,   /* enqueued on the stream; nothing waits for it but lh_stream_sync */
    LH_COMM_WAYS
} lh_comm_way;

/* Collective over `host`, whose ranks it has, and which stays the caller's and is closed later. Its collectives take
 * memory of the stream's device and run in stream order; with nccl their failures and hangs are found at the next
 * lh_stream_sync. It can reduce, gather and broadcast; agreements need `host`. An unavailable way fails on all ranks
 * with LH_EUSAGE. one_device_per_rank: 1 if every rank has its own device, which nccl needs. */
typedef struct lh_comm_on {
    lh_comm *host;
    lh_stream *stream;
    lh_comm_way way;
    int one_device_per_rank;
} lh_comm_on;
lh_status lh_comm_open_on(lh_comm **out, const lh_comm_on *on);

/* 1 where NCCL is found, text: its version and file; else 0, text: what is missing. */
int lh_comm_nccl_found(char text[256]);

/* Before a collective on device memory: waits for the stream's work, unless the collective itself does. Local: returns
 * the first error of that work. */
lh_status lh_comm_flush(lh_comm *comm);

/* 1 if collectives are only enqueued on the stream, so that a CUDA graph can capture them (lh_stream_record). Call
 * lh_comm_again for each replay of captured collectives that send `bytes` bytes. LH_ECOMM after a failure. */
int lh_comm_enqueues(const lh_comm *comm);
lh_status lh_comm_again(lh_comm *comm, int64_t bytes);

/* Waits for other ranks only when it closes the last communicator of a world: that frees shared resources and finalises
 * MPI, unless communication has failed, since the peers may be gone. So a rank that failed alone may close what it
 * split off, report, and leave. NULL is fine. */
void lh_comm_close(lh_comm *comm);

int lh_comm_rank(const lh_comm *comm);
int lh_comm_size(const lh_comm *comm);
int lh_comm_local_size(const lh_comm *comm);   /* ranks of the world on this host */
int lh_comm_local_rank(const lh_comm *comm);   /* among the ranks of the world on this host */
const char *lh_comm_name(const lh_comm *comm); /* "self", "mpi"; "direct", … */
const char *lh_comm_host(const lh_comm *comm);

/* Name of the work in progress for the watchdog's message: "prefill of layer", 3; number < 0 is not shown. One for all
 * communicators of a world. Borrowed until the next call. */
void lh_comm_step(lh_comm *comm, const char *step, int64_t number);

/* Collectives. After one has failed with LH_ECOMM every other fails with it at once. `type` is f32, i32 or i64 for
 * reductions, or bf16 for sums, which are rounded as each rank is added. In-place reduction; every rank gets the
 * result, but not necessarily the same bits twice: where bits matter, all-gather and add in order. */
lh_status lh_comm_allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);

/* As an all-reduce; on a communicator that enqueues its collectives beside what is enqueued on the stream after it:
 * lh_comm_wait makes the stream wait for all that were begun so. Until then `buf` belongs to the sum. */
lh_status lh_comm_allreduce_async(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);
lh_status lh_comm_wait(lh_comm *comm);

/* recv = size blocks of `bytes` bytes in rank order; send may be its own block in recv. */
lh_status lh_comm_allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes);

/* bytes[r] from rank r at recv + at[r]; both arrays equal on all ranks. Own block may be in place. */
lh_status lh_comm_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at);

/* As allgatherv, but only `root` gets the result; recv may be NULL elsewhere. */
lh_status lh_comm_gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                          const int64_t *at);

lh_status lh_comm_bcast(lh_comm *comm, int root, void *buf, int64_t bytes);
lh_status lh_comm_barrier(lh_comm *comm);

/* Messages from one rank to another, beside the collectives, of at most 1 GiB; only between the ranks of mpirun or
 * srun. Posting copies the message and does not wait for anybody. lh_comm_arrived: the sender of a message that has
 * arrived and its length, or -1; lh_comm_take then takes it, into `bytes` bytes. A long one moves while both ranks
 * communicate, so its sender must not wait for this rank in a collective. Messages of one sender arrive in order. What
 * is posted and not taken when the communicator is closed is lost. */
lh_status lh_comm_post(lh_comm *comm, int to, const void *data, int64_t bytes);
lh_status lh_comm_arrived(lh_comm *comm, int *from, int64_t *bytes);
lh_status lh_comm_take(lh_comm *comm, int from, void *out, int64_t bytes);

/* Between two looks for a message: sleeps for so many microseconds, and ends the program, as a collective does, when a
 * process of this host has ended. --comm-timeout does not apply: peers that exchange messages send signs of life, and
 * lh_comm_check_heartbeat judges them. */
void lh_comm_pause(lh_comm *comm, int64_t us);

/* Seconds of --comm-timeout; 0: none. Seconds on a clock that stands still while this process is suspended. */
double lh_comm_timeout(const lh_comm *comm);
double lh_comm_clock(const lh_comm *comm);

/* Ends the program with LH_ECOMM and a message if nothing was heard of a peer ("rank 2 on n17") for longer than
 * --comm-timeout; heard_s: when something was, on lh_comm_clock. `what` this rank waits for: "the next request". */
void lh_comm_check_heartbeat(lh_comm *comm, double heard_s, const char *peer, const char *what);

/* A failure on one rank becomes a failure on all. `st` is the caller's own status so far, its message the calling
 * thread's. Returns LH_OK on every rank or on none: then the status of the lowest failing rank, with its message,
 * prefixed on every other rank by "rank N on HOST". One all-gather of 4 bytes when all is well. A rank whose own status
 * is LH_ECOMM from a collective cannot communicate: it gets its status back at once. */
lh_status lh_comm_agree(lh_comm *comm, lh_status st);

/* As lh_comm_agree, in the same messages: if all is well, *any becomes 1 on every rank where it is 1 on one. */
lh_status lh_comm_agree_any(lh_comm *comm, lh_status st, int *any);

/* As lh_comm_agree, after work of one rank that may take any time while the others have none, such as waiting for
 * standard input: --comm-timeout does not apply. */
lh_status lh_comm_agree_untimed(lh_comm *comm, lh_status st);

/* 1 if the last collective of this world was an lh_comm_agree or lh_comm_same that ended in a failure: every rank of
 * its communicator has that failure, rank 0 reports it, and all may close. If 0, the failure is this rank's alone: it
 * reports and leaves. */
int lh_comm_agreed(const lh_comm *comm);

/* All ranks must hold the same `bytes` bytes, such as the options of a run; else LH_EUSAGE, naming `what` and the first
 * rank that differs. */
lh_status lh_comm_same(lh_comm *comm, const void *data, int64_t bytes, const char *what);

/* Bytes this rank has sent in collectives of this communicator so far: its own contribution, counted once, however it
 * is sent. all-reduce: the buffer; gathers: the rank's own block (not at the root of a gatherv); broadcast: the buffer,
 * at the root; agree: 4, and the message of a failure at the rank that has it. With one rank nothing is sent. */
int64_t lh_comm_sent_bytes(const lh_comm *comm);

/* Leave without a collective: flush output and end this process with `code`, without waiting for the launcher. For
 * Ctrl-C and for failures that were not agreed on. The watchdogs of peers on this host then end them without a message.
 * Launchers end the other ranks when one has exited with a code other than 0, and report the first code. So with
 * LH_EINTERRUPTED, which reaches all ranks, ranks other than 0 stay until rank 0 has left, at most 10 s. */
void lh_comm_leave(lh_comm *comm, int code) __attribute__((noreturn));

#endif
