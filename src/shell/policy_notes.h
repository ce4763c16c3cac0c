/* policy_notes.h - what a run checks and says of its policy before the work begins. */
#ifndef LH_SHELL_POLICY_NOTES_H
#define LH_SHELL_POLICY_NOTES_H

#include "policies/policy.h"

/* LH_EUSAGE if options of a policy are given with a loaded cache, which has its own. load_cache: its file; NULL: none.
 */
lh_status lh_shell_check_loaded(const lh_policy_options *options, const char *load_cache);

/* Logs the policy and its warnings for a prompt of `tokens` tokens, on rank 0; asked: when questions come. */
lh_status lh_shell_note_policy(const lh_policy *policy, int64_t tokens, lh_policy_asked asked);

/* Logs which policies a list has where it names none. */
void lh_shell_note_defaults(const lh_policy_options *lists);

#endif
