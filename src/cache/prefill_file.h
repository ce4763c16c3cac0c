/* prefill_file.h - a prefill in flight on disk (HDF5, kind `prefill`), between two layers: a cache file of the finished
 * layers, with the prompt as its text and without logits; the hidden states of the prompt; and the unsettled state of
 * competing layers. Restored on any number of ranks. Layout in docs/files.md. */
#ifndef LH_CACHE_PREFILL_FILE_H
#define LH_CACHE_PREFILL_FILE_H

#include "cache/cache_file.h"

/* Reference rows of a layer that is fitted after the last layer, with all query heads of this rank's KV heads. Device
 * memory. */
typedef struct lh_held_rows {
    int64_t rows;       /* 0: none */
    float *q, *lse;     /* [rows, kv_count x group, head_dim], [rows, kv_count x group] */
    int32_t *positions; /* [rows] */
    float *outputs;     /* [kv_count, head_dim + 1, group x rows]; NULL: not needed */
} lh_held_rows;

/* The state of a finished layer beyond its entries. */
typedef struct lh_prefill_layer {
    int64_t normless; /* entries without norms, at the end of every head */
    lh_held_rows held;
} lh_prefill_layer;

/* The state of the prefill. */
typedef struct lh_prefill_state {
    int64_t layers_done;  /* from 1 to the number of layers less 1 */
    int64_t divided;      /* competing entries of all layers after the last division of budgets among them */
    const char *identity; /* everything else that the numbers depend on, JSON */
} lh_prefill_state;

/* hidden: [rows, width] of the prompt's tokens, then the probe tokens; device memory, the same on all ranks. cache: numbers.seen is the prompt's
 * length, and unfinished layers are ignored. */
typedef struct lh_prefill_contents {
    lh_cache_contents cache;
    lh_prefill_state state;
    const lh_prefill_layer *layers; /* [layers_done] */
    const float *hidden;
    int64_t rows, width;
} lh_prefill_contents;

/* Collective. LH_EWRITE on every rank when rank 0 cannot write; an existing file stays. */
lh_status lh_prefill_write(const char *path, const lh_prefill_contents *contents);

/* Opened for reading by this rank; every rank opens the file, and closes it also after a failed open. LH_EFILE. Not
 * collective, like all calls below. */
typedef struct lh_prefill_file {
    lh_cache_file cache; /* its layers: lh_cache_file_seek and lh_cache_file_read */
    lh_prefill_state state;
    char *identity; /* of the state */
} lh_prefill_file;
lh_status lh_prefill_file_open(lh_prefill_file *out, const char *path);
void lh_prefill_file_close(lh_prefill_file *file);

/* Reads the state of the layer that file->cache has sought; layer->held has the expected number of rows and the memory
 * for them. */
lh_status lh_prefill_file_read(const lh_prefill_file *file, const lh_exec *exec, const lh_heads *heads,
                               lh_prefill_layer *layer);

/* The hidden states, [rows, width]. */
lh_status lh_prefill_file_read_hidden(const lh_prefill_file *file, const lh_exec *exec, float *hidden, int64_t rows,
                                      int64_t width);

#endif
