/* commands.c - the table of commands, and the texts made from it: list, man page, completion script. */
#include <string.h>

#include "base/version.h"
#include "shell/shell.h"

#define LH_COMMAND(name) extern const lh_command lh_command_##name;
#include "main/command_list.h"
#undef LH_COMMAND

static const lh_command *const commands[] = {
#define LH_COMMAND(name) &lh_command_##name,
#include "main/command_list.h"
#undef LH_COMMAND
    NULL};

const lh_command *lh_command_at(int i)
{
    return commands[i];
}

const lh_command *lh_command_find(const char *name)
{
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->syntax->name, name) == 0) return commands[i];
    return NULL;
}

const char *lh_command_word(const lh_command *command)
{
    const char *space = strrchr(command->syntax->name, ' ');
    return space ? space + 1 : command->syntax->name;
}

const lh_command *lh_command_task(const lh_command *command, const char *task)
{
    for (int i = 0; command->tasks && command->tasks[i]; i++)
        if (strcmp(lh_command_word(command->tasks[i]), task) == 0) return command->tasks[i];
    return NULL;
}

static const char *const first_steps[] = {
    "longhaul import ~/models/Llama-3.2-1B-Instruct -o m.h5", "longhaul plan -m m.h5 --context 100k --budget 1024",
    "longhaul generate -m m.h5 -f book.txt -p 'Who did it?' --budget 1024",
    "longhaul eval needle -m m.h5 --haystack book.txt --length 8k --policy longhaul,snapkv --budget 1024"};

lh_status lh_shell_list(lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, "usage: longhaul COMMAND [options]\n"
                            "       mpirun -n RANKS longhaul COMMAND [options]\n\n"
                            "Very long prompts on MPI clusters, keeping only the part of the key-value cache that "
                            "matters.\n\nfirst steps:\n"));
    for (size_t i = 0; i < sizeof first_steps / sizeof *first_steps; i++)
        LH_TRY(lh_buf_printf(out, "  %s\n", first_steps[i]));
    LH_TRY(lh_buf_puts(out, "\ncommands:\n"));
    for (int i = 0; commands[i]; i++)
        LH_TRY(lh_buf_printf(out, "  %-10s %s\n", commands[i]->syntax->name, commands[i]->syntax->summary));
    LH_TRY(
        lh_buf_puts(out, "\n'longhaul COMMAND --help' explains a command, 'longhaul --version' prints the version.\n"));
    return LH_OK;
}

/* Appends a line of bash that completes the names of the commands and `more`. */
static lh_status offer_commands(lh_buf *out, const char *more)
{
    LH_TRY(lh_buf_printf(out, "        COMPREPLY=($(compgen -W \"%s", more));
    for (int i = 0; commands[i]; i++) LH_TRY(lh_buf_printf(out, " %s", commands[i]->syntax->name));
    LH_TRY(lh_buf_puts(out, "\" -- \"$cur\"))\n"));
    return LH_OK;
}

static const struct {
    int code;
    const char *meaning;
} exit_codes[] = {{LH_OK, "done"},
                  {1, "some requests failed, the output is complete"},
                  {LH_EUSAGE, "usage: invalid command line"},
                  {LH_EINPUT, "bad input file"},
                  {LH_EFILE, "bad checkpoint, cache or trace"},
                  {LH_ENOMEM, "does not fit in memory"},
                  {LH_EWRITE, "cannot write"},
                  {LH_ECOMM, "communication between ranks failed"},
                  {LH_EINTERNAL, "internal error"},
                  {LH_EINTERRUPTED, "interrupted, results so far are saved: run again"}};

lh_status lh_shell_man(lh_buf *out)
{
    LH_TRY(lh_buf_printf(out, ".TH LONGHAUL 1 \"\" \"longhaul %s\" \"User Commands\"\n", lh_version()));
    LH_TRY(lh_buf_puts(out, ".SH NAME\nlonghaul \\- very long prompts on MPI clusters with evicting key-value caches\n"
                            ".SH SYNOPSIS\n.B longhaul\n.I COMMAND\n[options]\n.br\n.B mpirun \\-n\n.I RANKS\n"
                            ".B longhaul\n.I COMMAND\n[options]\n"
                            ".SH DESCRIPTION\nLonghaul runs large language models over very long prompts on MPI "
                            "clusters, and keeps only the part of the key\\-value cache that matters. One rank drives "
                            "one device; ranks share a model by its heads. The result of a command goes to standard "
                            "output, everything else to standard error.\n.SH COMMANDS\n"));
    for (int i = 0; commands[i]; i++) {
        LH_TRY(lh_options_man(out, commands[i]->syntax));
        for (int k = 0; commands[i]->tasks && commands[i]->tasks[k]; k++)
            LH_TRY(lh_options_man(out, commands[i]->tasks[k]->syntax));
    }
    LH_TRY(lh_buf_puts(out, ".SH EXIT STATUS\n"));
    for (size_t i = 0; i < sizeof exit_codes / sizeof *exit_codes; i++)
        LH_TRY(lh_buf_printf(out, ".TP\n.B %d\n%s\n", exit_codes[i].code, exit_codes[i].meaning));
    return LH_OK;
}

