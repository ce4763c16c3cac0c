/* exec.h - the execution context: the operations of a backend, the stream on which they are enqueued, and the
 * communicators of the TP group. Everything above passes one of these instead of four arguments.
 *
 * Errors are latched. The calls below, which run, copy or send, return nothing: the first failure stays with the
 * stream (lh_stream_latch), and after it operations and copies do nothing, while collectives are still taken part in,
 * so that no rank waits for one that has failed. At a named point all ranks learn of it: lh_exec_agree. */
#ifndef LH_EXEC_EXEC_H
#define LH_EXEC_EXEC_H

#include <stdint.h>

#include "comm/comm.h"
#include "kernels/ops.h"

typedef struct lh_scratch lh_scratch;

/* All borrowed. */
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

/* Call something that returns a status, unless something has failed; its failure is latched. */
#define LH_LATCH(exec, call)                               \
    do {                                                   \
        if (lh_exec_ok(exec)) lh_exec_latch((exec), call); \
    } while (0)

lh_device *lh_exec_device(const lh_exec *exec);

/* 1 while nothing has failed. */
int lh_exec_ok(const lh_exec *exec);

/* Latch a failure of something else, e.g. of an allocation; LH_OK is no failure. */
void lh_exec_latch(const lh_exec *exec, lh_status st);

/* What was latched, with its message; nothing is latched after it. Not collective. */
lh_status lh_exec_take(const lh_exec *exec);

/* Collective. What was latched on any rank becomes everyone's failure (lh_comm_agree); nothing is latched after it. */
lh_status lh_exec_agree(const lh_exec *exec);

/* As the lh_stream functions of these names. */
void lh_exec_copy(const lh_exec *exec, void *dst, const void *src, int64_t bytes, lh_copy_way way);
void lh_exec_zero(const lh_exec *exec, void *dst, int64_t bytes);
void lh_exec_put(const lh_exec *exec, void *dst, const void *src, int64_t bytes);
void lh_exec_sync(const lh_exec *exec);

/* To the host, and wait until it is there. */
void lh_exec_fetch(const lh_exec *exec, void *host, const void *src, int64_t bytes);

/* Collectives of device memory, in the order of the stream. A rank that has failed sends what there is. */
void lh_exec_allreduce(const lh_exec *exec, void *buf, int64_t count, lh_dtype type, lh_reduce op);
/* The same beside the stream: lh_exec_wait before the sums are read (lh_comm_allreduce_async). */
void lh_exec_allreduce_async(const lh_exec *exec, void *buf, int64_t count, lh_dtype type, lh_reduce op);
void lh_exec_wait(const lh_exec *exec);
/* recv = a block of `bytes` bytes of each rank, in rank order; `send` may be its own block there. */
void lh_exec_allgather(const lh_exec *exec, const void *send, void *recv, int64_t bytes);
void lh_exec_allgatherv(const lh_exec *exec, const void *send, void *recv, const int64_t *bytes, const int64_t *at);

#endif
