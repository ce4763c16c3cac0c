/* layer_writer.h - layers to a file that rank 0 writes: what all ranks hold of an array is gathered there head by head
 * and chunk by chunk, so that the file does not depend on the number of ranks and no rank needs memory for more than a
 * chunk. Of caches and of prefills in flight. */
#ifndef LH_CACHE_LAYER_WRITER_H
#define LH_CACHE_LAYER_WRITER_H

#include "base/hash.h"
#include "cache/file_layout.h"
#include "exec/gather.h"

/* `mine` is what this rank sends, `all` what rank 0 receives. */
typedef struct lh_layer_writer {
    const lh_exec *exec;
    const lh_heads *heads;
    lh_h5 *h5; /* on rank 0 */
    char *mine, *all;
    int64_t *offsets, *lens; /* of the layer's heads, of all ranks: [kv_heads + 1], [kv_heads] */
    lh_gather gather;
    lh_hasher *hasher;
    lh_h5_array *array;
    lh_layer_name name; /* of the array */
    lh_status local;    /* of this rank alone: it goes on taking part */
} lh_layer_writer;

/* Not collective: agree afterwards. Close it whatever open returns; a file that is not committed is removed. */
lh_status lh_layer_writer_open(lh_layer_writer *w, const lh_exec *exec, const lh_heads *heads, const char *path,
                               const lh_h5_header *header);
void lh_layer_writer_close(lh_layer_writer *w);

/* Collective, as all below. A layer of a cache after `seen` tokens: its offsets, the arrays of its entries, its ring.
 * Failures of rank 0 alone are kept in w->local. */
lh_status lh_write_layer(lh_layer_writer *w, int64_t layer, const lh_cache_layer *of, int64_t seen);

/* Numbers of KV heads, head by head: the lens[kv_first + h] entries of this rank's head h begin at entry offset[h] of
 * `array.at`. In an arena with a parent the first shared[h] of them lie in the parent's array. */
typedef struct lh_head_array {
    lh_entry_array array;
    const int64_t *offset; /* [kv_count] */
    const int64_t *lens;   /* [kv_heads] */
    const int64_t *shared; /* [kv_count]; NULL: there is no parent */
    const char *parent_at;
    const int64_t *parent_offset; /* [kv_count] */
} lh_head_array;
lh_status lh_write_heads(lh_layer_writer *w, int64_t layer, const lh_head_array *of);

/* Numbers of query heads, row by row: [rows, heads, width]. */
typedef struct lh_row_array {
    const char *name;
    lh_dtype type;   /* in the file: of f32, or of the same 32 bits as integers, where not all numbers are finite */
    const float *at; /* device: `width` numbers of each of this rank's query heads, a row every `ld` */
    int64_t rows, width, ld;
    const lh_query_ring *ring; /* in whose order they lie after `seen` tokens; NULL: one after the other */
    int64_t seen;
} lh_row_array;
lh_status lh_write_rows(lh_layer_writer *w, int64_t layer, const lh_row_array *of);

/* What rank 0 has as all others do: [rows, width] f32 of device memory. Not collective. */
void lh_write_matrix(lh_layer_writer *w, const char *name, const float *at, int64_t rows, int64_t width);

/* The file is whole: LH_EWRITE on every rank when rank 0 could not write it. */
lh_status lh_layer_writer_commit(lh_layer_writer *w);

#endif
