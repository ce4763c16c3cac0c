/* AhaKV's prior (arXiv 2506.03762, eq. 12): scores times the pooled squares of value norms, over their maximum in the
 * head. */
#include "evict/evict_impl.h"

enum { POOL = 7 };

typedef struct prior_params {
    int on;
} prior_params;

static int is_on(const lh_policy *policy)
{
    const prior_params *p = lh_params_of(&policy->methods, LH_METHOD_value_prior);
    return p->on;
}

static void stats(lh_entry_stats *s)
{
    s->norms = s->priors = s->count++;
}

static void make_norms(lh_evictor *ev, const lh_evict_job *job, int64_t entries)
{
    LH_RUN(&ev->exec, entry_norms, .y = lh_stat_of(job->entries, ev->stats.priors), .kv = job->entries, .last = entries,
           .part = LH_PART_VALUE, .kind = LH_NORM_SQUARE);
}

static void weigh(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const int64_t heads = ev->shape.heads.kv_count, mark = lh_scratch_mark(&ev->exec);
    float *norms = lh_scratch_floats(ev, heads * ev->ld), *prior = lh_scratch_floats(ev, heads * ev->ld);
    LH_RUN(&ev->exec, finish_scores, .y = norms, .x = lh_stat_of(job->entries, ev->stats.priors), .kv = job->entries,
           .ld = ev->ld, .parts = 1, .kind = LH_FINISH_PLAIN, .factor = 1.0f);
    lh_pool_entries(ev, job,
                    &(lh_pool_args){.y = prior, .x = norms, .rows_per_head = 1, .k = POOL, .kind = LH_POOL_AVG});
    LH_RUN(&ev->exec, apply_prior, .y = scores, .prior = prior, .state = lh_layer_state(ev), .len = job->entries->len,
           .heads = heads, .ld = ev->ld);
    lh_scratch_release(&ev->exec, mark);
}

static const lh_part parts[] = {{LH_PART_SWITCH(value_prior, prior_params, on), .after = "rows",
                                 .used = lh_policy_attends, .needs = LH_ATTENTION_NEEDED, .row.name = "value-prior",
                                 .row.help = "Multiply scores by the squared norm of the values, smoothed (AhaKV)."},
                                {.row.name = NULL}};

static const lh_addition addition = {.stats = stats, .make_norms = make_norms, .weigh = weigh};

const lh_method lh_method_value_prior = {
    .option = "--value-prior", .active = is_on, .parts = parts, .traits = LH_NEEDS_ENTRIES, .addition = &addition};
