/* Appending entries to caches, query rows to a ring; copying and compacting entries. */
#include "kernels/cpu/common.h"

/* Key and value to a slot of a cache of q8. work: [head_dim]. */
static void append_codes(const lh_ragged *kv, int64_t slot, const float *k, const float *v, float *work)
{
    const int64_t d = kv->head_dim;
    memcpy(work, k, (size_t)d * sizeof *work);
    lh_q8_hadamard(work, d);
    kv->k_scale[slot] = lh_q8_row((int8_t *)kv->k + slot * d, work, d);
    kv->v_scale[slot] = lh_q8_row((int8_t *)kv->v + slot * d, v, d);
}

/* work: [head_dim] for a cache of q8. */
static void append_head(const lh_append_args *a, int64_t b, int64_t h, float *work)
{
    lh_ragged *kv = &a->seqs[b];
    int64_t d = kv->head_dim, slot = kv->offset[h] + kv->len[h];
    if (kv->bias) memset(kv->bias + slot, 0, (size_t)a->tokens * sizeof *kv->bias);
    if (kv->stats)
        memset(kv->stats + slot * kv->stat_count, 0, (size_t)(a->tokens * kv->stat_count) * sizeof *kv->stats);
    for (int64_t t = 0; t < a->tokens; t++, slot++) {
        int64_t row = b * a->tokens + t, at = row * a->ld + h * d;
        if (kv->type == LH_Q8) append_codes(kv, slot, a->k + at, a->v + at, work);
        for (int64_t i = 0; i < d && kv->type != LH_Q8; i += VL) {
            vf_store_any_first(kv->k, kv->type, slot * d + i, vf_load_first(a->k + at + i, d - i), d - i);
            vf_store_any_first(kv->v, kv->type, slot * d + i, vf_load_first(a->v + at + i, d - i), d - i);
        }
        if (kv->positions) kv->positions[slot] = a->positions[row];
    }
    if (!a->leaves_len) kv->len[h] += a->tokens;
}

static lh_status op_append(lh_stream *stream, const lh_append_args *a)
{
    for (int64_t b = 0; b < a->batch; b++) {
        lh_ragged *kv = &a->seqs[b];
        const int64_t ld = round_up(kv->head_dim, 16);
        float *rows = NULL;
        if (kv->type == LH_Q8)
            LH_TRY(lh_stream_scratch(stream, &rows, omp_get_max_threads() * ld * (int64_t)sizeof *rows));
#pragma omp parallel for if (a->tokens * kv->heads * kv->head_dim >= PARALLEL_FROM)
        for (int64_t h = 0; h < kv->heads; h++) append_head(a, b, h, rows ? rows + omp_get_thread_num() * ld : NULL);
    }
    return LH_OK;
}

static lh_status op_put_rows(lh_stream *stream, const lh_put_rows_args *a)
{
    return lh_ref_put_rows(stream, a); /* copies of rows */
}

/* Keys and values of n entries: from slot `from` of src to slot `to` of dst. */
static void move_numbers(const lh_ragged *dst, int64_t to, const lh_ragged *src, int64_t from, int64_t n)
{
    const int64_t bytes = src->head_dim * lh_dtype_bytes(src->type);
    memmove((char *)dst->k + to * bytes, (const char *)src->k + from * bytes, (size_t)(n * bytes));
    memmove((char *)dst->v + to * bytes, (const char *)src->v + from * bytes, (size_t)(n * bytes));
    if (src->type != LH_Q8) return;
    memmove(dst->k_scale + to, src->k_scale + from, (size_t)n * sizeof *dst->k_scale);
    memmove(dst->v_scale + to, src->v_scale + from, (size_t)n * sizeof *dst->v_scale);
}

/* ---- entries of a head in any order, divided among threads ---- */
static void gather_entry(const lh_gather_entries_args *a, int64_t i)
{
    const lh_ragged *dst = a->dst, *src = a->src;
    const int64_t to = dst->offset[0] + i, from = src->offset[a->head] + a->order[i];
    move_numbers(dst, to, src, from, 1);
    dst->positions[to] = (int32_t)lh_position(src, a->head, a->order[i]);
    if (dst->bias) dst->bias[to] = src->bias ? src->bias[from] : 0.0f;
}

