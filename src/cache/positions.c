#include "cache/positions.h"

#include <stdlib.h>

#include "base/mem.h"
#include "exec/gather.h"

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void lh_positions_sort(int32_t *positions, int64_t n)
{
    qsort(positions, (size_t)n, sizeof *positions, ascending);
}

static lh_status copy_positions(int32_t *to, const lh_exec *x, const lh_arena *arena, int64_t h)
{
    const int64_t n = arena->len[h], shared = arena->shared[h];
    const lh_ragged *own = &arena->view;
    for (int64_t s = 0; !own->positions && s < n; s++) to[s] = (int32_t)s;
    if (own->positions && shared)
        LH_TRY(lh_stream_copy(x->stream, to, arena->parent->view.positions + arena->parent->offset[h],
                              shared * (int64_t)sizeof *to, LH_COPY_TO_HOST));
    if (own->positions)
        LH_TRY(lh_stream_copy(x->stream, to + shared, own->positions + arena->offset[h] + shared,
                              (n - shared) * (int64_t)sizeof *to, LH_COPY_TO_HOST));
    return LH_OK;
}

/* Positions of this rank's counted heads, one head after the other, each ascending. */
static lh_status own_positions(int32_t **out, const lh_exec *x, const lh_heads *heads, const lh_arena *arena)
{
    int64_t first = heads->counted_first - heads->kv_first, end = first + heads->counted_count, all = 0, at = 0;
    for (int64_t h = first; h < end; h++) all += arena->len[h];
    LH_TRY(lh_calloc(out, all, sizeof **out));
    for (int64_t h = first; h < end; at += arena->len[h], h++) LH_TRY(copy_positions(*out + at, x, arena, h));
    LH_TRY(lh_stream_sync(x->stream));
    at = 0;
    for (int64_t h = first; h < end; at += arena->len[h], h++) lh_positions_sort(*out + at, arena->len[h]);
    return LH_OK;
}

lh_status lh_positions_gather(lh_positions *out, const lh_exec *x, const lh_heads *heads, const lh_arena *arena)
{
    lh_status st = LH_OK;
    lh_gather gather = {0};
    int32_t *own = NULL;
    int64_t *lens = NULL;
    int root = heads->rank == 0;
    *out = (lh_positions){0};
    st = lh_gather_init(&gather, heads->ranks);
    if (st == LH_OK) st = lh_calloc(&lens, heads->kv_heads, sizeof *lens);
    if (st == LH_OK) st = own_positions(&own, x, heads, arena);
    LH_TRY_DONE(lh_comm_agree(x->comm, st));
    LH_TRY_DONE(lh_gather_lens(&gather, heads, x->comm, arena->len, lens));
    if (root) {
        st = lh_calloc(&out->offsets, heads->kv_heads + 1, sizeof *out->offsets);
        for (int64_t g = 0; st == LH_OK && g < heads->kv_heads; g++) out->offsets[g + 1] = out->offsets[g] + lens[g];
        if (st == LH_OK) st = lh_calloc(&out->positions, out->offsets[heads->kv_heads], sizeof *out->positions);
        out->heads = heads->kv_heads;
    }
    LH_TRY_DONE(lh_comm_agree(x->comm, st));
    lh_gather_entries(&gather, heads, lens, sizeof *own);
    LH_TRY_DONE(lh_comm_gatherv(x->comm, 0, own, out->positions, gather.bytes, gather.at));
done:
    lh_gather_clear(&gather);
    lh_free(lens);
    lh_free(own);
    if (st != LH_OK) lh_positions_clear(out);
    return st;
}

void lh_positions_clear(lh_positions *positions)
{
    lh_free(positions->offsets);
    lh_free(positions->positions);
    *positions = (lh_positions){0};
}
