/* cmd_status.c - `status`: progress of batches, from their outputs and states, during the runs or afterwards. */
#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/json.h"
#include "base/mem.h"
#include "batch/parts.h"
#include "batch/state.h"
#include "shell/shell.h"

struct values {
    lh_shell_common common;
    lh_shell_format format;
};

static const lh_option_group groups[] = {{&lh_shell_format_options, offsetof(struct values, format)},
                                         {&lh_shell_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {{"longhaul status out.jsonl", "requests done and failed, time left"},
                                      {"watch longhaul status out.jsonl", "again every two seconds"},
                                      {"longhaul status a.jsonl b.jsonl", "a line of each batch, and their sum"},
                                      {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "status",
    .usage = "OUT… [options]",
    .summary = "Show how far a batch is, from another shell",
    .text = "Reads the output of a batch and its file OUT.state, and changes nothing: requests that are done "
            "and that failed, the time left, the first failures. Of several outputs, and of an array of jobs, whose "
            "parts OUT.I-of-N are found by the name OUT, it prints a line each and their sum.",
    .max_args = 1 << 16,
    .reads_args = 1,
    .groups = groups,
    .examples = examples};

/* A stage and what to do, in words. */
static const char *const meanings[LH_BATCH_STAGES] = {
    [LH_BATCH_RUNNING] = "running",
    [LH_BATCH_DONE] = "done: every request has its line",
    [LH_BATCH_INTERRUPTED] = "interrupted: resume it",
    [LH_BATCH_FAILED] = "ended by a failure: resume it",
    [LH_BATCH_KILLED] = "killed, or lost with its node: resume it",
    [LH_BATCH_INCOMPLETE] = "incomplete: it was done, and lines are missing now, resume it",
    [LH_BATCH_UNKNOWN] = "not known: there is no file with its state"};

static lh_status print_time(lh_buf *text, const char *what, int64_t when)
{
    char at[32] = "";
    const time_t seconds = (time_t)when;
    struct tm utc;
    if (when == 0 || !gmtime_r(&seconds, &utc)) return LH_OK;
    strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S UTC", &utc);
    return lh_buf_printf(text, "  %-9s %s\n", what, at);
}

static lh_status print_status(const lh_batch_status *status, const char *path, lh_buf *text)
{
    const lh_batch_state *s = &status->state;
    const double left_s = lh_batch_state_left(s);
    char duration[LH_DURATION_TEXT];
    LH_TRY(lh_buf_printf(text, "%s: %s\n", path, meanings[s->stage]));
    LH_TRY(lh_buf_printf(text, "  requests  %lld", (long long)s->done));
    if (s->total)
        LH_TRY(
            lh_buf_printf(text, " of %lld (%.1f%%)", (long long)s->total, 100.0 * (double)s->done / (double)s->total));
    LH_TRY(lh_buf_printf(text, " done, %lld of them failed\n", (long long)s->failed));
    if (lh_batch_state_rate(s) > 0)
        LH_TRY(lh_buf_printf(text, "  rate      %.3g requests/s, %.0f tokens/s\n", lh_batch_state_rate(s),
                             lh_batch_state_tokens_rate(s)));
    if (lh_batch_state_tokens_per_rank_hour(s) > 0)
        LH_TRY(lh_buf_printf(text,
                             "  tokens    %lld of prompts, %lld more from shared contexts, %lld generated\n"
                             "  cost      %.3g %s hours, %.3g tokens in each\n",
                             (long long)s->prompt_tokens, (long long)s->context_tokens, (long long)s->new_tokens,
                             lh_batch_state_rank_hours(s), s->device && strcmp(s->device, "cuda") == 0 ? "GPU" : "rank",
                             lh_batch_state_tokens_per_rank_hour(s)));
    if (left_s >= 0) LH_TRY(lh_buf_printf(text, "  left      %s\n", lh_duration_text(duration, left_s)));
    LH_TRY(print_time(text, "started", s->started));
    LH_TRY(print_time(text, "updated", s->updated));
    if (s->host)
        LH_TRY(lh_buf_printf(text, "  ranks     %lld, process %lld of %s%s%s\n", (long long)s->ranks, (long long)s->pid,
                             s->host, s->job ? ", job " : "", s->job ? s->job : ""));
    if (s->message) LH_TRY(lh_buf_printf(text, "  failure   %s\n", s->message));
    if (status->failures.bytes) LH_TRY(lh_buf_printf(text, "first requests that failed:\n%s", status->failures.data));
    return LH_OK;
}

/* ---- several outputs ---- */

typedef struct outputs {
    lh_paths paths;
    lh_batch_status *statuses; /* [paths.n] */
    int64_t missing;           /* parts of arrays that have not begun */
} outputs;

static int is_repeated(const lh_options *options, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (strcmp(lh_options_arg(options, k), lh_options_arg(options, i)) == 0) return 1;
    return 0;
}

static lh_status read_outputs(outputs *o, const lh_options *options)
{
    for (int64_t i = 0; lh_options_arg(options, i); i++) {
        int64_t missing = 0;
        if (is_repeated(options, i)) continue;
        LH_TRY(lh_batch_parts_find(&o->paths, &missing, lh_options_arg(options, i)));
        o->missing += missing;
    }
    LH_TRY(lh_calloc(&o->statuses, o->paths.n, sizeof *o->statuses));
    for (int64_t i = 0; i < o->paths.n; i++) LH_TRY(lh_batch_status_read(&o->statuses[i], o->paths.at[i]));
    return LH_OK;
}

static void clear_outputs(outputs *o)
{
    for (int64_t i = 0; o->statuses && i < o->paths.n; i++) lh_batch_status_clear(&o->statuses[i]);
    lh_free(o->statuses);
    lh_paths_clear(&o->paths);
}

static lh_status put_requests(lh_buf *text, int64_t done, int64_t total, int64_t failed)
{
    LH_TRY(lh_buf_printf(text, "%lld", (long long)done));
    if (total) LH_TRY(lh_buf_printf(text, " of %lld", (long long)total));
    return lh_buf_printf(text, " requests done, %lld of them failed", (long long)failed);
}

static lh_status print_line(const lh_batch_status *status, const char *path, lh_buf *text)
{
    const lh_batch_state *s = &status->state;
    const double left_s = lh_batch_state_left(s);
    char duration[LH_DURATION_TEXT];
    LH_TRY(lh_buf_printf(text, "%s: %s, ", path, lh_batch_stages[s->stage]));
    LH_TRY(put_requests(text, s->done, s->total, s->failed));
    if (left_s >= 0) LH_TRY(lh_buf_printf(text, ", %s left", lh_duration_text(duration, left_s)));
    return lh_buf_puts(text, "\n");
}

/* "16 outputs: 12 done, 3 running, 1 not begun; 40 of 64 requests done, 1 of them failed; 900 tokens/s; 12 min left of
 * the running ones" */
static lh_status print_sum(const outputs *o, lh_buf *text)
{
    const lh_batch_sum sum = lh_batch_sum_of(o->statuses, o->paths.n, o->missing);
    const char *between = ":";
    char duration[LH_DURATION_TEXT];
    LH_TRY(lh_buf_printf(text, "%lld outputs", (long long)(o->paths.n + o->missing)));
    for (int i = 0; i < LH_BATCH_STAGES; i++) {
        if (!sum.stages[i]) continue;
        LH_TRY(lh_buf_printf(text, "%s %lld %s", between, (long long)sum.stages[i], lh_batch_stages[i]));
        between = ",";
    }
    if (o->missing) LH_TRY(lh_buf_printf(text, "%s %lld not begun", between, (long long)o->missing));
    LH_TRY(lh_buf_puts(text, "; "));
    LH_TRY(put_requests(text, sum.done, sum.total, sum.failed));
    if (sum.tokens_per_s > 0) LH_TRY(lh_buf_printf(text, "; %.0f tokens/s", sum.tokens_per_s));
    if (sum.left_s >= 0)
        LH_TRY(lh_buf_printf(text, "; %s left of the running ones", lh_duration_text(duration, sum.left_s)));
    return lh_buf_puts(text, "\n");
}

static lh_status print_all(const outputs *o, lh_buf *text)
{
    if (o->paths.n == 1 && !o->missing) return print_status(&o->statuses[0], o->paths.at[0], text);
    for (int64_t i = 0; i < o->paths.n; i++) LH_TRY(print_line(&o->statuses[i], o->paths.at[i], text));
    return print_sum(o, text);
}

/* The object of a single output; else an array of objects and their sum. */
static lh_status make_json(const outputs *o, json_t **out)
{
    const lh_batch_sum sum = lh_batch_sum_of(o->statuses, o->paths.n, o->missing);
    if (o->paths.n == 1 && !o->missing) return lh_batch_status_json(&o->statuses[0], o->paths.at[0], out);
    json_t *list = json_array();
    for (int64_t i = 0; i < o->paths.n; i++) {
        json_t *one = NULL;
        const lh_status st = lh_batch_status_json(&o->statuses[i], o->paths.at[i], &one);
        if (st != LH_OK) json_decref(list);
        LH_TRY(st);
        json_array_append_new(list, one);
    }
    *out = json_pack("{s:I, s:I, s:I, s:I, s:f, s:o, s:f, s:o}", "not_begun", (json_int_t)o->missing, "total",
                     (json_int_t)sum.total, "done", (json_int_t)sum.done, "failed", (json_int_t)sum.failed,
                     "tokens_per_s", sum.tokens_per_s, "left_s", sum.left_s < 0 ? json_null() : json_real(sum.left_s),
                     "rank_hours", sum.rank_hours, "outputs", list);
    if (!*out) LH_FAIL(LH_ENOMEM, "cannot allocate memory for a status");
    return LH_OK;
}

static lh_status run_status(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    outputs o = {.missing = 0};
    json_t *json = NULL;
    lh_buf text = {0};
    if (!lh_options_arg(call->options, 0)) LH_FAIL_DONE(LH_EUSAGE, "no output to look at: give that of a batch");
    if (!lh_shell_first()) goto done;
    LH_TRY_DONE(read_outputs(&o, call->options));
    if (v->format.json) {
        LH_TRY_DONE(make_json(&o, &json));
        LH_TRY_DONE(lh_shell_write_json(json));
    } else {
        LH_TRY_DONE(print_all(&o, &text));
        LH_TRY_DONE(lh_shell_write_plain(&text));
    }
done:
    clear_outputs(&o);
    json_decref(json);
    lh_buf_clear(&text);
    return st;
}

const lh_command lh_command_status = {&syntax, sizeof(struct values), run_status, NULL};
