/* Keys that differ from the mean key of their head first (KeyDiff, arXiv 2504.15364). */
#include "evict/evict_impl.h"

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, key_difference, .y = scores, .kv = job->entries, .ld = ev->ld);
}

const lh_source lh_source_key_difference = {.score = score};
