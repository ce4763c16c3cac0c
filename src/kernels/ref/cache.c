/* Appending entries to caches, query rows to a ring; copying and compacting entries. */
#include <string.h>

#include "kernels/ref/ref.h"

/* A row of a->k or a->v to a slot. work: [n]. */
static void append_row(const lh_ref_rows *to, int64_t slot, const float *from, float *work, int64_t n)
{
    memcpy(work, from, (size_t)n * sizeof *work);
    ref_row_store(to, slot, work, n);
}

static void append_token(lh_ragged *kv, const lh_append_args *a, int64_t h, int64_t row, float *work)
{
    int64_t slot = kv->offset[h] + kv->len[h] + row % a->tokens, from = row * a->ld + h * kv->head_dim;
    const lh_ref_rows keys = ref_keys(kv), values = ref_values(kv);
    append_row(&keys, slot, a->k + from, work, kv->head_dim);
    append_row(&values, slot, a->v + from, work, kv->head_dim);
    if (kv->positions) kv->positions[slot] = a->positions[row];
    if (kv->bias) kv->bias[slot] = 0.0f;
    for (int64_t c = 0; kv->stats && c < kv->stat_count; c++) kv->stats[slot * kv->stat_count + c] = 0.0f;
}

lh_status lh_ref_append(lh_stream *stream, const lh_append_args *a)
{
    float *work = NULL;
    for (int64_t b = 0; b < a->batch; b++) {
        LH_TRY(lh_stream_scratch(stream, &work, a->seqs[b].head_dim * (int64_t)sizeof *work));
        for (int64_t h = 0; h < a->seqs[b].heads; h++) {
            for (int64_t t = 0; t < a->tokens; t++) append_token(&a->seqs[b], a, h, b * a->tokens + t, work);
            if (!a->leaves_len) a->seqs[b].len[h] += a->tokens;
        }
    }
    return LH_OK;
}

lh_status lh_ref_put_rows(lh_stream *stream, const lh_put_rows_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++)
        memcpy(a->ring + lh_ring_place(a->positions[t], a->rows, a->head) * a->width, a->x + t * a->x_ld,
               (size_t)a->width * sizeof *a->ring);
    return LH_OK;
}

/* Key and value of slot `to` of dst = key and value of slot `from` of src. */
static void move_numbers(const lh_ragged *dst, int64_t to, const lh_ragged *src, int64_t from)
{
    const int64_t bytes = src->head_dim * lh_dtype_bytes(src->type);
    memmove((char *)dst->k + to * bytes, (const char *)src->k + from * bytes, (size_t)bytes);
    memmove((char *)dst->v + to * bytes, (const char *)src->v + from * bytes, (size_t)bytes);
    if (src->type != LH_Q8) return;
    dst->k_scale[to] = src->k_scale[from];
    dst->v_scale[to] = src->v_scale[from];
}

lh_status lh_ref_gather_entries(lh_stream *stream, const lh_gather_entries_args *a)
{
    const lh_ragged *dst = a->dst, *src = a->src;
    (void)stream;
    for (int64_t i = 0; i < a->count; i++) {
        int64_t to = dst->offset[0] + i, from = src->offset[a->head] + a->order[i];
        move_numbers(dst, to, src, from);
        dst->positions[to] = (int32_t)lh_position(src, a->head, a->order[i]);
        if (dst->bias) dst->bias[to] = src->bias ? src->bias[from] : 0.0f;
    }
    dst->len[0] = a->count;
    return LH_OK;
}

/* ---- compaction ---- */
/* Entry `to` of head h in dst = entry `from` of head h in src. */
static void move_entry(const lh_ragged *dst, int64_t to, const lh_ragged *src, int64_t from, int64_t h)
{
    int64_t at = dst->offset[h] + to, of = src->offset[h] + from;
    move_numbers(dst, at, src, of);
    dst->positions[at] = (int32_t)lh_position(src, h, from);
    if (dst->bias) dst->bias[at] = src->bias ? src->bias[of] : 0.0f;
    for (int64_t c = 0; dst->stats && c < dst->stat_count; c++)
        dst->stats[at * dst->stat_count + c] = src->stats[of * src->stat_count + c];
}

/* Compacts head h of a cache by the states of its slots. */
static int64_t compact_in_order(const lh_ragged *dst, const lh_ragged *src, const uint8_t *state, int64_t h)
{
    int64_t kept = 0;
    for (int64_t s = 0; s < src->len[h]; s++) {
        if (state[s] == LH_ENTRY_KEEP) move_entry(dst, kept++, src, s, h);
    }
    return kept;
}

static int64_t compact_fill(const lh_ragged *dst, const lh_ragged *src, const uint8_t *state, int64_t h)
{
    int64_t kept = 0, last = src->len[h];
    for (int64_t s = 0; s < src->len[h]; s++) kept += state[s] == LH_ENTRY_KEEP;
    for (int64_t s = 0; s < kept; s++) {
        int64_t from = s;
        if (state[s] != LH_ENTRY_KEEP) {
            do {
                last--;
            } while (state[last] != LH_ENTRY_KEEP);
            from = last;
        }
        move_entry(dst, s, src, from, h);
    }
    return kept;
}

lh_status lh_ref_compact(lh_stream *stream, const lh_compact_args *a)
{
    (void)stream;
    for (int64_t row = 0; row < a->batch * a->src->heads; row++) {
        int64_t h;
        const lh_ragged *src = lh_cache_of_row(a->src, row, &h), *dst = lh_cache_of_row(a->dst, row, &h);
        assert(!dst->stats || dst->stat_count == src->stat_count);
        dst->len[h] =
            (a->kind == LH_COMPACT_FILL ? compact_fill : compact_in_order)(dst, src, a->state + row * a->ld, h);
    }
    return LH_OK;
}
