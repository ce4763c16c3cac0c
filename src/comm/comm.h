/* comm.h - communicators and their collectives. Every rank of a communicator calls every collective, in the same order:
 * local work first, then agree, then communicate. Buffers are host memory, except for a communicator opened for a
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

/* Rank `rank` of `size` ranks whose peers do not exist, for a device that only counts. In host memory every rank is
 * assumed to send this rank's data; in device memory nothing is moved. */
typedef struct lh_comm_counting {
    int rank, size;
    int device_memory; /* true if buffers are device memory */
} lh_comm_counting;
lh_status lh_comm_open_counting(lh_comm **out, const lh_comm_counting *as);

/* All ranks of mpirun or srun: initialises MPI (once). timeout_s: 0 turns the watchdog off. Communication happens on
 * the calling thread only (MPI_THREAD_FUNNELED). */
lh_status lh_comm_open_mpi(lh_comm **out, double timeout_s);

/* The ranks of the MPI_Comm that `ranks` points to: a duplicate of it is used. LH_ECOMM if MPI is not running. */
lh_status lh_comm_open_mpi_on(lh_comm **out, const void *ranks, double timeout_s);

/* lh_comm_open_self, unless the environment says that an MPI launcher started this process with more than one rank.
 * LH_ECOMM if srun gave the ranks no way to find each other, or if the launcher and MPI disagree on their number. */
lh_status lh_comm_open_world(lh_comm **out, double timeout_s);

/* Returns 1, with rank and size, if the environment shows an MPI launcher; else 0, with rank 0 and size 1. Makes no MPI
 * call, so usable before MPI_Init. */
int lh_comm_launched(int *rank, int *size);

/* For a failure before MPI_Init, such as a bad option. Usually every rank has the same failure and rank 0 reports it;
 * the other ranks must outlive its report, because mpirun kills the job on the first exit. Waits up to wait_s seconds
 * to be killed; returns 1 if that did not happen, i.e. only this rank failed and must report. Returns 0 immediately on
 * rank 0 and under srun, which kills no rank. The process must end afterwards. */
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

/* Collective over `host`. The new communicator has the ranks of `host`, which stays the caller's and is closed later.
 * Its collectives take memory of the stream's device and run in stream order; with nccl their failures and hangs are
 * found at the next lh_stream_sync. It can reduce, gather and broadcast; agreements need `host`. An unavailable way
 * fails on all ranks with LH_EUSAGE. one_device_per_rank: true if no two ranks share a device, which nccl needs. */
typedef struct lh_comm_on {
    lh_comm *host;
    lh_stream *stream;
    lh_comm_way way;
    int one_device_per_rank;
} lh_comm_on;
lh_status lh_comm_open_on(lh_comm **out, const lh_comm_on *on);

/* Returns 1 if NCCL is found (text: its version and file), else 0 (text: the missing piece). */
int lh_comm_nccl_found(char text[256]);

/* Before a collective on device memory: waits for the stream's work, unless the collective itself does. Local: returns
 * the first error of that work. */
lh_status lh_comm_flush(lh_comm *comm);

/* 1 if collectives are only enqueued on the stream, so that a CUDA graph can capture them (lh_stream_record). Call
 * lh_comm_again for each replay of captured collectives that send `bytes` bytes. LH_ECOMM after a failure. */
int lh_comm_enqueues(const lh_comm *comm);
lh_status lh_comm_again(lh_comm *comm, int64_t bytes);

/* Waits for other ranks only when it closes the last communicator of a world: that frees shared resources and finalises
 * MPI, unless communication has failed, since the peers may be gone. So a rank that failed alone may close its split
 * communicators, report, and leave. NULL is fine. */
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

/* Collectives. After one has failed with LH_ECOMM every later one fails immediately with LH_ECOMM. `type` is f32, i32
 * or i64 for reductions, or bf16 for sums, which are rounded as each rank is added. In-place reduction; every rank gets
 * the result, but not necessarily the same bits twice: where bits matter, all-gather and add in order. */
lh_status lh_comm_allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);

/* All-reduce that overlaps the work enqueued on the stream after it, if the communicator enqueues its collectives; else
 * a plain all-reduce. lh_comm_wait makes the stream wait for all asynchronous all-reduces. Until then `buf` must not be
 * used. */
lh_status lh_comm_allreduce_async(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op);
lh_status lh_comm_wait(lh_comm *comm);

/* recv = size blocks of `bytes` bytes in rank order; send may be this rank's block in recv. */
lh_status lh_comm_allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes);

