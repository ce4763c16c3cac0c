/* main.c - finds the command, parses its options, runs it, and ends the run with its exit code. Also --help, --version
 * and `--policy NAME --help`. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/version.h"
#include "main/line_editor.h"
#include "shell/check_files.h"
#include "shell/policy_options.h"
#include "shell/shell.h"

static lh_status say_list(void)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_shell_list(&text));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status say_help(const lh_command *command, lh_help help)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_options_help(&text, command->syntax, help));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status say_policies(int argc, char **argv)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_shell_policy_help(&text, argc, argv)); /* a failure is the same on every rank */
    if (lh_shell_first()) LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status say_version(void)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    const char *git = lh_version_git();
    LH_TRY_DONE(lh_buf_printf(&text, "longhaul %s%s%s%s (%s, line editor: %s)\n", lh_version(), *git ? " (" : "", git,
                              *git ? ")" : "", lh_version_build(), lh_line_editor_name()));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

/* Commands of neighbouring tools (llama.cpp, vLLM, Ollama, lm-evaluation-harness), which people type from habit. */
static const struct {
    const char *word, *ours, *note; /* note: NULL if there is nothing to mind */
} foreign_commands[] = {
    {"run", "chat", "'-m MODEL' names the model; 'longhaul generate' answers one prompt"},
    {"cli", "generate", NULL},
    {"complete", "generate", NULL},
    {"perplexity", "eval ppl", NULL},
    {"serve", "batch", "there is no server, requests come from a file"},
    {"server", "batch", "there is no server, requests come from a file"},
    {"run-batch", "batch", NULL},
    {"quantize", "import", "'--quantize' makes blocks of few bits, '--dtype' plain numbers"},
    {"convert", "import", NULL},
    {"download", "import", "'hf download ORG/MODEL --local-dir FOLDER' fetches the folder that it reads"},
    {"pull", "import", "'hf download ORG/MODEL --local-dir FOLDER' fetches the folder that it reads"},
    {"show", "info", NULL},
    {"version", "--version", NULL},
};

static lh_status fail_unknown(const char *name)
{
    lh_status st = LH_OK;
    const char **names = NULL;
    int n = 0;
    for (size_t i = 0; i < sizeof foreign_commands / sizeof *foreign_commands; i++)
        if (strcmp(foreign_commands[i].word, name) == 0)
            LH_FAIL_DONE(LH_EUSAGE, "unknown command '%s', here it is 'longhaul %s'%s%s", name,
                         foreign_commands[i].ours, foreign_commands[i].note ? ": " : "",
                         foreign_commands[i].note ? foreign_commands[i].note : "");
    if (*name == '-')
        LH_FAIL_DONE(LH_EUSAGE,
                     "options come after a command, as in 'longhaul info %s'; 'longhaul --help' lists the commands",
                     name);
    while (lh_command_at(n)) n++;
    LH_TRY_DONE(lh_calloc(&names, n + 1, sizeof *names));
    for (int i = 0; i < n; i++) names[i] = lh_command_at(i)->syntax->name;
    const char *near = lh_nearest(name, names);
    if (near) LH_FAIL_DONE(LH_EUSAGE, "unknown command '%s', did you mean '%s'?", name, near);
    LH_FAIL_DONE(LH_EUSAGE, "unknown command '%s', 'longhaul --help' lists all", name);
done:
    lh_free(names);
    return st;
}

static lh_status begin_log(const lh_options *options, const lh_shell_common *common)
{
    if (common->verbose && common->quiet)
        return lh_fail(LH_EUSAGE, __FILE__, __LINE__, "'--verbose' and '--quiet' contradict each other, give one");
    if (common->verbose) lh_log_set_level(LH_LOG_DEBUG);
    if (common->quiet) lh_log_set_level(LH_LOG_WARN);
    lh_options_note_replaced(options);
    LH_TRY(lh_shell_check_files(options)); /* before a line is appended to an input */
    return common->log_file ? lh_log_open(common->log_file) : LH_OK;
}

