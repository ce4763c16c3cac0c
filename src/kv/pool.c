#include <string.h>

#include "kv/kv_impl.h"

int64_t lh_pool_bytes(const lh_kv_shape *shape, int64_t slots, lh_pool_form form)
{
    return slots * (2 * shape->head_dim * lh_dtype_bytes(shape->type) + form.stats * (int64_t)sizeof(float) +
                    (form.positions == LH_POSITIONS_STORED ? (int64_t)sizeof(int32_t) : 0));
}

lh_status lh_pool_init(lh_pool *pool, const lh_kv_shape *shape, int64_t *block, lh_pool_form form)
{
    int64_t heads = shape->heads.kv_count, *host = NULL;
    LH_TRY(lh_calloc(&host, 3 * heads, sizeof *host));
    *pool = (lh_pool){
        .offset = host,
        .len = host + heads,
        .cap = host + 2 * heads,
        .heads_block = block,
        .form = form,
        .view = {
            .type = shape->type, .offset = block, .len = block + heads, .heads = heads, .head_dim = shape->head_dim}};
    return LH_OK;
}

void lh_pool_free(lh_pool *pool, lh_stream *stream)
{
    lh_device *device = lh_stream_device(stream);
    lh_device_free(device, pool->view.k);
    lh_device_free(device, pool->view.v);
    lh_device_free(device, pool->view.positions);
    lh_device_free(device, pool->view.stats);
    pool->view.k = pool->view.v = NULL;
    pool->view.positions = NULL;
    pool->view.stats = NULL;
    pool->slots = 0;
    for (int64_t h = 0; h < pool->view.heads; h++) pool->cap[h] = pool->len[h] = pool->offset[h] = 0;
}

void lh_pool_clear(lh_pool *pool, lh_stream *stream)
{
    if (pool->offset) lh_pool_free(pool, stream);
    lh_free(pool->offset);
    *pool = (lh_pool){0};
}

lh_status lh_pool_push_len(lh_pool *pool, lh_stream *stream)
{
    return lh_stream_copy(stream, pool->view.len, pool->len, pool->view.heads * (int64_t)sizeof(int64_t),
                          LH_COPY_TO_DEVICE);
}

lh_status lh_pool_pull_len(lh_pool *pool, lh_stream *stream)
{
    LH_TRY(lh_stream_copy(stream, pool->len, pool->view.len, pool->view.heads * (int64_t)sizeof(int64_t),
                          LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(stream));
    return LH_OK;
}

lh_status lh_pool_alloc(lh_pool *pool, lh_stream *stream, const int64_t *cap)
{
    lh_status st = LH_OK;
    lh_device *device = lh_stream_device(stream);
    int64_t slots = 0, heads = pool->view.heads;
    int64_t entry = pool->view.head_dim * lh_dtype_bytes(pool->view.type);
    for (int64_t h = 0; h < heads; h++) {
        pool->offset[h] = slots;
        pool->cap[h] = cap[h];
        pool->len[h] = 0;
        slots += cap[h];
    }
    LH_TRY_DONE(lh_device_alloc(device, &pool->view.k, slots * entry, LH_MEM_KV));
    LH_TRY_DONE(lh_device_alloc(device, &pool->view.v, slots * entry, LH_MEM_KV));
    if (pool->form.positions == LH_POSITIONS_STORED)
        LH_TRY_DONE(lh_device_alloc(device, &pool->view.positions, slots * (int64_t)sizeof(int32_t), LH_MEM_KV));
    pool->view.stat_count = pool->form.stats;
    if (pool->form.stats)
        LH_TRY_DONE(
            lh_device_alloc(device, &pool->view.stats, slots * pool->form.stats * (int64_t)sizeof(float), LH_MEM_KV));
    LH_TRY_DONE(lh_stream_copy(stream, pool->heads_block, pool->offset, 2 * heads * (int64_t)sizeof(int64_t),
                               LH_COPY_TO_DEVICE));
    pool->slots = slots;
    pool->moves++;
done:
    if (st != LH_OK) lh_pool_free(pool, stream);
    return st;
}

lh_status lh_entries_copy(lh_stream *stream, const lh_slots *dst, const lh_slots *src, int64_t entries)
{
    const lh_ragged *d = dst->view, *s = src->view;
    int64_t entry = s->head_dim * lh_dtype_bytes(s->type);
    LH_TRY(lh_stream_copy(stream, (char *)d->k + dst->slot * entry, (char *)s->k + src->slot * entry, entries * entry,
                          LH_COPY_ON_DEVICE));
    LH_TRY(lh_stream_copy(stream, (char *)d->v + dst->slot * entry, (char *)s->v + src->slot * entry, entries * entry,
                          LH_COPY_ON_DEVICE));
    if (d->positions)
        LH_TRY(lh_stream_copy(stream, d->positions + dst->slot, s->positions + src->slot,
                              entries * (int64_t)sizeof(int32_t), LH_COPY_ON_DEVICE));
    return LH_OK;
}

lh_status lh_stats_copy(lh_stream *stream, const lh_slots *dst, const lh_slots *src, int64_t entries)
{
    int64_t count = dst->view->stat_count;
    if (!dst->view->stats || !src->view->stats) return LH_OK;
    return lh_stream_copy(stream, dst->view->stats + dst->slot * count, src->view->stats + src->slot * count,
                          entries * count * (int64_t)sizeof(float), LH_COPY_ON_DEVICE);
}

lh_status lh_pool_resize(lh_pool *pool, lh_stream *stream, const int64_t *cap)
{
    lh_status st = LH_OK;
    lh_pool bigger = *pool;
    int64_t heads = pool->view.heads;
    bigger.view.k = bigger.view.v = NULL;
    bigger.view.positions = NULL;
    bigger.view.stats = NULL;
    bigger.offset = NULL;
    LH_TRY_DONE(lh_calloc(&bigger.offset, 3 * heads, sizeof *bigger.offset));
    bigger.len = bigger.offset + heads;
    bigger.cap = bigger.offset + 2 * heads;
    LH_TRY_DONE(lh_pool_alloc(&bigger, stream, cap));
    for (int64_t h = 0; h < heads; h++) {
        lh_slots to = {&bigger.view, bigger.offset[h]}, from = {&pool->view, pool->offset[h]};
        LH_TRY_DONE(lh_entries_copy(stream, &to, &from, pool->len[h]));
        LH_TRY_DONE(lh_stats_copy(stream, &to, &from, pool->len[h]));
        bigger.len[h] = pool->len[h];
    }
    LH_TRY_DONE(lh_pool_push_len(&bigger, stream));
    LH_TRY_DONE(lh_stream_sync(stream));
    lh_pool swap = *pool;
    *pool = bigger;
    bigger = swap;
done:
    if (bigger.offset) lh_pool_free(&bigger, stream);
    lh_free(bigger.offset);
    return st;
}
