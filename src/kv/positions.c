#include "kv/positions.h"

#include <stdlib.h>

#include "kv/kv_impl.h"

int lh_kv_by_position(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Positions of this rank's counted heads, one head after the other, each ascending; lens[i]: of the i-th. */
static lh_status own_positions(lh_kv *kv, int64_t layer, int32_t **out, int64_t *lens)
{
    const lh_heads *heads = &kv->shape.heads;
    const lh_arena *arena = &kv->layers[layer].arena;
    int64_t all = 0, at = 0;
    for (int64_t i = 0; i < heads->counted_count; i++)
        all += lens[i] = arena->len[heads->counted_first - heads->kv_first + i];
    LH_TRY(lh_calloc(out, all, sizeof **out));
    for (int64_t i = 0; i < heads->counted_count; i++) {
        int32_t *to = *out + at;
        int64_t h = heads->counted_first - heads->kv_first + i;
        if (arena->view.positions)
            LH_TRY(lh_stream_copy(kv->exec.stream, to, arena->view.positions + arena->offset[h],
                                  lens[i] * (int64_t)sizeof *to, LH_COPY_TO_HOST));
        for (int64_t s = 0; !arena->view.positions && s < lens[i]; s++) to[s] = (int32_t)s;
        at += lens[i];
    }
    LH_TRY(lh_stream_sync(kv->exec.stream));
    at = 0;
    for (int64_t i = 0; i < heads->counted_count; at += lens[i], i++)
        qsort(*out + at, (size_t)lens[i], sizeof **out, lh_kv_by_position);
    return LH_OK;
}

lh_status lh_kv_gather_positions(lh_kv *kv, int64_t layer, lh_kv_positions *out)
{
    lh_status st = LH_OK;
    lh_gather *gather = &kv->arrays.gather;
    int32_t *own = NULL;
    int64_t *lens = kv->arrays.lens, heads = kv->shape.heads.kv_heads;
    int root = kv->shape.heads.rank == 0;
    *out = (lh_kv_positions){0};
    st = lh_kv_fetch_lens(kv);
    if (st == LH_OK) st = own_positions(kv, layer, &own, kv->arrays.kept);
    LH_TRY_DONE(lh_comm_agree(kv->exec.comm, st));
    LH_TRY_DONE(lh_kv_gather_lens(kv, kv->arrays.kept, lens));
    if (root) {
        st = lh_calloc(&out->offsets, heads + 1, sizeof *out->offsets);
        for (int64_t g = 0; st == LH_OK && g < heads; g++) out->offsets[g + 1] = out->offsets[g] + lens[g];
        if (st == LH_OK) st = lh_calloc(&out->positions, out->offsets[heads], sizeof *out->positions);
        out->heads = heads;
    }
    LH_TRY_DONE(lh_comm_agree(kv->exec.comm, st));
    lh_gather_entries(gather, &kv->shape.heads, lens, sizeof *own);
    LH_TRY_DONE(lh_comm_gatherv(kv->exec.comm, 0, own, out->positions, gather->bytes, gather->at));
done:
    lh_free(own);
    if (st != LH_OK) lh_kv_positions_clear(out);
    return st;
}

void lh_kv_positions_clear(lh_kv_positions *positions)
{
    lh_free(positions->offsets);
    lh_free(positions->positions);
    *positions = (lh_kv_positions){0};
}
