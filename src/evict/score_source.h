/* score_source.h - the functions of a source of scores (policies/method.h), one file each (source_*.c). */
#ifndef LH_EVICT_SCORE_SOURCE_H
#define LH_EVICT_SCORE_SOURCE_H

#include "evict/evict.h"

/* Members that are NULL have nothing to do. */
typedef struct lh_source {
    /* separate scores of an entry until they are joined; NULL: 1 */
    int64_t (*parts)(const lh_policy_numbers *policy, const lh_heads *heads);

    /* numbers that go with an entry: sets their indices and raises count */
    void (*stats)(const lh_policy_numbers *policy, lh_entry_stats *stats);

    /* bytes of lh_evictor.sums */
    int64_t (*sums_bytes)(const lh_evictor *evictor);

    /* true if the rows of a phase are observed as they pass (lh_evict_uses_rows); NULL: never */
    int (*uses_rows)(const lh_policy_numbers *policy, lh_evict_phase phase, int scored);

    /* rows that an eviction after the prompt reads, of scores without attention; 0: none */
    int64_t last_rows;

    /* before a layer's first row, as rows pass, at the end of its prefill; then the scores, [kv_count x parts, ld].
     * Temporaries go to the scratch stack. Collective where groups are split. */
    void (*begin)(lh_evictor *evictor, const lh_evict_job *job);
    void (*rows)(lh_evictor *evictor, const lh_evict_job *job, const lh_query_rows *rows);
    void (*probes)(lh_evictor *evictor, const lh_evict_job *job, const lh_probe_rows *probes); /* NULL: not scored */
    void (*end)(lh_evictor *evictor, const lh_evict_job *job);
    void (*score)(lh_evictor *evictor, const lh_evict_job *job, float *scores);
} lh_source;

/* The source of a policy, NULL if it evicts nothing. Statistics of attention are counted in three ways: of rows that
 * are observed at an eviction (source_window.c), while rows pass (source_running.c), or while probe tokens pass
 * (source_probes.c). */
const lh_source *lh_source_of(const lh_policy_numbers *policy);
extern const lh_source lh_source_window, lh_source_running, lh_source_probes;

/* 1 where entries are scored by the attention that rows give them. */
int lh_evict_uses_attention(const lh_policy_numbers *policy);

/* True if a policy keeps rows (kept_rows.c): to be observed at the end of a layer, or as reference queries. */
int lh_keeps_rows(const lh_policy_numbers *policy);

#endif
