/* cmd_help.c - `help`: the list of commands, man pages, a page of options and the completion script, all from the
 * option tables. */
#include "shell/shell.h"

struct values {
    lh_shell_common common;
    int all, man, markdown, completion;
};

#define FIELD(member) LH_FIELD(struct values, member)
static const lh_option rows[] = {
    {.type = LH_OPT_FLAG, .name = "all", FIELD(all), .help = "Explain every option of a command in full."},
    {.type = LH_OPT_FLAG,
     .name = "man",
     FIELD(man),
     .help = "Print the man page (troff) of the program, or of COMMAND."},
    {.type = LH_OPT_FLAG, .name = "markdown", FIELD(markdown), .help = "Print every option as a page in Markdown."},
    {.type = LH_OPT_FLAG, .name = "completion", FIELD(completion), .help = "Print the bash completion script."},
    {0}};
static const lh_option_table table = {"texts", rows};
static const lh_option_group groups[] = {{&table, 0}, {&lh_shell_common_options, offsetof(struct values, common)}, {0}};
static const lh_example examples[] = {{"longhaul help generate", "the options of a command"},
                                      {"source <(longhaul help --completion)", "completion in this shell"},
                                      {"longhaul help generate --man | man -l -", "the man page of a command"},
                                      {0}};
static const lh_syntax syntax = {.program = "longhaul",
                                 .name = "help",
                                 .usage = "[COMMAND [TASK]]",
                                 .summary = "Explain the commands",
                                 .max_args = 2,
                                 .groups = groups,
                                 .examples = examples};

static lh_status run_help(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char *name = lh_options_arg(call->options, 0);
    const char *task = lh_options_arg(call->options, 1);
    const lh_command *command = name ? lh_command_find(name) : NULL;
    lh_buf text = {0};
    if (!lh_shell_first()) goto done;
    if (name && !command) LH_FAIL_DONE(LH_EUSAGE, "unknown command '%s', 'longhaul --help' lists all", name);
    if (task && !lh_command_task(command, task))
        LH_FAIL_DONE(LH_EUSAGE, "'%s' has no task '%s', 'longhaul help %s' lists its tasks", name, task, name);
    if (task) command = lh_command_task(command, task);
    if (v->man)
        LH_TRY_DONE(command ? lh_shell_man_of(&text, command) : lh_shell_man(&text));
    else if (v->markdown)
        LH_TRY_DONE(lh_shell_markdown(&text));
    else if (v->completion)
        LH_TRY_DONE(lh_shell_completion(&text));
    else if (command)
        LH_TRY_DONE(lh_options_help(&text, command->syntax, v->all ? LH_HELP_ALL : LH_HELP_SHORT));
    else
        LH_TRY_DONE(lh_shell_list(&text));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

const lh_command lh_command_help = {&syntax, sizeof(struct values), run_help, NULL};
