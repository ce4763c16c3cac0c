/* ops_model.h - operations of a layer on rows of activations: embedding, norms, products, rotation, gates and sums; and
 * the weights of random models. Conventions: ops.h. */
#ifndef LH_KERNELS_OPS_MODEL_H
#define LH_KERNELS_OPS_MODEL_H

#include <stdint.h>

#include "base/dtype.h"
#include "kernels/matrix.h"

/* X(operation, summary) of this family. */
#define LH_OPS_MODEL(X)                                                                  \
    X(embed, "look up this rank's rows of the embedding")                                \
    X(rmsnorm, "root-mean-square norm of rows or of heads")                              \
    X(squares, "sums of squares of heads, for a norm of rows that lie on several ranks") \
    X(gemm, "matrix product with weights stored [out, in]")                              \
    X(pack_weights, "lay out weights of few bits for products")                          \
    X(unpack, "weights of few bits as numbers")                                          \
    X(convert, "convert between number formats")                                         \
    X(rope, "rotate queries or keys by their position")                                  \
    X(gated, "activation(gate) * up")                                                    \
    X(add, "add to the residual")                                                        \
    X(sum_shards, "add products of logical shards in their order")                       \
    X(softcap, "bound logits by a soft cap")                                             \
    X(check_finite, "note whether numbers are finite")                                   \
    X(random_weights, "draw the weights of a random model")

/* y[t,:] = scale * table[ids[t] - first, :] when first <= ids[t] < first + rows, else 0. y: [tokens, dim]. table:
 * [rows, dim], plain numbers or packed weights. */
typedef struct lh_embed_args {
    float *y;
    lh_matrix table;
    const int32_t *ids;
    int64_t tokens, dim, first, rows;
    float scale;
} lh_embed_args;

/* y[t,h,i] = x[t,h,i] / sqrt(mean_i(x[t,h,:]^2) + eps) * (offset + w[h * w_ld + i]). x: row t, head h starts at t *
 * x_ld + h * dim; y: the same with y_ld; y may be x when y_type is f32. heads = 1 for a norm of whole rows. adds 1: the
 * result is added to y. With addend, x is x + addend (f32), which is stored in sum; both have rows as x, and sum may be
 * x. With squares, [tokens, parts], the mean is over a row of parts * dim numbers on several ranks: (squares[t,0] +
 * squares[t,1] + … in this order, f32) / (parts * dim). */
typedef struct lh_rmsnorm_args {
    void *y;
    lh_dtype y_type; /* f32 or bf16 */
    const float *x, *w;
    int64_t tokens, heads, dim, x_ld, y_ld, w_ld;
    float eps, offset;
    int adds;
    const void *addend;   /* NULL: nothing is added to x, and sum is not used */
    lh_dtype addend_type; /* f32 or bf16 */
    float *sum;
    const float *squares; /* NULL: each head is normed by itself */
    int64_t parts, squares_ld;
} lh_rmsnorm_args;

/* y[t,h] = sum_i x[t,h,i]^2. x as in rmsnorm, y: row t starts at t * y_ld. */
typedef struct lh_squares_args {
    float *y;
    const float *x;
    int64_t tokens, heads, dim, x_ld, y_ld;
} lh_squares_args;

/* y[t,o] = sum_i x[t,i] * w[o,i] + bias[o]. x: [tokens, in], w: [out, in], y: [tokens, out]; bias may be NULL. Products
 * and sums at least in f32. Plain weights have the type of x, f32 or bf16. LH_ORDER_FIXED: one fused multiply-add chain
 * in f32 from 0 over i = 0, 1, … , then the bias is added: the same bits on every backend. adds 1: the result is added
 * to y (LH_ORDER_ANY only). The rows of the matrices w, w.next, … follow each other in y.
 *
 * Weights of few bits by rows (base/format.h): the product with the numbers that unpack makes of them in the type of x,
 * on the CPU in the same bits as with plain weights.
 *
 * Other weights of few bits, in both orders: integer sums over blocks of 32 columns, the same bits on every backend. in
 * is a multiple of 32. Of a block of x, with X = rint(x * (16255 / max|x|)), d = max|x| / 16255 (f32; X = d = 0 if
 * max|x| < 2^-100, d = NaN if max|x| is not finite): y = fma(scale, d * f32(sum of (code - zero) * X), y) for each
 * group of columns with a scale, then y = fma(offset, d * f32(sum of X), y) if the format has minima; y from 0 over the
 * blocks in their order. scale = d * scale[g] and offset = -m * minimum[g] of the block of weights (base/format.h). The
 * error is at most 0.5 / 16255 * max|x| * sum|w| of each block, and the rounding of the chain. */
typedef enum lh_order { LH_ORDER_ANY, LH_ORDER_FIXED } lh_order;
typedef struct lh_gemm_args {
    float *y;
    const void *x;
    lh_matrix w;
    lh_dtype type; /* of x */
    const float *bias;
    int64_t tokens, out, in, y_ld, x_ld;
    lh_order order;
    int adds;
} lh_gemm_args;

