/* policy_help.h - what a command line asks about policies instead of a run: '--policy help', or '--policy NAME' beside
 * '--help'. */
#ifndef LH_CLI_POLICY_HELP_H
#define LH_CLI_POLICY_HELP_H

#include "cli/cli.h"

/* 1 when argv (after the name of the command) asks that, and the command takes policies. */
int lh_cli_policy_help_asked(const lh_command *command, int argc, char **argv);

/* The answer, appended to *out: all presets; or the resolved parts of one, with what else argv says of it. LH_EUSAGE
 * as for a run, but for a budget, which is not needed. */
lh_status lh_cli_policy_help(lh_buf *out, int argc, char **argv);

#endif
