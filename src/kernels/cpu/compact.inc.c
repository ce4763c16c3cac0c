/* Moving the entries that are kept to the front of their heads. */
#include "kernels/cpu/common.h"

/* A head of one of the caches. */
typedef struct compact_head {
    const lh_ragged *dst, *src;
    const uint8_t *state;
    int64_t h;
} compact_head;

/* Entries [from, from + n) of the head in src to `to` of that in dst. */
static void move_entries(const compact_head *a, int64_t to, int64_t from, int64_t n)
{
    const lh_ragged *dst = a->dst, *src = a->src;
    int64_t h = a->h, bytes = src->head_dim * lh_dtype_bytes(src->type), at = dst->offset[h] + to,
            of = src->offset[h] + from;
    if (n == 0) return;                         /* where nothing is kept there is no memory either */
    if (to == from && dst->k == src->k) return; /* in place */
    memmove((char *)dst->k + at * bytes, (const char *)src->k + of * bytes, (size_t)(n * bytes));
    memmove((char *)dst->v + at * bytes, (const char *)src->v + of * bytes, (size_t)(n * bytes));
    if (dst->bias && src->bias) memmove(dst->bias + at, src->bias + of, (size_t)n * sizeof *dst->bias);
    if (dst->bias && !src->bias) memset(dst->bias + at, 0, (size_t)n * sizeof *dst->bias);
    if (dst->stats)
        memmove(dst->stats + at * dst->stat_count, src->stats + of * src->stat_count,
                (size_t)(n * dst->stat_count) * sizeof *dst->stats);
    for (int64_t i = 0; i < n; i++) dst->positions[at + i] = lh_position(src, h, from + i);
}

/* The first slot from s on, before `end`, that is not kept: eight at a time. */
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

/* After the last hole nothing moves. */
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
    /* holes to fill are few as a rule: finding them is the work */
    const int64_t rows = a->batch * a->src->heads;
    const int64_t work = rows * a->ld * (a->kind == LH_COMPACT_FILL ? 1 : a->src->head_dim);
    (void)stream;
    FOR_EACH(r, rows, work >= PARALLEL_FROM, compact_row(a, r));
    return LH_OK;
}
