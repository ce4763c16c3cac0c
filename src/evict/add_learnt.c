/* Learnt scores by turns with the attention of rows after the prompt, or of the last rows ('--learnt'): an entry is
 * worth the larger of the two. Weights are learnt on the scale of ln(weight x tokens) of '--statistic rms --rows-at
 * after', where both give 7 of 10 turns to the learnt score over all heads and layers of a prompt (lab/learn), so that
 * heads and layers compete though they come one by one. */
#include "evict/evict_impl.h"

typedef struct learnt_params {
    int on;
} learnt_params;

static int is_on(const lh_policy *policy)
{
    const learnt_params *p = lh_params_of(&policy->methods, LH_METHOD_learnt);
    return p->on;
}

static lh_status check(const lh_policy *policy)
{
    if (policy->score.source != LH_METHOD_rms || policy->score.running)
        LH_FAIL(LH_EUSAGE,
                "'--learnt' compares with the scores of '--statistic rms' alone, of rows that are observed at the "
                "eviction: give it with '--rows-at after' or a window, or '--statistic linear' without '--learnt'");
    return LH_OK;
}

static void weigh(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const int64_t mark = lh_scratch_mark(&ev->exec);
    float *learnt = lh_scratch_floats(ev, ev->shape.heads.kv_count * ev->ld);
    lh_linear_scores(ev, job, learnt);
    LH_RUN(&ev->exec, raise_scores, .y = scores, .x = learnt, .kv = job->entries, .ld = ev->ld,
           .factor = 1.0f / (float)job->seen);
    lh_scratch_release(&ev->exec, mark);
}

static const lh_part parts[] = {{LH_PART_SWITCH(learnt, learnt_params, on), .after = "rows", .used = lh_policy_attends,
                                 .needs = LH_ATTENTION_NEEDED, .row.name = "learnt",
                                 .row.help = "Entries are worth the larger of their score and the learnt score of "
                                             "'--statistic linear'."},
                                {.row.name = NULL}};

static const lh_addition addition = {.weigh = weigh};

const lh_method lh_method_learnt = {.option = "--learnt",
                                    .active = is_on,
                                    .parts = parts,
                                    .traits = LH_NEEDS_ENTRIES | LH_NEEDS_ROTATION | LH_NEEDS_SCORE_WEIGHTS,
                                    .check = check,
                                    .addition = &addition};
