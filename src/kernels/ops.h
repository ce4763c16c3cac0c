/* ops.h - the table of operations that a backend fills. An operation takes a stream and one struct, enqueues and does
 * not block. The structs, with shapes and formulas, are in one header a family:
 *   ops_model.h       rows of activations
 *   ops_experts.h     mixtures of experts
 *   ops_cache.h       ragged caches; norms and products, rotation and append, as one
 *   ops_attend.h      attention, and statistics of attention
 *   ops_sample.h      choosing a token
 *   ops_score.h       scores of entries
 *   ops_shape.h       joining, pooling and weighing scores
 *   ops_budgets.h     budgets of heads
 *   ops_select.h      selection
 *   ops_fit.h         biases and values of what stays, losses of what does not
 *
 * All pointers are device memory unless a comment says host. `ref` is the definition (plain loops, double sums); `cpu`
 * is compared with it on odd sizes. Matrices are row by row; `ld` is the distance of rows in elements. [a, b] shapes
 * list the slowest dimension first. Zero sizes are allowed: without an output nothing is done, and a sum over nothing
 * is 0 (gemm with in = 0 gives the bias, column_stats without rows adds nothing). Of arrays [heads, ld] over the
 * entries of a cache the slots at len[h] and after it are not read, and what is left in them is unspecified.
 *
 * Bits: with LH_ORDER_FIXED (and in every operation but gemm, norm_gemm, expert_gemm and attend_block always) the bits
 * of an output row depend on its own inputs only, not on how many rows, heads, threads or ranks there are. */
#ifndef LH_KERNELS_OPS_H
#define LH_KERNELS_OPS_H

#include "base/status.h"
#include "device/device.h"
#include "kernels/ops_attend.h"
#include "kernels/ops_budgets.h"
#include "kernels/ops_cache.h"
#include "kernels/ops_experts.h"
#include "kernels/ops_fit.h"
#include "kernels/ops_model.h"
#include "kernels/ops_sample.h"
#include "kernels/ops_score.h"
#include "kernels/ops_select.h"
#include "kernels/ops_shape.h"

/* Every operation, once: X(operation, summary). Makes the members of lh_ops, the check that a backend lacks none, and
 * the names that `longhaul info` prints. */
#define LH_OPS(X)     \
    LH_OPS_MODEL(X)   \
    LH_OPS_ATTEND(X)  \
    LH_OPS_BUDGETS(X) \
    LH_OPS_CACHE(X)   \
    LH_OPS_EXPERTS(X) \
    LH_OPS_FIT(X)     \
    LH_OPS_FUSED(X)   \
    LH_OPS_OBSERVE(X) \
    LH_OPS_SAMPLE(X)  \
    LH_OPS_SCORE(X)   \
    LH_OPS_SELECT(X)  \
    LH_OPS_SHAPE(X)

typedef struct lh_ops {
    const char *name; /* of the backend */
    lh_device_kind device;
    /* Opens the libraries that operations use on a stream. They take memory of the device that nobody counts, so this
     * comes before a run asks how much is free; a missing library is no failure. NULL: there are none. */
    lh_status (*open_libraries)(lh_stream *stream);
    /* NULL: nothing has to be. Calls of attend_block like this one, but with arrays, will come on the stream: what
     * they need that takes long begins, beside the caller, until the stream is closed. */
    void (*prepare_attend)(lh_stream *stream, const lh_attend_block_args *like);
#define LH_OP(op, summary) lh_status (*op)(lh_stream * stream, const lh_##op##_args *args);
    LH_OPS(LH_OP)
#undef LH_OP
} lh_ops;

extern const lh_ops lh_ops_ref;
extern const lh_ops lh_ops_counting;                   /* of a device that only counts: do nothing */
extern const lh_ops lh_ops_cpu __attribute__((weak));  /* at NULL in tests that do without */
extern const lh_ops lh_ops_cuda __attribute__((weak)); /* at NULL in a build without CUDA */

/* Backends by name ("ref", "cpu", "cuda"), NULL when there is none; by number, NULL after the last. */
const lh_ops *lh_ops_find(const char *name);
const lh_ops *lh_ops_at(int i);

/* Names and summaries of the operations, by number; NULL after the last. */
const char *lh_op_name(int i);
const char *lh_op_summary(int i);

/* LH_EINTERNAL naming the first operation that a table lacks. */
lh_status lh_ops_check(const lh_ops *ops);

/* The chunks in which a prompt goes through a layer, as operations on a kind of device like them, the workspace that
 * they take for themselves, and what they ask of a cache. Known of every kind in every build. */
typedef struct lh_chunking {
    int64_t most;        /* tokens: products of longer ones are no faster */
    int64_t query_bytes; /* of attend_block: for each number of a chunk's queries */
    int64_t input_bytes,
        input_tokens;    /* of gemm in f32 or LH_ORDER_FIXED: a number of its input, at most so many tokens */
    int64_t fixed_bytes; /* of gemm, beside */
    int64_t spare_slots; /* of a cache: see lh_ragged */
} lh_chunking;
const lh_chunking *lh_ops_chunking(lh_device_kind kind);

/* Instruction set that `cpu` uses here ("amx-bf16", "avx512-bf16", "avx512", "avx2", "generic"), and the library of
 * gemm of a type. */
const char *lh_cpu_isa(void);
const char *lh_cpu_gemm_library(lh_dtype type);

/* cuDNN, which the cuda backend uses for some of attend_block: attend_block by it alone, LH_EUSAGE where the library is
 * missing or does not take the case; and 1 where it is there, text: its version and file, or 0, text: what is missing;
 * cuBLAS alike, text: its file. At NULL in a build without CUDA. */
lh_status lh_cudnn_attend_block(lh_stream *stream, const lh_attend_block_args *a) __attribute__((weak));
int lh_cudnn_found(char text[256]) __attribute__((weak));
int lh_cublas_found(char text[256]) __attribute__((weak));

/* Operations made of others, for backends that have no kernel for the whole: the rows that norm_gemm multiplies
 * (rmsnorm, or convert where norm.w is NULL), norm_gemm, rope_append, and the gemm of expert `e` where device memory is
 * the host's. */
lh_status lh_norm_rows(const lh_ops *ops, lh_stream *stream, const lh_rmsnorm_args *n);
lh_status lh_norm_gemm_in_turn(const lh_ops *ops, lh_stream *stream, const lh_norm_gemm_args *a);
lh_status lh_rope_append_in_turn(const lh_ops *ops, lh_stream *stream, const lh_rope_append_args *a);
lh_gemm_args lh_product_of_expert(const lh_expert_gemm_args *a, int64_t e);

#endif
