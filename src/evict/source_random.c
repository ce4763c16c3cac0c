/* A number of each entry's own, the same on any number of ranks: the baseline that every policy must beat. */
#include "evict/evict_impl.h"

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, random_scores, .y = scores, .kv = job->entries, .ld = ev->ld, .draw = lh_draw_of(ev, job));
}

static const lh_source source = {.score = score};

const lh_method lh_method_random = {.word = "random", .help = "Chance.", .traits = LH_DRAWS, .source = &source};