/* bytes[r] from rank r at recv + at[r]; both arrays are equal on all ranks. send may be this rank's block in recv. */
lh_status lh_comm_allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at);

/* Like allgatherv, but only `root` gets the result; recv may be NULL elsewhere. */
lh_status lh_comm_gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes,
                          const int64_t *at);

lh_status lh_comm_bcast(lh_comm *comm, int root, void *buf, int64_t bytes);
lh_status lh_comm_barrier(lh_comm *comm);

/* Point-to-point messages of at most 1 GiB, only between the ranks of mpirun or srun. lh_comm_post copies the message
 * and returns without waiting. lh_comm_arrived returns the sender and the length of a message that has arrived, or
 * sender -1; lh_comm_take then receives it into `bytes` bytes. A long message needs both ranks to make progress, which
 * the sender makes in every call and while it waits in a collective. Messages from one sender arrive in order. Messages
 * still pending when the last communicator is closed are lost. */
lh_status lh_comm_post(lh_comm *comm, int to, const void *data, int64_t bytes);
lh_status lh_comm_arrived(lh_comm *comm, int *from, int64_t *bytes);
lh_status lh_comm_take(lh_comm *comm, int from, void *out, int64_t bytes);

/* Sleeps `us` microseconds between two polls for messages; ends the program, as a collective does, if a process of this
 * host has ended. --comm-timeout does not apply: peers that exchange messages send heartbeats, which
 * lh_comm_check_heartbeat checks. */
void lh_comm_pause(lh_comm *comm, int64_t us);

/* Seconds of --comm-timeout (0: no timeout), and seconds on a clock that stands still while this process is
 * suspended. */
double lh_comm_timeout(const lh_comm *comm);
double lh_comm_clock(const lh_comm *comm);

/* Ends the program with LH_ECOMM and a message if the last heartbeat of a peer ("rank 2 on n17"), at heard_s on
 * lh_comm_clock, is older than --comm-timeout. `what`: the object of this rank's wait, such as "the next request". */
void lh_comm_check_heartbeat(lh_comm *comm, double heard_s, const char *peer, const char *what);

/* A failure on one rank becomes a failure on all. `st` is the caller's status so far, with the calling thread's
 * message. Returns LH_OK on all ranks if every status is LH_OK; else, on all ranks, the status of the lowest failing
 * rank with its message, prefixed on the other ranks by "rank N on HOST". One all-gather of 4 bytes if no rank fails. A
 * rank with LH_ECOMM from a collective cannot communicate and gets its status back immediately. */
lh_status lh_comm_agree(lh_comm *comm, lh_status st);

/* lh_comm_agree that also ors a flag, in the same messages: without a failure *any becomes 1 on every rank if it is 1
 * on some rank. */
lh_status lh_comm_agree_any(lh_comm *comm, lh_status st, int *any);

/* lh_comm_agree without --comm-timeout, after work of one rank that may take any time while the other ranks wait, such
 * as reading standard input. */
lh_status lh_comm_agree_untimed(lh_comm *comm, lh_status st);

/* Returns 1 if the last collective of this world was an lh_comm_agree or lh_comm_same that ended in a failure: every
 * rank of its communicator has that failure, rank 0 reports it, and all may close. Returns 0 if the failure is this
 * rank's alone: it reports and leaves. */
int lh_comm_agreed(const lh_comm *comm);

/* All ranks must hold the same `bytes` bytes, such as the options of a run; else LH_EUSAGE, naming `what` and the first
 * rank that differs. */
lh_status lh_comm_same(lh_comm *comm, const void *data, int64_t bytes, const char *what);

/* Bytes that this rank has sent in collectives of this communicator, each contribution counted once, independent of the
 * algorithm. all-reduce: the buffer; gathers: the rank's block (not at the root of a gatherv); broadcast: the buffer,
 * at the root; agree: 4, and the message of a failure at the failing rank. With one rank nothing is sent. */
int64_t lh_comm_sent_bytes(const lh_comm *comm);

/* Leaves without a collective: flushes output and ends this process with `code`, without waiting for the launcher. For
 * Ctrl-C and for failures that were not agreed on. The watchdogs of peers on this host then end them without a message.
 * Launchers end the other ranks when one has exited with a code other than 0, and report the first code. So with
 * LH_EINTERRUPTED, which reaches all ranks, ranks other than 0 stay until rank 0 has left, at most 10 s. */
void lh_comm_leave(lh_comm *comm, int code) __attribute__((noreturn));

#endif
