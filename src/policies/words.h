/* words.h - a policy as a command line has it: its name, and the options after the name. */
#ifndef LH_POLICIES_WORDS_H
#define LH_POLICIES_WORDS_H

#include "policies/policy.h"

/* The preset of a name: of this program, of a loaded plug-in, or of a file, which is loaded (load_plugin.h). LH_EUSAGE,
 * naming the nearest name; or, unless may_load, if it is a file. */
lh_status lh_policy_named(const lh_policy_preset **out, const char *name, int may_load);

/* One policy as a command line has it, e.g. "ada-snapkv --pool-size 31 --budget 256": a name or the file of a plug-in,
 * then options of lh_policy_options and of the plug-in. Without a name: the default policy. profiles: of *out. *out
 * borrows from *words, new memory of the caller (lh_free). LH_EUSAGE naming the text and its fault; parts are not
 * checked against each other. */
lh_status lh_policy_options_parse(lh_policy_options *out, char **words, const char *text, lh_profiles *profiles);

/* Adds the parts of `beside` that `own` does not set itself; with the budget, profiles and time of questions. */
void lh_policy_parts_join(lh_policy_parts *own, const lh_policy_parts *beside);
void lh_policy_options_join(lh_policy_options *own, const lh_policy_options *beside);

#endif
