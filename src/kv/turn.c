/* Slot positions (StreamingLLM, arXiv 2309.17453): what is kept stands close together, whatever was lost in between.
 * Keys are kept as they were before their rotation, and turned by their slots whenever rows attend to them. */

#include "kv/kv_impl.h"

int lh_kv_turns(const lh_policy_numbers *fixed)
{
    return fixed->evicts && fixed->positions == LH_POSITION_SLOT;
}

int lh_kv_by_slots(const lh_kv *kv)
{
    return lh_kv_turns(&kv->fixed) && kv->clock.seen;
}

int64_t lh_turn_bytes(const lh_kv_shape *shape, int64_t slots, int64_t longest)
{
    return slots * shape->head_dim * lh_dtype_bytes(shape->type) +
           longest * (shape->head_dim * (int64_t)sizeof(float) + (int64_t)sizeof(int32_t)) +
           shape->head_dim * (int64_t)sizeof(float);
}

void lh_turn_free(lh_kv *kv)
{
    lh_turn *t = &kv->turn;
    lh_device_free(lh_kv_device(kv), t->pool.view.k);
    lh_device_free(lh_kv_device(kv), t->keys);
    lh_device_free(lh_kv_device(kv), t->slots);
    lh_device_free(lh_kv_device(kv), t->inv_freq);
    *t = (lh_turn){0};
}

/* Room for all slots of a pool, whose longest head has `longest`. */
static lh_status grow(lh_kv *kv, int64_t slots, int64_t longest)
{
    lh_status st = LH_OK;
    lh_device *device = lh_kv_device(kv);
    lh_turn *t = &kv->turn;
    int64_t dim = kv->shape.head_dim, entry = dim * lh_dtype_bytes(kv->shape.type);
    int32_t *numbers = NULL;
    void *k = NULL;
    if (slots <= t->room && longest <= t->longest) goto done;
    slots = slots > t->room ? slots : t->room;
    longest = longest > t->longest ? longest : t->longest;
    lh_turn_free(kv);
    LH_TRY_DONE(lh_device_alloc(device, &k, slots * entry, LH_MEM_WORK));
    t->pool.view.k = k;
    LH_TRY_DONE(lh_device_alloc(device, &t->keys, longest * dim * (int64_t)sizeof(float), LH_MEM_WORK));
    LH_TRY_DONE(lh_device_alloc(device, &t->slots, longest * (int64_t)sizeof(int32_t), LH_MEM_WORK));
    LH_TRY_DONE(lh_device_alloc(device, &t->inv_freq, dim * (int64_t)sizeof(float), LH_MEM_WORK));
    LH_TRY_DONE(lh_calloc(&numbers, longest, sizeof *numbers));
    for (int64_t s = 0; s < longest; s++) numbers[s] = (int32_t)s;
    LH_TRY_DONE(lh_stream_put(kv->place.stream, t->slots, numbers, longest * (int64_t)sizeof *numbers));
    t->room = slots;
    t->longest = longest;
done:
    lh_free(numbers);
    return st;
}

/* Keys of n slots, turned by what `positions` says, from one pool into another or in place. */
typedef struct turning {
    const lh_kv_rotation *rotation;
    const float *inv_freq;
    const int32_t *positions;
    float scale;
    const void *from;
    void *to;
    int64_t n;
} turning;

static lh_status turn_keys(lh_kv *kv, const turning *q)
{
    const lh_ops *ops = kv->place.ops;
    lh_stream *stream = kv->place.stream;
    int64_t dim = kv->shape.head_dim;
    lh_convert_args convert = {.dst = kv->turn.keys,
                               .src = q->from,
                               .dst_type = LH_F32,
                               .src_type = kv->shape.type,
                               .rows = q->n,
                               .cols = dim,
                               .dst_ld = dim,
                               .src_ld = dim};
    LH_TRY(ops->convert(stream, &convert));
    LH_TRY(ops->rope(stream, &(lh_rope_args){.x = kv->turn.keys,
                                             .positions = q->positions,
                                             .inv_freq = q->inv_freq,
                                             .tokens = q->n,
                                             .heads = 1,
                                             .dim = dim,
                                             .rotary = q->rotation->rotary,
                                             .ld = dim,
                                             .scale = q->scale}));
    convert.dst = q->to;
    convert.src = kv->turn.keys;
    convert.dst_type = kv->shape.type;
    convert.src_type = LH_F32;
    LH_TRY(ops->convert(stream, &convert));
    return LH_OK;
}

