/* keep_sets.h - keep sets on disk (HDF5, kind `keep-sets`): which positions every head kept. They are collected on rank
 * 0 at the end of prefill (kept) and, if decoding evicted, at the end of the run (final). Layout in docs/files.md. */
#ifndef LH_CACHE_KEEP_SETS_H
#define LH_CACHE_KEEP_SETS_H

#include "cache/arena.h"
#include "cache/cache_file.h"
#include "exec/heads.h"

/* The positions that every head of a layer holds, on rank 0 (empty on other ranks), ascending within a head. The caller
 * owns the arrays. */
typedef struct lh_positions {
    int64_t heads;
    int64_t *offsets;   /* [heads + 1] */
    int32_t *positions; /* [offsets[heads]] */
} lh_positions;

/* Collective. The host's lengths of the arena must be exact. */
lh_status lh_positions_gather(lh_positions *out, const lh_exec *exec, const lh_heads *heads, const lh_arena *arena);
void lh_positions_clear(lh_positions *positions);

/* Collective. Rank 0's positions on every rank. */
lh_status lh_positions_share(lh_positions *positions, lh_comm *comm);

/* Ascending. */
void lh_positions_sort(int32_t *positions, int64_t n);

typedef enum lh_keep_part { LH_KEEP_KEPT, LH_KEEP_FINAL, LH_KEEP_PARTS } lh_keep_part;

/* Zeros: empty. */
typedef struct lh_keep_sets {
    int64_t layers;
    lh_positions *parts[LH_KEEP_PARTS]; /* [layers], complete on rank 0; NULL: not collected */
    int32_t *ids;                       /* [tokens] the text, if the sets were read from a file */
    int64_t tokens;
} lh_keep_sets;
void lh_keep_sets_clear(lh_keep_sets *sets);

/* Allocates the positions of all layers and drops earlier positions of this part. */
lh_status lh_keep_sets_reserve(lh_keep_sets *sets, lh_keep_part part, int64_t layers);

/* A model and a prompt that keep sets can be checked against. */
typedef struct lh_keep_fit {
    int64_t layers, kv_heads;
    const uint8_t *sliding; /* [layers] 1: sees the last `window` keys only; NULL: none */
    int64_t window;
    const int32_t *tokens; /* [n] */
    int64_t n;
} lh_keep_fit;

/* Reads the text and the part `kept` of all layers; needs no model. LH_EFILE, naming the file, unless the positions of
 * every head ascend and are positions of the text. A head may keep nothing. Not collective. */
lh_status lh_keep_sets_read(lh_keep_sets *out, lh_h5 *h5);

/* LH_EFILE, naming the file at `path`, if the sets have another number of layers or heads, if the text does not begin
 * with the prompt, or if a position is outside the prompt or before the sliding window. */
lh_status lh_keep_sets_check(const lh_keep_sets *sets, const char *path, const lh_keep_fit *fit);

/* Collective. LH_EWRITE on every rank when rank 0 cannot write. Writes tokens and run of `extra`. */
lh_status lh_keep_sets_write(const lh_keep_sets *sets, lh_comm *comm, const char *path, const lh_cache_extra *extra);

#endif
