/* run.c - the requests of a replica: its root gets them from the coordinator and shares them with the other ranks, and
 * sends the lines of finished requests to the output. */
#include "batch/run.h"

#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "batch/dispatch.h"
#include "batch/prefills.h"
#include "engine/prompt.h"

typedef struct run {
    const lh_batch_run_options *options;
    lh_comm *comm;
    lh_batch_work **open;      /* [most + 2] requests at work, and one that waits; NULL: free */
    lh_batch_context *context; /* the last one, and its number */
    int64_t context_number;
    lh_batch_work *current;      /* its replies are not all begun yet; NULL: none */
    lh_batch_dispatch *dispatch; /* root */
    lh_buf line;
    lh_batch_queue *queue; /* coordinator */
} run;

static int is_root(const run *r)
{
    return lh_comm_rank(r->comm) == 0;
}

/* Root: sends the line of a finished request. */
static lh_status put_line(run *r, const lh_batch_work *w)
{
    json_t *timing = NULL;
    r->line.bytes = 0;
    lh_status st = lh_batch_work_write(w, &r->line, &timing);
    if (st == LH_OK)
        st = lh_batch_dispatch_put(r->dispatch, &(lh_batch_put){.i = w->i,
                                                                .line = r->line.data,
                                                                .bytes = r->line.bytes,
                                                                .failed = w->failure != LH_OK,
                                                                .timing = timing});
    json_decref(timing);
    return st;
}

/* The slot of a request at work; NULL: the first free slot. */
static lh_batch_work **slot_of(run *r, const lh_batch_work *w)
{
    lh_batch_work **at = r->open;
    while (*at != w) at++;
    return at;
}

static lh_status finish_task(void *self, lh_session *session, lh_finish_reason finish, lh_status how)
{
    lh_batch_reply *reply = self;
    lh_batch_work *w = reply->work;
    run *r = w->owner;
    (void)session;
    lh_status st = lh_batch_reply_end(reply, finish, how);
    if (w->finished < w->request.choices) return lh_comm_agree(r->comm, st);
    if (st == LH_OK && is_root(r)) st = put_line(r, w);
    *slot_of(r, w) = NULL;
    lh_batch_work_close(w);
    return lh_comm_agree(r->comm, st);
}

/* The next request, as the root describes it to the other ranks; i < 0: there is none. */
typedef struct request_header {
    int64_t i, number, bytes;
    uint64_t hash;
    int64_t context; /* number of the context; 0: none */
    int64_t more;    /* of lh_context, for a new context */
} request_header;

