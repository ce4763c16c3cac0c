/* bpe_tables.c - three hash tables with linear probing, at most half full. Pieces are hashed by their text (XXH3),
 * merges and pairs by their two numbers in one 64-bit key (Fibonacci hashing). */
#include "text/bpe_tables.h"

#include <string.h>
#include <xxhash.h>

/* The smallest power of two that n entries fill at most half. */
static int64_t slots_for(int64_t n)
{
    int64_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    return slots;
}

/* Fibonacci hashing with the high half folded in. */
static uint64_t mix(uint64_t key)
{
    key *= 0x9E3779B97F4A7C15u;
    return key ^ key >> 32;
}

/* ---- pieces ---- */

lh_status lh_pieces_open(lh_pieces *pieces, int64_t n)
{
    int64_t slots = slots_for(n);
    *pieces = (lh_pieces){0};
    LH_TRY(lh_calloc(&pieces->list, n, sizeof *pieces->list));
    LH_TRY(lh_calloc(&pieces->slots, slots, sizeof *pieces->slots));
    memset(pieces->slots, 0xFF, (size_t)slots * sizeof *pieces->slots);
    pieces->mask = (uint64_t)slots - 1;
    return LH_OK;
}

static int32_t *piece_slot(const lh_pieces *p, const char *text, int64_t bytes)
{
    for (uint64_t i = XXH3_64bits(text, (size_t)bytes) & p->mask;; i = (i + 1) & p->mask) {
        if (p->slots[i] < 0) return &p->slots[i];
        const lh_piece *piece = &p->list[p->slots[i]];
        if (piece->bytes == bytes && memcmp(p->texts.data + piece->start, text, (size_t)bytes) == 0)
            return &p->slots[i];
    }
}

lh_status lh_pieces_add(lh_pieces *pieces, const char *text, int64_t bytes, int32_t id)
{
    if (bytes > INT32_MAX) LH_FAIL(LH_EINPUT, "a piece of %lld bytes is too long", (long long)bytes);
    int32_t *slot = piece_slot(pieces, text, bytes);
    if (*slot >= 0) {
        pieces->list[*slot].id = id;
        return LH_OK;
    }
    *slot = (int32_t)pieces->n;
    pieces->list[pieces->n++] = (lh_piece){pieces->texts.bytes, (int32_t)bytes, id};
    LH_TRY(lh_buf_append(&pieces->texts, text, bytes));
    LH_TRY(lh_buf_append(&pieces->texts, "", 1));
    return LH_OK;
}

lh_status lh_pieces_index(lh_pieces *pieces)
{
    for (int64_t i = 0; i < pieces->n; i++)
        if (pieces->list[i].id >= pieces->ids) pieces->ids = (int64_t)pieces->list[i].id + 1;
    LH_TRY(lh_calloc(&pieces->by_id, pieces->ids, sizeof *pieces->by_id));
    memset(pieces->by_id, 0xFF, (size_t)pieces->ids * sizeof *pieces->by_id);
    for (int64_t i = 0; i < pieces->n; i++) pieces->by_id[pieces->list[i].id] = (int32_t)i;
    return LH_OK;
}

void lh_pieces_close(lh_pieces *pieces)
{
    lh_buf_clear(&pieces->texts);
    lh_free(pieces->list);
    lh_free(pieces->slots);
    lh_free(pieces->by_id);
    *pieces = (lh_pieces){0};
}

int32_t lh_pieces_find(const lh_pieces *pieces, const char *text, int64_t bytes)
{
    int32_t i = *piece_slot(pieces, text, bytes);
    return i < 0 ? -1 : pieces->list[i].id;
}

const char *lh_pieces_text(const lh_pieces *pieces, int32_t id, int64_t *bytes)
{
    if (id < 0 || id >= pieces->ids || pieces->by_id[id] < 0) return NULL;
    const lh_piece *piece = &pieces->list[pieces->by_id[id]];
    *bytes = piece->bytes;
    return pieces->texts.data + piece->start;
}

/* ---- merges ---- */

lh_status lh_merges_open(lh_merges *merges, int64_t n)
{
    int64_t slots = slots_for(n);
    LH_TRY(lh_calloc(&merges->slots, slots, sizeof *merges->slots));
    memset(merges->slots, 0xFF, (size_t)slots * sizeof *merges->slots);
    merges->mask = (uint64_t)slots - 1;
    return LH_OK;
}

static lh_merge *merge_slot(const lh_merges *m, int32_t left, int32_t right)
{
    uint64_t i = mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & m->mask;
    while (m->slots[i].left >= 0 && (m->slots[i].left != left || m->slots[i].right != right)) i = (i + 1) & m->mask;
    return &m->slots[i];
}

void lh_merges_put(lh_merges *merges, lh_merge merge)
{
    *merge_slot(merges, merge.left, merge.right) = merge;
}

const lh_merge *lh_merges_find(const lh_merges *merges, int32_t left, int32_t right)
{
    const lh_merge *slot = merge_slot(merges, left, right);
    return slot->left < 0 ? NULL : slot;
}

void lh_merges_close(lh_merges *merges)
{
    lh_free(merges->slots);
    *merges = (lh_merges){0};
}

/* ---- pairs ---- */

lh_status lh_pairs_open(lh_pairs *pairs, int64_t n)
{
    int64_t slots = slots_for(n);
    LH_TRY(lh_calloc(&pairs->slots, slots, sizeof *pairs->slots));
    memset(pairs->slots, 0xFF, (size_t)slots * sizeof *pairs->slots);
    pairs->mask = (uint64_t)slots - 1;
    return LH_OK;
}

static uint64_t *pair_slot(const lh_pairs *p, uint64_t key)
{
    uint64_t i = mix(key) & p->mask;
    while (p->slots[i] != key && p->slots[i] != UINT64_MAX) i = (i + 1) & p->mask;
    return &p->slots[i];
}

void lh_pairs_put(lh_pairs *pairs, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    *pair_slot(pairs, key) = key;
}

int lh_pairs_has(const lh_pairs *pairs, uint32_t left, uint32_t right)
{
    return *pair_slot(pairs, (uint64_t)left << 32 | right) != UINT64_MAX;
}

void lh_pairs_close(lh_pairs *pairs)
{
    lh_free(pairs->slots);
    *pairs = (lh_pairs){0};
}
