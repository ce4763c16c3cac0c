/* status.c - a batch as another process finds it. */
#include "batch/status.h"

#include <string.h>
#include <time.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/json.h"
#include "batch/records.h"

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

/* Where nobody can ask for a lock, a run that has said nothing for a minute has ended. */
static int is_alive(const lh_batch_state *state, const char *output)
{
    const int locked = lh_journal_is_locked(output);
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
    char *target = NULL, *held_path = NULL;
    int stream = 0;
    *status = (lh_batch_status){.state.stage = LH_BATCH_UNKNOWN};
    LH_TRY_DONE(lh_batch_state_of(&status->state, output));
    LH_TRY_DONE(lh_destination_find(&target, &stream, output));
    if (status->state.stage == LH_BATCH_UNKNOWN || lh_file_exists(output)) /* a run without a line leaves none */
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
