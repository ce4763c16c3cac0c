/* policy_rows.h - the rows of lh_policy_options. Policy and budget have a text of their own in every table, after
 * LH_POLICY_ROW and LH_BUDGET_ROW; the parts are the same for all:
 *
 *     {LH_POLICY_ROW, .arg = "NAME", .help = "What is kept."}, ... LH_POLICY_PARTS(LH_POLICY_PART_ROW){0}}; */
#ifndef LH_SHELL_POLICY_ROWS_H
#define LH_SHELL_POLICY_ROWS_H

#include "shell/shell.h"

/* Shell completion of '--policy' (base/options.h), and of a list of policies; in policy_help.c. */
const char *lh_shell_policy_word(int i);
const char *lh_shell_policy_list_word(int i);

#define LH_POLICY_ROW .type = LH_OPT_STR, .name = "policy", LH_FIELD(lh_policy_options, policy)
#define LH_BUDGET_ROW .type = LH_OPT_STR, .letter = 'b', .name = "budget", LH_FIELD(lh_policy_options, budget)
#define LH_POLICY_PART_ROW(member, option, kind, list, value, sentence) \
    {.type = kind,                                                      \
     .name = option,                                                    \
     LH_FIELD(lh_policy_options, parts.member),                         \
     .arg = value,                                                      \
     .choices = list,                                                   \
     .detail = 1,                                                       \
     .help = sentence},

#endif
