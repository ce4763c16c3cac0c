/* output.c - opens, continues and appends to outputs. */
#include "batch/output.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/destination.h"
#include "base/file.h"
#include "base/job.h"
#include "base/journal.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/size_text.h"
#include "batch/resume.h"

/* Seconds between two writes of the state. */
static const double STATE_S = 5;

/* Place of a line in OUTPUT.held. */
typedef struct held_line {
    int64_t at, bytes; /* bytes 0: the line is not there */
} held_line;

struct lh_batch_output {
    const lh_batch_input *input;
    lh_batch_output_options options;
    char *path, *state_path, *timings_path, *held_path;
    lh_journal file, held, timings; /* held: closed unless ordered */
    unsigned char *done;            /* [count] */
    held_line *waiting;             /* [count] if ordered */
    int64_t next;                   /* ordered: the first line of the input that the output lacks */
    int64_t waiting_count;
    lh_batch_state state;
    double began_s, synced_s, state_s; /* times on the clock */
    int64_t rank_ms;                   /* of the runs before this one */
    int locked;                        /* true if this run has locked the output */
    int broken;                        /* true after a failed write: the output accepts no more lines */
    int state_lost;                    /* true after the warning that the state or the metrics cannot be written */

    /* since lh_batch_output_begin_run */
    int is_run;
    int64_t max_errors, run_failed;
    lh_progress progress;
    char progress_text[96];
};

/* ---- names and the state ---- */

static lh_status name_files(lh_batch_output *o, const char *path)
{
    int stream = 0;
    if (!*path) LH_FAIL(LH_EWRITE, "cannot write '': an output needs a file name");
    LH_TRY(lh_destination_find(&o->path, &stream, path));
    if (stream) LH_FAIL(LH_EWRITE, "cannot write '%s': the output of a batch must be a file, to be resumed", path);
    LH_TRY(lh_asprintf(&o->state_path, "%s.state", o->path));
    LH_TRY(lh_asprintf(&o->held_path, "%s.held", o->path));
    return lh_asprintf(&o->timings_path, "%s.timings.jsonl", o->path);
}

/* Reads the counters of the interrupted run. They begin at 0 where the state cannot be read. */
static void read_counters(lh_batch_output *o)
{
    lh_batch_state was;
    lh_batch_state *s = &o->state;
    if (s->done == 0 || lh_batch_state_read(&was, o->state_path) != LH_OK) {
        lh_error_clear();
        return;
    }
    s->prompt_tokens = was.prompt_tokens;
    s->context_tokens = was.context_tokens;
    s->new_tokens = was.new_tokens;
    o->rank_ms = was.rank_ms;
    lh_batch_state_clear(&was);
}

static void count_work(lh_batch_output *o)
{
    lh_batch_state *s = &o->state;
    for (int64_t i = 0; i < lh_batch_input_count(o->input); i++) {
        const int64_t bytes = lh_batch_input_line(o->input, i)->bytes;
        s->work_total += bytes;
        if (o->done[i]) s->work_done += bytes;
    }
    s->work_resumed = s->work_done;
}

static lh_status begin_state(lh_batch_output *o)
{
    char host[256] = "";
    lh_batch_state *s = &o->state;
    const char *job = lh_job_name();
    read_counters(o);
    count_work(o);
    o->began_s = lh_clock_s();
    if (o->options.device) LH_TRY(lh_strdup(&s->device, lh_device_kind_name(lh_device_kind_of(o->options.device))));
    if (gethostname(host, sizeof host - 1) != 0) strcpy(host, "localhost");
    LH_TRY(lh_strdup(&s->host, host));
    LH_TRY(lh_strdup(&s->input, lh_batch_input_path(o->input)));
    if (job) LH_TRY(lh_strdup(&s->job, job));
    s->stage = LH_BATCH_RUNNING;
    s->total = lh_batch_input_count(o->input);
    s->input_total = lh_batch_input_total(o->input);
    s->resumed = s->done;
    s->started = (int64_t)time(NULL);
    s->pid = getpid();
    s->ranks = o->options.ranks;
    s->replicas = o->options.replicas;
    return LH_OK;
}

