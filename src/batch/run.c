/* run.c - requests in turn: rank 0 reads and encodes them and shares them out, and writes the lines of those that are
 * done. */
#include "batch/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/progress.h"
#include "engine/prompt.h"

typedef struct run {
    const lh_batch_run_options *options;
    lh_comm *comm;
    lh_batch_work **open; /* [most + 2]: those at work, and one that waits; NULL: free */
    /* rank 0 */
    int64_t *order;              /* [count] lines of the input */
    int64_t count, next, failed; /* failed: in this run */
    lh_buf line;
    lh_progress progress;
} run;

static int is_first(const run *r)
{
    return lh_comm_rank(r->comm) == 0;
}

static lh_status check_interrupt(void)
{
    if (lh_interrupt_asked()) LH_FAIL(LH_EINTERRUPTED, "interrupted: the same command with '--resume' goes on");
    return LH_OK;
}

/* ---- rank 0: the order of work, and lines ---- */

/* A line, by what it takes. */
typedef struct sized {
    int64_t i, bytes;
} sized;

static int by_bytes(const void *a, const void *b)
{
    const sized *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->i > y->i ? 1 : -1;
}

static lh_status make_order(run *r)
{
    lh_status st = LH_OK;
    const lh_batch_run_options *o = r->options;
    const int64_t all = lh_batch_input_count(o->input);
    sized *lines = NULL;
    LH_TRY_DONE(lh_calloc(&lines, all, sizeof *lines));
    LH_TRY_DONE(lh_calloc(&r->order, all, sizeof *r->order));
    for (int64_t i = 0; i < all; i++)
        if (!lh_batch_output_has(o->output, i)) lines[r->count++] = (sized){i, lh_batch_input_line(o->input, i)->bytes};
    if (!o->in_order) qsort(lines, (size_t)r->count, sizeof *lines, by_bytes);
    for (int64_t i = 0; i < r->count; i++) r->order[i] = lines[i].i;
done:
    lh_free(lines);
    return st;
}

static lh_status check_errors(const run *r)
{
    const int64_t most = r->options->max_errors;
    if (most >= 0 && r->failed > most)
        LH_FAIL(LH_EPARTIAL, "%lld requests have failed, and '--max-errors' is %lld: the run ends; their lines say why",
                (long long)r->failed, (long long)most);
    return LH_OK;
}

/* The line of a request that is done with `how`, whose message is the thread's. */
static lh_status put_line(run *r, const lh_batch_work *w, lh_finish_reason finish, lh_status how)
{
    json_t *timing = NULL;
    r->line.bytes = 0;
    lh_status st = lh_batch_work_write(w, finish, how, &r->line, &timing);
    if (how != LH_OK) lh_error_clear();
    if (st == LH_OK)
        st = lh_batch_output_put(
            r->options->output,
            &(lh_batch_put){
                .i = w->i, .line = r->line.data, .bytes = r->line.bytes, .failed = how != LH_OK, .timing = timing});
    json_decref(timing);
    if (st == LH_OK && r->progress.what) lh_progress_update(&r->progress, lh_batch_output_done(r->options->output));
    if (st != LH_OK || how == LH_OK) return st;
    r->failed++;
    return check_errors(r);
}

static int is_of_request(lh_status st)
{
    return st == LH_EINPUT || st == LH_EUSAGE;
}

/* The next request that can be asked; *out NULL: there is none. Lines that are no valid request fail here. */
static lh_status read_next(run *r, lh_batch_work **out)
{
    const lh_batch_run_options *o = r->options;
    *out = NULL;
    while (r->next < r->count) {
        const int64_t i = r->order[r->next++];
        lh_batch_work *w = NULL;
        LH_TRY(check_interrupt());
        lh_status st = lh_batch_work_open(&w, &o->common, i, lh_batch_input_line(o->input, i));
        if (st == LH_OK) st = lh_batch_work_encode(w);
        if (st == LH_OK) {
            *out = w;
            return LH_OK;
        }
        if (w && is_of_request(st)) st = put_line(r, w, LH_FINISH_STOP, st);
        lh_batch_work_close(w);
        LH_TRY(st);
    }
    return LH_OK;
}

/* ---- all ranks ---- */

