/* cache_size.c - budgets in bytes, which the size of a cache makes budgets of entries. */
#include "base/size_text.h"
#include "policies/policy_impl.h"

/* Entries per KV head in `units` layers of one entry each, where sliding layers hold at most a window, and the other
 * layers the rest. Budgets of a pyramid or a profile are not spread: their division gives that rest away itself. */
static int64_t spread(const lh_cache_size *cache, int64_t units)
{
    int64_t sliding = 0;
    for (int64_t l = 0; l < cache->layers && cache->sliding; l++) sliding += cache->sliding[l] != 0;
    const int64_t even = units / cache->layers;
    if (!sliding || sliding == cache->layers || even < cache->window) return even;
    return (units - sliding * cache->window) / (cache->layers - sliding);
}

lh_status lh_policy_size(lh_policy *policy, const lh_cache_size *cache)
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
    const int gives_away = policy->budgets.layers == LH_LAYERS_PYRAMID || policy->budgets.layers == LH_LAYERS_PROFILE;
    policy->budget.n = gives_away ? bytes / unit / cache->layers : spread(cache, bytes / unit);
    policy->budget_bytes = 0;
    return lh_policy_check(policy, policy->budget.n);
}
