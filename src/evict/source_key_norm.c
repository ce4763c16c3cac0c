/* Keys of small norm first (arXiv 2406.11430). */
#include "evict/evict_impl.h"

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, entry_norms, .y = lh_slot_rows(scores, 1, ev->ld), .kv = job->entries, .last = LH_ALL_ENTRIES,
           .part = LH_PART_KEY, .kind = LH_NORM_MINUS_L2);
}

const lh_source lh_source_key_norm = {.score = score};
