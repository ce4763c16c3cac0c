/* weight_reader.h - reads weights into device memory so that the ranks that load a model together read each byte once:
 * those that need the same rows read a part of them each, and gather the parts. Weights of a random model are drawn
 * where they stay. */
#ifndef LH_MODEL_WEIGHT_READER_H
#define LH_MODEL_WEIGHT_READER_H

#include "comm/comm.h"
#include "device/device.h"
#include "import/checkpoint.h"
#include "kernels/ops.h"

typedef struct lh_weight_reader {
    lh_checkpoint *ck;
    lh_stream *stream;   /* of the memory */
    const lh_ops *ops;   /* of its device: draw the weights of a random model */
    int64_t piece_bytes; /* of rows that are on their way at a time */
    int64_t alone_bytes; /* of a tensor that every rank reads for itself: waiting for each other takes longer */
    lh_comm *all;        /* of host memory; NULL: this rank alone */
    lh_comm *same;       /* those of `all` with the same shard; NULL: this rank alone */
    lh_status stopped;   /* of this rank, which the others of `all` learn when they gather; then nothing more is read */
    int64_t read_bytes;  /* by this rank, as they come to be in memory */
} lh_weight_reader;

/* What one call reads: the rows [row, row + rows) and columns of a tensor that this rank has, of `whole` rows and
 * columns which all shards have together. */
typedef struct lh_weight_part {
    lh_weight_range range, whole;
    lh_weight_sharding sharding;
} lh_weight_part;

/* Collective over `all`, whose ranks call it for the same parts, each with its own range. at: [rows, cols] of `type`.
 * LH_EFILE for a value that is not finite. What is drawn is only enqueued. */
lh_status lh_weight_reader_read(lh_weight_reader *reader, const lh_weight_part *part, void *at, lh_dtype type);

#endif
