/* cache_file.h - a cache on disk (HDF5, kind `cache`): written by rank 0 from all ranks, restored on any number of
 * ranks. Layout in docs/files.md. And keep sets (kind `keep-sets`): which positions every head kept. */
#ifndef LH_KV_CACHE_FILE_H
#define LH_KV_CACHE_FILE_H

#include "kv/positions.h"

/* What goes with the entries: the run's state that is not kv's. */
typedef struct lh_cache_extra {
    uint64_t model;        /* identity of the checkpoint */
    const int32_t *tokens; /* all tokens seen */
    int64_t n;
    const float *logits; /* [vocab] after the last token, on rank 0 */
    int64_t vocab;
    uint64_t seed;   /* of the sampler */
    const char *run; /* resolved options of the run that wrote it, JSON */
} lh_cache_extra;

/* Collective. LH_EWRITE on every rank when rank 0 cannot write. */
lh_status lh_cache_save(lh_kv *kv, const char *path, const lh_cache_extra *extra);

/* A cache file opened for reading by this rank; every rank opens it for itself. LH_EFILE. */
typedef struct lh_cache_file lh_cache_file;
lh_status lh_cache_open(lh_cache_file **out, const char *path);
void lh_cache_close(lh_cache_file *file);

const lh_policy *lh_cache_policy(const lh_cache_file *file);
const lh_profiles *lh_cache_profiles(const lh_cache_file *file); /* that it names; valid until close */
/* Borrowed arrays, valid until close. */
lh_cache_extra lh_cache_extra_of(const lh_cache_file *file);

/* Fill an empty cache with the heads of this rank, in the slots that the file says. `more` as in lh_kv_begin. LH_EFILE
 * when shapes, model or type do not fit, naming what the file has and what is wanted; LH_EUSAGE when the cache was
 * opened with another policy than the file's. Not collective: agree afterwards. */
lh_status lh_cache_restore(lh_cache_file *file, lh_kv *kv, uint64_t model, int64_t more);

/* Keep sets, collected layer by layer on rank 0: at the end of prefill (kept) and, if decoding evicted, at the end of
 * the run (final). Collective, all of them. */
typedef struct lh_keep_sets lh_keep_sets;
lh_status lh_keep_sets_open(lh_keep_sets **out, lh_kv *kv);
void lh_keep_sets_close(lh_keep_sets *sets);
typedef enum lh_keep_part { LH_KEEP_KEPT, LH_KEEP_FINAL } lh_keep_part;
lh_status lh_keep_sets_take(lh_keep_sets *sets, lh_keep_part part);
lh_status lh_keep_sets_write(lh_keep_sets *sets, const char *path, const lh_cache_extra *extra);

#endif
