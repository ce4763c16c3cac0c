/* cmd_bench.c - `bench`: lists its tasks, each of which is a command (bench_*.c). */
#include "shell/shell.h"

extern const lh_command lh_command_bench_operations, lh_command_bench_run, lh_command_bench_collectives,
    lh_command_bench_reading;

static const lh_command *const tasks[] = {&lh_command_bench_operations, &lh_command_bench_run,
                                          &lh_command_bench_collectives, &lh_command_bench_reading, NULL};

static const lh_option_group groups[] = {{&lh_shell_common_options, 0}, {0}};
static const lh_example examples[] = {
    {"longhaul bench operations --help", "the options of a task"},
    {"longhaul bench operations gemm attend", "products and attention alone"},
    {"longhaul bench run -m m.h5 -c 7500 --budget 512", "a model, with a full cache and an evicted one"},
    {0}};
static const lh_syntax syntax = {.program = "longhaul",
                                 .name = "bench",
                                 .usage = "TASK [options]",
                                 .summary = "Measure speeds and compare them with this machine's peak rates",
                                 .text =
                                     "TASK is operations (single operations), run (prefill and decode of a model), "
                                     "collectives (all-reduce and all-gather between ranks) or reading (a checkpoint).",
                                 .groups = groups,
                                 .examples = examples};

const lh_command lh_command_bench = {&syntax, sizeof(lh_shell_common), NULL, tasks};
