/* Moving the entries that are kept to the front of their heads. */
#include "kernels/cpu/common.h"

/* Entries [from, from + n) of head h in src to `to` of head h in dst. */
static void move_entries(const lh_compact_args *a, int64_t h, int64_t to, int64_t from, int64_t n)
{
    const lh_ragged *dst = a->dst, *src = a->src;
    int64_t bytes = src->head_dim * lh_dtype_bytes(src->type), at = dst->offset[h] + to, of = src->offset[h] + from;
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

static void compact_in_order(const lh_compact_args *a, int64_t h)
{
    const uint8_t *state = a->state + h * a->ld;
    int64_t len = a->src->len[h], kept = 0;
    for (int64_t s = 0; s < len;) {
        int64_t from = s;
        s = next_hole(state, s, len);
        move_entries(a, h, kept, from, s - from);
        kept += s - from;
        while (s < len && state[s] != LH_ENTRY_KEEP) s++;
    }
    a->dst->len[h] = kept;
}

/* After the last hole nothing moves. */
static void compact_fill(const lh_compact_args *a, int64_t h)
{
    const uint8_t *state = a->state + h * a->ld;
    int64_t end = a->src->len[h];
    for (int64_t s = 0; (s = next_hole(state, s, end)) < end; s++) {
        do {
            end--;
        } while (end > s && state[end] != LH_ENTRY_KEEP);
        if (end > s) move_entries(a, h, s, end, 1);
    }
    a->dst->len[h] = end;
}

static void compact_head(const lh_compact_args *a, int64_t h)
{
    if (a->kind == LH_COMPACT_FILL)
        compact_fill(a, h);
    else
        compact_in_order(a, h);
}

static lh_status op_compact(lh_stream *stream, const lh_compact_args *a)
{
    /* holes to fill are few as a rule: finding them is the work */
    int64_t work = a->src->heads * a->ld * (a->kind == LH_COMPACT_FILL ? 1 : a->src->head_dim);
    (void)stream;
    assert(!a->dst->stats || a->dst->stat_count == a->src->stat_count);
    FOR_EACH(h, a->src->heads, work >= PARALLEL_FROM, compact_head(a, h));
    return LH_OK;
}
