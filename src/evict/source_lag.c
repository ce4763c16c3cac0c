/* LagKV (arXiv 2504.04704): parts of the text are compared with the next part, and the entries whose keys and values
 * deviate most for its range come first. Evictions at the end of a prompt only: slots are in the order of positions. */
#include "evict/evict_impl.h"

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, lag_scores, .y = scores, .kv = job->entries, .ld = ev->ld, .first = ev->policy.sinks,
           .lag = lh_min_i64(ev->policy.score.lag, ev->ld));
}

const lh_source lh_source_lag = {.score = score};