static void update_state(lh_batch_output *o)
{
    lh_batch_state *s = &o->state;
    s->updated = (int64_t)time(NULL);
    s->run_ms = (int64_t)(1e3 * (lh_clock_s() - o->began_s));
    s->rank_ms = o->rank_ms + s->run_ms * s->ranks;
    if (o->options.device) s->memory_peak = lh_device_usage(o->options.device).peak_total;
}

static lh_status put_state(const lh_batch_output *o)
{
    const char *metrics = o->options.metrics;
    LH_TRY(lh_batch_state_write(&o->state, o->state_path));
    return metrics ? lh_batch_metrics_write(&o->state, o->path, metrics) : LH_OK;
}

/* A state that cannot be written does not end the run. */
static void write_state(lh_batch_output *o)
{
    update_state(o);
    o->state_s = lh_clock_s();
    if (put_state(o) == LH_OK) return;
    if (!o->state_lost) lh_warn("%s: the progress of the run cannot be seen", lh_error_message());
    o->state_lost = 1;
    lh_error_clear();
}

/* ---- continuing ---- */

static lh_status open_file(lh_batch_output *o)
{
    struct stat held;
    LH_TRY(lh_journal_open(&o->file, o->path));
    LH_TRY(lh_journal_lock(&o->file, "another run that is going on", &o->locked));
    if (!o->locked)
        lh_warn("'%s' is on a file system without locks: nothing prevents a second run from writing it", o->path);
    const int exists = o->file.bytes > 0 || (stat(o->held_path, &held) == 0 && held.st_size > 0);
    if (exists && !o->options.resume)
        LH_FAIL(LH_EUSAGE, "'%s' exists: continue it with '--resume', or name another output", o->path);
    const lh_batch_prefills *prefills = o->options.prefills;
    if (prefills && lh_batch_prefills_exist(prefills) && !o->options.resume)
        LH_FAIL(LH_EUSAGE, "'%s' holds prefills of a run: continue it with '--resume', or name another output",
                prefills->folder);
    if (prefills) lh_batch_prefills_tidy(prefills);
    return LH_OK;
}

/* LH_EUSAGE unless the records are the first lines of the input, in their order. */
static lh_status check_order(const lh_batch_output *o, const lh_batch_records *records)
{
    for (int64_t k = 0; k < records->n; k++)
        if (lh_batch_resume_find(o->input, &records->at[k]) != k)
            LH_FAIL(LH_EUSAGE, "'%s' has lines in another order than the input: continue it without '--ordered'",
                    o->path);
    return LH_OK;
}

static lh_batch_resumed resumed_by(const lh_batch_output *o)
{
    return (lh_batch_resumed){.input = o->input, .run = o->options.run, .context_root = o->options.context_root};
}

/* Removes lines of errors from the output, which is another file then. */
static lh_status drop_failed(lh_batch_output *o)
{
    lh_journal again;
    int changed = 0;
    const lh_batch_resumed resumed = resumed_by(o);
    LH_TRY(lh_batch_retry_failed(&(lh_batch_retry){&resumed, o->path, o->held_path, o->options.ordered}, &changed));
    if (!changed) return LH_OK;
    lh_info("requests that failed are tried again: their lines are taken out of '%s'", o->path);
    LH_TRY(lh_journal_open(&again, o->path));
    lh_journal_close(&o->file);
    o->file = again;
    return lh_journal_lock(&o->file, "another run that is going on", &o->locked);
}

/* Reads the output. *torn: bytes of a torn line, to be truncated. */
static lh_status read_output(lh_batch_output *o, int64_t *torn)
{
    lh_status st = LH_OK;
    const lh_batch_resumed resumed = resumed_by(o);
    lh_batch_records records = {.n = 0};
    LH_TRY_DONE(lh_batch_records_read(&records, o->path));
    LH_TRY_DONE(lh_batch_resume(&resumed, &records, o->done));
    if (o->options.ordered) LH_TRY_DONE(check_order(o, &records));
    o->state.done = records.n;
    o->state.failed = records.failed;
    o->next = records.n; /* if ordered */
    *torn = records.torn_bytes;
done:
    lh_batch_records_clear(&records);
    return st;
}

static lh_status cut_torn(lh_journal *a, int64_t torn)
{
    if (torn == 0) return LH_OK;
    lh_warn("'%s' ends in %lld bytes of a line that was not written to its end: they are cut off", a->path,
            (long long)torn);
    return lh_journal_cut(a, a->bytes - torn);
}

