/* save.h - a sequence's cache to a file and back, and its keep sets: what the room cache stores, with what only the
 * timeline knows, the policy and its profiles among it. */
#ifndef LH_KV_SAVE_H
#define LH_KV_SAVE_H

#include "cache/keep_sets.h"
#include "kv/kv.h"

/* Collective. LH_EWRITE on every rank when rank 0 cannot write. */
lh_status lh_kv_save(lh_kv *kv, const char *path, const lh_cache_extra *extra);

/* A cache file opened for reading by this rank; every rank opens it for itself, and closes it whatever open returns.
 * All zero is closed. LH_EFILE. */
typedef struct lh_saved_kv {
    lh_cache_file file;
    lh_policy policy;
    lh_profiles profiles; /* that it names */
} lh_saved_kv;
lh_status lh_saved_kv_open(lh_saved_kv *out, const char *path);
void lh_saved_kv_close(lh_saved_kv *saved);

/* Fill an empty cache with the heads of this rank, in the slots that the file says. `more` as in lh_kv_begin. LH_EFILE
 * when shapes, model or type do not fit, naming what the file has and what is wanted; LH_EUSAGE when the cache was
 * opened with another policy than the file's. Not collective: agree afterwards. */
lh_status lh_kv_load(lh_kv *kv, lh_saved_kv *saved, uint64_t model, int64_t more);

/* Collective. Which positions every head of a layer holds, and those of all layers as a part of keep sets. */
lh_status lh_kv_gather_positions(lh_kv *kv, int64_t layer, lh_positions *out);
lh_status lh_kv_take_keep_sets(lh_kv *kv, lh_keep_part part, lh_keep_sets *out);

#endif
