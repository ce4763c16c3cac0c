/* file_layout.h - the layout of cache files, for writing and reading: names (keep sets have the same names), the arrays
 * of entries, the attributes of /state; and the writer of layers. */
#ifndef LH_CACHE_FILE_LAYOUT_H
#define LH_CACHE_FILE_LAYOUT_H

#include <stddef.h>
#include <stdio.h>

#include "base/hash.h"
#include "cache/cache_file.h"
#include "cache/file_layout.h"
#include "exec/heads.h"

/* Of caches and prefills: LH_CACHE_SCHEMA_PLAIN if no layer is of q8. Before schema 2 the codes of keys were not those
 * of kernels/q8.h. */
enum { LH_CACHE_SCHEMA_PLAIN = 1, LH_CACHE_SCHEMA = 2 };
enum { LH_KEEP_SETS_SCHEMA = 1, LH_CACHE_NUMBERS = 11, LH_ENTRY_ARRAYS = 7 };

enum { LH_FILE_CHUNK_BYTES = 4 << 20 }; /* read or written at a time */

/* Floats in a file are finite and below 2^limit. The limit of weights is in import/convert.h; e to the power of a bias
 * is a number of entries, far below its limit. */
enum { LH_NUMBER_LIMIT = 64, LH_BIAS_LIMIT = 10 };

typedef struct lh_layer_name {
    char text[64];
} lh_layer_name;

/* "/layers/007/k"; array NULL: the group of the layer. */
static inline const char *lh_layer_array(lh_layer_name *name, int64_t layer, const char *array)
{
    snprintf(name->text, sizeof name->text, "/layers/%03lld%s%s", (long long)layer, array ? "/" : "",
             array ? array : "");
    return name->text;
}

/* An array of a layer, with `width` numbers for every entry. */
typedef struct lh_entry_array {
    const char *name, *said; /* said: in messages */
    lh_dtype type;
    int rank;
    int limit;            /* of floats */
    int64_t width, bytes; /* of an entry; 0: the file has no such array */
    void *at;             /* in the arena; NULL: the number of entry i is i */
} lh_entry_array;

/* Positions, keys, values, biases and numbers of the entries, and the scales of quantised keys and values. */
lh_entry_array lh_entry_array_of(const lh_arena *arena, int i);

/* Attributes of /state, in the order of the file. */
typedef struct lh_cache_number {
    const char *name;
    size_t at; /* in lh_cache_numbers */
    int64_t min, max;
} lh_cache_number;
extern const lh_cache_number lh_cache_number_list[LH_CACHE_NUMBERS];

/* Writes policy, /state and tokens, of caches and of prefills in flight. */
lh_status lh_cache_put_state(lh_h5 *h5, const lh_cache_contents *contents);

/* As lh_cache_file_open, for both kinds of file, without logits. */
lh_status lh_cache_file_open_as(lh_cache_file *out, const char *path, const lh_h5_header *want);

/* LH_EFILE unless n numbers of an array are finite and below 2^limit; said: their name in messages. */
lh_status lh_cache_check_finite(const lh_cache_file *file, const char *said, const float *values, int64_t n, int limit);

/* Opens an array by its full name; lh_h5_array_checked after its last slab finds damage. LH_EFILE unless it is
 * of this type and shape. */
lh_status lh_cache_open_array(const lh_cache_file *file, const char *name, const lh_h5_shape *want, lh_h5_array **out);

/* Writes the layers of caches and of prefills in flight. Rank 0 gathers an array head by head and chunk by chunk, so
 * that the file does not depend on the number of ranks and no rank needs memory for more than a chunk. mine: the chunk
 * that this rank sends; all: the chunks that rank 0 receives. */
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
    lh_status local;    /* of this rank, which still takes part in the collectives */
} lh_layer_writer;

/* Not collective: agree afterwards. Call close also after a failed open; removes a file that is not committed. */
lh_status lh_layer_writer_open(lh_layer_writer *w, const lh_exec *exec, const lh_heads *heads, const char *path,
                               const lh_h5_header *header);
void lh_layer_writer_close(lh_layer_writer *w);

/* Collective, like all calls below. A layer of a cache after `seen` tokens: its offsets, the arrays of its entries, its
 * ring. A failure of rank 0 stays in w->local. */
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
    lh_dtype type;   /* in the file: f32, or i32 with the same bits if not all numbers are finite */
    const float *at; /* device: `width` numbers of each of this rank's query heads, a row every `ld` */
    int64_t rows, width, ld;
    const lh_query_ring *ring; /* its order, after `seen` tokens, is the order of the rows; NULL: contiguous */
    int64_t seen;
} lh_row_array;
lh_status lh_write_rows(lh_layer_writer *w, int64_t layer, const lh_row_array *of);

/* An array that all ranks have: [rows, width] f32 of device memory. Not collective. */
void lh_write_matrix(lh_layer_writer *w, const char *name, const float *at, int64_t rows, int64_t width);

/* Completes the file: LH_EWRITE on every rank if rank 0 could not write it. */
lh_status lh_layer_writer_commit(lh_layer_writer *w);

#endif