/* Adds the held lines that are not in the output: they are waiting, or are appended where this run is not ordered. */
static lh_status add_held(lh_batch_output *o, const lh_batch_records *records)
{
    for (int64_t k = 0; k < records->n; k++) {
        const lh_batch_record *r = &records->at[k];
        const int64_t i = lh_batch_resume_find(o->input, r);
        if (o->done[i]) continue; /* it was copied before the run ended */
        if (o->options.ordered) {
            o->waiting[i] = (held_line){r->at, r->bytes};
            o->waiting_count++;
        } else {
            LH_TRY(lh_journal_append(&o->file, records->map.data + r->at, r->bytes));
        }
        o->state.done++;
        o->state.failed += r->failed;
        o->done[i] = 1;
    }
    return LH_OK;
}

/* Reads the lines that were held when the last run ended, and truncates torn lines after all checks. */
static lh_status read_held(lh_batch_output *o, int64_t torn)
{
    lh_status st = LH_OK;
    const lh_batch_resumed resumed = resumed_by(o);
    lh_batch_records records = {.n = 0};
    unsigned char *held = NULL;
    LH_TRY_DONE(lh_calloc(&held, lh_batch_input_count(o->input), 1));
    if (lh_file_exists(o->held_path)) LH_TRY_DONE(lh_batch_records_read(&records, o->held_path));
    LH_TRY_DONE(lh_batch_resume(&resumed, &records, held));
    LH_TRY_DONE(cut_torn(&o->file, torn));
    LH_TRY_DONE(add_held(o, &records));
    if (o->options.ordered) LH_TRY_DONE(lh_journal_open(&o->held, o->held_path));
    if (o->options.ordered) LH_TRY_DONE(cut_torn(&o->held, records.torn_bytes));
    if (!o->options.ordered && lh_file_exists(o->held_path)) {
        LH_TRY_DONE(lh_journal_sync(&o->file));
        unlink(o->held_path);
    }
done:
    lh_batch_records_clear(&records);
    lh_free(held);
    return st;
}

/* Opens the file of timings, and truncates a torn line. */
static lh_status open_timings(lh_batch_output *o)
{
    char end[1 << 16];
    lh_journal *a = &o->timings;
    LH_TRY(lh_journal_open(a, o->timings_path));
    const int64_t bytes = lh_min_i64(a->bytes, (int64_t)sizeof end);
    LH_TRY(lh_journal_read(a, a->bytes - bytes, end, bytes));
    const char *feed = memrchr(end, '\n', (size_t)bytes);
    return lh_journal_cut(a, a->bytes - bytes + (feed ? feed + 1 - end : 0));
}

/* ---- lines ---- */

/* Copies held lines to the output as long as it lacks none before them. */
static lh_status advance(lh_batch_output *o)
{
    lh_status st = LH_OK;
    char *line = NULL;
    const int64_t count = lh_batch_input_count(o->input);
    for (; o->next < count && o->waiting[o->next].bytes; o->next++) {
        held_line *held = &o->waiting[o->next];
        LH_TRY_DONE(lh_realloc(&line, held->bytes, 1));
        LH_TRY_DONE(lh_journal_read(&o->held, held->at, line, held->bytes));
        LH_TRY_DONE(lh_journal_append(&o->file, line, held->bytes));
        *held = (held_line){0};
        o->waiting_count--;
    }
done:
    lh_free(line);
    return st;
}

static lh_status add_ordered(lh_batch_output *o, const lh_batch_put *put)
{
    if (put->i != o->next) {
        o->waiting[put->i] = (held_line){o->held.bytes, put->bytes};
        o->waiting_count++;
        return lh_journal_append(&o->held, put->line, put->bytes);
    }
    LH_TRY(lh_journal_append(&o->file, put->line, put->bytes));
    o->next++;
    return advance(o);
}

/* Held lines are dropped when they are in the output, and the output is on the disk. */
static lh_status sync_files(lh_batch_output *o)
{
    o->synced_s = lh_clock_s();
    LH_TRY(lh_journal_check_name(&o->file));
    if (o->waiting_count) LH_TRY(lh_journal_check_name(&o->held));
    LH_TRY(lh_journal_sync(&o->file));
    if (o->waiting_count == 0 && o->held.bytes > 0) LH_TRY(lh_journal_cut(&o->held, 0));
    return o->options.ordered ? lh_journal_sync(&o->held) : LH_OK;
}

