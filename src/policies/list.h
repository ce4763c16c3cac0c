/* list.h - lists of policies and budgets, as comparisons take them: every policy with every budget. */
#ifndef LH_POLICIES_LIST_H
#define LH_POLICIES_LIST_H

#include "policies/policy.h"
#include "policies/profile.h"

/* One policy as a command line has it, e.g. "ada-snapkv --pool-size 31 --budget 256": a name, then options of
 * lh_policy_options. Without a name: the default policy. *out borrows from *words, new memory of the caller
 * (lh_free). LH_EUSAGE naming the text and what is wrong with it; parts are not checked against each other. */
lh_status lh_policy_options_parse(lh_policy_options *out, char **words, const char *text);

/* Resolved policies. The first one is always `full`; no two are the same. */
typedef struct lh_policy_choice {
    lh_policy policy;
    char *name;   /* as a command line has it, without the budget */
    char *budget; /* "256", "50%", or "" for `full` */
} lh_policy_choice;

typedef struct lh_policy_list {
    lh_policy_choice *at;
    int64_t n, cap;
    lh_profiles profiles; /* those that the policies name */
} lh_policy_list;

/* lists->policy: policies with commas between them, each in words as above ('"' or '\'' around one that has a comma),
 * "all" for every preset but the compatible ones; NULL: what a budget alone means. lists->budget: budgets with commas
 * between them; every policy that does not bring a budget is taken with each. lists->parts hold for every policy, but
 * for what its own words say. Fails as lh_policy_resolve does, naming the policy: also where one of them would ignore
 * a part. lists->profiles is not looked at. Policies come in the order in which they are named, each with its budgets.
 */
lh_status lh_policy_list_resolve(lh_policy_list *out, const lh_policy_options *lists);
void lh_policy_list_clear(lh_policy_list *list);

#endif
