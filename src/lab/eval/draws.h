/* draws.h - random choices of the prompts that tasks make: numbers, words, orders. A sequence of draws is a function of
 * its key alone (base/rng.h), so a prompt is the same on every machine, whichever prompts were made before. */
#ifndef LH_LAB_EVAL_DRAWS_H
#define LH_LAB_EVAL_DRAWS_H

#include <stdint.h>

#include "base/mem.h"

typedef struct lh_draws {
    uint64_t seed;
    uint32_t stream, purpose, at;
} lh_draws;

/* In [0, n), n at most 2^40: the bias is below 2^-24. */
int64_t lh_draw_below(lh_draws *draws, int64_t n);

/* m distinct numbers of [0, n) in ascending order; m is small. */
void lh_draw_sorted(lh_draws *draws, int64_t *out, int64_t m, int64_t n);

/* The numbers of [0, n) in random order: new memory. */
lh_status lh_draw_order(lh_draws *draws, int64_t **out, int64_t n);

/* Appends `digits` decimal digits, the first not 0; a random UUID (version 4); `letters` letters from `first` ('a' or
 * 'A') on. */
lh_status lh_draw_number(lh_draws *draws, int digits, lh_buf *out);
lh_status lh_draw_uuid(lh_draws *draws, lh_buf *out);
lh_status lh_draw_letters(lh_draws *draws, char first, int letters, lh_buf *out);

#endif
