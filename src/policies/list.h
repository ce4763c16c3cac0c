/* list.h - lists of policies and budgets for comparisons: every policy with every budget. */
#ifndef LH_POLICIES_LIST_H
#define LH_POLICIES_LIST_H

#include "policies/policy.h"
#include "policies/profile.h"

/* Resolved policies. The first one is always `full`; no two are the same. */
typedef struct lh_policy_choice {
    lh_policy policy;
    char *name;   /* as on a command line, without the budget */
    char *budget; /* "256", "50%", or "" for `full` */
    char *given;  /* a file or folder of keep sets instead of the policy's choice; NULL: none */
    int added;    /* true if no one asked for it: a comparison's own baseline */
} lh_policy_choice;

typedef struct lh_policy_list {
    lh_policy_choice *at;
    int64_t n, cap;
    lh_profiles profiles; /* those that the policies name */
} lh_policy_list;

/* lists->policy: comma-separated policies, each in words as above (in '"' or '\'' if it contains a comma), or "all"
 * for every preset except the compatible ones and those that need weights of a model (a part that a preset would ignore
 * is skipped for it, and one warning names all skipped parts); NULL: the default policy with a budget, or both of them
 * (lists->asked). lists->budget: comma-separated budgets; every policy without its own budget is combined with each.
 * lists->parts apply to every policy that does not set them itself. Fails as lh_policy_resolve does, naming the policy,
 * also if one of them would ignore a part. lists->profiles is ignored. Policies are in the order in which they are
 * named, each with its budgets. */
lh_status lh_policy_list_resolve(lh_policy_list *out, const lh_policy_options *lists);

/* lh_policy_size of every policy: a budget in bytes becomes a number of entries in the text, too, and so does the name
 * of a default. A policy that is then equal to an earlier one is dropped. */
lh_status lh_policy_list_size(lh_policy_list *list, const lh_cache_size *cache);
void lh_policy_list_clear(lh_policy_list *list);

#endif
