/* Keys that differ from the mean key of their head first (KeyDiff, arXiv 2504.15364). */
#include "evict/evict_impl.h"

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, key_difference, .y = scores, .kv = job->entries, .ld = ev->ld);
}

static const lh_source source = {.score = score};

const lh_method lh_method_key_difference = {.word = "key-difference",
                                            .help = "Keys that differ from the mean key first.",
                                            .traits = LH_NEEDS_ENTRIES,
                                            .source = &source};
