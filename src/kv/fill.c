/* A prompt with known keys and values, which are copied to the arena. */
#include "kv/kv_impl.h"

/* Slots are positions; an arena with an array of positions gets them, too. */
static lh_status number_slots(lh_kv *kv, const lh_arena *arena)
{
    const int64_t n = kv->prompt.tokens;
    int32_t *positions = NULL;
    lh_status st = LH_OK;
    if (!arena->view.positions) return LH_OK;
    LH_TRY(lh_calloc(&positions, n, sizeof *positions));
    for (int64_t i = 0; i < n; i++) positions[i] = (int32_t)i;
    for (int64_t h = 0; h < arena->view.heads && st == LH_OK; h++)
        st = lh_stream_copy(kv->exec.stream, arena->view.positions + arena->offset[h], positions,
                            n * (int64_t)sizeof *positions, LH_COPY_TO_DEVICE);
    if (st == LH_OK) st = lh_stream_sync(kv->exec.stream);
    lh_free(positions);
    return st;
}

lh_status lh_kv_fill(lh_kv *kv, int64_t layer, const void *keys, const void *values)
{
    lh_arena *arena = lh_kv_prefill_arena(kv, layer);
    const lh_ragged *v = &arena->view;
    const int64_t row = v->head_dim * lh_dtype_bytes(v->type), bytes = kv->prompt.tokens * row;
    for (int64_t h = 0; h < v->heads; h++) {
        const int64_t at = arena->offset[h] * row;
        LH_TRY(lh_stream_copy(kv->exec.stream, (char *)v->k + at, (const char *)keys + h * bytes, bytes,
                              LH_COPY_TO_DEVICE));
        LH_TRY(lh_stream_copy(kv->exec.stream, (char *)v->v + at, (const char *)values + h * bytes, bytes,
                              LH_COPY_TO_DEVICE));
        arena->len[h] = kv->prompt.tokens;
    }
    LH_TRY(number_slots(kv, arena));
    LH_TRY(lh_arena_push_len(arena, &kv->exec));
    return lh_stream_sync(kv->exec.stream);
}
