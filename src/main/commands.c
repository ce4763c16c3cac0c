/* commands.c - the table of commands, and the texts made from it: list, man pages, Markdown, completion script. */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
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

enum { SHARED_TABLES_MAX = 64 };

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

/* Appends the header of a man page. name: "longhaul" or "longhaul-generate". */
static lh_status man_header(lh_buf *out, const char *name, const char *summary)
{
    LH_TRY(lh_buf_puts(out, ".TH \""));
    for (const char *c = name; *c; c++) LH_TRY(lh_buf_printf(out, "%c", toupper((unsigned char)*c)));
    LH_TRY(lh_buf_printf(out, "\" 1 \"\" \"longhaul %s\" \"User Commands\"\n", lh_version()));
    return lh_buf_printf(out, ".SH NAME\n%s \\- %s\n", name, summary);
}

lh_status lh_shell_man(lh_buf *out)
{
    LH_TRY(man_header(out, "longhaul", "very long prompts on MPI clusters with evicting key\\-value caches"));
    LH_TRY(lh_buf_puts(out, ".SH SYNOPSIS\n.B longhaul\n.I COMMAND\n[options]\n.br\n.B mpirun \\-n\n.I RANKS\n"
                            ".B longhaul\n.I COMMAND\n[options]\n"
                            ".SH DESCRIPTION\nLonghaul runs large language models over very long prompts on MPI "
                            "clusters, and keeps only the part of the key\\-value cache that matters. One rank drives "
                            "one device; ranks share a model by its heads. The result of a command goes to standard "
                            "output, everything else to standard error.\n.SH COMMANDS\n"));
    for (int i = 0; commands[i]; i++)
        LH_TRY(lh_buf_printf(out, ".TP\n.BR longhaul\\-%s (1)\n%s\n", commands[i]->syntax->name,
                             commands[i]->syntax->summary));
    LH_TRY(lh_buf_puts(out, ".SH EXIT STATUS\n"));
    for (size_t i = 0; i < sizeof exit_codes / sizeof *exit_codes; i++)
        LH_TRY(lh_buf_printf(out, ".TP\n.B %d\n%s\n", exit_codes[i].code, exit_codes[i].meaning));
    return LH_OK;
}

/* Number of a command and its tasks that have the table. */
static int users_in(const lh_command *command, const lh_option_table *table)
{
    int n = 0;
    for (int k = -1; k < 0 || (command->tasks && command->tasks[k]); k++)
        for (const lh_option_group *g = (k < 0 ? command : command->tasks[k])->syntax->groups; g->table; g++)
            n += g->table == table;
    return n;
}

/* Appends the tables of `syntax` that several tasks of the command have, without those of `shared` [*n]. */
static void add_shared(const lh_command *command, const lh_syntax *syntax, const lh_option_table **shared, int *n)
{
    for (const lh_option_group *g = syntax->groups; g->table; g++) {
        int known = users_in(command, g->table) < 2;
        for (int i = 0; i < *n; i++) known |= shared[i] == g->table;
        if (known) continue;
        assert(*n + 1 < SHARED_TABLES_MAX);
        shared[(*n)++] = g->table;
    }
}

lh_status lh_shell_man_of(lh_buf *out, const lh_command *command)
{
    char name[64];
    const lh_option_table *shared[SHARED_TABLES_MAX] = {NULL};
    int n = 0;
    for (int k = 0; command->tasks && command->tasks[k]; k++)
        add_shared(command, command->tasks[k]->syntax, shared, &n);
    snprintf(name, sizeof name, "longhaul\\-%s", command->syntax->name);
    LH_TRY(man_header(out, name, command->syntax->summary));
    LH_TRY(lh_buf_puts(out, ".SH DESCRIPTION\n"));
    LH_TRY(lh_options_man(out, command->syntax, shared));
    for (int k = 0; command->tasks && command->tasks[k]; k++)
        LH_TRY(lh_options_man(out, command->tasks[k]->syntax, shared));
    if (n) LH_TRY(lh_buf_puts(out, ".SH SHARED OPTIONS\n"));
    for (int i = 0; i < n; i++) LH_TRY(lh_options_man_shared(out, shared[i]));
    return lh_buf_puts(out, ".SH SEE ALSO\n.BR longhaul (1)\n");
}

/* ---- Markdown ---- */

/* Number of commands and tasks that have the table. */
static int users_of(const lh_option_table *table)
{
    int n = 0;
    for (int i = 0; commands[i]; i++) n += users_in(commands[i], table);
    return n;
}

/* A section of a command: the options that it alone has, and the headings of shared tables. */
static lh_status markdown_command(lh_buf *out, const lh_command *command)
{
    LH_TRY(lh_buf_printf(out, "\n## %s\n\n    longhaul %s %s\n\n%s.\n", command->syntax->name, command->syntax->name,
                         command->syntax->usage, command->syntax->summary));
    const char *before = "\nAlso:";
    for (const lh_option_group *g = command->syntax->groups; g->table; g++) {
        if (users_of(g->table) > 1) continue;
        LH_TRY(lh_buf_printf(out, "\n%s:\n\n", g->table->heading));
        LH_TRY(lh_options_markdown(out, g->table));
    }
    for (const lh_option_group *g = command->syntax->groups; g->table; g++) {
        if (users_of(g->table) < 2) continue;
        LH_TRY(lh_buf_printf(out, "%s %s", before, g->table->heading));
        before = ",";
    }
    return lh_buf_puts(out, *before == ',' ? ".\n" : "");
}

/* Appends the shared tables of a command that come first in it. */
static lh_status markdown_shared(lh_buf *out, const lh_command *command, const lh_option_table **done, int *n)
{
    for (const lh_option_group *g = command->syntax->groups; g->table; g++) {
        int known = users_of(g->table) < 2;
        for (int i = 0; i < *n; i++) known |= done[i] == g->table;
        if (known) continue;
        assert(*n < SHARED_TABLES_MAX);
        done[(*n)++] = g->table;
        LH_TRY(lh_buf_printf(out, "\n### %s\n\n", g->table->heading));
        LH_TRY(lh_options_markdown(out, g->table));
    }
    return LH_OK;
}

lh_status lh_shell_markdown(lh_buf *out)
{
    const lh_option_table *done[SHARED_TABLES_MAX];
    int n = 0;
    LH_TRY(lh_buf_puts(out, "# Options\n\nEvery option of every command, made by `longhaul help --markdown` from the "
                            "program's tables.\nOptions of several commands stand [at the end](#shared-options).\n"));
    for (int i = 0; commands[i]; i++) {
        LH_TRY(markdown_command(out, commands[i]));
        for (int k = 0; commands[i]->tasks && commands[i]->tasks[k]; k++)
            LH_TRY(markdown_command(out, commands[i]->tasks[k]));
    }
    LH_TRY(lh_buf_puts(out, "\n## Shared options\n"));
    for (int i = 0; commands[i]; i++) {
        LH_TRY(markdown_shared(out, commands[i], done, &n));
        for (int k = 0; commands[i]->tasks && commands[i]->tasks[k]; k++)
            LH_TRY(markdown_shared(out, commands[i]->tasks[k], done, &n));
    }
    return LH_OK;
}

/* ---- completion ---- */

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
