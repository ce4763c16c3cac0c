/* policy_options.h - options of policies in tables, checks and log lines of a run, and help: '--policy help' lists the
 * presets, '--policy NAME --help' explains one. */
#ifndef LH_SHELL_POLICY_OPTIONS_H
#define LH_SHELL_POLICY_OPTIONS_H

#include "policies/list.h"
#include "shell/shell.h"

/* 1 if argv (after the name of the command) asks for help on policies, and the command takes policies. */
int lh_shell_policy_help_asked(const lh_command *command, int argc, char **argv);

/* Appends the list of presets; or the resolved parts of a preset, with the other policy options of argv. LH_EUSAGE as
 * for a run, except that no budget is needed. */
lh_status lh_shell_policy_help(lh_buf *out, int argc, char **argv);

/* ---- checks and log lines about a run's policy before the work begins ---- */
/* LH_EUSAGE if options of a policy are given with a loaded cache, which has its own. load_cache: its file; NULL: none.
 */
lh_status lh_shell_check_loaded(const lh_policy_options *options, const char *load_cache);

/* Logs the policy and its warnings for a prompt of `tokens` tokens, on rank 0; asked: when questions come. */
lh_status lh_shell_note_policy(const lh_policy *policy, int64_t tokens, lh_policy_asked asked);

/* Logs which policies a list has where it names none, after lh_policy_list_size. */
void lh_shell_note_defaults(const lh_policy_list *policies);

/* The rows of lh_policy_options. Every table has its own text for policy and budget, after LH_POLICY_ROW and
 * LH_BUDGET_ROW; the rows of parts follow from lh_policy_part_row. */
/* Shell completion of '--policy' (base/options.h), and of a list of policies. */
const char *lh_shell_policy_word(int i);
const char *lh_shell_policy_list_word(int i);

#define LH_POLICY_ROW .type = LH_OPT_STR, .name = "policy", LH_FIELD(lh_policy_options, policy)
#define LH_BUDGET_ROW .type = LH_OPT_STR, .letter = 'b', .name = "budget", LH_FIELD(lh_policy_options, budget)

#endif
