/* ops.h - the table of operations that a backend fills. An operation takes a stream and one struct, enqueues its work
 * and does not block. The structs, with shapes and formulas, are in one header per family:
 *   ops_model.h       rows of activations
 *   ops_experts.h     mixtures of experts
 *   ops_cache.h       ragged caches; fused operations of a layer
 *   ops_attend.h      attention, and statistics of attention
 *   ops_sample.h      choosing a token
 *   ops_score.h       scores of entries
 *   ops_shape.h       joining, pooling and weighing scores
 *   ops_budgets.h     budgets of heads
 *   ops_select.h      selection
 *   ops_fit.h         fitted biases and values of kept entries, losses of evicted ones
 *
 * All pointers are device memory unless a comment says host. `ref` is the definition (plain loops, double sums); `cpu`
 * and `cuda` are compared with it on odd sizes. Matrices are row-major; `ld` is the distance of rows in elements.
 * Shapes [a, b] list the slowest dimension first. Zero sizes are allowed: without an output nothing is done, and an
 * empty sum is 0 (gemm with in = 0 gives the bias, column_stats without rows adds nothing). In arrays [heads, ld] over
 * the entries of a cache the slots from len[h] on are not read, and their contents afterwards are unspecified.
 *
 * Bits: with LH_ORDER_FIXED (and in every operation but gemm, norm_gemm, expert_gemm and attend_block always) the bits
 * of an output row depend only on its inputs, not on the number of rows, heads, threads or ranks. */
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
    const char *name; /* name of the backend */
    lh_device_kind device;
    /* Opens the libraries that operations use on a stream. They allocate device memory that is not counted, so it is
     * called before a run asks for the free memory; a missing library is no failure. NULL: no libraries. */
    lh_status (*open_libraries)(lh_stream *stream);
#define LH_OP(op, summary) lh_status (*op)(lh_stream * stream, const lh_##op##_args *args);
    LH_OPS(LH_OP)
#undef LH_OP
} lh_ops;

extern const lh_ops lh_ops_ref;
extern const lh_ops lh_ops_counting;                   /* for a device that only counts: operations do nothing */
extern const lh_ops lh_ops_cpu __attribute__((weak));  /* at NULL in tests without `cpu` */
extern const lh_ops lh_ops_cuda __attribute__((weak)); /* at NULL in a build without CUDA */

/* Backends by name ("ref", "cpu", "cuda"), NULL if there is none; by index, NULL after the last. */
const lh_ops *lh_ops_find(const char *name);
const lh_ops *lh_ops_at(int i);

/* Names and summaries of the operations, by index; NULL after the last. */
const char *lh_op_name(int i);
const char *lh_op_summary(int i);

/* LH_EINTERNAL, naming the first operation that is missing in a table. */
lh_status lh_ops_check(const lh_ops *ops);

/* Properties of the operations on a kind of device, known for every kind in every build: the best chunk length of a
 * prompt, workspace of operations. */
typedef struct lh_chunking {
    int64_t most;                          /* tokens of the best chunk: products of longer chunks are no faster */
    int64_t query_bytes;                   /* workspace of attend_block per number of a chunk's queries */
    int64_t input_bytes, input_tokens;     /* workspace of gemm in f32 or LH_ORDER_FIXED per number of its input, for at
                                              most input_tokens tokens */
    int64_t fixed_bytes;                   /* further workspace of gemm */
    int64_t rounded_bytes, rounded_tokens; /* workspace of gemm of few bits per 32 numbers of its input, for at most
                                              rounded_tokens tokens */
    int64_t few_rows; /* rows up to which gemm of few bits is no slower than unpack with gemm of plain numbers */
} lh_chunking;
const lh_chunking *lh_ops_chunking(lh_device_kind kind);

/* Instruction set that `cpu` uses here ("amx-bf16", "avx512-bf16", "avx512", "avx2", "generic"), and the library that
 * it uses for gemm of a type. */
const char *lh_cpu_isa(void);
const char *lh_cpu_gemm_library(lh_dtype type);

/* The library of the cuda backend: 1 (text: its file) or 0 (text: the missing piece). At NULL in a build without CUDA.
 */
int lh_cublas_found(char text[256]) __attribute__((weak));

/* Operations composed of other operations, for backends without a kernel for the whole: the input rows of norm_gemm
 * (rmsnorm, or convert if norm.w is NULL), norm_gemm, gemm_convert, rope_append; and where device memory is host
 * memory, raising lengths by fresh entries, and the gemm of expert `e`. */
lh_status lh_norm_rows(const lh_ops *ops, lh_stream *stream, const lh_rmsnorm_args *n);
lh_status lh_norm_gemm_in_turn(const lh_ops *ops, lh_stream *stream, const lh_norm_gemm_args *a);
lh_status lh_gemm_convert_in_turn(const lh_ops *ops, lh_stream *stream, const lh_gemm_convert_args *a);
lh_status lh_rope_append_in_turn(const lh_ops *ops, lh_stream *stream, const lh_rope_append_args *a);
void lh_count_fresh(const lh_attend_decode_args *a);
lh_gemm_args lh_product_of_expert(const lh_expert_gemm_args *a, int64_t e);

#endif
