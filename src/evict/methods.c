/* methods.c - the table of methods (policies/method_list.h), and the functions that those of a policy have here. */
#include "evict/evict_impl.h"

#define LH_METHOD(name) extern const lh_method lh_method_##name;
#include "policies/method_list.h"
#undef LH_METHOD

static const lh_method none = {.word = NULL};

const lh_method *const lh_methods[] = {
    &none,
#define LH_METHOD(name) &lh_method_##name,
#include "policies/method_list.h"
#undef LH_METHOD
};

const lh_source *lh_source_of(const lh_policy_numbers *p)
{
    if (!p->evicts) return NULL;
    return p->score.running ? &lh_source_running : lh_methods[p->score.source]->source;
}

const lh_addition *lh_addition_of(const lh_policy_numbers *p, lh_method_id id)
{
    return lh_uses_method(&p->methods, id) ? lh_methods[id]->addition : NULL;
}

int lh_evict_uses_attention(const lh_policy_numbers *p)
{
    return lh_methods_have(&p->methods, LH_ATTENDS);
}

int lh_keeps_rows(const lh_policy_numbers *p)
{
    return p->evicts &&
           ((lh_evict_uses_attention(p) && !p->score.running) || lh_methods_have(&p->methods, LH_REFERENCES));
}
