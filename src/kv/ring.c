#include "kv/kv_impl.h"

int64_t lh_kv_ring_bytes(const lh_kv_shape *shape, const lh_policy_plan *fixed)
{
    if (!fixed->evicts || !fixed->every || fixed->source != LH_SCORE_ATTENTION) return 0;
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

/* Positions of the rows, and the layer's view for each of them, on the device. */
static lh_status describe_rows(lh_kv *kv, const lh_eviction *e, int64_t first)
{
    lh_status st = LH_OK;
    int64_t rows = kv->work.rows;
    int32_t *positions = NULL;
    lh_ragged *views = NULL;
    LH_TRY(lh_calloc(&positions, rows, sizeof *positions));
    LH_TRY(lh_calloc(&views, rows, sizeof *views));
    for (int64_t r = 0; r < rows; r++) {
        positions[r] = (int32_t)(first + r);
        views[r] = e->pool->view;
    }
    LH_TRY(lh_stream_copy(kv->place.stream, kv->work.at[LH_WORK_ROWS], positions, rows * (int64_t)sizeof *positions,
                          LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_copy(kv->place.stream, kv->work.at[LH_WORK_VIEWS], views, rows * (int64_t)sizeof *views,
                          LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_sync(kv->place.stream));
done:
    lh_free(positions);
    lh_free(views);
    return st;
}

lh_status lh_kv_ring_unroll(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    int64_t size = kv->fixed.rows, rows = e->seen < size ? e->seen : size, first = e->seen - rows;
    int64_t width = h->q_count * kv->shape.head_dim, row_bytes = width * (int64_t)sizeof(float);
    kv->work.rows = rows;
    float *q = (float *)kv->work.at[LH_WORK_Q] + (h->split ? rows * h->q_first * kv->shape.head_dim : 0);
    float *o = kv->work.at[LH_WORK_AGAIN], *lse = o + rows * width;
    const float *ring = kv->layers[e->layer].ring.q;
    for (int64_t r = 0; r < rows;) {
        int64_t slot = (first + r) % size, run = size - slot < rows - r ? size - slot : rows - r;
        LH_TRY(
            lh_stream_copy(kv->place.stream, q + r * width, ring + slot * width, run * row_bytes, LH_COPY_ON_DEVICE));
        r += run;
    }
    LH_TRY(describe_rows(kv, e, first));
    LH_TRY(
        kv->place.ops->attend_decode(kv->place.stream, &(lh_attend_decode_args){.o = o,
                                                                                .lse = lse,
                                                                                .q = q,
                                                                                .positions = kv->work.at[LH_WORK_ROWS],
                                                                                .seqs = kv->work.at[LH_WORK_VIEWS],
                                                                                .batch = rows,
                                                                                .q_ld = width,
                                                                                .o_ld = width,
                                                                                .map = lh_heads_grouping(h),
                                                                                .logit = lh_kv_logit(kv, e->layer)}));
    LH_TRY(lh_kv_keep_lse(kv, lse, 0, rows));
done:
    return st;
}
