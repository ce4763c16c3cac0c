/* cmd_status.c - `status`: progress of a batch, from its output and its state, during the run or afterwards. */
#include <string.h>
#include <time.h>

#include "base/json.h"
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
                                      {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "status",
    .usage = "OUT [options]",
    .summary = "Show how far a batch is, from another shell",
    .text = "Reads the output of a batch and the file OUT.state beside it, and changes nothing: requests that are done "
            "and that failed, the time left, the first failures.",
    .max_args = 1,
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

/* "2 h 03 min", "4 min", "12 s" */
static lh_status print_left(lh_buf *text, double left_s)
{
    const long long s = (long long)left_s;
    if (left_s < 0) return LH_OK;
    if (s >= 3600) return lh_buf_printf(text, "  left      %lld h %02lld min\n", s / 3600, s / 60 % 60);
    return s >= 120 ? lh_buf_printf(text, "  left      %lld min\n", s / 60)
                    : lh_buf_printf(text, "  left      %lld s\n", s);
}

static lh_status print_status(const lh_batch_status *status, const char *path, lh_buf *text)
{
    const lh_batch_state *s = &status->state;
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
    LH_TRY(print_left(text, lh_batch_state_left(s)));
    LH_TRY(print_time(text, "started", s->started));
    LH_TRY(print_time(text, "updated", s->updated));
    if (s->host)
        LH_TRY(lh_buf_printf(text, "  ranks     %lld, process %lld of %s%s%s\n", (long long)s->ranks, (long long)s->pid,
                             s->host, s->job ? ", job " : "", s->job ? s->job : ""));
    if (s->message) LH_TRY(lh_buf_printf(text, "  failure   %s\n", s->message));
    if (status->failures.bytes) LH_TRY(lh_buf_printf(text, "first requests that failed:\n%s", status->failures.data));
    return LH_OK;
}

static lh_status run_status(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char *path = lh_options_arg(call->options, 0);
    lh_batch_status status = {.torn_bytes = 0};
    json_t *json = NULL;
    lh_buf text = {0};
    if (!path) LH_FAIL_DONE(LH_EUSAGE, "no output to look at: give that of a batch");
    if (!lh_shell_first()) goto done;
    LH_TRY_DONE(lh_batch_status_read(&status, path));
    if (v->format.json) {
        LH_TRY_DONE(lh_batch_status_json(&status, path, &json));
        LH_TRY_DONE(lh_shell_write_json(json));
    } else {
        LH_TRY_DONE(print_status(&status, path, &text));
        LH_TRY_DONE(lh_shell_write_plain(&text));
    }
done:
    lh_batch_status_clear(&status);
    json_decref(json);
    lh_buf_clear(&text);
    return st;
}

const lh_command lh_command_status = {&syntax, sizeof(struct values), run_status, NULL};
