/* query_ring.h - the last query rows of a layer, kept so that evictions while decoding can observe them again. The row
 * of position p lies at p modulo the ring's rows; where the first rows of a prompt are observed too, they lie before
 * the others and stay (lh_ring_place). */
#ifndef LH_CACHE_QUERY_RING_H
#define LH_CACHE_QUERY_RING_H

#include "exec/exec.h"

typedef struct lh_ring_shape {
    int64_t rows, first_rows; /* first_rows: those of them that begin the prompt */
    int64_t width;            /* query heads of this rank * head_dim */
} lh_ring_shape;

typedef struct lh_query_ring {
    lh_ring_shape shape;
    float *q; /* device, [rows, width]; NULL: there is no ring */
} lh_query_ring;

int64_t lh_ring_bytes(const lh_ring_shape *shape);

lh_status lh_ring_alloc(lh_query_ring *ring, lh_device *device, const lh_ring_shape *shape);
void lh_ring_free(lh_query_ring *ring, lh_device *device);

/* Rows of `tokens` positions (device), q_ld apart. */
void lh_ring_record(lh_query_ring *ring, const lh_exec *exec, const float *q, const int32_t *positions, int64_t tokens,
                    int64_t q_ld);

/* The rows of these positions (host, ascending) into q [rows, width]. */
void lh_ring_unroll(const lh_query_ring *ring, const lh_exec *exec, const int32_t *positions, int64_t rows, float *q);

/* Where the row of a position lies. */
int64_t lh_ring_slot(const lh_query_ring *ring, int64_t position);

/* Rows that a ring has after `seen` tokens, and where the r-th of them lies, in the order of their positions. */
int64_t lh_ring_rows(const lh_query_ring *ring, int64_t seen);
int64_t lh_ring_row_slot(const lh_query_ring *ring, int64_t seen, int64_t r);

#endif
