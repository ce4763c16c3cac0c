#include "cache/arena.h"

#include "base/mem.h"
#include "base/minmax.h"

static int64_t entry_bytes(const lh_arena_shape *shape, lh_arena_form form)
{
    return 2 * shape->head_dim * lh_dtype_bytes(shape->type) + form.stats * (int64_t)sizeof(float) +
           (form.has_positions ? (int64_t)sizeof(int32_t) : 0) + (form.has_bias ? (int64_t)sizeof(float) : 0);
}

int64_t lh_arena_bytes(const lh_arena_shape *shape, int64_t slots, lh_arena_form form)
{
    return slots * entry_bytes(shape, form);
}

int64_t lh_arena_held_bytes(const lh_arena *a)
{
    lh_arena_shape shape = {.heads = a->view.heads, .head_dim = a->view.head_dim, .type = a->view.type};
    return lh_arena_bytes(&shape, a->slots, a->form);
}

lh_status lh_arena_init(lh_arena *a, const lh_arena_shape *shape, int64_t *heads_block, lh_arena_form form)
{
    int64_t heads = shape->heads, *host = NULL;
    LH_TRY(lh_calloc(&host, 3 * heads, sizeof *host));
    *a = (lh_arena){.offset = host,
                    .len = host + heads,
                    .cap = host + 2 * heads,
                    .heads_block = heads_block,
                    .form = form,
                    .view = {.type = shape->type,
                             .offset = heads_block,
                             .len = heads_block + heads,
                             .heads = heads,
                             .head_dim = shape->head_dim}};
    return LH_OK;
}

void lh_arena_free(lh_arena *a, lh_device *device)
{
    lh_device_free(device, a->view.k);
    lh_device_free(device, a->view.v);
    lh_device_free(device, a->view.positions);
    lh_device_free(device, a->view.bias);
    lh_device_free(device, a->view.stats);
    a->view.k = a->view.v = NULL;
    a->view.positions = NULL;
    a->view.bias = a->view.stats = NULL;
    a->slots = 0;
    for (int64_t h = 0; h < a->view.heads; h++) a->cap[h] = a->len[h] = a->offset[h] = 0;
}

void lh_arena_clear(lh_arena *a, lh_device *device)
{
    if (a->offset) lh_arena_free(a, device);
    lh_free(a->offset);
    *a = (lh_arena){0};
}

static int64_t lens_bytes(const lh_arena *a)
{
    return a->view.heads * (int64_t)sizeof *a->len;
}

lh_status lh_arena_push_len(lh_arena *a, const lh_exec *x)
{
    return lh_stream_copy(x->stream, a->view.len, a->len, lens_bytes(a), LH_COPY_TO_DEVICE);
}

