/* cache_size.c - what a policy takes from a model: entries for a budget in bytes, the weights of its score, and the
 * default that these make possible. */
#include <string.h>

#include "base/size_text.h"
#include "policies/policy_impl.h"

/* Entries per KV head in `units` layers of one entry each, where sliding layers hold at most a window, and the other
 * layers the rest. Budgets of a pyramid, a profile or learnt shares are not spread: their division gives that rest away
 * itself. */
static int64_t spread(const lh_cache_size *cache, int64_t units)
{
    int64_t sliding = 0;
    for (int64_t l = 0; l < cache->layers && cache->sliding; l++) sliding += cache->sliding[l] != 0;
    const int64_t even = units / cache->layers;
    if (!sliding || sliding == cache->layers || even < cache->window) return even;
    return (units - sliding * cache->window) / (cache->layers - sliding);
}

/* The weights of the policy's score are the model's; a cache that other weights evicted is refused. */
static lh_status take_score_weights(lh_policy *policy, uint64_t hash)
{
    if (!lh_policy_has(policy, LH_NEEDS_SCORE_WEIGHTS)) return LH_OK;
    if (!hash)
        LH_FAIL(LH_EUSAGE,
                "policy '%s' needs weights that are learnt for each model, and there are none for this one: make "
                "them with 'longhaul learn', beside the checkpoint, or name their file with '%s'",
                policy->name, lh_setting("score_weights"));
    if (policy->score.weights && policy->score.weights != hash)
        LH_FAIL(LH_EINPUT, "policy '%s' was applied with other score weights than these: name their file with '%s'",
                policy->name, lh_setting("score_weights"));
    policy->score.weights = hash;
    return LH_OK;
}

/* A budget of bytes becomes one of entries. */
static lh_status size_budget(lh_policy *policy, const lh_cache_size *cache)
{
    const int64_t bytes = policy->budget_bytes, unit = cache->kv_heads * cache->entry_bytes;
    char given[LH_SIZE_TEXT], least[LH_SIZE_TEXT];
    if (!bytes) return LH_OK;
    if (bytes / unit < cache->layers)
        LH_FAIL(LH_EUSAGE,
                "'--budget %s' is less than one entry of %lld bytes in each of the %lld KV heads of %lld layers: give "
                "%s or more",
                lh_size_write(given, bytes), (long long)cache->entry_bytes, (long long)cache->kv_heads,
                (long long)cache->layers, lh_size_write(least, cache->layers * unit));
    const lh_layers_budget layers = policy->budgets.layers;
    const int gives_away = layers != LH_LAYERS_UNIFORM && layers != LH_LAYERS_ADAPTIVE;
    policy->budget.n = gives_away ? bytes / unit / cache->layers : spread(cache, bytes / unit);
    policy->budget_bytes = 0;
    return lh_policy_check(policy, policy->budget.n);
}

/* Where questions come later the default is learnt scores; a part that was given is one of the usual default. */
static lh_status take_default(lh_policy *policy, uint64_t hash)
{
    lh_part_value budget;
    if (!hash || policy->by_default != LH_DEFAULT_AS_IT_IS || strcmp(policy->name, lh_policy_to_ask_later) != 0)
        return LH_OK;
    lh_budget_write(policy, &budget);
    LH_TRY(
        lh_policy_resolve_stored(policy, &(lh_policy_options){.policy = lh_policy_of_learnt, .budget = budget.text}));
    policy->by_default = LH_DEFAULT_AS_IT_IS;
    return LH_OK;
}

lh_status lh_policy_size(lh_policy *policy, const lh_cache_size *cache)
{
    LH_TRY(size_budget(policy, cache));
    LH_TRY(take_default(policy, cache->score_weights));
    return take_score_weights(policy, cache->score_weights);
}
