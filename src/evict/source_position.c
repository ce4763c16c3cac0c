/* The later the better: recency, and StreamingLLM with its sinks (arXiv 2309.17453). */
#include "evict/evict_impl.h"

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, position_scores, .y = scores, .kv = job->entries, .ld = ev->ld);
}

static const lh_source source = {.score = score};

/* All heads have the same scores. */
static lh_status check(const lh_policy *policy)
{
    if (policy->budgets.heads == LH_HEADS_ADAPTIVE)
        LH_FAIL(LH_EUSAGE, "'--head-budget adaptive' would change nothing: by '--statistic position' all heads score "
                           "alike");
    if (policy->select.joint)
        LH_FAIL(LH_EUSAGE, "'--set-per layer' would change nothing: by '--statistic position' all heads score alike");
    return LH_OK;
}

const lh_method lh_method_position = {
    .word = "position", .help = "The later the better.", .traits = LH_BY_POSITION, .check = check, .source = &source};
