/* save.h - saves and loads the cache of a sequence, and its keep sets: the files of room cache, with timeline, policy
 * and profiles. */
#ifndef LH_KV_SAVE_H
#define LH_KV_SAVE_H

#include "cache/keep_sets.h"
#include "cache/prefill_file.h"
#include "kv/kv.h"

/* Collective. LH_EWRITE on every rank when rank 0 cannot write. */
lh_status lh_kv_save(lh_kv *kv, const char *path, const lh_cache_extra *extra);

/* A cache file opened for reading by this rank; every rank opens it for itself, and closes it also after a failure of
 * open. All zero is closed. LH_EFILE. */
typedef struct lh_saved_kv {
    lh_cache_file file;
    lh_policy policy;
    lh_profiles profiles; /* that it names */
} lh_saved_kv;
lh_status lh_saved_kv_open(lh_saved_kv *out, const char *path);
void lh_saved_kv_close(lh_saved_kv *saved);

/* Fill an empty cache with the heads of this rank, in the slots that the file says. `more` as in lh_kv_begin. LH_EFILE
 * when shapes, model or type do not fit, naming both values; LH_EUSAGE when the cache was opened with another policy
 * than the file's. Not collective: agree afterwards. */
lh_status lh_kv_load(lh_kv *kv, lh_saved_kv *saved, uint64_t model, int64_t more);

/* ---- a prefill in flight: the layers that are done ---- */

/* What goes with them. */
typedef struct lh_prefill_extra {
    lh_cache_extra cache; /* tokens: the prompt; no logits */
    const char *identity; /* further conditions of the numbers than model, policy and prompt, JSON */
    int64_t layers_done;
    const float *hidden; /* device: [rows, width] of the prompt's tokens, then the probe tokens */
    int64_t rows, width;
} lh_prefill_extra;

/* Collective. Between two layers. LH_EWRITE on every rank when rank 0 cannot write: the cache stays usable, and the
 * existing file stays. Not for caches that share a prefill, nor for keep sets that are given. */
lh_status lh_kv_save_prefill(lh_kv *kv, const char *path, const lh_prefill_extra *extra);

/* As lh_saved_kv. */
typedef struct lh_saved_prefill {
    lh_prefill_file file;
    lh_policy policy;
    lh_profiles profiles;
} lh_saved_prefill;
lh_status lh_saved_prefill_open(lh_saved_prefill *out, const char *path);
void lh_saved_prefill_close(lh_saved_prefill *saved);

/* A cache that has begun (lh_kv_begin) and seen no layer gets the layers of the file: its prefill continues with layer
 * file.state.layers_done. Errors as of lh_kv_load. Not collective: agree afterwards, and close the cache after a
 * failure. */
lh_status lh_kv_load_prefill(lh_kv *kv, lh_saved_prefill *saved, uint64_t model);

/* Collective. Positions held by every head of a layer; and of all layers, as a part of keep sets. */
lh_status lh_kv_gather_positions(lh_kv *kv, int64_t layer, lh_positions *out);
lh_status lh_kv_take_keep_sets(lh_kv *kv, lh_keep_part part, lh_keep_sets *out);

#endif