/* Packs rows [rows, skip + cols] of source blocks (base/format.h; each row a whole number of blocks) for products with
 * columns skip to skip + cols; skip, below the values of a block, and cols are multiples of 32. Layout:
 * packed.h. Codes have at least 4 bits. */
typedef struct lh_pack_weights_args {
    void *dst;       /* lh_packed_bytes */
    const void *src; /* host memory, also the stream's staging memory */
    const lh_format *format;
    int64_t rows, skip, cols;
} lh_pack_weights_args;

/* dst[r,i] = w[r,i], the values of lh_format_to_f32, for columns [0, cols) after w.first; bf16 is rounded to nearest
 * even. cols is a multiple of 32. w: packed weights, a single matrix. */
typedef struct lh_unpack_args {
    void *dst;
    lh_dtype dst_type; /* f32 or bf16 */
    lh_matrix w;
    int64_t rows, cols, dst_ld;
} lh_unpack_args;

/* dst[r,i] = src[r,i], between f32 and bf16 (either way, or equal), and between one of them and q8, in which row r has
 * the scale dst_scale[r] or src_scale[r]; q8 has other codes for keys than for values (q8.h). */
typedef struct lh_convert_args {
    void *dst;
    const void *src;
    float *dst_scale;
    const float *src_scale;
    lh_dtype dst_type, src_type;
    int are_keys; /* true: the rows are keys; read if a type is q8 */
    int64_t rows, cols, dst_ld, src_ld;
} lh_convert_args;

/* Factor of queries by their position p: 1 + beta * ln(1 + floor(p / positions)), or its inverse; positions 0: 1
 * (Ministral 3, "llama_4_scaling"; lh_query_factor of elementwise.h). */
typedef struct lh_query_scaling {
    float beta;
    int32_t positions;
    int inverse; /* true: the inverse of the factor */
} lh_query_scaling;

/* In place, the halves of the first `rotary` dimensions as pairs (Hugging Face's rotate_half): with a =
 * f32(positions[t]) * inv_freq[i] in f32, f = scale * the factor of `scaling`, c = cos(a) * f, s = sin(a) * f:
 * x[i], x[i + rotary/2] = x[i] * c - x[i + rotary/2] * s, x[i + rotary/2] * c + x[i] * s.
 * x: row t, head h starts at t * ld + h * dim. */
typedef struct lh_rope_args {
    float *x;
    const int32_t *positions; /* [tokens] */
    const float *inv_freq;    /* [rotary / 2] */
    int64_t tokens, heads, dim, rotary, ld;
    float scale;
    lh_query_scaling scaling; /* all 0 for keys */
} lh_rope_args;

/* y[t,i] = f(gate[t,i]) * up[t,i]; f: silu, gelu with tanh, or exact gelu. */
typedef enum lh_gate { LH_GATE_SILU, LH_GATE_GELU_TANH, LH_GATE_GELU } lh_gate;
typedef struct lh_gated_args {
    void *y;
    const void *gate, *up;
    lh_dtype y_type, x_type; /* x_type: of gate and up; f32 or bf16 */
    int64_t tokens, dim, y_ld, ld;
    lh_gate gate_kind;
} lh_gated_args;

/* y[t,i] += x[t,i]. x_ld 0 adds one row to all. */
typedef struct lh_add_args {
    float *y;
    const void *x;
    lh_dtype x_type; /* f32 or bf16 */
    int64_t tokens, dim, y_ld, x_ld;
} lh_add_args;

/* y[n] = parts[0][n] + parts[1][n] + … in this order, f32. parts: [shards, count]; y must not alias them. */
typedef struct lh_sum_shards_args {
    float *y;
    const float *parts;
    int64_t shards, count;
} lh_sum_shards_args;

/* x[i] = cap * tanh(x[i] / cap). */
typedef struct lh_softcap_args {
    float *x;
    int64_t count;
    float cap;
} lh_softcap_args;

/* *wrong = 1 if one of x[0 .. count - 1] is not finite; else it stays unchanged. */
typedef struct lh_check_finite_args {
    int32_t *wrong;
    const float *x;
    int64_t count;
} lh_check_finite_args;

/* y[r,i] = mean + scale * z, rounded to `stored` first; z is the standard normal number first + r * step + i of stream
 * `stream` of `seed` (base/rng.h): a range of rows and columns of a tensor whose rows have `step` numbers. The bits are
 * the same on every backend if mean or scale is 0. y: [rows, cols]. */
typedef struct lh_random_weights_args {
    void *y;
    lh_dtype y_type, stored; /* f32 or bf16 */
    int64_t rows, cols, first, step;
    uint64_t seed, stream;
    float mean, scale;
} lh_random_weights_args;

#endif
