/* RoCo (arXiv 2402.06262): a share of the budget by the deviation of attention, the rest by score. */
#include "evict/evict_impl.h"

typedef struct scope_params {
    lh_decimal share;
} scope_params;

/* The deviations are made with the statistic (lh_finish_statistics). */
static void stages(lh_evictor *ev, const lh_evict_job *job, lh_stage_scores *by)
{
    const lh_scores deviations = by->second;
    (void)ev, (void)job;
    by->second = by->first;
    by->first = deviations;
}

static lh_stage first_stage(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    const scope_params *p = lh_params_of(&fixed->methods, LH_METHOD_std_scope);
    return (lh_stage){.share = {0, 1}, .least = lh_decimal_of(p->share, protect->budget)};
}

static lh_status check(const lh_policy *policy)
{
    if (lh_policy_attends(policy) && (policy->score.source != LH_METHOD_mas || policy->shape.group != 0))
        LH_FAIL(LH_EUSAGE, "'--select std-scope' compares each weight with the mean of an entry: it needs "
                           "'--statistic mas' and '--group mean'");
    return LH_OK;
}

static const lh_part parts[] = {{LH_PART_SHARE(std_scope, scope_params, share), .def = "0.3", .row.name = "std-share",
                                 .row.arg = "X",
                                 .row.help = "Share of the budget that std-scope chooses by deviation."},
                                {.row.name = NULL}};

static const lh_selection selection = {.stages = stages};

const lh_method lh_method_std_scope = {.word = "std-scope",
                                       .help = "The entries of the largest deviation, then the best scores.",
                                       .parts = parts,
                                       .traits = LH_STAGED | LH_SAME_RANKS | LH_NEEDS_ATTENTION | LH_NEEDS_SQUARES |
                                                 LH_EACH_HEAD,
                                       .check = check,
                                       .stage = first_stage,
                                       .selection = &selection};
