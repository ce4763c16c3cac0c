/* attend_case.h - attention over ragged caches in a test: rows, caches and masks of every kind, the operations on them,
 * and the same from the formula. */
#ifndef LH_TESTS_KERNELS_ATTEND_CASE_H
#define LH_TESTS_KERNELS_ATTEND_CASE_H

#include "rig.h"

enum { BATCH_MOST = 4 };

typedef struct attend_case {
    cache kv[BATCH_MOST]; /* a block has one */
    int64_t batch, tokens;
    lh_grouping map;
    lh_logit logit;
    int64_t q_ld, o_ld;
    float *q;           /* [batch or tokens, q_ld] */
    int32_t *positions; /* [batch or tokens] */
    int32_t *until;     /* [tokens], of observed rows alone; NULL as in lh_observed */
    float *gains;
    float *logits; /* [heads, logits_ld(case)], of a single observed row: they are given; NULL: not */
    int any_order; /* of adding: LH_ORDER_ANY; else LH_ORDER_FIXED */
} attend_case;

typedef struct attend_size {
    int64_t dim, tokens, past; /* past: entries before the rows' own, at most */
    lh_grouping map;
    int variant; /* the case's number: of type, order of slots, window, soft cap, gaps and lengths (cases.h) */
} attend_size;

/* A block of rows at the end of one cache. Heads have different lengths, some shorter than the block. */
void block_make(lot *m, attend_case *c, const attend_size *size);

/* One row for each of 1 to 4 caches, tokens being ignored: some see a part of the entries only, some heads are empty.
 */
void decode_make(lot *m, attend_case *c, const attend_size *size);

/* Rows that look at one cache: as block_make's, with gains and other ends of sight, and heads without entries, or
 * without the rows' own. Queries are exact in bf16 where the cache is of bf16. */
void observed_make(lot *m, attend_case *c, const attend_size *size);

int64_t kv_heads_of(lh_grouping map);
int64_t longest_head(const attend_case *c);

/* What the operations give; o: [rows, o_ld] with the gaps, lse: [rows, heads]. */
typedef struct attended {
    float *o, *lse;
    int64_t o_count, lse_count;
} attended;

/* What the operations are asked, on the device, but for their results. seqs: filled. */
lh_attend_block_args block_args(rig *g, const attend_case *c, const lh_ragged *kv);
lh_attend_decode_args decode_args(rig *g, const attend_case *c, lh_ragged seqs[BATCH_MOST]);

/* Both have o rounded, too, and check it. */
attended block_run(lot *m, rig *g, const attend_case *c);
attended decode_run(lot *m, rig *g, const attend_case *c);

/* o_bf16, on the device, has the n numbers of o rounded. */
void check_rounded(lot *m, rig *g, const void *o_bf16, const float *o, int64_t n);

float *row_lse_run(lot *m, rig *g, const attend_case *c); /* [tokens, heads] */

/* Logits that attend_decode leaves of each sequence's row, [batch * heads, logits_ld]; 0 in what is after the entries,
 * and where a sequence is not asked for any. */
int64_t logits_ld(const attend_case *c);
int asks_logits(const attend_case *c, int64_t b);
float *decode_logits_run(lot *m, rig *g, const attend_case *c);

/* The logit of row `row` of query head i and slot j of a cache by the formula, without gain and bias. */
double logit_by_formula(const attend_case *c, const cache *kv, const int64_t at[3]);

/* What column_stats is asked for, and where it goes. */
typedef enum columns_place { COLUMNS_ROWS, COLUMNS_STATS } columns_place;
enum { WANT_SUMS = 1, WANT_SQUARES = 2, WANT_COUNTS = 4, WANT_LARGEST = 8, WANT_ALL = 15 };
typedef struct columns_spec {
    const float *lse; /* [tokens, heads]; NULL: of a single row, not known */
    int64_t first, cols, parts;
    columns_place place;
    int wanted, each_head;
} columns_spec;

/* All numbers, with the gaps, and where those of a slot are; rows begin with the sums of the first head. */
typedef struct columns {
    float *numbers;
    int64_t count;
    lh_slot_floats sums, squares, counts, largest;
} columns;

/* before: what is there, of the same shape; NULL: zeros. */
columns columns_run(lot *m, rig *g, const attend_case *c, const columns_spec *spec, const columns *before);

/* The weights [slots held] of one row and head by the formula, in f64, with the mask read from positions alone;
 * returns the log of the sum. */
double row_weights(const attend_case *c, const cache *kv, int64_t row, int64_t i, double *weights);

void check_attended(const attended *got, const attended *want, tolerance tol, const char *what, int case_number);

#endif