/* A command with tasks: a case of cases. */
static lh_status complete_tasks(lh_buf *out, const lh_command *command)
{
    LH_TRY(lh_buf_printf(out,
                         "    %s)\n        if [ \"$COMP_CWORD\" = 2 ]; then\n"
                         "            COMPREPLY=($(compgen -W \"--help",
                         command->syntax->name));
    for (int i = 0; command->tasks[i]; i++) LH_TRY(lh_buf_printf(out, " %s", lh_command_word(command->tasks[i])));
    LH_TRY(lh_buf_puts(out, "\" -- \"$cur\"))\n            return\n        fi\n        case ${COMP_WORDS[2]} in\n"));
    for (int i = 0; command->tasks[i]; i++) {
        lh_syntax syntax = *command->tasks[i]->syntax;
        syntax.name = lh_command_word(command->tasks[i]);
        LH_TRY(lh_options_completion(out, &syntax));
    }
    LH_TRY(lh_buf_puts(out, "        esac ;;\n"));
    return LH_OK;
}

/* After a launcher and "longhaul": the completion of longhaul; before "longhaul": the launcher's own completion, or
 * names of files. */
static const char after_launchers[] =
    "_longhaul_launched() {\n"
    "    local i before=_longhaul_before_${COMP_WORDS[0]##*/}\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        [ \"${COMP_WORDS[i]##*/}\" = longhaul ] || continue\n"
    "        COMP_WORDS=(\"${COMP_WORDS[@]:i}\")\n"
    "        COMP_CWORD=$((COMP_CWORD - i))\n"
    "        _longhaul\n"
    "        return\n"
    "    done\n"
    "    COMPREPLY=()\n"
    "    [ -z \"${!before}\" ] || \"${!before}\" \"$@\"\n"
    "}\n"
    "for _longhaul_launcher in mpirun mpiexec srun; do\n"
    "    if [[ $(complete -p $_longhaul_launcher 2>/dev/null) =~ -F\\ ([^ ]+) ]] &&\n"
    "        [ \"${BASH_REMATCH[1]}\" != _longhaul_launched ]; then\n"
    "        declare \"_longhaul_before_$_longhaul_launcher=${BASH_REMATCH[1]}\"\n"
    "    fi\n"
    "    complete -o bashdefault -o default -o filenames -F _longhaul_launched $_longhaul_launcher\n"
    "done\n"
    "unset _longhaul_launcher\n";

lh_status lh_shell_completion(lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, "# bash completion for longhaul, made from its tables of options\n"
                            "_longhaul() {\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
                            "words=\n    COMPREPLY=()\n    if [ \"$COMP_CWORD\" = 1 ]; then\n"));
    LH_TRY(offer_commands(out, "--help --version"));
    /* bash cuts "--option=value" into three words. */
    LH_TRY(lh_buf_puts(out, "        return\n    fi\n"
                            "    if [ \"$cur\" = = ]; then cur=\n"
                            "    elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}\n    fi\n"
                            "    case ${COMP_WORDS[1]} in\n"));
    for (int i = 0; commands[i]; i++)
        LH_TRY(commands[i]->tasks ? complete_tasks(out, commands[i]) : lh_options_completion(out, commands[i]->syntax));
    LH_TRY(lh_buf_puts(out, "    esac\n    if [[ $cur == -* ]]; then\n"
                            "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                            "    elif [ \"${COMP_WORDS[1]}\" = help ]; then\n"));
    LH_TRY(offer_commands(out, ""));
    LH_TRY(lh_buf_puts(out, "    else\n        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n    fi\n}\n"
                            "complete -o filenames -F _longhaul longhaul\n"));
    LH_TRY(lh_buf_puts(out, after_launchers));
    return LH_OK;
}
