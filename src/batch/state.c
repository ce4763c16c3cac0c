/* state.c - the state of a batch: its file, its view from another process, and its metrics. */
#include "batch/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/json.h"
#include "base/output.h"
#include "batch/resume.h"

enum { STATE_BYTES = 1 << 20 };

/* A count to which a run can add. */
static const int64_t MOST = INT64_C(1) << 60;

const char *const lh_batch_stages[LH_BATCH_STAGES] = {"running", "done",       "interrupted", "failed",
                                                      "killed",  "incomplete", "unknown"};

void lh_batch_state_clear(lh_batch_state *state)
{
    lh_free(state->input);
    lh_free(state->message);
    lh_free(state->host);
    lh_free(state->job);
    lh_free(state->device);
    *state = (lh_batch_state){.stage = LH_BATCH_UNKNOWN};
}

/* ---- as JSON ---- */

/* The members, by their types. */
static const struct {
    const char *name;
    size_t at;
} counts[] = {{"total", offsetof(lh_batch_state, total)},
              {"done", offsetof(lh_batch_state, done)},
              {"failed", offsetof(lh_batch_state, failed)},
              {"input_total", offsetof(lh_batch_state, input_total)},
              {"resumed", offsetof(lh_batch_state, resumed)},
              {"started", offsetof(lh_batch_state, started)},
              {"updated", offsetof(lh_batch_state, updated)},
              {"ranks", offsetof(lh_batch_state, ranks)},
              {"replicas", offsetof(lh_batch_state, replicas)},
              {"pid", offsetof(lh_batch_state, pid)},
              {"work_total", offsetof(lh_batch_state, work_total)},
              {"work_done", offsetof(lh_batch_state, work_done)},
              {"work_resumed", offsetof(lh_batch_state, work_resumed)},
              {"prompt_tokens", offsetof(lh_batch_state, prompt_tokens)},
              {"context_tokens", offsetof(lh_batch_state, context_tokens)},
              {"new_tokens", offsetof(lh_batch_state, new_tokens)},
              {"run_tokens", offsetof(lh_batch_state, run_tokens)},
              {"run_ms", offsetof(lh_batch_state, run_ms)},
              {"rank_ms", offsetof(lh_batch_state, rank_ms)},
              {"memory_peak", offsetof(lh_batch_state, memory_peak)}},
  texts[] = {{"input", offsetof(lh_batch_state, input)},
             {"message", offsetof(lh_batch_state, message)},
             {"host", offsetof(lh_batch_state, host)},
             {"job", offsetof(lh_batch_state, job)},
             {"device", offsetof(lh_batch_state, device)}};
enum { COUNTS = sizeof counts / sizeof *counts, TEXTS = sizeof texts / sizeof *texts };

void lh_batch_state_put(json_t *object, const lh_batch_state *state)
{
    json_object_set_new(object, "state", json_string(lh_batch_stages[state->stage]));
    for (int i = 0; i < COUNTS; i++)
        json_object_set_new(object, counts[i].name,
                            json_integer(*(const int64_t *)((const char *)state + counts[i].at)));
    for (int i = 0; i < TEXTS; i++) {
        const char *text = *(char *const *)((const char *)state + texts[i].at);
        json_object_set_new(object, texts[i].name, text ? lh_json_text(text, (int64_t)strlen(text)) : json_null());
    }
}

static lh_status get_state(lh_batch_state *state, const json_t *object, const char *path)
{
    const char *word = "";
    LH_TRY(lh_json_string(object, path, "state", &word));
    for (state->stage = 0; state->stage < LH_BATCH_KILLED; state->stage++)
        if (strcmp(lh_batch_stages[state->stage], word) == 0) break;
    if (state->stage == LH_BATCH_KILLED) LH_FAIL(LH_EINPUT, "'%s' is not the state of a batch", path);
    for (int i = 0; i < COUNTS; i++) {
        int64_t *count = (int64_t *)((char *)state + counts[i].at);
        LH_TRY(lh_json_i64(object, path, counts[i].name, 0, MOST, count));
    }
    for (int i = 0; i < TEXTS; i++) {
        const char *text = NULL;
        LH_TRY(lh_json_string(object, path, texts[i].name, &text));
        if (text) LH_TRY(lh_strdup((char **)((char *)state + texts[i].at), text));
    }
    return LH_OK;
}

