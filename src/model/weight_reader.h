/* weight_reader.h - reads weights into device memory so that the ranks that load a model together read each byte once:
 * ranks that need the same rows read a part of them each and gather the parts. Blocks of a random model are drawn by
 * the checkpoint as others are read; its plain numbers are drawn in place, by the device. */
#ifndef LH_MODEL_WEIGHT_READER_H
#define LH_MODEL_WEIGHT_READER_H

#include "comm/comm.h"
#include "device/device.h"
#include "import/checkpoint.h"
#include "kernels/ops.h"

typedef struct lh_weight_reader {
    lh_checkpoint *ck;
    lh_stream *stream;   /* stream of the device memory */
    const lh_ops *ops;   /* operations of the device, to generate the weights of a random model */
    int64_t piece_bytes; /* bytes of rows in transfer */
    int64_t alone_bytes; /* tensors up to this size are read by every rank: waiting for peers would take longer */
    lh_comm *all;        /* host memory; NULL: only this rank */
    lh_comm *same;       /* ranks of `all` with the same shard; NULL: only this rank */
    lh_status stopped;   /* status of this rank, exchanged with each gather; after a failure nothing more is read */
    int64_t read_bytes;  /* bytes that this rank has read from a file, counted in the type in memory */
} lh_weight_reader;

/* One call reads the rows [row, row + rows) and columns of a tensor that this rank owns; `whole` has the rows and
 * columns of all shards together. */
typedef struct lh_weight_part {
    lh_weight_range range, whole;
    lh_weight_sharding sharding;
} lh_weight_part;

/* Collective over `all`: all ranks call it for the same parts, each with its range. at: [rows, cols] of plain numbers,
 * converted, or packed weights (pack_weights) of the blocks in the file, of the same format. LH_EFILE for a value
 * that is not finite. Random plain numbers are only enqueued. */
lh_status lh_weight_reader_read(lh_weight_reader *reader, const lh_weight_part *part, void *at,
                                const lh_format *format);

#endif
