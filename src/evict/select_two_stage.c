/* CriticalKV (arXiv 2502.03805, algorithm 1): a share by score, the rest by score times the norm of the projected
 * value. */
#include "evict/evict_impl.h"

static const float NORM_EPSILON = 1e-4f; /* added to scores before norms weigh them */

typedef struct stage_params {
    lh_decimal first;
} stage_params;

static lh_decimal first_of(const lh_policy_numbers *p)
{
    const stage_params *params = lh_params_of(&p->methods, LH_METHOD_two_stage);
    return params->first;
}

static void stages(lh_evictor *ev, const lh_evict_job *job, lh_stage_scores *by)
{
    LH_RUN(&ev->exec, weigh_scores, .y = lh_layer_scores(ev, by->second), .x = lh_layer_scores(ev, by->first),
           .norms = lh_stat_of(job->entries, ev->stats.norms), .len = job->entries->len,
           .heads = ev->shape.heads.kv_count, .ld = ev->ld, .add = NORM_EPSILON);
}

/* In kvpress protected entries are the best ones of the first stage, which includes the entries of the floor. */
static lh_stage first_stage(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    const lh_decimal first = first_of(fixed);
    lh_stage stage = {.share = lh_decimal_fraction(first)};
    if (!lh_is_kvpress(&fixed->methods)) return stage;
    stage.others = protect->sinks + protect->recents + protect->chosen;
    stage.least = fixed->budgets.heads == LH_HEADS_ADAPTIVE ? lh_kvpress_floor(fixed, protect) : first.digits > 0;
    return stage;
}

static const lh_part parts[] = {{LH_PART_SHARE(two_stage, stage_params, first), .def = "0.5", .row.name = "first-stage",
                                 .row.arg = "X", .row.help = "Share that two-stage chooses by score alone."},
                                {.row.name = NULL}};

static const lh_selection selection = {.stages = stages};

const lh_method lh_method_two_stage = {
    .word = "two-stage",
    .help = "The best scores, then the best of score times what the value adds to the output.",
    .parts = parts,
    .traits = LH_STAGED | LH_NEEDS_ATTENTION | LH_NEEDS_PROJECTION | LH_EACH_HEAD | LH_HAS_COMPAT,
    .stage = first_stage,
    .selection = &selection};
