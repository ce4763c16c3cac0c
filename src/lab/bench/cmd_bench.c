/* cmd_bench.c - `bench`: the list of its tasks, each a command, and their output as Markdown, JSON and CSV. */
#include <string.h>

#include "base/output.h"
#include "lab/bench/bench.h"
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

/* ---- output of the tasks ---- */
#define FIELD(member) LH_FIELD(lh_bench_output, member)
static const lh_option rows[] = {
    {.type = LH_OPT_FLAG,
     .name = "quick",
     FIELD(quick),
     .help = "Smoke test: small shapes and few calls. The figures mean little."},
    {.type = LH_OPT_STR,
     .name = "csv",
     FIELD(csv),
     .arg = "FILE",
     .writes = 1,
     .makes = "text",
     .help = "Also write the rows to FILE as CSV: seconds, bytes and FLOPs of one call. '-' is standard output, "
             "instead of the tables."},
    {.type = LH_OPT_FLAG, .name = "json", FIELD(json), .help = "Print one JSON object instead of Markdown tables."},
    {0}};
#undef FIELD
const lh_option_table lh_bench_output_options = {"output", rows};

lh_status lh_bench_words(const lh_call *call, const char ***words, int64_t *n)
{
    *n = 0;
    while (lh_options_arg(call->options, *n)) ++*n;
    LH_TRY(lh_calloc(words, *n, sizeof **words));
    for (int64_t i = 0; i < *n; i++) (*words)[i] = lh_options_arg(call->options, i);
    return LH_OK;
}

static int csv_is_stdout(const lh_bench_output *output)
{
    return output->csv && strcmp(output->csv, "-") == 0;
}

lh_status lh_bench_claim_output(const lh_bench_output *output)
{
    if (csv_is_stdout(output) && output->json)
        LH_FAIL(LH_EUSAGE, "'--json' and '--csv -' both print to standard output: name a file for one of them");
    return output->csv && lh_shell_first() ? lh_file_claim(output->csv, 1 << 20) : LH_OK;
}

void lh_bench_drop_output(const lh_bench_output *output)
{
    if (output->csv) lh_partial_drop(output->csv);
}

static lh_status write_json(const char *task, const lh_bench_result *result)
{
    lh_status st = LH_OK;
    json_t *object = NULL;
    LH_TRY_DONE(lh_bench_json(result, &object));
    json_object_set_new(object, "task", json_string(task));
    json_object_set_new(object, "version", json_string(lh_version()));
    LH_TRY_DONE(lh_shell_write_json(object));
done:
    json_decref(object);
    return st;
}

lh_status lh_bench_write(const lh_bench_output *output, const char *task, const lh_bench_result *result)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, csv = {0};
    if (output->csv) {
        LH_TRY_DONE(lh_table_csv(&result->rows, &csv));
        LH_TRY_DONE(lh_file_write(output->csv, csv.data, csv.bytes));
    }
    if (output->json) {
        LH_TRY_DONE(write_json(task, result));
    } else if (!csv_is_stdout(output)) {
        LH_TRY_DONE(lh_bench_text(result, &text));
        LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
    }
done:
    lh_buf_clear(&text);
    lh_buf_clear(&csv);
    return st;
}
