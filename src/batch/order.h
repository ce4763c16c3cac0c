/* order.h - the order in which the lines of an input are worked on: those of a context first, together, so that one
 * context is held at a time; then the longest, so that none is left alone at the end. Or as they stand, but for those
 * of a context. */
#ifndef LH_BATCH_ORDER_H
#define LH_BATCH_ORDER_H

#include "batch/input.h"

typedef struct lh_batch_order {
    int64_t *lines;     /* [n] of the input */
    uint64_t *contexts; /* [n] of each; 0: none. Those of one follow each other */
    int64_t n;
} lh_batch_order;

typedef struct lh_batch_order_options {
    const uint8_t *done; /* [lines]: 1 where a line has its answer. It is left out, unless another of its context has
                            none: what a context is depends on all of its lines */
    int as_they_stand;
} lh_batch_order_options;

lh_status lh_batch_order_make(lh_batch_order *out, const lh_batch_input *input, const lh_batch_order_options *options);
void lh_batch_order_clear(lh_batch_order *order);

/* How many lines from `at` on share a context; 1 for a line without one. */
int64_t lh_batch_order_turn(const lh_batch_order *order, int64_t at);

#endif
