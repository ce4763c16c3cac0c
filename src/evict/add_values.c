/* VaSE (arXiv 2606.03928): the competing entries of the largest values always stay, as many in every head. */
#include "evict/evict_impl.h"

typedef struct values_params {
    lh_policy_amount kept;
} values_params;

static const values_params *params_of(const lh_policy *policy)
{
    return lh_params_of(&policy->methods, LH_METHOD_values);
}

static int keeps_values(const lh_policy *policy)
{
    return params_of(policy)->kept.n || params_of(policy)->kept.percent.digits;
}

static int64_t protects(const lh_policy *policy, int64_t budget)
{
    return lh_amount_of(params_of(policy)->kept, budget);
}

static void protect(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_exec *x = &ev->exec;
    const int64_t heads = ev->shape.heads.kv_count, bytes = heads * (int64_t)sizeof *ev->planned,
                  mark = lh_scratch_mark(x);
    int64_t *counts = lh_scratch_alloc(x, bytes);
    for (int64_t h = 0; h < heads; h++) ev->planned[h] = job->protect.chosen;
    lh_exec_put(x, counts, ev->planned, bytes);
    LH_RUN(x, value_ranges, .y = lh_layer_scores(ev, ev->raw), .kv = job->entries, .ld = ev->ld);
    lh_mark_best(ev, job, 1, ev->raw, (lh_counts){.at = counts}, LH_ENTRY_COMPETES);
    lh_scratch_release(x, mark);
}

/* Scores are computed, and nothing is chosen by them. */
static lh_status warn(const lh_outlook *o, lh_buf *out)
{
    const lh_protection *p = &o->protect;
    if (p->chosen == 0 || p->base > 0 || lh_policy_has(o->policy, LH_BY_POSITION)) return LH_OK;
    return lh_buf_printf(out,
                         "%lld entries by their values, %lld sinks and the last %lld entries are the whole budget of "
                         "%lld: scores choose nothing; give a larger '--budget' or a smaller '--values'\n",
                         (long long)p->chosen, (long long)p->sinks, (long long)p->recents, (long long)p->budget);
}

static int always(const lh_policy *policy)
{
    (void)policy;
    return 1;
}

static const lh_part parts[] = {
    {LH_PART_AMOUNT(values, values_params, kept), .after = "recents", .used = always, .def = "0", .row.name = "values",
     .row.arg = "N|P%",
     .row.help = "Entries of the largest values that are always kept, as a number or a share of the budget (VaSE)."},
    {.row.name = NULL}};

static const lh_addition addition = {.protect = protect};

const lh_method lh_method_values = {.option = "--values",
                                    .active = keeps_values,
                                    .parts = parts,
                                    .traits = LH_EVEN_HEADS | LH_NEEDS_ENTRIES,
                                    .warn = warn,
                                    .protects = protects,
                                    .addition = &addition};