lh_status lh_arena_pull_len(lh_arena *a, const lh_exec *x)
{
    LH_TRY(lh_stream_copy(x->stream, a->len, a->view.len, lens_bytes(a), LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(x->stream));
    return LH_OK;
}

lh_status lh_arena_alloc(lh_arena *a, const lh_exec *x, const int64_t *cap)
{
    lh_status st = LH_OK;
    lh_device *device = lh_exec_device(x);
    int64_t slots = 0, row = a->view.head_dim * lh_dtype_bytes(a->view.type);
    for (int64_t h = 0; h < a->view.heads; h++) {
        a->offset[h] = slots;
        a->cap[h] = cap[h];
        a->len[h] = 0;
        slots += cap[h];
    }
    a->view.stat_count = a->form.stats;
    LH_TRY_DONE(lh_device_alloc(device, &a->view.k, slots * row, LH_MEM_KV));
    LH_TRY_DONE(lh_device_alloc(device, &a->view.v, slots * row, LH_MEM_KV));
    if (a->form.has_positions)
        LH_TRY_DONE(lh_device_alloc(device, &a->view.positions, slots * (int64_t)sizeof(int32_t), LH_MEM_KV));
    if (a->form.has_bias)
        LH_TRY_DONE(lh_device_alloc(device, &a->view.bias, slots * (int64_t)sizeof(float), LH_MEM_KV));
    if (a->form.stats)
        LH_TRY_DONE(lh_device_alloc(device, &a->view.stats, slots * a->form.stats * (int64_t)sizeof(float), LH_MEM_KV));
    LH_TRY_DONE(lh_stream_copy(x->stream, a->heads_block, a->offset, 2 * lens_bytes(a), LH_COPY_TO_DEVICE));
    a->slots = slots;
    a->epoch++;
done:
    if (st != LH_OK) lh_arena_free(a, device);
    return st;
}

lh_status lh_arena_alloc_even(lh_arena *a, const lh_exec *x, int64_t cap)
{
    lh_status st = LH_OK;
    int64_t *caps = NULL;
    LH_TRY_DONE(lh_calloc(&caps, a->view.heads, sizeof *caps));
    for (int64_t h = 0; h < a->view.heads; h++) caps[h] = cap;
    LH_TRY_DONE(lh_arena_alloc(a, x, caps));
done:
    lh_free(caps);
    return st;
}

lh_status lh_copy_entries(const lh_exec *x, const lh_slots *dst, const lh_slots *src, int64_t entries)
{
    const lh_ragged *d = dst->view, *s = src->view;
    int64_t row = s->head_dim * lh_dtype_bytes(s->type);
    LH_TRY(lh_stream_copy(x->stream, (char *)d->k + dst->slot * row, (char *)s->k + src->slot * row, entries * row,
                          LH_COPY_ON_DEVICE));
    LH_TRY(lh_stream_copy(x->stream, (char *)d->v + dst->slot * row, (char *)s->v + src->slot * row, entries * row,
                          LH_COPY_ON_DEVICE));
    if (d->positions)
        LH_TRY(lh_stream_copy(x->stream, d->positions + dst->slot, s->positions + src->slot,
                              entries * (int64_t)sizeof(int32_t), LH_COPY_ON_DEVICE));
    if (d->bias)
        LH_TRY(lh_stream_copy(x->stream, d->bias + dst->slot, s->bias + src->slot, entries * (int64_t)sizeof(float),
                              LH_COPY_ON_DEVICE));
    return LH_OK;
}

lh_status lh_copy_stats(const lh_exec *x, const lh_slots *dst, const lh_slots *src, int64_t entries)
{
    int64_t count = dst->view->stat_count;
    if (!dst->view->stats || !src->view->stats) return LH_OK;
    return lh_stream_copy(x->stream, dst->view->stats + dst->slot * count, src->view->stats + src->slot * count,
                          entries * count * (int64_t)sizeof(float), LH_COPY_ON_DEVICE);
}

lh_status lh_arena_resize(lh_arena *a, const lh_exec *x, const int64_t *cap)
{
    lh_status st = LH_OK;
    lh_arena bigger = *a;
    int64_t heads = a->view.heads;
    bigger.view.k = bigger.view.v = NULL;
    bigger.view.positions = NULL;
    bigger.view.bias = bigger.view.stats = NULL;
    bigger.offset = NULL;
    LH_TRY_DONE(lh_calloc(&bigger.offset, 3 * heads, sizeof *bigger.offset));
    bigger.len = bigger.offset + heads;
    bigger.cap = bigger.offset + 2 * heads;
    LH_TRY_DONE(lh_arena_alloc(&bigger, x, cap));
    for (int64_t h = 0; h < heads; h++) {
        lh_slots to = {&bigger.view, bigger.offset[h]}, from = {&a->view, a->offset[h]};
        LH_TRY_DONE(lh_copy_entries(x, &to, &from, a->len[h]));
        LH_TRY_DONE(lh_copy_stats(x, &to, &from, a->len[h]));
        bigger.len[h] = a->len[h];
    }
    LH_TRY_DONE(lh_arena_push_len(&bigger, x));
    LH_TRY_DONE(lh_stream_sync(x->stream));
    lh_arena old = *a;
    *a = bigger;
    bigger = old;
done:
    if (bigger.offset) lh_arena_free(&bigger, lh_exec_device(x));
    lh_free(bigger.offset);
    return st;
}

int64_t lh_arena_entries(const lh_arena *a)
{
    int64_t entries = 0;
    for (int64_t h = 0; h < a->view.heads; h++) entries += a->len[h];
    return entries;
}

int64_t lh_arena_longest(const lh_arena *a)
{
    int64_t longest = 0;
    for (int64_t h = 0; h < a->view.heads; h++) longest = lh_max_i64(longest, a->len[h]);
    return longest;
}

int64_t lh_arena_longest_cap(const lh_arena *a)
{
    int64_t longest = 0;
    for (int64_t h = 0; h < a->view.heads; h++) longest = lh_max_i64(longest, a->cap[h]);
    return longest;
}
