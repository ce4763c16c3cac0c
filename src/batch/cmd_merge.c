/* cmd_merge.c - `merge`: the outputs of an array of batch jobs as one. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "batch/merge.h"
#include "shell/shell.h"

struct values {
    lh_shell_common common;
    const char *out;
    int force, partial;
};

#define FIELD(member) LH_FIELD(struct values, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'o',
     .required = 1,
     .name = "output",
     FIELD(out),
     .arg = "FILE",
     .writes = 1,
     .help = "The file to write; '-' is standard output."},
    {.type = LH_OPT_FLAG, .name = "force", FIELD(force), .help = "Overwrite the output if it exists."},
    {.type = LH_OPT_FLAG,
     .name = "partial",
     FIELD(partial),
     .help = "Write what there is, with a warning, where requests have no line yet, or lost it."},
    {0}};
#undef FIELD
static const lh_option_table table = {"output", rows};
static const lh_option_group groups[] = {{&table, 0}, {&lh_shell_common_options, offsetof(struct values, common)}, {0}};
static const lh_example examples[] = {
    {"longhaul merge shard-*.jsonl -o all.jsonl", "the outputs of a job array, in the order of the input"}, {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "merge",
    .usage = "OUT… -o FILE [options]",
    .summary = "Join the outputs of batch jobs, each request once, in input order",
    .text = "Every line is written once, byte for byte, in the order of the lines of the input. A request that two "
            "outputs answer differently is an error that names both; an answer stands in for an error. Outputs of "
            "several inputs follow each other in the order in which they are given. What the files OUT.state count "
            "and the outputs lack is an error.",
    .max_args = 1 << 16,
    .reads_args = 1,
    .groups = groups,
    .examples = examples};

static lh_status run_merge(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char **paths = NULL;
    int64_t n = 0;
    lh_batch_merged merged;
    while (lh_options_arg(call->options, n)) n++;
    if (n == 0) LH_FAIL(LH_EUSAGE, "nothing to merge: give the outputs of batch jobs");
    if (!lh_shell_first()) return LH_OK;
    if (!v->force && strcmp(v->out, "-") != 0 && lh_file_exists(v->out))
        LH_FAIL(LH_EWRITE, "'%s' exists: '--force' overwrites it", v->out);
    LH_TRY_DONE(lh_calloc(&paths, n, sizeof *paths));
    for (int64_t i = 0; i < n; i++) paths[i] = lh_options_arg(call->options, i);
    LH_TRY_DONE(lh_batch_merge(&(lh_batch_merge_options){.paths = paths, .n = n, .out = v->out, .partial = v->partial},
                               &merged));
    if (merged.by_file)
        lh_info("these are outputs of several inputs: their lines follow each other in the order of the files");
    if (merged.retried)
        lh_info("%lld errors are left out: another output has an answer, or a later error", (long long)merged.retried);
    lh_info("merged %lld outputs: %lld requests, %lld of them failed%s", (long long)n, (long long)merged.requests,
            (long long)merged.failed, merged.repeated ? "; lines that several outputs have are there once" : "");
done:
    lh_free(paths);
    return st;
}

const lh_command lh_command_merge = {&syntax, sizeof(struct values), run_merge, NULL};
