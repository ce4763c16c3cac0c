/* The tasks of `bench`. Each is a command of its own, behind this one's name. */
#include "cli/cli.h"

extern const lh_command lh_command_bench_operations;

static const lh_command *const tasks[] = {&lh_command_bench_operations, NULL};

static const lh_option_group groups[] = {{&lh_cli_common_options, 0}, {0}};
static const lh_example examples[] = {{"longhaul bench operations --help", "the options of a task"},
                                      {"longhaul bench operations gemm attend", "products and attention alone"},
                                      {0}};
static const lh_syntax syntax = {.program = "longhaul",
                                 .name = "bench",
                                 .usage = "TASK [options]",
                                 .summary = "Measure speeds, beside what this machine can do",
                                 .text = "TASK is operations (what a run is made of, one by one).",
                                 .groups = groups,
                                 .examples = examples};

const lh_command lh_command_bench = {&syntax, sizeof(lh_cli_common), NULL, tasks};
