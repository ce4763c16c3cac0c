/* shard.h - the shard of a model that a rank of a TP group owns: contiguous ranges of heads, of MLP channels and of
 * vocabulary rows. Channels are divided by whole blocks, whose number does not depend on the number of ranks, so that
 * the reproducible mode can add their products in one order. They are divided evenly even if the heads are not: ranks
 * synchronise after the attention and after the MLP, so less work in one does not compensate for more work in the
 * other. */
#ifndef LH_MODEL_SHARD_H
#define LH_MODEL_SHARD_H

#include "exec/heads.h"
#include "import/config.h"
#include "import/weights.h"

/* Number of blocks of the `ff` channels of an MLP, from 1 to LH_FF_BLOCKS_MAX: the number of groups of 32 channels, up
 * to the maximum. A rank has no channels only if there are more ranks than blocks. 96 blocks divide evenly over 2, 3,
 * 4, 6, 8, 12, 16, 24, 32 and 48 ranks; 192 would double the products that the reproducible mode gathers. */
enum { LH_FF_BLOCKS_MAX = 96 };
int64_t lh_ff_blocks(int64_t ff);

/* The first channel of a block: block b holds channels [lh_ff_block(ff, b), lh_ff_block(ff, b + 1)). From 512 channels
 * on all bounds but the last are multiples of 32. */
int64_t lh_ff_block(int64_t ff, int64_t block);

typedef struct lh_shard {
    lh_heads heads;
    int64_t block_first, block_count; /* of lh_ff_blocks(ff) */
    int64_t ff_first, ff_count;       /* the channels of these blocks */
    int64_t vocab_first, vocab_count;
    int rank, ranks;
} lh_shard;

/* LH_EUSAGE if the model cannot be divided over so many ranks. */
lh_status lh_shard_of(lh_shard *out, const lh_config *config, int rank, int ranks);

/* Rows (or columns) of a tensor that belong to a shard. */
void lh_shard_range(const lh_shard *shard, const lh_config *config, lh_weight_unit unit, int64_t *first,
                    int64_t *count);

#endif
