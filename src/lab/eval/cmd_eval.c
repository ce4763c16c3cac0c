/* cmd_eval.c - `eval`: lists its tasks; each task is a command (eval_*.c, tasks.c). */
#include "shell/shell.h"

extern const lh_command lh_command_eval_needle, lh_command_eval_quote, lh_command_eval_tasks, lh_command_eval_fidelity,
    lh_command_eval_ppl, lh_command_eval_choice, lh_command_eval_recall;

static const lh_command *const tasks[] = {
    &lh_command_eval_needle,   &lh_command_eval_quote, &lh_command_eval_recall, &lh_command_eval_tasks,
    &lh_command_eval_fidelity, &lh_command_eval_ppl,   &lh_command_eval_choice, NULL};

static const lh_option_group groups[] = {{&lh_shell_common_options, 0}, {0}};
static const lh_example examples[] = {
    {"longhaul eval needle --help", "the options of a task"},
    {"longhaul eval needle -m m.h5 --haystack essays/ --policy snapkv,h2o --budget 128,256", "a first comparison"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval",
    .usage = "TASK -m FILE [options]",
    .summary = "Measure how policies and budgets change answers",
    .text = "TASK is needle (find a sentence that was put into a long text), quote (find a sentence of the text "
            "itself), recall (ask for facts after evictions while decoding), tasks (questions of JSON files, such as "
            "those of RULER, "
            "LongBench, InfiniteBench and SQuAD, or your own), fidelity (compare text generated with an evicted cache "
            "and with the full one), ppl (perplexity of a text after an evicted context) or choice (multiple-choice "
            "questions).",
    .groups = groups,
    .examples = examples};

const lh_command lh_command_eval = {&syntax, sizeof(lh_shell_common), NULL, tasks};
