/* policy_help.h - help on policies: '--policy help' lists the presets, '--policy NAME --help' explains one. */
#ifndef LH_SHELL_POLICY_HELP_H
#define LH_SHELL_POLICY_HELP_H

#include "shell/shell.h"

/* 1 if argv (after the name of the command) asks for help on policies, and the command takes policies. */
int lh_shell_policy_help_asked(const lh_command *command, int argc, char **argv);

/* Appends the list of presets; or the resolved parts of one, with the other policy options of argv. LH_EUSAGE as for a
 * run, except that no budget is needed. */
lh_status lh_shell_policy_help(lh_buf *out, int argc, char **argv);

#endif
