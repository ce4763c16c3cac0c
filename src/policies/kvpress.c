/* kvpress.c - how kvpress 0.5.5 differs from the papers: alpha and the first stage of a selection are shares of the
 * whole budget, in which protected entries count as the best ones; a pyramid falls over the whole budget, window
 * included, and is rounded (pyramid.c); and query heads may be joined after the pooling. */
#include "policies/policy_impl.h"

typedef struct kvpress_params {
    int compat, group_after_pool;
} kvpress_params;

static const kvpress_params *params_of(const lh_policy_methods *methods)
{
    return lh_params_of(methods, LH_METHOD_kvpress);
}

int lh_is_kvpress(const lh_policy_methods *methods)
{
    return params_of(methods)->compat;
}

int lh_groups_after_pool(const lh_policy_methods *methods)
{
    return params_of(methods)->group_after_pool;
}

static int differs(const lh_policy *policy)
{
    return lh_policy_has(policy, LH_HAS_COMPAT);
}

static int is_compatible(const lh_policy *policy)
{
    return lh_is_kvpress(&policy->methods);
}

static const lh_part parts[] = {
    {LH_PART_WORD(kvpress, kvpress_params, group_after_pool), .after = "pool-size", .used = lh_policy_joins_and_pools,
     .needs = "'--pool max' or avg, and '--statistic sum' or mean, mas, last", .def = "weight",
     .row.name = "group-stage", .row.choices = (const char *const[]){"weight", "score", NULL},
     .meanings =
         (const char *const[]){"Query heads are joined before pooling.", "Query heads are joined after pooling."},
     .row.help = "Join query heads before pooling (weight) or after it (score)."},
    {LH_PART_WORD(kvpress, kvpress_params, compat), .after = "layer-budget", .used = differs,
     .needs = "'--head-budget adaptive', '--select two-stage' or '--layer-budget pyramid'", .def = "none",
     .row.name = "compat", .row.choices = (const char *const[]){"none", "kvpress", NULL},
     .meanings = (const char *const[]){"As in the papers.",
                                       "As kvpress 0.5.5: alpha and the first stage are shares of the whole budget, "
                                       "and pyramids are rounded."}},
    {.row.name = NULL}};

const lh_method lh_method_kvpress = {.option = "--compat kvpress", .active = is_compatible, .parts = parts};
