/* query_ring.h - the last query rows of a layer, for evictions while decoding to observe them again. The row of
 * position p lies at p modulo the ring's rows; if the first rows of a prompt are observed too, they lie before all
 * other rows and stay (lh_ring_place). */
#ifndef LH_CACHE_QUERY_RING_H
#define LH_CACHE_QUERY_RING_H

#include "exec/exec.h"

typedef struct lh_ring_shape {
    int64_t rows, first_rows; /* first_rows: rows at the beginning of the prompt */
    int64_t width;            /* query heads of this rank * head_dim */
} lh_ring_shape;

typedef struct lh_query_ring {
    lh_ring_shape shape;
    float *q; /* device, [rows, width]; NULL: no ring */
} lh_query_ring;

int64_t lh_ring_bytes(const lh_ring_shape *shape);

lh_status lh_ring_alloc(lh_query_ring *ring, lh_device *device, const lh_ring_shape *shape);
void lh_ring_free(lh_query_ring *ring, lh_device *device);

/* Records the rows of `tokens` positions (device); q has leading dimension q_ld. */
void lh_ring_record(lh_query_ring *ring, const lh_exec *exec, const float *q, const int32_t *positions, int64_t tokens,
                    int64_t q_ld);

/* q [rows, width] = the rows of the given positions (host, ascending). */
void lh_ring_unroll(const lh_query_ring *ring, const lh_exec *exec, const int32_t *positions, int64_t rows, float *q);

/* The slot of the row of a position. */
int64_t lh_ring_slot(const lh_query_ring *ring, int64_t position);

/* Number of rows that a ring holds after `seen` tokens; the position of the r-th row, and its slot. */
int64_t lh_ring_rows(const lh_query_ring *ring, int64_t seen);
int64_t lh_ring_position(const lh_query_ring *ring, int64_t seen, int64_t r);
int64_t lh_ring_row_slot(const lh_query_ring *ring, int64_t seen, int64_t r);

#endif
