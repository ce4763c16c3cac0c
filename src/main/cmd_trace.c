/* cmd_trace.c - `trace`: records a run of `generate` (lab/trace/recorder.h), and joins the segments of a killed run
 * into one file. */
#include <string.h>

#include "base/log.h"
#include "base/output.h"
#include "base/size_text.h"
#include "lab/trace/segment.h"
#include "main/generate_command.h"

struct trace_options {
    lh_trace_options trace;
    const char *join;
};

struct values {
    lh_generate_values generate; /* first: it begins with the options of every command */
    struct trace_options recording;
};

#define FIELD(member) LH_FIELD(struct trace_options, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'o',
     .required = 1,
     .name = "output",
     FIELD(trace.path),
     .arg = "FILE",
     .writes = 1,
     .makes = "trace",
     .help = "The trace (HDF5)."},
    {.type = LH_OPT_STR,
     .alone = 1,
     .name = "join",
     FIELD(join),
     .arg = "FILE",
     .writes = 1,
     .makes = "trace",
     .help = "Make the trace FILE of what an interrupted run left in FILE.segments, instead of running."},
    {0}};
#undef FIELD
static const lh_option_table table = {"trace", rows};

#define PART(member) (offsetof(struct values, generate) + offsetof(lh_generate_values, member))
static const lh_option_group groups[] = {{&table, offsetof(struct values, recording)},
                                         {&lh_trace_option_table, offsetof(struct values, recording.trace)},
                                         {&lh_input_option_table, PART(input)},
                                         {&lh_shell_chat_options, PART(chat)},
                                         {&lh_answer_option_table, PART(answer)},
                                         {&lh_shell_sampling_options, PART(sampling)},
                                         {&lh_shell_policy_options, PART(policy)},
                                         {&lh_shell_engine_options, PART(engine)},
                                         {&lh_generate_file_table, PART(files)},
                                         {&lh_shell_common_options, PART(common)},
                                         {0}};
#undef PART
static const lh_example examples[] = {
    {"longhaul trace -m m.h5 -f book.txt --question 'Who did it?' -n 64 -o book.trace.h5",
     "record how a document is read and a question answered with the whole cache"},
    {"mpirun --bind-to none -n 4 longhaul trace -m m.h5 -f book.txt --trace-level stats --policy h2o --budget 1024 -o "
     "h2o.trace.h5",
     "a small trace of a run with eviction, on four ranks"},
    {"longhaul trace --join book.trace.h5", "make a file of what a killed run had recorded"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "trace",
    .usage = "-m FILE [-p TEXT | -f FILE] -o FILE [options]",
    .summary = "Record a run, to replay eviction policies on it without the model",
    .text =
        "Runs as 'generate' does, with the same options, on any number of ranks, and records what eviction policies "
        "observe: docs/traces.md. Without --budget everything is kept: then what is recorded after the prompt is "
        "the attention of the full cache.\n\nThe trace is written while the run goes on, in segments that lie in "
        "FILE.segments until the end: what a killed run has recorded is not lost (--join).",
    .groups = groups,
    .examples = examples};

/* Not while the run records: its segments go. */
static lh_status join(const char *path)
{
    int missing = 0;
    if (!lh_shell_first()) return LH_OK;
    LH_TRY(lh_partial_claim_alone(path));
    lh_status st = lh_trace_check_segments(path);
    if (st == LH_OK) st = lh_trace_join(path, &missing);
    lh_partial_drop(path);
    LH_TRY(st);
    if (missing)
        lh_info("'%s' is a trace of what the run had recorded when it ended: 'longhaul info' says how much", path);
    else
        lh_info("'%s' is a whole trace", path);
    return LH_OK;
}

static lh_status run_trace(lh_call *call)
{
    struct values *v = call->values;
    if (v->recording.join) return join(v->recording.join);
    return lh_shell_generate(call, &v->generate, &v->recording.trace);
}

const lh_command lh_command_trace = {&syntax, sizeof(struct values), run_trace, NULL};
