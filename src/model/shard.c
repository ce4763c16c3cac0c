#include "model/shard.h"

#include <assert.h>

int64_t lh_ff_block(int64_t ff, int64_t block)
{
    return ff * block / LH_FF_BLOCKS;
}

/* Products per token of one layer that grow with heads, and those of one MLP channel: what a rank's share is measured
 * in. */
static double head_cost(const lh_config *c, const lh_heads *h)
{
    return (double)c->hidden * (double)c->head_dim * (double)(2 * h->q_count + 2 * h->kv_count);
}

/* First block of every rank (starts[ranks] = LH_FF_BLOCKS): boundaries where the work of heads and channels together is
 * shared as evenly as whole blocks allow. The same on every rank. */
static lh_status block_start(const lh_config *c, int rank, int ranks, int64_t *out)
{
    lh_status st = LH_OK;
    double block_cost = 3.0 * (double)c->hidden * (double)c->ff / LH_FF_BLOCKS, total = block_cost * LH_FF_BLOCKS,
           before = 0;
    for (int r = 0; r < ranks; r++) {
        lh_heads h;
        LH_TRY(lh_heads_of(&h, c->heads, c->kv_heads, r, ranks));
        total += head_cost(c, &h);
        if (r < rank) before += head_cost(c, &h);
    }
    /* Ranks before this one should have done rank / ranks of everything. Monotone in rank only where no rank's heads
     * cost more than its share: the clamp below keeps the boundaries in order. */
    double blocks = (total * rank / ranks - before) / block_cost;
    *out = rank == ranks ? LH_FF_BLOCKS : blocks < 0 ? 0 : (int64_t)(blocks + 0.5);
    if (*out > LH_FF_BLOCKS) *out = LH_FF_BLOCKS;
done:
    return st;
}

static lh_status block_range(const lh_config *c, int rank, int ranks, int64_t *first, int64_t *end)
{
    lh_status st = LH_OK;
    int64_t at = 0;
    *first = 0;
    for (int r = 0; r <= rank; r++) {
        *first = at;
        int64_t next;
        LH_TRY(block_start(c, r + 1, ranks, &next));
        if (next > at) at = next;
    }
    *end = at;
done:
    return st;
}

lh_status lh_shard_of(lh_shard *out, const lh_config *config, int rank, int ranks)
{
    lh_status st = LH_OK;
    lh_shard s = {.rank = rank, .ranks = ranks};
    int64_t end = 0;
    LH_TRY(lh_heads_of(&s.heads, config->heads, config->kv_heads, rank, ranks));
    LH_TRY(block_range(config, rank, ranks, &s.block_first, &end));
    s.block_count = end - s.block_first;
    s.ff_first = lh_ff_block(config->ff, s.block_first);
    s.ff_count = lh_ff_block(config->ff, end) - s.ff_first;
    s.vocab_first = config->vocab * rank / ranks;
    s.vocab_count = config->vocab * (rank + 1) / ranks - s.vocab_first;
    *out = s;
done:
    return st;
}

void lh_shard_range(const lh_shard *shard, const lh_config *config, lh_weight_unit unit, int64_t *first, int64_t *count)
{
    switch (unit) {
    case LH_UNIT_HEADS:
        *first = shard->heads.q_first * config->head_dim;
        *count = shard->heads.q_count * config->head_dim;
        break;
    case LH_UNIT_KV_HEADS:
        *first = shard->heads.kv_first * config->head_dim;
        *count = shard->heads.kv_count * config->head_dim;
        break;
    case LH_UNIT_FF:
        *first = shard->ff_first;
        *count = shard->ff_count;
        break;
    case LH_UNIT_VOCAB:
        *first = shard->vocab_first;
        *count = shard->vocab_count;
        break;
    case LH_UNIT_NONE: assert(!"a tensor that is not cut has no range");
    }
}
