#include "cache/arena.h"

#include <assert.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "kernels/ragged.h"

static int64_t entry_bytes(const lh_arena_shape *shape, lh_arena_form form)
{
    return lh_entry_bytes(shape->type, shape->head_dim) + form.stats * (int64_t)sizeof(float) +
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

/* A block for the host's arrays, zeros. */
static lh_status make_host(lh_arena *a, int64_t heads)
{
    int64_t *host = NULL;
    LH_TRY(lh_calloc(&host, 4 * heads, sizeof *host));
    a->offset = host;
    a->len = host + heads;
    a->cap = host + 2 * heads;
    a->shared = host + 3 * heads;
    return LH_OK;
}

lh_status lh_arena_init(lh_arena *a, const lh_arena_shape *shape, int64_t *heads_block, lh_arena_form form)
{
    int64_t heads = shape->heads;
    *a = (lh_arena){.heads_block = heads_block,
                    .form = form,
                    .view = {.type = shape->type,
                             .offset = heads_block,
                             .len = heads_block + heads,
                             .heads = heads,
                             .head_dim = shape->head_dim}};
    return make_host(a, heads);
}

/* Keys and values, and their scales. */
static void free_numbers(lh_ragged *view, lh_device *device)
{
    lh_device_free(device, view->k);
    lh_device_free(device, view->v);
    lh_device_free(device, view->k_scale);
    lh_device_free(device, view->v_scale);
    view->k = view->v = NULL;
    view->k_scale = view->v_scale = NULL;
}

static lh_status alloc_numbers(lh_ragged *view, lh_device *device, int64_t slots)
{
    const int64_t row = view->head_dim * lh_dtype_bytes(view->type), scales = slots * (int64_t)sizeof *view->k_scale;
    LH_TRY(lh_device_alloc(device, &view->k, slots * row, LH_MEM_KV));
    LH_TRY(lh_device_alloc(device, &view->v, slots * row, LH_MEM_KV));
    if (view->type != LH_Q8) return LH_OK;
    LH_TRY(lh_device_alloc(device, &view->k_scale, scales, LH_MEM_KV));
    return lh_device_alloc(device, &view->v_scale, scales, LH_MEM_KV);
}

void lh_arena_free(lh_arena *a, lh_device *device)
{
    free_numbers(&a->view, device);
    lh_device_free(device, a->view.positions);
    lh_device_free(device, a->view.bias);
    lh_device_free(device, a->view.stats);
    a->view.positions = NULL;
    a->view.bias = a->view.stats = NULL;
    a->view.parent = (lh_parent){0};
    a->parent = NULL;
    a->slots = 0;
    for (int64_t h = 0; h < a->view.heads; h++) a->cap[h] = a->len[h] = a->offset[h] = a->shared[h] = 0;
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
    return lh_stream_put(x->stream, a->view.len, a->len, lens_bytes(a));
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
    int64_t slots = 0;
    for (int64_t h = 0; h < a->view.heads; h++) {
        a->offset[h] = slots - a->shared[h];
        a->cap[h] = cap[h];
        a->len[h] = 0;
        slots += cap[h] - a->shared[h];
    }
    a->view.stat_count = a->form.stats;
    LH_TRY_DONE(alloc_numbers(&a->view, device, slots));
    if (a->form.has_positions)
        LH_TRY_DONE(lh_device_alloc(device, &a->view.positions, slots * (int64_t)sizeof(int32_t), LH_MEM_KV));
    if (a->form.has_bias)
        LH_TRY_DONE(lh_device_alloc(device, &a->view.bias, slots * (int64_t)sizeof(float), LH_MEM_KV));
    if (a->form.stats)
        LH_TRY_DONE(lh_device_alloc(device, &a->view.stats, slots * a->form.stats * (int64_t)sizeof(float), LH_MEM_KV));
    LH_TRY_DONE(lh_stream_put(x->stream, a->heads_block, a->offset, 2 * lens_bytes(a)));
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

/* Keys or values of a head, `rows` slots from `at` on; both views have the same slots. */
typedef struct head_part {
    lh_entry_part part;
    int64_t at, rows;
} head_part;

static lh_status convert_part(const lh_exec *x, const lh_ragged *dst, const lh_ragged *src, head_part p)
{
    const int are_keys = p.part == LH_PART_KEY;
    const int64_t dim = src->head_dim, from = dim * lh_dtype_bytes(src->type), to = dim * lh_dtype_bytes(dst->type);
    float *dst_scale = are_keys ? dst->k_scale : dst->v_scale;
    const float *src_scale = are_keys ? src->k_scale : src->v_scale;
    const lh_convert_args convert = {.dst = (char *)(are_keys ? dst->k : dst->v) + p.at * to,
                                     .src = (const char *)(are_keys ? src->k : src->v) + p.at * from,
                                     .dst_scale = dst_scale ? dst_scale + p.at : NULL,
                                     .src_scale = src_scale ? src_scale + p.at : NULL,
                                     .dst_type = dst->type,
                                     .src_type = src->type,
                                     .are_keys = are_keys,
                                     .rows = p.rows,
                                     .cols = dim,
                                     .dst_ld = dim,
                                     .src_ld = dim};
    return x->ops->convert(x->stream, &convert);
}

lh_status lh_convert_entries(const lh_exec *x, const lh_ragged *dst, const lh_arena *src, int64_t more)
{
    assert(!src->view.parent.k);
    for (int64_t h = 0; h < src->view.heads; h++) {
        const int64_t at = src->offset[h], rows = src->len[h] + more;
        LH_TRY(convert_part(x, dst, &src->view, (head_part){LH_PART_KEY, at, rows}));
        LH_TRY(convert_part(x, dst, &src->view, (head_part){LH_PART_VALUE, at, rows}));
    }
    return LH_OK;
}

lh_status lh_convert_values(const lh_exec *x, const lh_arena *dst, const lh_ragged *src)
{
    for (int64_t h = 0; h < src->heads; h++)
        LH_TRY(convert_part(x, &dst->view, src, (head_part){LH_PART_VALUE, dst->offset[h], dst->len[h]}));
    return LH_OK;
}

lh_status lh_arena_convert(lh_arena *a, const lh_exec *x, lh_dtype type)
{
    lh_device *device = lh_exec_device(x);
    lh_ragged new = {.type = type, .head_dim = a->view.head_dim};
    if (a->view.type == type || !a->slots) {
        a->view.type = type;
        return LH_OK;
    }
    lh_status st = alloc_numbers(&new, device, a->slots);
    if (st == LH_OK) st = lh_convert_entries(x, &new, a, 0);
    if (st != LH_OK) {
        free_numbers(&new, device);
        return st;
    }
    free_numbers(&a->view, device);
    a->view.type = type;
    a->view.k = new.k;
    a->view.v = new.v;
    a->view.k_scale = new.k_scale;
    a->view.v_scale = new.v_scale;
    a->epoch++;
    return LH_OK;
}

lh_status lh_copy_entries(const lh_exec *x, const lh_slots *dst, const lh_slots *src, int64_t entries)
{
    const lh_ragged *d = dst->view, *s = src->view;
    int64_t row = s->head_dim * lh_dtype_bytes(s->type);
    LH_TRY(lh_stream_copy(x->stream, (char *)d->k + dst->slot * row, (char *)s->k + src->slot * row, entries * row,
                          LH_COPY_ON_DEVICE));
    LH_TRY(lh_stream_copy(x->stream, (char *)d->v + dst->slot * row, (char *)s->v + src->slot * row, entries * row,
                          LH_COPY_ON_DEVICE));
    if (s->type == LH_Q8) {
        const int64_t scales = entries * (int64_t)sizeof *d->k_scale;
        LH_TRY(lh_stream_copy(x->stream, d->k_scale + dst->slot, s->k_scale + src->slot, scales, LH_COPY_ON_DEVICE));
        LH_TRY(lh_stream_copy(x->stream, d->v_scale + dst->slot, s->v_scale + src->slot, scales, LH_COPY_ON_DEVICE));
    }
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

/* Copies all entries of head h of `from`, first the parent's, then its own, to slot `first` of `to` and after it. */
static lh_status copy_head(const lh_exec *x, const lh_arena *to, const lh_arena *from, int64_t h)
{
    const int64_t first = to->shared[h], own = lh_max_i64(from->shared[h], first);
    const lh_slots here = {&to->view, to->offset[h] + first}, rest = {&to->view, to->offset[h] + own},
                   there = {&from->view, from->offset[h] + own};
    if (own > first) {
        const lh_slots parent = {&from->parent->view, from->parent->offset[h] + first};
        LH_TRY(lh_copy_entries(x, &here, &parent, own - first));
    }
    LH_TRY(lh_copy_entries(x, &rest, &there, from->len[h] - own));
    return lh_copy_stats(x, &rest, &there, from->len[h] - own);
}

/* Copies all entries to `to`, which has memory for them, may have a parent, and has no entries. */
static lh_status copy_heads(lh_arena *to, const lh_exec *x, const lh_arena *from)
{
    for (int64_t h = 0; h < from->view.heads; h++) {
        LH_TRY(copy_head(x, to, from, h));
        to->len[h] = from->len[h];
    }
    return lh_arena_push_len(to, x);
}

lh_status lh_arena_copy(lh_arena *a, const lh_exec *x, const lh_arena *from, const int64_t *cap, lh_entries_kind kind)
{
    const lh_ragged *v = &from->view;
    a->form = from->form;
    a->view.type = v->type;
    if (kind == LH_ENTRIES_SHARED) {
        a->parent = from;
        a->view.parent = (lh_parent){v->k, v->v, v->k_scale, v->v_scale, v->positions, v->bias, v->offset, v->len};
        for (int64_t h = 0; h < v->heads; h++) a->shared[h] = lh_whole_blocks(from->len[h]);
    }
    LH_TRY(lh_arena_alloc(a, x, cap));
    return copy_heads(a, x, from);
}

/* Keeps the parent or has none. */
static lh_status replace(lh_arena *a, const lh_exec *x, const int64_t *cap, const lh_arena *parent, lh_arena *old)
{
    lh_status st = LH_OK;
    const int64_t heads = a->view.heads;
    *old = *a;
    a->view.k = a->view.v = NULL;
    a->view.k_scale = a->view.v_scale = NULL;
    a->view.positions = NULL;
    a->view.bias = a->view.stats = NULL;
    a->parent = parent;
    if (!parent) a->view.parent = (lh_parent){0};
    a->offset = NULL;
    LH_TRY_DONE(make_host(a, heads));
    for (int64_t h = 0; h < heads && parent; h++) a->shared[h] = old->shared[h];
    LH_TRY_DONE(lh_arena_alloc(a, x, cap));
done:
    if (st != LH_OK) {
        lh_free(a->offset);
        *a = *old;
        *old = (lh_arena){0};
    }
    return st;
}

lh_status lh_arena_replace(lh_arena *a, const lh_exec *x, const int64_t *cap, lh_arena *old)
{
    return replace(a, x, cap, a->parent, old);
}

static lh_status renew(lh_arena *a, const lh_exec *x, const int64_t *cap, const lh_arena *parent)
{
    lh_arena old;
    LH_TRY(replace(a, x, cap, parent, &old));
    lh_status st = copy_heads(a, x, &old);
    lh_arena_clear(&old, lh_exec_device(x));
    return st;
}

lh_status lh_arena_resize(lh_arena *a, const lh_exec *x, const int64_t *cap)
{
    return renew(a, x, cap, a->parent);
}

lh_status lh_arena_unshare(lh_arena *a, const lh_exec *x)
{
    return a->parent ? renew(a, x, a->cap, NULL) : LH_OK;
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
