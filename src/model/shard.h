/* shard.h - what a rank of a TP group owns of a model: contiguous ranges of heads, of MLP channels and of vocabulary
 * rows. Channels go by whole blocks, of which there is a fixed number whatever the number of ranks, so that the
 * reproducible mode can add their products in one order. They are shared out evenly whatever the heads are: ranks meet
 * after the attention and after the MLP, so one that had less to do in the first cannot make up for it in the second.
 */
#ifndef LH_MODEL_SHARD_H
#define LH_MODEL_SHARD_H

#include "exec/heads.h"
#include "import/config.h"
#include "import/weights.h"

/* Blocks that the channels of an MLP are cut into; block b holds channels lh_ff_block(ff, b) .. lh_ff_block(ff, b + 1).
 */
enum { LH_FF_BLOCKS = 48 };
int64_t lh_ff_block(int64_t ff, int64_t block);

typedef struct lh_shard {
    lh_heads heads;
    int64_t block_first, block_count; /* of LH_FF_BLOCKS */
    int64_t ff_first, ff_count;       /* the channels of these blocks */
    int64_t vocab_first, vocab_count;
    int rank, ranks;
} lh_shard;

/* LH_EUSAGE when the model cannot be cut for so many ranks. */
lh_status lh_shard_of(lh_shard *out, const lh_config *config, int rank, int ranks);

/* Rows (or columns) of a tensor that belong to a shard. */
void lh_shard_range(const lh_shard *shard, const lh_config *config, lh_weight_unit unit, int64_t *first,
                    int64_t *count);

#endif
