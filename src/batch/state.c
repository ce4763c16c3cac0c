/* state.c - writes and reads the state of a batch. */
#include "batch/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "batch/appender.h"
#include "batch/records.h"

enum { STATE_BYTES = 1 << 20, FAILURES = 10, SHOWN = 60, SILENT_S = 60 };

const char *const lh_batch_stages[LH_BATCH_STAGES] = {"running", "done", "interrupted", "failed", "killed", "unknown"};

void lh_batch_state_clear(lh_batch_state *state)
{
    lh_free(state->input);
    lh_free(state->message);
    lh_free(state->host);
    lh_free(state->job);
    *state = (lh_batch_state){.stage = LH_BATCH_UNKNOWN};
}

/* ---- as JSON ---- */

/* The members, by their types. */
static const struct {
    const char *name;
    size_t at;
} counts[] = {{"total", offsetof(lh_batch_state, total)},     {"done", offsetof(lh_batch_state, done)},
              {"failed", offsetof(lh_batch_state, failed)},   {"resumed", offsetof(lh_batch_state, resumed)},
              {"started", offsetof(lh_batch_state, started)}, {"updated", offsetof(lh_batch_state, updated)},
              {"ranks", offsetof(lh_batch_state, ranks)},     {"replicas", offsetof(lh_batch_state, replicas)},
              {"pid", offsetof(lh_batch_state, pid)}},
  texts[] = {{"input", offsetof(lh_batch_state, input)},
             {"message", offsetof(lh_batch_state, message)},
             {"host", offsetof(lh_batch_state, host)},
             {"job", offsetof(lh_batch_state, job)}};
enum { COUNTS = sizeof counts / sizeof *counts, TEXTS = sizeof texts / sizeof *texts };

static void put_state(json_t *object, const lh_batch_state *state)
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
        LH_TRY(lh_json_i64(object, path, counts[i].name, 0, INT64_MAX, count));
    }
    for (int i = 0; i < TEXTS; i++) {
        const char *text = NULL;
        LH_TRY(lh_json_string(object, path, texts[i].name, &text));
        if (text) LH_TRY(lh_strdup((char **)((char *)state + texts[i].at), text));
    }
    return LH_OK;
}

/* ---- the file ---- */

/* The file of one name is enough: who writes it has locked the output. */
static lh_status replace_file(const char *path, const char *text)
{
    lh_status st = LH_OK;
    lh_appender file = {.fd = -1};
    char *partial = NULL;
    LH_TRY_DONE(lh_asprintf(&partial, "%s.partial", path));
    LH_TRY_DONE(lh_appender_open(&file, partial));
    LH_TRY_DONE(lh_appender_cut(&file, 0));
    LH_TRY_DONE(lh_appender_add(&file, text, (int64_t)strlen(text)));
    if (rename(partial, path) != 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
done:
    if (st != LH_OK && partial) unlink(partial);
    lh_appender_close(&file);
    lh_free(partial);
    return st;
}

/* In place: a disk that is full has room for it where the old one is. */
static lh_status overwrite_file(const char *path, const char *text)
{
    lh_status st = LH_OK;
    lh_appender file = {.fd = -1};
    const int64_t bytes = (int64_t)strlen(text);
    LH_TRY_DONE(lh_appender_open(&file, path));
    file.bytes = 0; /* from its beginning */
    LH_TRY_DONE(lh_appender_add(&file, text, bytes));
    LH_TRY_DONE(lh_appender_cut(&file, bytes));
done:
    lh_appender_close(&file);
    return st;
}

lh_status lh_batch_state_write(const lh_batch_state *state, const char *path)
{
    lh_status st = LH_OK;
    json_t *object = json_pack("{s:s, s:i}", "longhaul", "batch state", "schema", 1);
    char *text = NULL;
    lh_buf line = {0};
    if (object) put_state(object, state);
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

/* ---- what another process sees ---- */

double lh_batch_state_rate(const lh_batch_state *s)
{
    const int64_t seconds = s->updated - s->started, made = s->done - s->resumed;
    return seconds > 0 && made > 0 ? (double)made / (double)seconds : 0;
}

double lh_batch_state_left(const lh_batch_state *s)
{
    const double rate = lh_batch_state_rate(s);
    return rate > 0 && s->stage == LH_BATCH_RUNNING ? (double)(s->total - s->done) / rate : -1;
}

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

/* Where nobody can ask for a lock, a run that has said nothing for a minute has ended. */
static int is_alive(const lh_batch_state *state, const char *output)
{
    const int locked = lh_appender_is_locked(output);
    return locked >= 0 ? locked : (int64_t)time(NULL) - state->updated < SILENT_S;
}

/* Lines that wait for those before them (output.h) are done, too, unless they are in the output by now. */
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
    char *path = NULL, *held_path = NULL;
    *status = (lh_batch_status){.state.stage = LH_BATCH_UNKNOWN};
    LH_TRY_DONE(lh_asprintf(&path, "%s.state", output));
    if (lh_file_exists(path)) LH_TRY_DONE(lh_batch_state_read(&status->state, path));
    if (status->state.stage == LH_BATCH_UNKNOWN || lh_file_exists(output)) /* a run without a line leaves none */
        LH_TRY_DONE(lh_batch_records_read(&records, output));
    LH_TRY_DONE(lh_asprintf(&held_path, "%s.held", output));
    if (lh_file_exists(held_path)) LH_TRY_DONE(lh_batch_records_read(&held, held_path));
    status->torn_bytes = records.torn_bytes;
    if (status->state.stage == LH_BATCH_RUNNING && !is_alive(&status->state, output))
        status->state.stage = LH_BATCH_KILLED;
    count_done(status, &records, &held);
    LH_TRY_DONE(list_failures(status, &records));
done:
    lh_batch_records_clear(&records);
    lh_batch_records_clear(&held);
    lh_free(path);
    lh_free(held_path);
    return st;
}

void lh_batch_status_clear(lh_batch_status *status)
{
    lh_batch_state_clear(&status->state);
    lh_buf_clear(&status->failures);
}

lh_status lh_batch_status_json(const lh_batch_status *status, const char *output, json_t **out)
{
    json_t *object = json_object();
    const double rate = lh_batch_state_rate(&status->state), left = lh_batch_state_left(&status->state);
    if (!object) LH_FAIL(LH_ENOMEM, "cannot allocate memory for a status");
    json_object_set_new(object, "output", lh_json_text(output, (int64_t)strlen(output)));
    put_state(object, &status->state);
    json_object_set_new(object, "torn_bytes", json_integer(status->torn_bytes));
    json_object_set_new(object, "requests_per_s", rate > 0 ? json_real(rate) : json_null());
    json_object_set_new(object, "left_s", left >= 0 ? json_real(left) : json_null());
    *out = object;
    return LH_OK;
}
