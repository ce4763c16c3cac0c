/* Keys of small norm first (arXiv 2406.11430). */
#include "evict/evict_impl.h"

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, entry_norms, .y = lh_slot_rows(scores, 1, ev->ld), .kv = job->entries, .last = LH_ALL_ENTRIES,
           .part = LH_PART_KEY, .kind = LH_NORM_MINUS_L2);
}

static const lh_source source = {.score = score};

const lh_method lh_method_key_norm = {
    .word = "key-norm", .help = "Keys of small norm first.", .traits = LH_NEEDS_ENTRIES, .source = &source};
