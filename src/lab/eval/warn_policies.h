/* warn_policies.h - the warnings of a list of policies before a long run. */
#ifndef LH_LAB_EVAL_WARN_POLICIES_H
#define LH_LAB_EVAL_WARN_POLICIES_H

#include "policies/list.h"

/* Logs the warnings for prompts of these lengths: for each policy those of the first length that has any, since most
 * hold for all. Warnings that differ in numbers only are one line, with the policies that it holds for. */
lh_status lh_eval_warn_of_policies(const lh_policy_list *policies, const int64_t *lengths, int64_t n);

#endif
