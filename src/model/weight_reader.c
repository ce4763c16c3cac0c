/* weight_reader.c - reads rows in pieces: read a part, gather the parts, keep this rank's columns. */
#include "model/weight_reader.h"

#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "import/random_weights.h"
#include "kernels/packed.h"

/* Rows of a tensor in transfer. */
typedef struct transfer {
    lh_weight_reader *reader;
    lh_comm *comm;         /* ranks that need these rows; NULL: only this rank */
    lh_weight_range range; /* with whole blocks of columns */
    int64_t skip, taken;   /* columns of the range before this rank's, and this rank's columns */
    int64_t cols;          /* columns that are read: the range's, or all columns if other ranks need the rest */
    const lh_format *format;
    char *at;
    int in_place; /* true if rows are read directly to their final place */
} transfer;

static int size_of(const lh_comm *comm)
{
    return comm ? lh_comm_size(comm) : 1;
}

static int64_t row_bytes(const transfer *t)
{
    return lh_format_bytes(t->format, t->cols);
}

/* Reads this rank's part of the rows [first, first + n) of the range, and gathers the parts of the other ranks. rows:
 * [n, cols] */
static lh_status gather(const transfer *t, int64_t first, int64_t n, char *rows, int64_t *bytes)
{
    lh_weight_reader *r = t->reader;
    const int size = size_of(t->comm), rank = t->comm ? lh_comm_rank(t->comm) : 0;
    int64_t *starts = bytes + size;
    for (int p = 0; p < size; p++) {
        starts[p] = n * p / size * row_bytes(t);
        bytes[p] = n * (p + 1) / size * row_bytes(t) - starts[p];
    }
    lh_weight_range own = t->range;
    own.row += first + n * rank / size;
    own.rows = n * (rank + 1) / size - n * rank / size;
    own.col = t->cols == own.cols ? own.col : 0;
    own.cols = t->cols;
    if (r->stopped == LH_OK && own.rows)
        r->stopped = t->format->is_plain
                         ? lh_checkpoint_read(r->ck, &own, rows + starts[rank], t->format->plain, own.cols)
                         : lh_checkpoint_read_blocks(r->ck, &own, rows + starts[rank]);
    if (lh_checkpoint_file(r->ck)) r->read_bytes += bytes[rank];
    if (size == 1)
        return size_of(r->all) > 1 ? LH_OK : r->stopped; /* the other ranks get the status with the next gather */
    LH_TRY(lh_comm_agree(r->all, r->stopped));
    return lh_comm_allgatherv(t->comm, rows + starts[rank], rows, bytes, starts);
}

/* Copies or packs the columns of the range from host memory to their final place. first: a multiple of
 * LH_PACKED_ROWS. */
static lh_status put(const transfer *t, int64_t first, int64_t n, char *rows)
{
    lh_stream *stream = t->reader->stream;
    const int64_t bytes = lh_format_bytes(t->format, t->range.cols);
    if (t->in_place) return LH_OK;
    if (t->cols != t->range.cols) {
        const char *from = rows + lh_format_bytes(t->format, t->range.col);
        for (int64_t i = 0; i < n; i++) memmove(rows + i * bytes, from + i * row_bytes(t), (size_t)bytes);
    }
    if (t->format->is_plain)
        LH_TRY(lh_stream_copy(stream, t->at + first * bytes, rows, n * bytes, LH_COPY_TO_DEVICE));
    else
        LH_TRY(t->reader->ops->pack_weights(
            stream, &(lh_pack_weights_args){.dst = t->at + lh_packed_bytes(t->format, first, t->skip, t->taken),
                                            .src = rows,
                                            .format = t->format,
                                            .rows = n,
                                            .skip = t->skip,
                                            .cols = t->taken}));
    return lh_stream_sync(stream);
}

/* The first row of piece k. */
static int64_t bound(const transfer *t, int64_t k, int64_t pieces)
{
    const int64_t row = t->range.rows * k / pieces;
    return k == pieces ? row : row / LH_PACKED_ROWS * LH_PACKED_ROWS;
}

static lh_status move_all(const transfer *t, int64_t pieces, int64_t *bytes)
{
    for (int64_t k = 0; k < pieces; k++) {
        const int64_t first = bound(t, k, pieces), n = bound(t, k + 1, pieces) - first;
        void *rows = t->at + first * row_bytes(t);
        if (!t->in_place) LH_TRY(lh_stream_staging(t->reader->stream, &rows, lh_max_i64(n, 1) * row_bytes(t)));
        LH_TRY(gather(t, first, n, rows, bytes));
        LH_TRY(put(t, first, n, rows));
    }
    return LH_OK;
}

/* The plain numbers of a random model. */
static lh_status draw(const lh_weight_reader *r, const lh_weight_part *part, void *at, lh_dtype type)
{
    const lh_weight_range *range = &part->range;
    const lh_random_weight w = lh_random_weight_of(lh_checkpoint_config(r->ck), range->weight, range->layer);
    const int64_t step = part->whole.cols;
    return r->ops->random_weights(
        r->stream, &(lh_random_weights_args){.y = at,
                                             .y_type = type,
                                             .stored = lh_weight_type(range->weight, lh_checkpoint_dtype(r->ck)),
                                             .rows = range->rows,
                                             .cols = range->cols,
                                             .first = range->row * step + range->col,
                                             .step = step,
                                             .stream = w.stream,
                                             .mean = w.mean,
                                             .scale = w.scale});
}

/* Ranks with the same shard need the same rows of a tensor that is sharded by rows; all ranks need the rows of other
 * tensors. */
lh_status lh_weight_reader_read(lh_weight_reader *r, const lh_weight_part *part, void *at, const lh_format *format)
{
    int64_t *bytes = NULL;
    const lh_weight_range *range = &part->range, *whole = &part->whole;
    const int is_plain = lh_checkpoint_format(r->ck, range->weight, range->layer)->is_plain;
    if (is_plain && !lh_checkpoint_file(r->ck)) return draw(r, part, at, format->plain);
    const int64_t tensor_bytes = lh_format_bytes(format, whole->rows * whole->cols);
    lh_comm *comm = tensor_bytes <= r->alone_bytes ? NULL : part->sharding == LH_SHARD_ROWS ? r->same : r->all;
    transfer t = {.reader = r, .comm = comm, .range = *range, .taken = range->cols, .format = format, .at = at};
    t.skip = range->col % format->values;
    t.range.col -= t.skip;
    t.range.cols = (t.skip + t.taken + format->values - 1) / format->values * format->values;
    t.cols = size_of(comm) > 1 ? whole->cols : t.range.cols;
    t.in_place =
        format->is_plain && t.cols == range->cols && lh_device_kind_of(lh_stream_device(r->stream)) == LH_DEVICE_CPU;
    /* the same number on all ranks, for any shard */
    const int64_t pieces = tensor_bytes / r->piece_bytes + 1;
    LH_TRY(lh_calloc(&bytes, 2 * size_of(comm), sizeof *bytes));
    lh_status st = move_all(&t, pieces, bytes);
    lh_free(bytes);
    return st;
}