/* ---- the file ---- */

/* The temporary file needs no unique name: the writer has locked the output. */
static lh_status replace_file(const char *path, const char *text)
{
    lh_status st = LH_OK;
    lh_journal file = {.fd = -1};
    char *partial = NULL;
    LH_TRY_DONE(lh_asprintf(&partial, "%s.partial", path));
    LH_TRY_DONE(lh_journal_open(&file, partial));
    LH_TRY_DONE(lh_journal_cut(&file, 0));
    LH_TRY_DONE(lh_journal_append(&file, text, (int64_t)strlen(text)));
    if (rename(partial, path) != 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
done:
    if (st != LH_OK && partial) unlink(partial);
    lh_journal_close(&file);
    lh_free(partial);
    return st;
}

/* In place: a full disk has no space for a second file. */
static lh_status overwrite_file(const char *path, const char *text)
{
    lh_status st = LH_OK;
    lh_journal file = {.fd = -1};
    const int64_t bytes = (int64_t)strlen(text);
    LH_TRY_DONE(lh_journal_open(&file, path));
    file.bytes = 0; /* from its beginning */
    LH_TRY_DONE(lh_journal_append(&file, text, bytes));
    LH_TRY_DONE(lh_journal_cut(&file, bytes));
done:
    lh_journal_close(&file);
    return st;
}

lh_status lh_batch_state_write(const lh_batch_state *state, const char *path)
{
    lh_status st = LH_OK;
    json_t *object = json_pack("{s:s, s:i}", "longhaul", "batch state", "schema", 1);
    char *text = NULL;
    lh_buf line = {0};
    if (object) lh_batch_state_put(object, state);
    text = object ? json_dumps(object, JSON_INDENT(1) | JSON_ENSURE_ASCII) : NULL;
    if (!text) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for '%s'", path);
    LH_TRY_DONE(lh_buf_printf(&line, "%s\n", text));
    st = replace_file(path, line.data);
    if (st != LH_OK && lh_file_exists(path)) LH_TRY_DONE(overwrite_file(path, line.data));
done:
    json_decref(object);
    free(text);
    lh_buf_clear(&line);
    return st;
}

lh_status lh_batch_state_read(lh_batch_state *state, const char *path)
{
    lh_status st = LH_OK;
    json_t *object = NULL;
    *state = (lh_batch_state){.stage = LH_BATCH_UNKNOWN};
    LH_TRY_DONE(lh_json_read(&object, path, STATE_BYTES));
    LH_TRY_DONE(get_state(state, object, path));
done:
    json_decref(object);
    if (st != LH_OK) lh_batch_state_clear(state);
    return st;
}

lh_status lh_batch_state_of(lh_batch_state *state, const char *output)
{
    lh_status st = LH_OK;
    int stream = 0;
    char *target = NULL, *path = NULL;
    *state = (lh_batch_state){.stage = LH_BATCH_UNKNOWN};
    LH_TRY_DONE(lh_destination_find(&target, &stream, output));
    LH_TRY_DONE(lh_asprintf(&path, "%s.state", target));
    if (lh_file_exists(path)) LH_TRY_DONE(lh_batch_state_read(state, path));
done:
    lh_free(target);
    lh_free(path);
    return st;
}

/* ---- figures ---- */

static double per_second(int64_t n, int64_t ms)
{
    return n > 0 && ms > 0 ? 1e3 * (double)n / (double)ms : 0;
}

double lh_batch_state_rate(const lh_batch_state *s)
{
    return per_second(s->done - s->resumed, s->run_ms);
}

double lh_batch_state_tokens_rate(const lh_batch_state *s)
{
    return per_second(s->run_tokens, s->run_ms);
}

double lh_batch_state_left(const lh_batch_state *s)
{
    const double rate = per_second(s->work_done - s->work_resumed, s->run_ms);
    return rate > 0 && s->stage == LH_BATCH_RUNNING ? (double)(s->work_total - s->work_done) / rate : -1;
}

double lh_batch_state_rank_hours(const lh_batch_state *s)
{
    return (double)s->rank_ms / 3.6e6;
}

double lh_batch_state_tokens_per_rank_hour(const lh_batch_state *s)
{
    return s->rank_ms > 0 ? (double)(s->prompt_tokens + s->new_tokens) / lh_batch_state_rank_hours(s) : 0;
}

/* ---- from another process ---- */

enum { FAILURES = 10, SHOWN = 60, SILENT_S = 60 };

static lh_status list_failures(lh_batch_status *status, const lh_batch_records *records)
{
    int listed = 0;
    for (int64_t i = 0; i < records->n && listed < FAILURES; i++) {
        const lh_batch_record *r = &records->at[i];
        if (!r->failed) continue;
        LH_TRY(lh_buf_printf(&status->failures, "line %lld", (long long)r->number));
        if (r->custom_id) LH_TRY(lh_buf_printf(&status->failures, " ('%.*s')", SHOWN, r->custom_id));
        LH_TRY(lh_buf_puts(&status->failures, ": "));
        LH_TRY(lh_batch_record_error(records, i, &status->failures));
        LH_TRY(lh_buf_puts(&status->failures, "\n"));
        listed++;
    }
    return LH_OK;
}

/* On a file system without locks a run has ended if its state is a minute old. */
static int is_alive(const lh_batch_state *state, const char *output)
{
    const int locked = lh_journal_is_locked(output);
    return locked >= 0 ? locked : (int64_t)time(NULL) - state->updated < SILENT_S;
}

/* Held lines (output.h) are done, too, unless they are already in the output. */
static void count_done(lh_batch_status *status, const lh_batch_records *records, const lh_batch_records *held)
{
    const int64_t last = records->n ? records->at[records->n - 1].number : 0;
    status->state.done = records->n;
    status->state.failed = records->failed;
    for (int64_t i = 0; i < held->n; i++) {
        const int waits = held->at[i].number > last;
        status->state.done += waits;
        status->state.failed += waits && held->at[i].failed;
    }
}

lh_status lh_batch_status_read(lh_batch_status *status, const char *output)
{
    lh_status st = LH_OK;
    lh_batch_records records = {.n = 0}, held = {.n = 0};
    char *target = NULL, *held_path = NULL;
    int stream = 0;
    *status = (lh_batch_status){.state.stage = LH_BATCH_UNKNOWN};
    LH_TRY_DONE(lh_batch_state_of(&status->state, output));
    LH_TRY_DONE(lh_destination_find(&target, &stream, output));
    if (status->state.stage == LH_BATCH_UNKNOWN || lh_file_exists(output)) /* a run without lines leaves no output */
        LH_TRY_DONE(lh_batch_records_read(&records, output));
    LH_TRY_DONE(lh_asprintf(&held_path, "%s.held", target));
    if (lh_file_exists(held_path)) LH_TRY_DONE(lh_batch_records_read(&held, held_path));
    status->torn_bytes = records.torn_bytes;
    if (status->state.stage == LH_BATCH_RUNNING && !is_alive(&status->state, output))
        status->state.stage = LH_BATCH_KILLED;
    count_done(status, &records, &held);
    if (status->state.stage == LH_BATCH_DONE && status->state.done < status->state.total)
        status->state.stage = LH_BATCH_INCOMPLETE;
    LH_TRY_DONE(list_failures(status, &records));
done:
    lh_batch_records_clear(&records);
    lh_batch_records_clear(&held);
    lh_free(target);
    lh_free(held_path);
    return st;
}

void lh_batch_status_clear(lh_batch_status *status)
{
    lh_batch_state_clear(&status->state);
    lh_buf_clear(&status->failures);
}

static json_t *positive(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

lh_status lh_batch_status_json(const lh_batch_status *status, const char *output, json_t **out)
{
    const lh_batch_state *s = &status->state;
    const double left = lh_batch_state_left(s);
    json_t *object = json_object();
    if (!object) LH_FAIL(LH_ENOMEM, "cannot allocate memory for a status");
    json_object_set_new(object, "output", lh_json_text(output, (int64_t)strlen(output)));
    lh_batch_state_put(object, s);
    json_object_set_new(object, "torn_bytes", json_integer(status->torn_bytes));
    json_object_set_new(object, "requests_per_s", positive(lh_batch_state_rate(s)));
    json_object_set_new(object, "tokens_per_s", positive(lh_batch_state_tokens_rate(s)));
    json_object_set_new(object, "rank_hours", positive(lh_batch_state_rank_hours(s)));
    json_object_set_new(object, "tokens_per_rank_hour", positive(lh_batch_state_tokens_per_rank_hour(s)));
    json_object_set_new(object, "left_s", left >= 0 ? json_real(left) : json_null());
    *out = object;
    return LH_OK;
}

/* ---- metrics ---- */

static double is_running(const lh_batch_state *s)
{
    return s->stage == LH_BATCH_RUNNING;
}

static double rank_seconds(const lh_batch_state *s)
{
    return 1e-3 * (double)s->rank_ms;
}

/* A value is a member or a function of the state; a negative value is unknown, and is not written. */
static const struct {
    const char *name, *kind, *help;
    size_t at;
    double (*value)(const lh_batch_state *state);
} metrics[] = {
    {"running", "gauge", "1 while the run is at work.", 0, is_running},
    {"requests", "gauge", "Requests of the input.", offsetof(lh_batch_state, total), NULL},
    {"requests_done_total", "counter", "Requests with a line in the output.", offsetof(lh_batch_state, done), NULL},
    {"requests_failed_total", "counter", "Those that have no answer.", offsetof(lh_batch_state, failed), NULL},
    {"prompt_tokens_total", "counter", "Tokens of prompts.", offsetof(lh_batch_state, prompt_tokens), NULL},
    {"context_tokens_total", "counter", "Tokens of shared contexts in front of prompts, taken from their caches.",
     offsetof(lh_batch_state, context_tokens), NULL},
    {"generated_tokens_total", "counter", "Tokens of answers.", offsetof(lh_batch_state, new_tokens), NULL},
    {"tokens_per_second", "gauge", "Tokens of prompts and answers per second of this run.", 0,
     lh_batch_state_tokens_rate},
    {"left_seconds", "gauge", "Time that the rest takes.", 0, lh_batch_state_left},
    {"rank_seconds_total", "counter", "Time of all ranks together.", 0, rank_seconds},
    {"memory_peak_bytes", "gauge", "Most device memory of rank 0 in use.", offsetof(lh_batch_state, memory_peak), NULL},
    {"updated_timestamp_seconds", "gauge", "When this was written.", offsetof(lh_batch_state, updated), NULL}};

static lh_status append_label(lh_buf *out, const char *name, const char *text)
{
    LH_TRY(lh_buf_printf(out, "%s=\"", name));
    for (; *text; text++)
        LH_TRY(*text == '\n' ? lh_buf_puts(out, "\\n")
                             : lh_buf_printf(out, *text == '\\' || *text == '"' ? "\\%c" : "%c", *text));
    return lh_buf_puts(out, "\"");
}

lh_status lh_batch_metrics_write(const lh_batch_state *state, const char *output, const char *path)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, label = {0};
    LH_TRY_DONE(append_label(&label, "output", output));
    if (state->job) LH_TRY_DONE(lh_buf_puts(&label, ","));
    if (state->job) LH_TRY_DONE(append_label(&label, "job", state->job));
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        const double value = metrics[i].value
                                 ? metrics[i].value(state)
                                 : (double)*(const int64_t *)(const void *)((const char *)state + metrics[i].at);
        if (value < 0) continue;
        LH_TRY_DONE(lh_buf_printf(&text,
                                  "# HELP longhaul_batch_%s %s\n# TYPE longhaul_batch_%s %s\n"
                                  "longhaul_batch_%s{%s} %.15g\n",
                                  metrics[i].name, metrics[i].help, metrics[i].name, metrics[i].kind, metrics[i].name,
                                  label.data, value));
    }
    LH_TRY_DONE(lh_file_write(path, text.data, text.bytes));
done:
    lh_buf_clear(&text);
    lh_buf_clear(&label);
    return st;
}
