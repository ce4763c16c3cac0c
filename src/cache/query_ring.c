#include "cache/query_ring.h"

#include "base/minmax.h"

int64_t lh_ring_bytes(const lh_ring_shape *shape)
{
    return shape->rows * shape->width * (int64_t)sizeof(float);
}

lh_status lh_ring_alloc(lh_query_ring *ring, lh_device *device, const lh_ring_shape *shape)
{
    ring->shape = *shape;
    return lh_device_alloc(device, &ring->q, lh_ring_bytes(shape), LH_MEM_KV);
}

void lh_ring_free(lh_query_ring *ring, lh_device *device)
{
    lh_device_free(device, ring->q);
    ring->q = NULL;
}

int64_t lh_ring_slot(const lh_query_ring *ring, int64_t position)
{
    return lh_ring_place(position, ring->shape.rows, ring->shape.first_rows);
}

void lh_ring_record(lh_query_ring *ring, const lh_exec *x, const float *q, const int32_t *positions, int64_t tokens,
                    int64_t q_ld)
{
    const lh_ring_shape *s = &ring->shape;
    LH_RUN(x, put_rows, .ring = ring->q, .x = q, .positions = positions, .tokens = tokens, .rows = s->rows,
           .head = s->first_rows, .width = s->width, .x_ld = q_ld);
}

void lh_ring_unroll(const lh_query_ring *ring, const lh_exec *x, const int32_t *positions, int64_t rows, float *q)
{
    int64_t width = ring->shape.width;
    for (int64_t r = 0, run; r < rows; r += run) {
        int64_t slot = lh_ring_slot(ring, positions[r]);
        for (run = 1; r + run < rows && lh_ring_slot(ring, positions[r + run]) == slot + run;) run++;
        lh_exec_copy(x, q + r * width, ring->q + slot * width, run * width * (int64_t)sizeof *q, LH_COPY_ON_DEVICE);
    }
}

int64_t lh_ring_rows(const lh_query_ring *ring, int64_t seen)
{
    return lh_min_i64(seen, ring->shape.rows);
}

int64_t lh_ring_position(const lh_query_ring *ring, int64_t seen, int64_t r)
{
    return r < ring->shape.first_rows ? r : seen - lh_ring_rows(ring, seen) + r;
}

int64_t lh_ring_row_slot(const lh_query_ring *ring, int64_t seen, int64_t r)
{
    return lh_ring_slot(ring, lh_ring_position(ring, seen, r));
}
