#include "kv/kv_impl.h"

int64_t lh_kv_ring_bytes(const lh_kv_shape *shape, const lh_policy_plan *fixed)
{
    if (!lh_kv_observes_again(fixed) || fixed->running) return 0;
    return fixed->rows * shape->heads.q_count * shape->head_dim * (int64_t)sizeof(float);
}

int64_t lh_kv_ring_rows(const lh_kv *kv)
{
    return kv->clock.seen < kv->fixed.rows ? kv->clock.seen : kv->fixed.rows;
}

lh_status lh_kv_ring_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    lh_status st = LH_OK;
    int64_t width = kv->shape.heads.q_count * kv->shape.head_dim, size = kv->fixed.rows;
    int64_t skip = rows->tokens > size ? rows->tokens - size : 0;
    float *ring = kv->layers[layer].ring.q;
    LH_TRY(lh_kv_save_ring(kv, layer));
    for (int64_t r = skip; r < rows->tokens; r++)
        LH_TRY(lh_stream_copy(kv->place.stream, ring + (rows->first + r) % size * width, rows->q + r * rows->q_ld,
                              width * (int64_t)sizeof(float), LH_COPY_ON_DEVICE));
done:
    return st;
}

lh_status lh_kv_ring_unroll(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    int64_t size = kv->fixed.rows, rows = e->seen < size ? e->seen : size, first = e->seen - rows;
    int64_t width = kv->shape.heads.q_count * kv->shape.head_dim, row_bytes = width * (int64_t)sizeof(float);
    float *q = lh_kv_own_q(kv, rows);
    const float *ring = kv->layers[e->layer].ring.q;
    int32_t *positions = NULL;
    LH_TRY(lh_calloc(&positions, rows, sizeof *positions));
    for (int64_t r = 0; r < rows; r++) positions[r] = (int32_t)(first + r);
    for (int64_t r = 0; r < rows;) {
        int64_t slot = (first + r) % size, run = size - slot < rows - r ? size - slot : rows - r;
        LH_TRY(
            lh_stream_copy(kv->place.stream, q + r * width, ring + slot * width, run * row_bytes, LH_COPY_ON_DEVICE));
        r += run;
    }
    LH_TRY(lh_stream_copy(kv->place.stream, kv->rows.at[LH_ROWS_AT], positions, rows * (int64_t)sizeof *positions,
                          LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_sync(kv->place.stream));
done:
    lh_free(positions);
    return st;
}
