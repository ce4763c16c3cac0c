#include "cache/slot_positions.h"

#include "base/mem.h"
#include "base/minmax.h"

void lh_slot_positions_free(lh_slot_positions *s, lh_device *device)
{
    lh_device_free(device, s->arena.view.k);
    lh_device_free(device, s->scales);
    lh_device_free(device, s->keys);
    lh_device_free(device, s->numbers);
    lh_device_free(device, s->inv_freq);
    *s = (lh_slot_positions){0};
}

lh_status lh_slot_positions_reserve(lh_slot_positions *s, const lh_exec *x, const lh_arena_shape *shape, int64_t slots,
                                    int64_t longest)
{
    lh_status st = LH_OK;
    lh_device *device = lh_exec_device(x);
    int64_t dim = shape->head_dim, row = dim * lh_dtype_bytes(shape->type);
    int32_t *numbers = NULL;
    if (slots <= s->slots && longest <= s->longest) return LH_OK;
    slots = lh_max_i64(slots, s->slots);
    longest = lh_max_i64(longest, s->longest);
    lh_slot_positions_free(s, device);
    LH_TRY_DONE(lh_device_alloc(device, &s->arena.view.k, slots * row, LH_MEM_WORK));
    if (shape->type == LH_Q8)
        LH_TRY_DONE(lh_device_alloc(device, &s->scales, slots * (int64_t)sizeof(float), LH_MEM_WORK));
    LH_TRY_DONE(lh_device_alloc(device, &s->keys, longest * dim * (int64_t)sizeof(float), LH_MEM_WORK));
    LH_TRY_DONE(lh_device_alloc(device, &s->numbers, longest * (int64_t)sizeof(int32_t), LH_MEM_WORK));
    LH_TRY_DONE(lh_device_alloc(device, &s->inv_freq, dim * (int64_t)sizeof(float), LH_MEM_WORK));
    LH_TRY_DONE(lh_calloc(&numbers, longest, sizeof *numbers));
    for (int64_t n = 0; n < longest; n++) numbers[n] = (int32_t)n;
    LH_TRY_DONE(lh_stream_put(x->stream, s->numbers, numbers, longest * (int64_t)sizeof *numbers));
    s->slots = slots;
    s->longest = longest;
done:
    lh_free(numbers);
    return st;
}

/* Keys of n slots of a head, rotated by `positions`; `to` may be `from`. */
typedef struct keys {
    const void *from;
    void *to;
    const float *from_scale; /* NULL: no scales */
    float *to_scale;
    const int32_t *positions;
    const float *inv_freq;
    float scale;
    int64_t n;
} keys;

static lh_status rotate_keys(lh_slot_positions *s, const lh_exec *x, const lh_arena *arena, int64_t rotary,
                             const keys *k)
{
    int64_t dim = arena->view.head_dim;
    lh_convert_args convert = {.dst = s->keys,
                               .src = k->from,
                               .src_scale = k->from_scale,
                               .dst_type = LH_F32,
                               .src_type = arena->view.type,
                               .are_keys = 1,
                               .rows = k->n,
                               .cols = dim,
                               .dst_ld = dim,
                               .src_ld = dim};
    lh_rope_args rope = {.x = s->keys,
                         .positions = k->positions,
                         .inv_freq = k->inv_freq,
                         .tokens = k->n,
                         .heads = 1,
                         .dim = dim,
                         .rotary = rotary,
                         .ld = dim,
                         .scale = k->scale};
    LH_TRY(x->ops->convert(x->stream, &convert));
    LH_TRY(x->ops->rope(x->stream, &rope));
    convert.dst = k->to;
    convert.src = s->keys;
    convert.dst_scale = k->to_scale;
    convert.src_scale = NULL;
    convert.dst_type = arena->view.type;
    convert.src_type = LH_F32;
    return x->ops->convert(x->stream, &convert);
}

static lh_arena_shape shape_of(const lh_arena *arena)
{
    return (lh_arena_shape){.heads = arena->view.heads, .head_dim = arena->view.head_dim, .type = arena->view.type};
}

lh_status lh_slot_positions_unrotate(lh_slot_positions *s, const lh_exec *x, lh_arena *arena, const lh_rotation *r)
{
    lh_arena_shape shape = shape_of(arena);
    int64_t row = shape.head_dim * lh_dtype_bytes(shape.type);
    LH_TRY(lh_slot_positions_reserve(s, x, &shape, 0, lh_max_i64(1, lh_arena_longest(arena))));
    LH_TRY(lh_rotation_put_inverse(r, x, s->inv_freq));
    for (int64_t h = 0; h < shape.heads; h++) {
        char *k = (char *)arena->view.k + arena->offset[h] * row;
        LH_TRY(rotate_keys(s, x, arena, r->rotary,
                           &(keys){.from = k,
                                   .to = k,
                                   .positions = arena->view.positions + arena->offset[h],
                                   .inv_freq = s->inv_freq,
                                   .scale = 1.0f / r->scale,
                                   .n = arena->len[h]}));
    }
    return LH_OK;
}

lh_status lh_slot_positions_rotate(lh_slot_positions *s, const lh_exec *x, const lh_arena *arena, const lh_rotation *r,
                                   int64_t next, int64_t more)
{
    lh_arena_shape shape = shape_of(arena);
    int64_t row = shape.head_dim * lh_dtype_bytes(shape.type);
    int64_t longest = lh_max_i64(1, lh_max_i64(lh_arena_longest_cap(arena), next + more));
    LH_TRY(lh_slot_positions_reserve(s, x, &shape, arena->slots, longest));
    for (int64_t h = 0; h < shape.heads; h++)
        LH_TRY(rotate_keys(s, x, arena, r->rotary,
                           &(keys){.from = (char *)arena->view.k + arena->offset[h] * row,
                                   .to = (char *)s->arena.view.k + arena->offset[h] * row,
                                   .from_scale = s->scales ? arena->view.k_scale + arena->offset[h] : NULL,
                                   .to_scale = s->scales ? s->scales + arena->offset[h] : NULL,
                                   .positions = s->numbers + (next - arena->len[h]),
                                   .inv_freq = r->inv_freq,
                                   .scale = r->scale,
                                   .n = arena->len[h] + more}));
    void *k = s->arena.view.k;
    s->arena = *arena;
    s->arena.view.k = k;
    s->arena.view.k_scale = s->scales;
    return LH_OK;
}