static void add_timing(lh_batch_output *o, const json_t *timing)
{
    lh_buf line = {0};
    char *text = timing && o->timings.fd >= 0 ? json_dumps(timing, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (!text) return;
    if (lh_buf_printf(&line, "%s\n", text) != LH_OK || lh_journal_append(&o->timings, line.data, line.bytes) != LH_OK) {
        lh_warn("%s: timings are no longer written", lh_error_message());
        lh_error_clear();
        lh_journal_close(&o->timings);
    }
    lh_buf_clear(&line);
    free(text);
}

static void count_tokens(lh_batch_output *o, const json_t *timing)
{
    const int64_t prompt = json_integer_value(json_object_get(timing, "prompt_tokens"));
    const int64_t made = json_integer_value(json_object_get(timing, "new_tokens"));
    o->state.prompt_tokens += prompt;
    o->state.context_tokens += json_integer_value(json_object_get(timing, "context_tokens"));
    o->state.new_tokens += made;
    o->state.run_tokens += prompt + made;
}

lh_status lh_batch_output_tick(lh_batch_output *o)
{
    const double now = lh_clock_s();
    if (now - o->synced_s >= o->options.sync_s && !o->broken) {
        o->broken = 1;
        LH_TRY(sync_files(o));
        o->broken = 0;
    }
    if (now - o->state_s >= STATE_S) write_state(o);
    return LH_OK;
}

static lh_status put_line(lh_batch_output *o, const lh_batch_put *put)
{
    assert(!o->done[put->i] && put->bytes > 0 && put->line[put->bytes - 1] == '\n');
    if (o->broken) LH_FAIL(LH_EWRITE, "cannot write '%s': a write has failed before", o->path);
    o->broken = 1;
    LH_TRY(o->options.ordered ? add_ordered(o, put) : lh_journal_append(&o->file, put->line, put->bytes));
    o->broken = 0;
    o->done[put->i] = 1;
    o->state.done++;
    o->state.failed += put->failed != 0;
    o->state.work_done += lh_batch_input_line(o->input, put->i)->bytes;
    count_tokens(o, put->timing);
    add_timing(o, put->timing);
    return lh_batch_output_tick(o);
}

/* Appends rates and failures to the estimate of the remaining time. */
static void show_progress(lh_batch_output *o)
{
    const lh_batch_state *s = lh_batch_output_state(o);
    char memory[LH_SIZE_TEXT], *text = o->progress_text;
    snprintf(text, sizeof o->progress_text, ", %.0f tokens/s, %s", lh_batch_state_tokens_rate(s),
             lh_size_text(memory, s->memory_peak));
    if (s->failed)
        snprintf(text + strlen(text), sizeof o->progress_text - strlen(text), ", %lld failed", (long long)s->failed);
    lh_progress_estimate(&o->progress, s->done, lh_batch_state_left(s));
}

lh_status lh_batch_output_put(lh_batch_output *o, const lh_batch_put *put)
{
    LH_TRY(put_line(o, put));
    if (!o->is_run) return LH_OK;
    show_progress(o);
    o->run_failed += put->failed;
    if (o->max_errors >= 0 && o->run_failed > o->max_errors)
        LH_FAIL(LH_EPARTIAL, "%lld requests have failed, and '--max-errors' is %lld: the run ends; their lines say why",
                (long long)o->run_failed, (long long)o->max_errors);
    return LH_OK;
}

/* ---- owner of a queue ---- */

static int has_line(void *self, int64_t i)
{
    return lh_batch_output_has(self, i);
}

static lh_status put_failure(void *self, const lh_batch_work *w, lh_status why)
{
    lh_buf line = {0};
    lh_status st = lh_batch_failure_line(&w->line, why, w->common->run, &line);
    if (st == LH_OK) {
        lh_error_clear();
        st = lh_batch_output_put(self, &(lh_batch_put){.i = w->i, .line = line.data, .bytes = line.bytes, .failed = 1});
    }
    lh_buf_clear(&line);
    return st;
}

static lh_status tick(void *self)
{
    return lh_batch_output_tick(self);
}

lh_batch_queue_owner lh_batch_output_owner(lh_batch_output *o)
{
    return (lh_batch_queue_owner){.self = o, .has = has_line, .refuse = put_failure, .tick = tick};
}

int lh_batch_output_has(const lh_batch_output *o, int64_t i)
{
    return o->done[i];
}

const lh_batch_state *lh_batch_output_state(lh_batch_output *o)
{
    update_state(o);
    return &o->state;
}

/* ---- opening and closing ---- */

lh_status lh_batch_output_open(lh_batch_output **out, const char *path, const lh_batch_input *input,
                               const lh_batch_output_options *options)
{
    lh_status st = LH_OK;
    lh_batch_output *o = NULL;
    const int64_t count = lh_batch_input_count(input);
    int64_t torn = 0;
    LH_TRY_DONE(lh_calloc(&o, 1, sizeof *o));
    o->input = input;
    o->options = *options;
    o->file.fd = o->held.fd = o->timings.fd = -1;
    LH_TRY_DONE(lh_calloc(&o->done, count, 1));
    LH_TRY_DONE(lh_calloc(&o->waiting, options->ordered ? count : 0, sizeof *o->waiting));
    LH_TRY_DONE(name_files(o, path));
    LH_TRY_DONE(open_file(o));
    if (options->retry_failed) LH_TRY_DONE(drop_failed(o));
    LH_TRY_DONE(read_output(o, &torn));
    LH_TRY_DONE(read_held(o, torn));
    LH_TRY_DONE(open_timings(o));
    if (options->ordered) LH_TRY_DONE(advance(o));
    LH_TRY_DONE(begin_state(o));
    o->synced_s = lh_clock_s();
    if (options->metrics) LH_TRY_DONE(lh_batch_metrics_write(&o->state, o->path, options->metrics));
    write_state(o);
    *out = o;
    o = NULL;
done:
    lh_batch_output_close(o);
    return st;
}

void lh_batch_output_begin_run(lh_batch_output *o, int64_t max_errors)
{
    o->is_run = 1;
    o->max_errors = max_errors;
    lh_progress_init(&o->progress, "answering", "requests", lh_batch_input_count(o->input));
    o->progress.more = o->progress_text;
    o->progress.before = o->state.done;
}

void lh_batch_output_close(lh_batch_output *o)
{
    if (!o) return;
    if (o->is_run) lh_progress_clear(&o->progress);
    lh_journal_remove_empty(&o->held);
    lh_journal_remove_empty(&o->timings);
    if (o->locked && o->state.done == 0) lh_journal_remove_empty(&o->file);
    lh_journal_close(&o->held);
    lh_journal_close(&o->timings);
    lh_journal_close(&o->file);
    lh_batch_state_clear(&o->state);
    lh_free(o->done);
    lh_free(o->waiting);
    lh_free(o->path);
    lh_free(o->state_path);
    lh_free(o->held_path);
    lh_free(o->timings_path);
    lh_free(o);
}

lh_status lh_batch_output_finish(lh_batch_output *o, lh_status how)
{
    lh_status st = how;
    lh_buf message = {0};
    if (o->is_run) lh_progress_clear(&o->progress);
    if (how == LH_OK) st = o->broken ? LH_OK : sync_files(o);
    if (st != LH_OK && st != LH_EINTERRUPTED) lh_strdup(&o->state.message, lh_error_message());
    lh_buf_puts(&message, lh_error_message());
    if (how != LH_OK && !o->broken && sync_files(o) != LH_OK) lh_warn("%s", lh_error_message());
    o->state.stage = st == LH_OK && o->state.done == o->state.total ? LH_BATCH_DONE
                     : st == LH_OK || st == LH_EINTERRUPTED         ? LH_BATCH_INTERRUPTED
                                                                    : LH_BATCH_FAILED;
    if (o->options.prefills)
        (o->state.stage == LH_BATCH_DONE ? lh_batch_prefills_remove : lh_batch_prefills_tidy)(o->options.prefills);
    write_state(o);
    if (st != LH_OK) lh_fail(st, __FILE__, __LINE__, "%s", message.data ? message.data : "");
    lh_buf_clear(&message);
    return st;
}
