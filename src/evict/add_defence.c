/* DefensiveKV (arXiv 2510.13334): no entry counts less than the mean of its head (--mean-floor), and scores are weighed
 * by shares of the norms of projected values (--value-norms). */
#include "evict/evict_impl.h"

typedef struct defence_params {
    int on;
} defence_params;

static int is_on(const lh_policy *policy, lh_method_id id)
{
    const defence_params *p = lh_params_of(&policy->methods, id);
    return p->on;
}

static int has_floor(const lh_policy *policy)
{
    return is_on(policy, LH_METHOD_mean_floor);
}

static int has_norms(const lh_policy *policy)
{
    return is_on(policy, LH_METHOD_value_norms);
}

static void defend(lh_evictor *ev, const lh_evict_job *job, float *scores, int raise, lh_slot_floats norms)
{
    LH_RUN(&ev->exec, defend_scores, .y = scores, .norms = norms, .state = lh_layer_state(ev), .len = job->entries->len,
           .heads = ev->shape.heads.kv_count, .ld = ev->ld, .raise = raise);
}

/* Both in one operation: the mean is of the unweighed scores. */
static void raise(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const int weighs = lh_uses_method(&ev->policy.methods, LH_METHOD_value_norms);
    defend(ev, job, scores, 1, lh_stat_of(job->entries, weighs ? ev->stats.norms : -1));
}

static void weigh(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    if (!lh_uses_method(&ev->policy.methods, LH_METHOD_mean_floor))
        defend(ev, job, scores, 0, lh_stat_of(job->entries, ev->stats.norms));
}

static const lh_part floor_parts[] = {{LH_PART_SWITCH(mean_floor, defence_params, on), .after = "rows",
                                       .used = lh_policy_attends, .needs = LH_ATTENTION_NEEDED,
                                       .row.name = "mean-floor",
                                       .row.help = "Raise scores below the mean of their head to it (DefensiveKV)."},
                                      {.row.name = NULL}},
                     norm_parts[] = {{LH_PART_SWITCH(value_norms, defence_params, on), .after = "rows",
                                      .used = lh_policy_attends, .needs = LH_ATTENTION_NEEDED,
                                      .row.name = "value-norms",
                                      .row.help = "Multiply scores by what the value adds to the output, as a share "
                                                  "of its head's (DefensiveKV)."},
                                     {.row.name = NULL}};

static const lh_addition floor_addition = {.weigh = raise}, norm_addition = {.weigh = weigh};

const lh_method lh_method_mean_floor = {.option = "--mean-floor",
                                        .active = has_floor,
                                        .parts = floor_parts,
                                        .addition = &floor_addition},
                lh_method_value_norms = {.option = "--value-norms",
                                         .active = has_norms,
                                         .parts = norm_parts,
                                         .traits = LH_NEEDS_PROJECTION,
                                         .addition = &norm_addition};