static lh_status op_gather_entries(lh_stream *stream, const lh_gather_entries_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->count * a->src->head_dim >= PARALLEL_FROM)
    for (int64_t i = 0; i < a->count; i++) gather_entry(a, i);
    a->dst->len[0] = a->count;
    return LH_OK;
}

/* ---- compaction ---- */
/* A head of one of the caches. */
typedef struct compact_head {
    const lh_ragged *dst, *src;
    const uint8_t *state;
    int64_t h;
} compact_head;

/* Moves entries [from, from + n) of the head in src to slot `to` in dst. */
static void move_entries(const compact_head *a, int64_t to, int64_t from, int64_t n)
{
    const lh_ragged *dst = a->dst, *src = a->src;
    const int64_t h = a->h, at = dst->offset[h] + to, of = src->offset[h] + from;
    if (n == 0) return;                         /* without kept entries there may be no memory */
    if (to == from && dst->k == src->k) return; /* in place */
    move_numbers(dst, at, src, of, n);
    if (dst->bias && src->bias) memmove(dst->bias + at, src->bias + of, (size_t)n * sizeof *dst->bias);
    if (dst->bias && !src->bias) memset(dst->bias + at, 0, (size_t)n * sizeof *dst->bias);
    if (dst->stats)
        memmove(dst->stats + at * dst->stat_count, src->stats + of * src->stat_count,
                (size_t)(n * dst->stat_count) * sizeof *dst->stats);
    for (int64_t i = 0; i < n; i++) dst->positions[at + i] = lh_position(src, h, from + i);
}

/* The first slot in [s, end) that is not KEEP: eight at a time. */
static int64_t next_hole(const uint8_t *state, int64_t s, int64_t end)
{
    uint8_t kept[8], eight[8];
    memset(kept, LH_ENTRY_KEEP, sizeof kept);
    for (; s + 8 <= end; s += 8) {
        memcpy(eight, state + s, sizeof eight);
        if (memcmp(eight, kept, sizeof kept) != 0) break;
    }
    while (s < end && state[s] == LH_ENTRY_KEEP) s++;
    return s;
}

static void compact_in_order(const compact_head *a)
{
    int64_t len = a->src->len[a->h], kept = 0;
    for (int64_t s = 0; s < len;) {
        int64_t from = s;
        s = next_hole(a->state, s, len);
        move_entries(a, kept, from, s - from);
        kept += s - from;
        while (s < len && a->state[s] != LH_ENTRY_KEEP) s++;
    }
    a->dst->len[a->h] = kept;
}

/* Entries after the last hole stay in place. */
static void compact_fill(const compact_head *a)
{
    int64_t end = a->src->len[a->h];
    for (int64_t s = 0; (s = next_hole(a->state, s, end)) < end; s++) {
        do {
            end--;
        } while (end > s && a->state[end] != LH_ENTRY_KEEP);
        if (end > s) move_entries(a, s, end, 1);
    }
    a->dst->len[a->h] = end;
}

static void compact_row(const lh_compact_args *a, int64_t row)
{
    compact_head head = {.state = a->state + row * a->ld};
    head.src = lh_cache_of_row(a->src, row, &head.h);
    head.dst = lh_cache_of_row(a->dst, row, &head.h);
    assert(!head.dst->stats || head.dst->stat_count == head.src->stat_count);
    (a->kind == LH_COMPACT_FILL ? compact_fill : compact_in_order)(&head);
}

static lh_status op_compact(lh_stream *stream, const lh_compact_args *a)
{
    /* there are usually few holes to fill: finding them dominates */
    const int64_t rows = a->batch * a->src->heads;
    const int64_t work = rows * a->ld * (a->kind == LH_COMPACT_FILL ? 1 : a->src->head_dim);
    (void)stream;
    FOR_EACH(r, rows, work >= PARALLEL_FROM, compact_row(a, r));
    return LH_OK;
}
