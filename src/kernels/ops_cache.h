/* ops_cache.h - operations that write, move and copy entries of ragged caches, query rows in a ring, and statistics of
 * entries; and fused operations of a layer. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_CACHE_H
#define LH_KERNELS_OPS_CACHE_H

#include <stdint.h>

#include "base/both.h"
#include "kernels/ops_model.h"
#include "kernels/ragged.h"

/* X(operation, summary) of this family. */
#define LH_OPS_CACHE(X)                                  \
    X(append, "append keys and values to ragged caches") \
    X(put_rows, "keep the newest rows in a ring")        \
    X(put_stats, "store numbers with their entries")     \
    X(compact, "compact the entries that are kept")      \
    X(gather_entries, "entries of a head in the order of an index")

/* Appends `tokens` entries to every head of every sequence at slot offset[h] + len[h] and raises len, unless
 * leaves_len: then attend_decode raises it, before anything else reads it. k, v: sequence b, token t, head h starts at
 * (b * tokens + t) * ld + h * head_dim. positions: [batch * tokens], stored if the cache has positions; biases and
 * statistics start at 0. The caches must have free slots. */
typedef struct lh_append_args {
    lh_ragged *seqs; /* [batch], host */
    int64_t batch, tokens, ld;
    const float *k, *v;
    const int32_t *positions;
    int leaves_len;
} lh_append_args;

/* Stores rows of consecutive positions in a ring of `rows` rows, the first `head` of them for the first positions: row
 * p at ring[p] for p < head, else at ring[head + (p - head) % (rows - head)]. The last of several rows for one place
 * wins. Row t of x starts at t * x_ld. */
typedef struct lh_put_rows_args {
    float *ring; /* [rows, width] */
    const float *x;
    const int32_t *positions; /* [tokens] */
    int64_t tokens, rows, head, width, x_ld;
} lh_put_rows_args;

/* Index in the ring of the row at position p. */
static LH_BOTH inline int64_t lh_ring_place(int64_t p, int64_t rows, int64_t head)
{
    return p < head ? p : head + (p - head) % (rows - head);
}

/* y of the n-th of the last `last` slots of head h = x[h,n]; with `state`, 0 for entries that do not compete. x:
 * [heads, ld]. */
typedef struct lh_put_stats_args {
    lh_slot_floats y;
    const float *x;
    const uint8_t *state; /* [heads, ld] lh_entry_state of the slots; NULL: all are stored */
    const lh_ragged *kv;
    int64_t last, ld;
} lh_put_stats_args;

/* In each of several caches, moves the KEEP entries to the front of their head in dst and sets dst's len; positions are
 * moved with them (dst has positions), biases if dst has them (0 if src has none), and statistics if dst has them (then
 * src has the same number). Either each dst is the same cache as its src (in place), or no dst overlaps a src. IN_ORDER
 * keeps the order of slots; FILL (in place only) fills the holes, first to last, each with the last kept entry not yet
 * moved: as few moves as holes. */
typedef enum lh_compact_kind { LH_COMPACT_IN_ORDER, LH_COMPACT_FILL } lh_compact_kind;
typedef struct lh_compact_args {
    const lh_ragged *dst, *src; /* [batch], host: of one type, all with the same heads and dimensions */
    const uint8_t *state;       /* [batch, heads, ld] */
    int64_t batch, ld;
    lh_compact_kind kind;
} lh_compact_args;

/* Copies the entry in slot order[i] of head `head` of src to slot i of dst, for i < count, and sets dst's len to
 * `count`. dst is one head, with positions, of src's type, and does not overlap src; biases are copied if dst has them
 * (0 if src has none), statistics are not. */
typedef struct lh_gather_entries_args {
    const lh_ragged *dst, *src;
    int64_t head;
    const int32_t *order; /* [count] */
    int64_t count;
} lh_gather_entries_args;

/* Fused operations of a layer: a backend may do each in one kernel. Each is defined as a sequence of other
 * operations. */
#define LH_OPS_FUSED(X)                                                  \
    X(norm_gemm, "norm of rows, a matrix product of them, and its gate") \
    X(gemm_convert, "matrix product in another number format")           \
    X(rope_append, "norm and rotate queries and keys, append keys and values")

/* rmsnorm of whole rows (norm.w NULL: convert, without an addend), gemm of the normed rows, and, if gated.y is set,
 * gated of the product. norm.y is gemm.x and, with gated.y, gemm.y holds the gates, then the values that they multiply:
 * both are workspace with unspecified contents, where numbers may be rounded to gemm.type. */
typedef struct lh_norm_gemm_args {
    lh_rmsnorm_args norm;
    lh_gemm_args gemm;
    lh_gated_args gated;
} lh_norm_gemm_args;

/* gemm, and convert of its product: convert.src is gemm.y, workspace with unspecified contents. */
typedef struct lh_gemm_convert_args {
    lh_gemm_args gemm;
    lh_convert_args convert;
} lh_gemm_convert_args;

/* rmsnorm of the heads of queries and of keys, in place, rope of both, and append; an operation without heads is left
 * out. All have the rows of append, queries and keys have the same rotation except for q.scaling, and k_norm.x and k.x
 * are append.k. */
typedef struct lh_rope_append_args {
    lh_rmsnorm_args q_norm, k_norm;
    lh_rope_args q, k;
    lh_append_args append;
} lh_rope_append_args;

#endif
