/* prefill_file.h - a prefill in flight on disk (HDF5, kind `prefill`): what there is between two layers. A cache file
 * of the layers that are done, with the prompt in place of what was seen and without logits, and beside it the hidden
 * states of the prompt and what layers that compete have not settled yet. Restored on any number of ranks. Layout in
 * docs/files.md. */
#ifndef LH_CACHE_PREFILL_FILE_H
#define LH_CACHE_PREFILL_FILE_H

#include "cache/cache_file.h"

enum { LH_PREFILL_SCHEMA = 1 };

/* Rows that a layer is fitted to when all layers have come: those of all query heads of this rank's KV heads. Device
 * memory. */
typedef struct lh_held_rows {
    int64_t rows;       /* 0: none */
    float *q, *lse;     /* [rows, kv_count x group, head_dim], [rows, kv_count x group] */
    int32_t *positions; /* [rows] */
    float *outputs;     /* [kv_count, head_dim + 1, group x rows]; NULL: nobody asks for them */
} lh_held_rows;

/* What goes with the entries of a layer that is done. */
typedef struct lh_prefill_layer {
    int64_t normless; /* entries at the end of every head whose norms are not known yet */
    lh_held_rows held;
} lh_prefill_layer;

/* The state of the whole. */
typedef struct lh_prefill_state {
    int64_t layers_done;  /* from 1 to one less than all */
    int64_t divided;      /* competing entries of all layers after the last division of budgets among them */
    const char *identity; /* what else the numbers depend on, JSON */
} lh_prefill_state;

/* hidden: [numbers.prompt_tokens, width], device memory, the same on all ranks. cache: numbers.seen is the prompt's
 * length, and layers that are not done are not looked at. */
typedef struct lh_prefill_contents {
    lh_cache_contents cache;
    lh_prefill_state state;
    const lh_prefill_layer *layers; /* [layers_done] */
    const float *hidden;
    int64_t width;
} lh_prefill_contents;

/* Collective. LH_EWRITE on every rank when rank 0 cannot write: the file that was there stays. */
lh_status lh_prefill_write(const char *path, const lh_prefill_contents *contents);

/* Opened for reading by this rank; every rank opens it for itself, and closes it whatever open returns. LH_EFILE. Not
 * collective, as all below. */
typedef struct lh_prefill_file {
    lh_cache_file cache; /* its layers: lh_cache_file_seek and lh_cache_file_read */
    lh_prefill_state state;
    char *identity; /* of the state */
} lh_prefill_file;
lh_status lh_prefill_file_open(lh_prefill_file *out, const char *path);
void lh_prefill_file_close(lh_prefill_file *file);

/* Of the layer that the cache is at; `held` says how many rows there must be, and where to. */
lh_status lh_prefill_file_read(const lh_prefill_file *file, const lh_exec *exec, const lh_heads *heads,
                               lh_prefill_layer *layer);

/* The hidden states, [prompt_tokens, width]. */
lh_status lh_prefill_file_read_hidden(const lh_prefill_file *file, const lh_exec *exec, float *hidden, int64_t width);

#endif
