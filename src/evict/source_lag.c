/* LagKV (arXiv 2504.04704): parts of the text are compared with the next part, and the entries whose keys and values
 * deviate most for its range come first. Evictions at the end of a prompt only: slots are in the order of positions. */
#include "evict/evict_impl.h"

typedef struct lag_params {
    int64_t lag; /* entries of a part */
} lag_params;

static int64_t lag_of(const lh_policy_numbers *policy)
{
    const lag_params *p = lh_params_of(&policy->methods, LH_METHOD_lag);
    return p->lag;
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_RUN(&ev->exec, lag_scores, .y = scores, .kv = job->entries, .ld = ev->ld, .first = ev->policy.sinks,
           .lag = lh_min_i64(lag_of(&ev->policy), ev->ld));
}

/* The entries without a next part are kept before anything is ranked. */
static lh_status warn(const lh_outlook *o, lh_buf *out)
{
    const lh_policy_numbers *n = &o->fixed;
    const int64_t lag = lag_of(n), parts = lh_max_i64(1, (o->seen - n->sinks) / lag), ranked = (parts - 1) * lag;
    if (o->protect.base == 0 || n->budget > o->seen - ranked) return LH_OK;
    return lh_buf_printf(out,
                         "the budget of %lld entries holds nothing but sinks and the end of the prompt: its last %lld "
                         "tokens have no next part of %lld that they could be compared with; give a smaller '--lag'\n",
                         (long long)n->budget, (long long)(o->seen - n->sinks - ranked), (long long)lag);
}

static const lh_part parts[] = {
    {LH_PART_NUMBER(lag, lag_params, lag), .def = "128", .min = 1, .row.name = "lag", .row.arg = "N",
     .row.help = "Entries of a part of the text, which is compared with the next part (LagKV)."},
    {.row.name = NULL}};

static const lh_source source = {.score = score};

const lh_method lh_method_lag = {
    .word = "lag",
    .help = "Entries whose keys and values deviate most, on the scale of the next part of the text.",
    .parts = parts,
    .traits = LH_WHOLE_PROMPT | LH_SAME_RANKS | LH_NEEDS_ENTRIES,
    .warn = warn,
    .source = &source};
