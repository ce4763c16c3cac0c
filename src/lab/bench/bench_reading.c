/* bench_reading.c - `bench reading`: times reading and converting the weights of a checkpoint. */
#include "engine/threads.h"
#include "lab/bench/bench_common.h"

struct reading_options {
    const char *model;
};

struct values {
    lh_bench_values shared;
    struct reading_options own;
};

static const lh_option rows[] = {{.type = LH_OPT_STR,
                                  .letter = 'm',
                                  .required = 1,
                                  .name = "model",
                                  LH_FIELD(struct reading_options, model),
                                  .arg = "FILE",
                                  .help = "The checkpoint (made by 'longhaul import')."},
                                 {0}};
static const lh_option_table table = {"what is read", rows};
static const lh_option_group groups[] = {{&table, offsetof(struct values, own)},
                                         {&lh_bench_output_options, offsetof(lh_bench_values, output)},
                                         {&lh_shell_common_options, offsetof(lh_bench_values, common)},
                                         {0}};
static const lh_example examples[] = {{"longhaul bench reading -m m.h5", "how fast a checkpoint is read"}, {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "bench reading",
    .usage = "-m FILE [options]",
    .summary = "Measure how fast a checkpoint is read",
    .text =
        "Reads and converts all weights, to the type of a run and then to f32 and bf16, and for comparison the bare "
        "file by read(). Bytes are those stored. The first pass reads from disk unless the file is already in the page "
        "cache, which cannot be detected here; all others read from memory.\n\nRank 0 reads; other ranks exit at once.",
    .groups = groups,
    .examples = examples};

static lh_status run_reading(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    lh_bench_result result = {0};
    lh_threads *threads = NULL;
    if (!lh_shell_first()) goto done;
    LH_TRY_DONE(lh_bench_claim_output(&v->shared.output));
    LH_TRY_DONE(lh_shell_probe(v->own.model));
    LH_TRY_DONE(lh_threads_open_alone(&threads, 0));
    LH_TRY_DONE(lh_bench_reading(v->own.model, v->shared.output.quick, &result));
    LH_TRY_DONE(lh_bench_write(&v->shared.output, "reading", &result));
done:
    lh_bench_drop_output(&v->shared.output);
    lh_bench_result_clear(&result);
    lh_threads_close(threads);
    return st;
}

const lh_command lh_command_bench_reading = {&syntax, sizeof(struct values), run_reading, NULL};
