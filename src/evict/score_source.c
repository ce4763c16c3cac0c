#include "evict/score_source.h"

extern const lh_source lh_source_window, lh_source_running, lh_source_output_error, lh_source_caller;
#define SOURCE(word, meaning, number, statistic, name) extern const lh_source lh_source_##name;
LH_SOURCE_WORDS(SOURCE)
#undef SOURCE

static const lh_source *const sources[] = {[LH_SCORE_CALLER] = &lh_source_caller,
#define SOURCE(word, meaning, number, statistic, name) [number] = &lh_source_##name,
                                           LH_SOURCE_WORDS(SOURCE)
#undef SOURCE
};

const lh_source *lh_source_of(const lh_policy_numbers *p)
{
    if (!p->evicts) return NULL;
    if (!lh_evict_uses_attention(p)) return sources[p->score.source];
    if (p->score.statistic == LH_STAT_OUTPUT_ERROR) return &lh_source_output_error;
    return p->score.running ? &lh_source_running : &lh_source_window;
}

int lh_evict_uses_attention(const lh_policy_numbers *p)
{
    return p->score.source == LH_SCORE_ATTENTION;
}

int lh_keeps_rows(const lh_policy_numbers *p)
{
    return p->evicts &&
           ((lh_evict_uses_attention(p) && !p->score.running) || lh_has_references(&p->fitting, &p->budgets));
}