/* Where the work is among those that are open; NULL: the first free place. */
static lh_batch_work **place_of(run *r, const lh_batch_work *w)
{
    lh_batch_work **at = r->open;
    while (*at != w) at++;
    return at;
}

static lh_status finish_task(void *self, lh_session *session, lh_finish_reason finish, lh_status how)
{
    lh_batch_work *w = self;
    run *r = w->owner;
    (void)session;
    lh_status st = how == LH_OK ? lh_answer_text_finish(&w->answer_text) : LH_OK;
    if (st == LH_OK && is_first(r)) st = put_line(r, w, finish, how);
    *place_of(r, w) = NULL;
    lh_batch_work_close(w);
    return lh_comm_agree(r->comm, st);
}

/* What rank 0 says of the next request; i < 0: there is none. */
typedef struct heading {
    int64_t i, number, bytes;
    uint64_t hash;
} heading;

/* The request as rank 0 has read it, on another rank. */
static lh_status receive(run *r, const heading *h, lh_batch_work **out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    if (!is_first(r)) st = lh_calloc(&text, h->bytes + 1, 1);
    LH_TRY_DONE(lh_comm_agree(r->comm, st));
    LH_TRY_DONE(lh_comm_bcast(r->comm, 0, is_first(r) ? (char *)(uintptr_t)(*out)->line.text : text, h->bytes));
    if (!is_first(r)) {
        /* whether its custom_id can be used rank 0 knows */
        const lh_batch_line line = {
            .number = h->number, .hash = h->hash, .text = text, .bytes = h->bytes, .custom_id = ""};
        st = lh_batch_work_open(out, &r->options->common, h->i, &line);
        if (*out) {
            (*out)->text = text;
            text = NULL;
        }
    }
    LH_TRY_DONE(lh_comm_agree(r->comm, st));
done:
    lh_free(text);
    return st;
}

static lh_status next_task(void *self, lh_task **out)
{
    run *r = self;
    lh_batch_work *w = NULL;
    heading h = {.i = -1};
    *out = NULL;
    lh_status st = is_first(r) ? read_next(r, &w) : LH_OK;
    LH_TRY_DONE(lh_comm_agree_patiently(r->comm, st));
    if (w) h = (heading){w->i, w->line.number, w->line.bytes, w->line.hash};
    LH_TRY_DONE(lh_comm_bcast(r->comm, 0, &h, sizeof h));
    if (h.i < 0) return LH_OK;
    LH_TRY_DONE(receive(r, &h, &w));
    LH_TRY_DONE(lh_prompt_share(r->comm, &w->prompt));
    LH_TRY_DONE(lh_prompt_share(r->comm, &w->ends));
    lh_batch_work_make_task(w);
    w->owner = r;
    *place_of(r, NULL) = w;
    w->task.done = finish_task;
    *out = &w->task;
    return LH_OK;
done:
    lh_batch_work_close(w);
    return st;
}

static lh_status pulse(void *self)
{
    run *r = self;
    lh_status st = is_first(r) ? lh_batch_output_tick(r->options->output) : LH_OK;
    if (st == LH_OK) st = check_interrupt();
    return lh_comm_agree(r->comm, st);
}

lh_status lh_batch_run(const lh_batch_run_options *options, lh_scheduler_figures *figures)
{
    lh_status st = LH_OK;
    run r = {.options = options, .comm = lh_engine_get(options->common.engine)->comm};
    st = lh_calloc(&r.open, options->most + 2, sizeof *r.open);
    if (st == LH_OK && is_first(&r)) st = make_order(&r);
    LH_TRY_DONE(lh_comm_agree(r.comm, st));
    if (is_first(&r)) {
        lh_progress_init(&r.progress, "answering", "requests", lh_batch_input_count(options->input));
        r.progress.before = lh_batch_output_done(options->output);
    }
    st = lh_schedule(options->common.engine,
                     &(lh_scheduler_options){.most = options->most,
                                             .prefill_share = options->prefill_share,
                                             .self = &r,
                                             .next = next_task,
                                             .pulse = pulse},
                     figures);
done:
    lh_progress_clear(&r.progress);
    for (int64_t k = 0; r.open && k < options->most + 2; k++) lh_batch_work_close(r.open[k]);
    lh_free(r.open);
    lh_free(r.order);
    lh_buf_clear(&r.line);
    return st;
}
