/* state.c - writes and reads the state of a batch. */
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

/* The file of one name is enough: who writes it has locked the output. */
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

/* In place: a disk that is full has room for it where the old one is. */
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