/* Broadcasts the line; the other ranks read the request from it. */
static lh_status share_request(run *r, const request_header *h, lh_batch_work **out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    if (!is_root(r)) st = lh_calloc(&text, h->bytes + 1, 1);
    LH_TRY_DONE(lh_comm_agree(r->comm, st));
    LH_TRY_DONE(lh_comm_bcast(r->comm, 0, is_root(r) ? (char *)(uintptr_t)(*out)->line.text : text, h->bytes));
    if (!is_root(r)) {
        /* the root alone writes the custom_id */
        const lh_batch_line line = {
            .number = h->number, .hash = h->hash, .text = text, .bytes = h->bytes, .custom_id = ""};
        st = lh_batch_work_open(out, &r->options->common, h->i, &line, h->context != 0);
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

/* Broadcasts a new context, or takes the last one. ids: of a new context, on the root. */
static lh_status share_context(run *r, const request_header *h, const lh_tokens *ids, lh_batch_work *w)
{
    lh_status st = LH_OK;
    lh_batch_context *c = NULL;
    const char *prefills = r->options->common.prefills;
    if (h->context && h->context != r->context_number) {
        st = lh_calloc(&c, 1, sizeof *c);
        if (st == LH_OK && prefills) st = lh_batch_prefills_file(&c->checkpoint, prefills, w->line.number);
        for (int64_t k = 0; st == LH_OK && ids && k < ids->n; k++) st = lh_tokens_push(&c->ids, ids->ids[k]);
        LH_TRY_DONE(lh_comm_agree(r->comm, st));
        LH_TRY_DONE(lh_prompt_share(r->comm, &c->ids));
        c->policy = w->policy;
        c->shared = (lh_context){.prompt = c->ids,
                                 .policy = &c->policy,
                                 .profiles = r->options->common.profiles,
                                 .seed = r->options->common.defaults->sampling.seed,
                                 .more = h->more,
                                 .checkpoint = c->checkpoint};
        lh_batch_context_release(r->context);
        r->context = lh_batch_context_retain(c);
        r->context_number = h->context;
        c = NULL;
    }
    if (h->context) w->context = lh_batch_context_retain(r->context);
done:
    lh_batch_context_release(c);
    return st;
}

static request_header describe_request(const lh_batch_upcoming *next)
{
    const lh_batch_work *w = next->work;
    if (!w) return (request_header){.i = -1};
    return (request_header){.i = w->i,
                            .number = w->line.number,
                            .bytes = w->line.bytes,
                            .hash = w->line.hash,
                            .context = next->context,
                            .more = next->more};
}

/* Of the current request. */
static void begin_reply(run *r, lh_task **out)
{
    lh_batch_work *w = r->current;
    *out = &w->replies[w->begun++].task;
    (*out)->done = finish_task;
    if (w->begun == w->request.choices) r->current = NULL;
}

/* The context of a single request stays as long as the scheduler may compare it with the next context. */
static void keep_origin(run *r, const lh_batch_work *w)
{
    if (!w->origin) return;
    lh_batch_context_release(r->context);
    r->context = lh_batch_context_retain(w->origin);
    r->context_number = 0;
}

static lh_status next_task(void *self, lh_task **out)
{
    run *r = self;
    lh_batch_upcoming next = {.work = NULL};
    request_header h;
    *out = NULL;
    if (r->current) {
        begin_reply(r, out);
        return LH_OK;
    }
    lh_comm_step(r->comm, "next request", -1);
    lh_status st = is_root(r) ? lh_batch_dispatch_next(r->dispatch, &next) : LH_OK;
    LH_TRY_DONE(lh_comm_agree(r->comm, st));
    h = describe_request(&next);
    LH_TRY_DONE(lh_comm_bcast(r->comm, 0, &h, sizeof h));
    if (h.i < 0) return LH_OK;
    LH_TRY_DONE(share_request(r, &h, &next.work));
    LH_TRY_DONE(share_context(r, &h, next.ids, next.work));
    LH_TRY_DONE(lh_prompt_share(r->comm, &next.work->prompt));
    LH_TRY_DONE(lh_prompt_share(r->comm, &next.work->ends));
    LH_TRY_DONE(lh_comm_agree(r->comm, lh_batch_work_make_tasks(next.work)));
    keep_origin(r, next.work);
    next.work->owner = r;
    *slot_of(r, NULL) = next.work;
    r->current = next.work;
    begin_reply(r, out);
    return LH_OK;
done:
    lh_batch_work_close(next.work);
    return st;
}

static lh_status pulse(void *self)
{
    run *r = self;
    lh_status st = is_root(r) ? lh_batch_dispatch_poll(r->dispatch) : LH_OK;
    if (st == LH_OK) st = lh_batch_check_interrupt();
    return lh_comm_agree(r->comm, st);
}

static lh_status open_run(run *r)
{
    const lh_batch_run_options *o = r->options;
    LH_TRY(lh_calloc(&r->open, o->most + 2, sizeof *r->open));
    if (o->output) {
        lh_batch_output_begin_run(o->output, o->max_errors);
        LH_TRY(lh_batch_queue_open(&r->queue, &(lh_batch_queue_options){.common = &o->common,
                                                                        .input = o->input,
                                                                        .owner = lh_batch_output_owner(o->output),
                                                                        .in_order = o->in_order}));
    }
    if (!is_root(r)) return LH_OK;
    return lh_batch_dispatch_open(&r->dispatch, o->roots, &o->common, r->queue, o->output);
}

static void close_run(run *r)
{
    for (int64_t k = 0; r->open && k < r->options->most + 2; k++) lh_batch_work_close(r->open[k]);
    lh_free(r->open);
    lh_batch_context_release(r->context);
    lh_batch_dispatch_close(r->dispatch);
    lh_batch_queue_close(r->queue);
    lh_buf_clear(&r->line);
}

/* Collective over the world: sums the figures of all replicas. */
static lh_status add_figures(const run *r, lh_scheduler_figures *f)
{
    int64_t counts[] = {f->tasks, f->prompt_tokens, f->new_tokens, f->steps, f->resumed, f->stored};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) counts[i] *= is_root(r);
    LH_TRY(lh_comm_allreduce(r->options->world, counts, sizeof counts / sizeof *counts, LH_I64, LH_SUM));
    f->tasks = counts[0];
    f->prompt_tokens = counts[1];
    f->new_tokens = counts[2];
    f->steps = counts[3];
    f->resumed = counts[4];
    f->stored = counts[5];
    return LH_OK;
}

/* Waits until all replicas have finished: an interrupt of any rank ends the run until then. *st: of this replica, then
 * of the run. */
static lh_status wait_for_all(run *r, lh_status *st)
{
    int64_t interrupted = 0, finished = 0;
    if (is_root(r)) LH_TRY(lh_batch_dispatch_send_end(r->dispatch, *st));
    while (!finished) {
        interrupted = lh_interrupt_asked();
        LH_TRY(lh_comm_allreduce(r->comm, &interrupted, 1, LH_I64, LH_MAX));
        if (is_root(r)) LH_TRY(lh_batch_dispatch_wait_all(r->dispatch, interrupted != 0, &finished));
        LH_TRY(lh_comm_bcast(r->comm, 0, &finished, sizeof finished));
    }
    if (is_root(r)) *st = lh_batch_dispatch_final_status(r->dispatch, *st);
    return LH_OK;
}

/* Collective over the world: the status of the run on all ranks. An interrupt after the last line does not count. */
static lh_status agree_status(const run *r, lh_status st)
{
    lh_comm *world = r->options->world;
    int64_t complete = 0;
    LH_TRY(lh_comm_agree(world, st == LH_EINTERRUPTED ? LH_OK : st));
    if (r->options->output) {
        const lh_batch_state *s = lh_batch_output_state(r->options->output);
        complete = s->done == s->total;
    }
    LH_TRY(lh_comm_bcast(world, 0, &complete, sizeof complete));
    if (!complete) return lh_comm_agree(world, st);
    lh_error_clear();
    return LH_OK;
}

lh_status lh_batch_run(const lh_batch_run_options *options, lh_scheduler_figures *figures)
{
    lh_status st = LH_OK, waited = LH_OK;
    run r = {.options = options, .comm = lh_engine_get(options->common.engine)->comm};
    *figures = (lh_scheduler_figures){0};
    LH_TRY_DONE(lh_comm_agree(options->world, open_run(&r)));
    if (is_root(&r)) LH_TRY_DONE(lh_batch_dispatch_exchange_names(r.dispatch, lh_comm_rank(options->world)));
    st = lh_schedule(options->common.engine,
                     &(lh_scheduler_options){.max_running = options->most,
                                             .prefill_share = options->prefill_share,
                                             .checkpoint_s = options->checkpoint_s,
                                             .store = options->store,
                                             .run = options->record,
                                             .self = &r,
                                             .next = next_task,
                                             .pulse = pulse},
                     figures);
    /* a rank that failed alone ends, and the launcher ends the other ranks */
    if (st != LH_OK && !lh_comm_agreed(r.comm)) goto done;
    waited = wait_for_all(&r, &st);
    if (waited != LH_OK) { /* the other ranks do not know of this failure */
        st = waited;
        goto done;
    }
    LH_TRY_DONE(agree_status(&r, st));
    LH_TRY_DONE(add_figures(&r, figures));
done:
    close_run(&r);
    return st;
}
