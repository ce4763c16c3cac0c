/* Query rows of a layer as they pass: those that are observed later are kept, and the policy's source of scores counts
 * or sums up its own. */
#include "evict/kept_rows.h"

int lh_evict_uses_rows(const lh_policy_numbers *policy, lh_evict_phase phase, int scored)
{
    const lh_source *source = lh_source_of(policy);
    if (lh_keeps_rows(policy) && phase == LH_EVICT_PREFILL && scored) return 1;
    return source && source->uses_rows && source->uses_rows(policy, phase, scored);
}

int64_t lh_evict_first_row(const lh_evictor *ev)
{
    const lh_policy_numbers *p = &ev->policy;
    const int last = lh_evict_uses_attention(p) || (lh_keeps_rows(p) && !lh_source_of(p)->rows);
    const int64_t tokens = ev->prompt_tokens,
                  first = lh_policy_rows(p, tokens) ? lh_policy_row_of(p, tokens, 0) : tokens;
    if (p->block || p->first_rows || !last) return 0;
    return lh_policy_references(p, tokens) ? lh_min_i64(first, lh_policy_reference_of(p, tokens, 0)) : first;
}

void lh_evict_begin_layer(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_source *source = lh_source_of(&ev->policy);
    if (source->begin) source->begin(ev, job);
}

void lh_evict_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *rows)
{
    const lh_source *source = lh_source_of(&ev->policy);
    if (job->phase == LH_EVICT_PREFILL)
        lh_rows_check_add(&ev->check, &ev->exec, rows->lse, rows->tokens * ev->shape.heads.q_count);
    if (lh_keeps_rows(&ev->policy)) lh_keep_rows(ev, rows);
    if (source->rows) source->rows(ev, job, rows);
}

void lh_evict_end_layer(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_source *source = lh_source_of(&ev->policy);
    if (source->end) source->end(ev, job);
    lh_rows_check_copy(&ev->check, &ev->exec);
}

lh_status lh_evict_check_rows(const lh_evictor *ev, int64_t layer)
{
    return lh_rows_check_result(&ev->check, layer);
}
