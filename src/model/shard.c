/* shard.c - divides heads, MLP channels and vocabulary rows over the ranks of a TP group. */
#include "model/shard.h"

#include <assert.h>

#include "base/minmax.h"

/* Channels that stay together: the elements of a quantisation block, and a multiple of the 16 bytes that kernels load
 * in one access. Models of test size have fewer, so that each rank still gets some. */
enum { UNIT_CHANNELS = 32, MIN_UNITS = 16 };

static int64_t div_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int64_t unit_of(int64_t ff)
{
    int64_t unit = UNIT_CHANNELS;
    while (unit > 1 && div_up(ff, unit) < MIN_UNITS) unit /= 2;
    return unit;
}

int64_t lh_ff_blocks(int64_t ff)
{
    return lh_min_i64(LH_FF_BLOCKS_MAX, div_up(ff, unit_of(ff)));
}

int64_t lh_ff_block(int64_t ff, int64_t block)
{
    int64_t unit = unit_of(ff);
    return lh_min_i64(ff, div_up(ff, unit) * block / lh_ff_blocks(ff) * unit);
}

lh_status lh_shard_of(lh_shard *out, const lh_config *config, int rank, int ranks)
{
    lh_shard s = {.rank = rank, .ranks = ranks};
    int64_t blocks = lh_ff_blocks(config->ff), end = blocks * (rank + 1) / ranks;
    LH_TRY(lh_heads_of(&s.heads, config->heads, config->kv_heads, rank, ranks));
    s.block_first = blocks * rank / ranks;
    s.block_count = end - s.block_first;
    s.ff_first = lh_ff_block(config->ff, s.block_first);
    s.ff_count = lh_ff_block(config->ff, end) - s.ff_first;
    s.vocab_first = config->vocab * rank / ranks;
    s.vocab_count = config->vocab * (rank + 1) / ranks - s.vocab_first;
    *out = s;
    return LH_OK;
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