/* Replaces *command by its task that argv names first; *skip counts that word. */
static lh_status find_task(const lh_command **command, int argc, char **argv, int *skip)
{
    lh_status st = LH_OK;
    const char *names[16] = {NULL}, *name = argc > 0 ? argv[0] : NULL;
    lh_buf all = {0};
    if (!(*command)->tasks || lh_shell_policy_help_asked(*command, argc, argv)) goto done;
    if (name && (*name == '-' || strcmp(name, "help") == 0) && lh_options_help_asked(argc, argv)) goto done;
    for (int i = 0; (*command)->tasks[i]; i++) {
        names[i] = lh_command_word((*command)->tasks[i]);
        LH_TRY_DONE(lh_buf_printf(&all, "%s%s", i ? ", " : "", names[i]));
    }
    if (!name || *name == '-')
        LH_FAIL_DONE(LH_EUSAGE, "'%s' needs a task after its name: %s", (*command)->syntax->name, all.data);
    const lh_command *task = lh_command_task(*command, name);
    const char *near = task ? NULL : lh_nearest(name, names);
    if (near) LH_FAIL_DONE(LH_EUSAGE, "unknown task '%s', did you mean '%s'?", name, near);
    if (!task) LH_FAIL_DONE(LH_EUSAGE, "unknown task '%s', it must be one of %s", name, all.data);
    *command = task;
    ++*skip;
done:
    lh_buf_clear(&all);
    return st;
}

/* oneDNN would write to standard output, among the results. */
static void silence_libraries(void)
{
    static const char *const names[] = {"DNNL_VERBOSE", "ONEDNN_VERBOSE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (!value || strcmp(value, "0") == 0) continue;
        lh_warn("%s=%s is ignored: oneDNN would write among the results on standard output", names[i], value);
        unsetenv(names[i]);
    }
}

/* Of HDF5, the threads, hwloc, MPI: below a limit of less they crash. */
static const int64_t LIBRARY_BYTES = INT64_C(64) << 20;

/* Runs a command and returns the exit code. argv: after the name of the command. */
static int run_command(const lh_command *command, int argc, char **argv)
{
    lh_status st = LH_OK;
    lh_options *options = NULL;
    lh_call call = {0};
    LH_TRY_DONE(lh_mem_check("the start", LIBRARY_BYTES));
    silence_libraries();
    LH_TRY_DONE(lh_calloc(&call.values, command->values_bytes, 1));
    LH_TRY_DONE(lh_options_parse(&options, command->syntax, call.values, argc, argv));
    call.options = options;
    LH_TRY_DONE(begin_log(options, call.values));
    LH_TRY_DONE(command->run(&call));
done:;
    int code = lh_world_close(call.world, st);
    lh_options_close(options);
    lh_free(call.values);
    lh_log_close();
    return code;
}

/* Reserves the descriptors of standard streams that are closed: otherwise the next opened file, perhaps a checkpoint
 * being written, would get their output. */
static void take_closed_streams(void)
{
    static const int ways[] = {O_WRONLY, O_RDONLY, O_RDONLY}; /* the wrong direction, so that using the stream fails */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", ways[fd]) < 0) return;
}

/* The code is the program's own from here on. */
static int end_with(int code)
{
    lh_exit_code_for_others(LH_OK);
    return code;
}

int main(int argc, char **argv)
{
    lh_status st = LH_OK;
    int rank = 0, size = 1, skip = 2; /* words before the options */
    lh_help help;
    take_closed_streams();
    lh_settings_use_options();
    signal(SIGXFSZ, SIG_IGN); /* a write above 'ulimit -f' then fails with EFBIG, which is reported */
    signal(SIGPIPE, SIG_IGN); /* and a pipe without a reader with EPIPE: lh_shell_write */
    lh_exit_code_for_others(LH_ENOMEM);
    lh_comm_launched(&rank, &size);
    lh_log_set_rank(rank, size);
    const char *name = argc > 1 ? argv[1] : NULL;
    const lh_command *command = name ? lh_command_find(name) : NULL;
    if (!name || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        st = rank == 0 ? say_list() : LH_OK;
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        st = rank == 0 ? say_version() : LH_OK;
    else if (!command)
        st = fail_unknown(name);
    else if ((st = find_task(&command, argc - skip, argv + skip, &skip)) != LH_OK)
        lh_fail_trace(st, __FILE__, __LINE__);
    else if (lh_shell_policy_help_asked(command, argc - skip, argv + skip))
        st = say_policies(argc - skip, argv + skip);
    else if ((help = lh_options_help_asked(argc - skip, argv + skip)) != LH_HELP_NONE)
        st = rank == 0 ? say_help(command, help) : LH_OK;
    else
        return end_with(run_command(command, argc - skip, argv + skip));
    return lh_world_close(NULL, st);
}
