/* methods.c - which methods a policy uses, and what follows for it. The table itself is of src/evict. */
#include <string.h>

#include "policies/policy_impl.h"

_Static_assert((int)LH_METHODS <= LH_METHOD_SLOTS && LH_METHOD_SLOTS <= 64, "a slot and a bit for every method");

int lh_uses_method(const lh_policy_methods *methods, lh_method_id id)
{
    return (int)(methods->used >> id & 1);
}

const void *lh_params_of(const lh_policy_methods *methods, lh_method_id id)
{
    return &methods->params[id];
}

int lh_methods_have(const lh_policy_methods *methods, uint64_t traits)
{
    return (methods->traits & traits) != 0;
}

int lh_policy_has(const lh_policy *policy, uint64_t traits)
{
    return lh_methods_have(&policy->methods, traits);
}

int lh_policy_has_scorer(const lh_policy *policy)
{
    return policy->score.source == LH_METHOD_caller || policy->score.source == LH_METHOD_caller_rows;
}

int lh_scores_by_probes(const lh_policy_score *score)
{
    return score->rows_at == LH_ROWS_AT_REPEAT || score->rows_at == LH_ROWS_AT_TEXT;
}

int lh_score_reads_hidden(const lh_policy_score *score)
{
    return (score->scorer.reads & LH_READS_HIDDEN) != 0;
}

int lh_policy_lacks_scorer(const lh_policy *policy)
{
    return lh_policy_has_scorer(policy) && !policy->score.scorer.score;
}

int lh_policy_same(const lh_policy *a, const lh_policy *b)
{
    lh_policy one = *a;
    one.by_default = b->by_default;
    return memcmp(&one, b, sizeof one) == 0;
}

int lh_policy_attends(const lh_policy *policy)
{
    return lh_policy_has(policy, LH_ATTENDS);
}

int lh_policy_observes(const lh_policy *policy)
{
    return lh_policy_attends(policy) && !lh_policy_has(policy, LH_ONE_ROW);
}

void lh_policy_update_methods(lh_policy *policy)
{
    lh_policy_methods *all = &policy->methods;
    all->used = all->traits = 0;
    for (lh_method_id m = 1; m < LH_METHODS; m++) {
        const lh_method *method = lh_methods[m];
        const int chosen = m == policy->score.source || m == policy->select.kind;
        if (!chosen && !(method->active && method->active(policy))) continue;
        all->used |= UINT64_C(1) << m;
        all->traits |= method->traits;
    }
}

void lh_policy_drop_method(lh_policy *policy, lh_method_id id)
{
    policy->methods.params[id] = (lh_method_params){0};
    lh_policy_update_methods(policy);
}
