/* The later the better: recency, and StreamingLLM beside its sinks (arXiv 2309.17453). */
#include "evict/evict_impl.h"

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, position_scores, .y = scores, .kv = job->entries, .ld = ev->ld);
}

const lh_source lh_source_position = {.score = score};
