/* exec.h - the execution context: the operations of a backend, the stream on which they are enqueued, the communicators
 * of the TP group, and the scratch stack.
 *
 * Errors are latched. The calls below, which run, copy or send, return nothing: the first failure stays with the
 * stream (lh_stream_latch). After it operations and copies do nothing, but collectives still run, so that no rank waits
 * for a failed one. At a named point all ranks learn of the failure: lh_exec_agree. */
#ifndef LH_EXEC_EXEC_H
#define LH_EXEC_EXEC_H

#include <stdint.h>

#include "comm/comm.h"
#include "kernels/ops.h"

typedef struct lh_scratch lh_scratch;

/* All pointers are borrowed. */
typedef struct lh_exec {
    const lh_ops *ops;
    lh_stream *stream;
    lh_comm *comm;        /* host memory */
    lh_comm *device_comm; /* the same ranks, memory of the stream's device (lh_comm_open_on) */
    lh_scratch *scratch;  /* the stack of temporaries (scratch.h); NULL: none */
} lh_exec;

/* Enqueue one operation, arguments by name: LH_RUN(x, classify, .state = state, .kv = view, …). */
#define LH_RUN(exec, op, ...)                                                                                         \
    do {                                                                                                              \
        if (lh_exec_ok(exec)) lh_exec_latch((exec), (exec)->ops->op((exec)->stream, &(lh_##op##_args){__VA_ARGS__})); \
    } while (0)

/* Calls a function that returns a status, unless a failure is latched; latches its failure. */
#define LH_LATCH(exec, call)                               \
    do {                                                   \
        if (lh_exec_ok(exec)) lh_exec_latch((exec), call); \
    } while (0)

lh_device *lh_exec_device(const lh_exec *exec);

/* True while no failure is latched. */
int lh_exec_ok(const lh_exec *exec);

/* Latches a failure, e.g. of an allocation; does nothing for LH_OK. */
void lh_exec_latch(const lh_exec *exec, lh_status st);

/* Returns the latched failure with its message and clears the latch. Not collective. */
lh_status lh_exec_take(const lh_exec *exec);

/* Collective. A failure that any rank has latched becomes the failure of all ranks (lh_comm_agree); clears the latch.
 */
lh_status lh_exec_agree(const lh_exec *exec);

/* As the lh_stream functions of these names. */
void lh_exec_copy(const lh_exec *exec, void *dst, const void *src, int64_t bytes, lh_copy_way way);
void lh_exec_zero(const lh_exec *exec, void *dst, int64_t bytes);
void lh_exec_put(const lh_exec *exec, void *dst, const void *src, int64_t bytes);
void lh_exec_sync(const lh_exec *exec);

/* Copies to the host and waits for the copy. */
void lh_exec_fetch(const lh_exec *exec, void *host, const void *src, int64_t bytes);

/* Collectives of device memory, in the order of the stream. A rank that has failed sends its memory unchanged. */
void lh_exec_allreduce(const lh_exec *exec, void *buf, int64_t count, lh_dtype type, lh_reduce op);
/* The same without waiting: call lh_exec_wait before the sums are read (lh_comm_allreduce_async). */
void lh_exec_allreduce_async(const lh_exec *exec, void *buf, int64_t count, lh_dtype type, lh_reduce op);
void lh_exec_wait(const lh_exec *exec);
/* recv = a block of `bytes` bytes of each rank, in rank order; `send` may be its own block there. */
void lh_exec_allgather(const lh_exec *exec, const void *send, void *recv, int64_t bytes);
void lh_exec_allgatherv(const lh_exec *exec, const void *send, void *recv, const int64_t *bytes, const int64_t *at);

/* The rotation of the queries and keys of a layer by their positions (RoPE). */
typedef struct lh_rotation {
    const float *inv_freq; /* [rotary / 2], device */
    int64_t rotary;        /* dimensions */
    float scale;
    lh_query_scaling queries; /* a further factor, of queries only */
    uint64_t hash;            /* of frequencies and factors: equal for equal rotations */
} lh_rotation;

/* *out = [rotary / 2] frequencies in new host memory. */
lh_status lh_rotation_fetch(const lh_rotation *rotation, const lh_exec *exec, float **out);

/* device [rotary / 2] = the frequencies of the inverse rotation, which are the negative ones. Operation rope needs the
 * scale 1 / rotation->scale with them. */
lh_status lh_rotation_put_inverse(const lh_rotation *rotation, const lh_exec *exec, float *device);

/* The inverse of the scaling of the queries. */
lh_query_scaling lh_rotation_unscaled(const lh_rotation *rotation);

/* An execution context that computes nothing and counts memory: code that runs in it, as one rank of several, allocates
 * the memory that it would allocate on a device of that kind; lh_device_usage has the bytes. */
typedef struct lh_counting {
    lh_exec exec;
    lh_device *device;
} lh_counting;

lh_status lh_counting_open(lh_counting *out, lh_device_kind kind, int rank, int ranks);
void lh_counting_close(lh_counting *counting); /* its memory must be freed; a failed open is fine */

#endif
