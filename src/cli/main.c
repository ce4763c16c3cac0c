/* main.c - finds the command, reads its options, runs it, ends the run with its exit code. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "cli/cli.h"

static lh_status say_list(void)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY(lh_cli_list(&text));
    LH_TRY(lh_cli_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status say_help(const lh_command *command)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY(lh_options_help(&text, command->syntax));
    LH_TRY(lh_cli_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status say_version(void)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    const char *git = lh_version_git();
    LH_TRY(lh_buf_printf(&text, "longhaul %s%s%s%s (%s)\n", lh_version(), *git ? " (" : "", git, *git ? ")" : "",
                         lh_version_build()));
    LH_TRY(lh_cli_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status fail_unknown(const char *name)
{
    lh_status st = LH_OK;
    const char **names = NULL;
    int n = 0;
    while (lh_command_at(n)) n++;
    LH_TRY(lh_calloc(&names, n + 1, sizeof *names));
    for (int i = 0; i < n; i++) names[i] = lh_command_at(i)->syntax->name;
    const char *near = lh_nearest(name, names);
    if (near) LH_FAIL(LH_EUSAGE, "unknown command '%s', did you mean '%s'?", name, near);
    LH_FAIL(LH_EUSAGE, "unknown command '%s', 'longhaul --help' lists those there are", name);
done:
    lh_free(names);
    return st;
}

static lh_status begin_log(const lh_cli_common *common)
{
    if (common->verbose && common->quiet)
        return lh_fail(LH_EUSAGE, __FILE__, __LINE__, "'--verbose' and '--quiet' contradict each other, give one");
    if (common->verbose) lh_log_set_level(LH_LOG_DEBUG);
    if (common->quiet) lh_log_set_level(LH_LOG_WARN);
    return common->log_file ? lh_log_open(common->log_file) : LH_OK;
}

/* The command, to its exit code. argv: behind the name of the command. */
static int run(const lh_command *command, int argc, char **argv)
{
    lh_status st = LH_OK;
    lh_options *options = NULL;
    lh_call call = {0};
    LH_TRY(lh_calloc(&call.values, command->values_bytes, 1));
    LH_TRY(lh_options_parse(&options, command->syntax, call.values, argc, argv));
    call.options = options;
    LH_TRY(begin_log(call.values));
    LH_TRY(command->run(&call));
done:;
    int code = lh_world_close(call.world, st);
    lh_options_close(options);
    lh_free(call.values);
    lh_log_close();
    return code;
}

/* A stream that came closed is closed in what it is for, but its number is taken: else the next file that is opened, a
 * checkpoint under way perhaps, gets what is said to it. */
static void take_closed_streams(void)
{
    static const int ways[] = {O_WRONLY, O_RDONLY, O_RDONLY}; /* neither to be read nor to be written */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", ways[fd]) < 0) return;
}

int main(int argc, char **argv)
{
    lh_status st = LH_OK;
    int rank = 0, size = 1;
    take_closed_streams();
    lh_comm_launched(&rank, &size);
    lh_log_set_rank(rank, size);
    const char *name = argc > 1 ? argv[1] : NULL;
    const lh_command *command = name ? lh_command_find(name) : NULL;
    if (!name)
        st = lh_fail(LH_EUSAGE, __FILE__, __LINE__, "no command, 'longhaul --help' lists those there are");
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        st = rank == 0 ? say_list() : LH_OK;
    else if (strcmp(name, "--version") == 0)
        st = rank == 0 ? say_version() : LH_OK;
    else if (!command)
        st = fail_unknown(name);
    else if (lh_options_help_asked(argc - 2, argv + 2))
        st = rank == 0 ? say_help(command) : LH_OK;
    else
        return run(command, argc - 2, argv + 2);
    return lh_world_close(NULL, st);
}
