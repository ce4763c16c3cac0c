#include "kv/kv_impl.h"

int64_t lh_kv_ring_bytes(const lh_kv_shape *shape, const lh_policy_numbers *fixed)
{
    if (!lh_kv_observes_again(fixed) || fixed->score.running) return 0;
    return fixed->rows * shape->heads.q_count * shape->head_dim * (int64_t)sizeof(float);
}

int64_t lh_kv_ring_rows(const lh_kv *kv)
{
    return kv->clock.seen < kv->fixed.rows ? kv->clock.seen : kv->fixed.rows;
}

int64_t lh_kv_ring_slot(const lh_kv *kv, int64_t position)
{
    return lh_ring_place(position, kv->fixed.rows, kv->fixed.first_rows);
}

lh_status lh_kv_ring_record(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    LH_TRY(lh_kv_save_ring(kv, layer));
    LH_TRY(kv->place.ops->put_rows(kv->place.stream,
                                   &(lh_put_rows_args){.ring = kv->layers[layer].ring.q,
                                                       .x = rows->q,
                                                       .positions = rows->positions,
                                                       .tokens = rows->tokens,
                                                       .rows = kv->fixed.rows,
                                                       .head = kv->fixed.first_rows,
                                                       .width = kv->shape.heads.q_count * kv->shape.head_dim,
                                                       .x_ld = rows->q_ld}));
    return LH_OK;
}

lh_status lh_kv_ring_unroll(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    int64_t rows = lh_policy_rows(&kv->fixed, e->seen);
    int64_t width = kv->shape.heads.q_count * kv->shape.head_dim, row_bytes = width * (int64_t)sizeof(float);
    float *q = lh_kv_own_q(kv, rows);
    const float *ring = kv->layers[e->layer].ring.q;
    int32_t *positions = NULL;
    LH_TRY_DONE(lh_calloc(&positions, rows, sizeof *positions));
    for (int64_t r = 0; r < rows; r++) positions[r] = (int32_t)lh_policy_row_at(&kv->fixed, e->seen, r);
    for (int64_t r = 0; r < rows;) {
        int64_t slot = lh_kv_ring_slot(kv, positions[r]), run = 1;
        while (r + run < rows && lh_kv_ring_slot(kv, positions[r + run]) == slot + run) run++;
        LH_TRY_DONE(
            lh_stream_copy(kv->place.stream, q + r * width, ring + slot * width, run * row_bytes, LH_COPY_ON_DEVICE));
        r += run;
    }
    LH_TRY_DONE(lh_stream_put(kv->place.stream, kv->rows.at[LH_ROWS_AT], positions, rows * (int64_t)sizeof *positions));
done:
    lh_free(positions);
    return st;
}
