#include "evict/source.h"

#define LH_SOURCE(kind, name) extern const lh_source lh_source_##name;
#include "evict/source_list.h"
#undef LH_SOURCE
extern const lh_source lh_source_running;

static const lh_source *const sources[] = {
#define LH_SOURCE(kind, name) [LH_SCORE_##kind] = &lh_source_##name,
#include "evict/source_list.h"
#undef LH_SOURCE
};

const lh_source *lh_source_of(const lh_policy_numbers *p)
{
    if (!p->evicts) return NULL;
    return lh_evict_uses_attention(p) && p->score.running ? &lh_source_running : sources[p->score.source];
}

int lh_evict_uses_attention(const lh_policy_numbers *p)
{
    return p->score.source == LH_SCORE_ATTENTION;
}
