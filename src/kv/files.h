/* files.h - shared code of saving and loading caches (save.c) and prefills in flight (save_prefill.c): the contents of
 * a file, and the checks when it is read. */
#ifndef LH_KV_FILES_H
#define LH_KV_FILES_H

#include "kv/kv_impl.h"
#include "kv/save.h"

/* Contents of a file, and memory that they borrow. All layers, after `seen` tokens. Cleared also after a failure of
 * make, which may fail on one rank alone. */
typedef struct lh_kv_contents {
    lh_cache_contents of;
    lh_cache_layer *layers;
    char *policy;
} lh_kv_contents;
lh_status lh_kv_contents_make(lh_kv_contents *out, lh_kv *kv, int64_t seen, const lh_cache_extra *extra);
void lh_kv_contents_clear(lh_kv_contents *contents);

/* The policy of a file, and the weights that it names. LH_EFILE. */
lh_status lh_kv_read_policy(const lh_cache_file *file, lh_policy *policy, lh_profiles *profiles);

/* LH_EFILE unless a file is of this model; LH_EUSAGE, with `advice`, unless it was made with the cache's policy. */
lh_status lh_kv_check_model(const lh_kv *kv, const lh_cache_file *file, uint64_t model);
lh_status lh_kv_check_policy(const lh_kv *kv, const lh_policy *of_file, const char *path, const char *advice);

/* Checks the current layer of a file: uniform heads have equal lengths, and heads of a sliding layer at most the
 * entries that the next row sees. LH_EFILE. */
lh_status lh_kv_check_lengths(const lh_kv *kv, const lh_cache_file *file);

#endif
