#include "exec/heads.h"

#include "base/mem.h"

/* Range r of `count` elements in `ranges` contiguous ranges, the larger ranges first. */
static void range_of(int64_t count, int r, int ranges, int64_t *first, int64_t *n)
{
    int64_t each = count / ranges, more = count % ranges;
    *first = r * each + (r < more ? r : more);
    *n = each + (r < more);
}

static void fill(lh_heads *h)
{
    if (h->ranks <= h->kv_heads) {
        range_of(h->kv_heads, h->rank, h->ranks, &h->kv_first, &h->kv_count);
        h->q_first = h->kv_first * h->group;
        h->q_count = h->kv_count * h->group;
    } else if (h->ranks % h->kv_heads == 0) {
        const int sharers = h->ranks / (int)h->kv_heads;
        h->kv_first = h->rank / sharers;
        h->kv_count = 1;
        range_of(h->group, h->rank % sharers, sharers, &h->q_first, &h->q_count);
        h->q_first += h->kv_first * h->group;
    } else {
        range_of(h->heads, h->rank, h->ranks, &h->q_first, &h->q_count);
        h->kv_first = h->q_first / h->group;
        h->kv_count = (h->q_first + h->q_count - 1) / h->group - h->kv_first + 1;
    }
    /* a KV head is counted where its first query head lies */
    h->counted_first = (h->q_first + h->group - 1) / h->group;
    h->counted_count = (h->q_first + h->q_count + h->group - 1) / h->group - h->counted_first;
    h->split = h->ranks > h->kv_heads;
}

lh_status lh_heads_of(lh_heads *out, int64_t heads, int64_t kv_heads, int rank, int ranks)
{
    if (kv_heads < 1 || heads < 1 || heads % kv_heads)
        LH_FAIL(LH_EUSAGE, "%lld query heads cannot be shared by %lld KV heads: it must be a multiple",
                (long long)heads, (long long)kv_heads);
    if (ranks > heads)
        LH_FAIL(LH_EUSAGE, "the model has %lld query heads and cannot be divided over %d ranks: use at most %lld",
                (long long)heads, ranks, (long long)heads);
    *out = (lh_heads){.heads = heads, .kv_heads = kv_heads, .group = heads / kv_heads, .rank = rank, .ranks = ranks};
    fill(out);
    return LH_OK;
}

lh_heads lh_heads_at(const lh_heads *heads, int rank)
{
    lh_heads other = *heads;
    other.rank = rank;
    fill(&other);
    return other;
}

void lh_heads_sharers(const lh_heads *heads, int64_t kv_head, int *first, int *count)
{
    *first = *count = 0;
    for (int r = 0; r < heads->ranks; r++) {
        lh_heads other = lh_heads_at(heads, r);
        if (kv_head < other.kv_first || kv_head >= other.kv_first + other.kv_count) continue;
        if (!(*count)++) *first = r;
    }
}

lh_grouping lh_heads_grouping(const lh_heads *heads)
{
    return (lh_grouping){
        .heads = heads->q_count, .group = heads->group, .first = heads->q_first - heads->kv_first * heads->group};
}

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
    /* a rank that counts no head sends nothing that a counting communicator could repeat */
    for (int64_t h = 0; heads->counted_count == 0 && h < heads->kv_heads; h++) all[h] = lens[0];
    return lh_comm_allgatherv(comm, lens + heads->counted_first - heads->kv_first, all, g->bytes, g->at);
}
