/* command_list.h - every command, once, in the order in which they are listed: LH_COMMAND(name) names
 * lh_command_<name> of cmd_<name>.c. */
LH_COMMAND(import)
LH_COMMAND(info)
LH_COMMAND(verify)
LH_COMMAND(tokenize)
LH_COMMAND(plan)
LH_COMMAND(generate)
LH_COMMAND(chat)
LH_COMMAND(trace)
LH_COMMAND(eval)
LH_COMMAND(report)
LH_COMMAND(bench)
LH_COMMAND(help)