lh_status lh_kv_unturn(lh_kv *kv, int64_t layer)
{
    lh_pool *pool = &kv->layers[layer].pool;
    int64_t entry = kv->shape.head_dim * lh_dtype_bytes(kv->shape.type), longest = 1;
    const lh_kv_rotation *r;
    if (!lh_kv_turns(&kv->fixed)) return LH_OK;
    r = lh_kv_rotation_of(kv, layer);
    for (int64_t h = 0; h < pool->view.heads; h++) longest = pool->len[h] > longest ? pool->len[h] : longest;
    LH_TRY(grow(kv, 0, longest));
    LH_TRY(lh_kv_put_backwards(kv, layer, kv->turn.inv_freq));
    for (int64_t h = 0; h < pool->view.heads; h++) {
        char *k = (char *)pool->view.k + pool->offset[h] * entry;
        LH_TRY(turn_keys(kv, &(turning){.rotation = r,
                                        .inv_freq = kv->turn.inv_freq,
                                        .positions = pool->view.positions + pool->offset[h],
                                        .scale = 1.0f / r->scale,
                                        .from = k,
                                        .to = k,
                                        .n = pool->len[h]}));
    }
    return LH_OK;
}

/* By what the next row is turned. Heads that chose their entries for themselves lose them one by one where they slide
 * out of sight, and come to hold more and less: there the row stands behind a whole window for all of them. */
static int64_t next_slot(const lh_kv *kv, int64_t layer)
{
    return lh_kv_slides(&kv->shape, layer) ? kv->shape.window - 1 : kv->layers[layer].pool.len[0];
}

int64_t lh_kv_slot_of(const lh_kv *kv, int64_t layer, int64_t position)
{
    if (!lh_kv_turns(&kv->fixed) || !kv->clock.seen || !kv->shape.heads.kv_count) return position;
    return next_slot(kv, layer) + position - kv->clock.seen;
}

lh_status lh_kv_reserve_turn(lh_kv *kv, int64_t tokens)
{
    int64_t slots = 0, longest = 1;
    if (!lh_kv_turns(&kv->fixed) || !kv->shape.heads.kv_count) return LH_OK;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        const lh_pool *pool = &kv->layers[l].pool;
        slots = lh_max_i64(slots, pool->slots);
        longest = lh_max_i64(longest, next_slot(kv, l) + tokens);
        for (int64_t h = 0; h < pool->view.heads; h++) longest = lh_max_i64(longest, pool->cap[h]);
    }
    return grow(kv, slots, longest);
}

lh_status lh_kv_turned(lh_kv *kv, int64_t layer, int64_t seen, lh_ragged **view)
{
    lh_pool *pool = &kv->layers[layer].pool;
    int64_t entry = kv->shape.head_dim * lh_dtype_bytes(kv->shape.type), more = seen - kv->clock.seen, longest = 1;
    const lh_kv_rotation *r;
    *view = &pool->view;
    if (!lh_kv_turns(&kv->fixed)) return LH_OK;
    r = lh_kv_rotation_of(kv, layer);
    for (int64_t h = 0; h < pool->view.heads; h++) longest = pool->cap[h] > longest ? pool->cap[h] : longest;
    int64_t next = next_slot(kv, layer);
    LH_TRY(grow(kv, pool->slots, longest > next + more ? longest : next + more));
    for (int64_t h = 0; h < pool->view.heads; h++)
        LH_TRY(turn_keys(kv, &(turning){.rotation = r,
                                        .inv_freq = r->inv_freq,
                                        .positions = kv->turn.slots + (next - pool->len[h]),
                                        .scale = r->scale,
                                        .from = (char *)pool->view.k + pool->offset[h] * entry,
                                        .to = (char *)kv->turn.pool.view.k + pool->offset[h] * entry,
                                        .n = pool->len[h] + more}));
    void *k = kv->turn.pool.view.k;
    kv->turn.pool = *pool;
    kv->turn.pool.view.k = k;
    *view = &kv->turn.pool.view;
    return LH_OK;
}
