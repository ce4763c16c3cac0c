/* figures.h - figures of a cache: entries, bytes, evictions, time. */
#ifndef LH_KV_FIGURES_H
#define LH_KV_FIGURES_H

#include "kv/kv.h"

/* The cache of all ranks, for budgets in bytes of a policy that evicts. */
lh_cache_size lh_kv_cache_size(const lh_kv_shape *shape);

/* Budget of a layer in entries per KV head (after lh_kv_begin). */
int64_t lh_kv_layer_budget(const lh_kv *kv, int64_t layer);

/* The current view of a layer: borrowed until the next call on the cache. */
const lh_ragged *lh_kv_view(const lh_kv *kv, int64_t layer);

/* entries: this rank's heads; counted: those that no lower rank counts (sum over ranks = the model's). */
typedef struct lh_kv_stats {
    int64_t entries_seen;                  /* tokens seen x KV heads x layers, of this rank */
    int64_t entries_held, entries_counted; /* shared entries of a fork included */
    int64_t bytes_held;                    /* entries_held x lh_entry_bytes */
    int64_t
        bytes_capacity;    /* allocated arenas with slack, positions and statistics; without entries shared by a fork */
    int64_t bytes_full;    /* what `full` would hold, with entries of its type: entries_seen x … */
    int64_t summary_bytes; /* of score summaries that this rank has sent, so far */
    int64_t evictions;     /* while decoding, so far: settlements that evicted */
    double evict_s; /* spent in observation, selection and compaction; the time of its origin or of its closed forks
                       included */
} lh_kv_stats;
lh_status lh_kv_stats_of(lh_kv *kv, lh_kv_stats *out);

#endif
