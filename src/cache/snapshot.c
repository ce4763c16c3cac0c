#include "cache/snapshot.h"

#include <string.h>

#include "base/mem.h"

static void free_saved(lh_snapshot *s, lh_device *device)
{
    lh_device_free(device, s->view.k);
    lh_device_free(device, s->view.v);
    lh_device_free(device, s->view.positions);
    lh_device_free(device, s->view.bias);
    lh_device_free(device, s->view.stats);
    s->view = (lh_ragged){0};
    s->saved = 0;
}

lh_status lh_snapshot_set(lh_snapshot *s, const lh_arena *arena, lh_device *device)
{
    int64_t heads = arena->view.heads;
    free_saved(s, device);
    if (!s->len) LH_TRY(lh_calloc(&s->len, heads, sizeof *s->len));
    memcpy(s->len, arena->len, (size_t)heads * sizeof *s->len);
    return LH_OK;
}

void lh_snapshot_clear(lh_snapshot *s, lh_device *device)
{
    free_saved(s, device);
    lh_free(s->len);
    s->len = NULL;
}

static int64_t entries_of(const lh_snapshot *s, const lh_arena *arena)
{
    int64_t entries = 0;
    for (int64_t h = 0; h < arena->view.heads; h++) entries += s->len[h];
    return entries;
}

/* One way or the other between the arena and what was saved of it: entries, or their numbers. */
typedef lh_status copy_slots(const lh_exec *, const lh_slots *, const lh_slots *, int64_t);
typedef enum direction { SAVE, RESTORE } direction;

static lh_status copy_heads(const lh_snapshot *s, const lh_arena *arena, const lh_exec *x, copy_slots *copy,
                            direction way)
{
    int64_t at = 0;
    for (int64_t h = 0; h < arena->view.heads; at += s->len[h], h++) {
        lh_slots there = {&s->view, at}, here = {&arena->view, arena->offset[h]};
        LH_TRY(copy(x, way == SAVE ? &there : &here, way == SAVE ? &here : &there, s->len[h]));
    }
    return LH_OK;
}

lh_status lh_snapshot_save_stats(lh_snapshot *s, const lh_arena *arena, const lh_exec *x)
{
    int64_t floats = arena->form.stats;
    if (!s->len || !floats || s->view.stats) return LH_OK;
    LH_TRY(lh_device_alloc(lh_exec_device(x), &s->view.stats, entries_of(s, arena) * floats * (int64_t)sizeof(float),
                           LH_MEM_KV));
    s->view.stat_count = floats;
    return copy_heads(s, arena, x, lh_copy_stats, SAVE);
}

static lh_status save_entries(lh_snapshot *s, const lh_arena *arena, const lh_exec *x)
{
    lh_device *device = lh_exec_device(x);
    int64_t entries = entries_of(s, arena), row = arena->view.head_dim * lh_dtype_bytes(arena->view.type);
    s->view.type = arena->view.type;
    s->view.heads = arena->view.heads;
    s->view.head_dim = arena->view.head_dim;
    LH_TRY(lh_device_alloc(device, &s->view.k, entries * row, LH_MEM_KV));
    LH_TRY(lh_device_alloc(device, &s->view.v, entries * row, LH_MEM_KV));
    LH_TRY(lh_device_alloc(device, &s->view.positions, entries * (int64_t)sizeof(int32_t), LH_MEM_KV));
    if (arena->form.has_bias)
        LH_TRY(lh_device_alloc(device, &s->view.bias, entries * (int64_t)sizeof(float), LH_MEM_KV));
    return copy_heads(s, arena, x, lh_copy_entries, SAVE);
}

lh_status lh_snapshot_save(lh_snapshot *s, const lh_arena *arena, const lh_exec *x)
{
    lh_status st;
    if (!s->len || s->saved) return LH_OK;
    LH_TRY(lh_snapshot_save_stats(s, arena, x));
    st = save_entries(s, arena, x);
    s->saved = st == LH_OK;
    if (st != LH_OK) free_saved(s, lh_exec_device(x));
    return st;
}

lh_status lh_snapshot_restore(const lh_snapshot *s, lh_arena *arena, const lh_exec *x)
{
    if (s->saved) LH_TRY(copy_heads(s, arena, x, lh_copy_entries, RESTORE));
    if (s->view.stats) LH_TRY(copy_heads(s, arena, x, lh_copy_stats, RESTORE));
    memcpy(arena->len, s->len, (size_t)arena->view.heads * sizeof *arena->len);
    return lh_arena_push_len(arena, x);
}

int64_t lh_snapshot_held_bytes(const lh_snapshot *s, const lh_arena *arena)
{
    lh_arena_shape shape = {.head_dim = arena->view.head_dim, .type = arena->view.type};
    int64_t bytes = 0;
    lh_arena_form form = {.has_positions = arena->form.has_positions, .has_bias = arena->form.has_bias};
    if (s->saved) bytes += lh_arena_bytes(&shape, entries_of(s, arena), form);
    if (s->view.stats) bytes += entries_of(s, arena) * arena->form.stats * (int64_t)sizeof(float);
    return bytes;
}
