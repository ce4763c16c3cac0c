#include "exec/gather.h"

#include "base/mem.h"

lh_status lh_gather_init(lh_gather *g, int ranks)
{
    LH_TRY(lh_calloc(&g->bytes, 2 * (int64_t)ranks, sizeof *g->bytes));
    g->at = g->bytes + ranks;
    return LH_OK;
}

void lh_gather_clear(lh_gather *g)
{
    lh_free(g->bytes);
    *g = (lh_gather){0};
}

void lh_gather_query_heads(lh_gather *g, const lh_heads *heads, int64_t head_bytes)
{
    for (int r = 0; r < heads->ranks; r++) {
        lh_heads other = lh_heads_at(heads, r);
        g->bytes[r] = head_bytes * other.q_count;
        g->at[r] = head_bytes * other.q_first;
    }
}

void lh_gather_kv_heads(lh_gather *g, const lh_heads *heads, int64_t head_bytes)
{
    for (int r = 0; r < heads->ranks; r++) {
        lh_heads other = lh_heads_at(heads, r);
        g->bytes[r] = head_bytes * other.counted_count;
        g->at[r] = head_bytes * other.counted_first;
    }
}

void lh_gather_entries(lh_gather *g, const lh_heads *heads, const int64_t *lens, int64_t entry_bytes)
{
    int64_t at = 0;
    for (int r = 0; r < heads->ranks; r++) {
        lh_heads other = lh_heads_at(heads, r);
        g->at[r] = at;
        for (int64_t i = 0; i < other.counted_count; i++) at += lens[other.counted_first + i] * entry_bytes;
        g->bytes[r] = at - g->at[r];
    }
}

lh_status lh_gather_lens(lh_gather *g, const lh_heads *heads, lh_comm *comm, const int64_t *lens, int64_t *all)
{
    lh_gather_kv_heads(g, heads, sizeof *all);
    return lh_comm_allgatherv(comm, lens + heads->counted_first - heads->kv_first, all, g->bytes, g->at);
}
