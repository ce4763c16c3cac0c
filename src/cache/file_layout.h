/* file_layout.h - what writing and reading of cache files share: the names, the arrays of entries, the attributes of
 * /state. Names are those of keep sets, too. */
#ifndef LH_CACHE_FILE_LAYOUT_H
#define LH_CACHE_FILE_LAYOUT_H

#include <stddef.h>
#include <stdio.h>

#include "cache/cache_file.h"

enum { LH_CACHE_SCHEMA = 1, LH_KEEP_SETS_SCHEMA = 1, LH_CACHE_NUMBERS = 11, LH_ENTRY_ARRAYS = 5 };

enum { LH_FILE_CHUNK_BYTES = 4 << 20 }; /* read or written at a time */

/* Floats in a file are finite and below 2^limit: as import/convert.h has it of weights; of a bias, whose power of e is
 * a number of entries, far more than that can be. */
enum { LH_NUMBER_LIMIT = 64, LH_BIAS_LIMIT = 10 };

typedef struct lh_layer_name {
    char text[64];
} lh_layer_name;

/* "/layers/007/k"; array NULL: the layer's group. */
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
    int64_t width, bytes; /* of an entry; 0: there is no such array */
    void *at;             /* in the arena; NULL: entry i has i */
} lh_entry_array;

/* Positions, keys, values, biases and numbers of the entries. */
lh_entry_array lh_entry_array_of(const lh_arena *arena, int i);

/* Attributes of /state, in the order of the file. */
typedef struct lh_cache_number {
    const char *name;
    size_t at; /* in lh_cache_numbers */
    int64_t min, max;
} lh_cache_number;
extern const lh_cache_number lh_cache_number_list[LH_CACHE_NUMBERS];

/* What caches and prefills in flight say of themselves: policy, /state, tokens. */
lh_status lh_cache_put_state(lh_h5 *h5, const lh_cache_contents *contents);

/* Open a file of either kind, without logits: as lh_cache_file_open. */
lh_status lh_cache_file_open_as(lh_cache_file *out, const char *path, const lh_h5_header *want);

/* LH_EFILE unless n numbers of an array are finite and below 2^limit; `said`: how a message calls them. */
lh_status lh_cache_check_finite(const lh_cache_file *file, const char *said, const float *values, int64_t n, int limit);

/* Open an array by its name from the root; lh_h5_array_checked after its last slab finds damage. LH_EFILE unless it is of
 * this type and shape. */
lh_status lh_cache_open_array(const lh_cache_file *file, const char *name, const lh_h5_shape *want, lh_h5_array **out);

#endif
