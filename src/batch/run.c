/* run.c - the requests of a replica: rank 0 of it gets them and shares them with the others, and gives away the lines
 * of those that are done. */
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
    lh_batch_work **open;      /* [most + 2]: those at work, and one that waits; NULL: free */
    lh_batch_context *context; /* of the last request that had one ... */
    int64_t contexts;          /* ... and its number */
    /* rank 0 */
    lh_batch_dispatch *dispatch;
    lh_buf line;
    /* the head */
    lh_batch_ledger ledger;
    lh_batch_queue *queue;
} run;

static int is_first(const run *r)
{
    return lh_comm_rank(r->comm) == 0;
}

/* The line of a request that is done with `how`, whose message is the thread's. Rank 0. */
static lh_status put_line(run *r, const lh_batch_work *w, lh_finish_reason finish, lh_status how)
{
    json_t *timing = NULL;
    r->line.bytes = 0;
    lh_status st = lh_batch_work_write(w, finish, how, &r->line, &timing);
    if (how != LH_OK) lh_error_clear();
    if (st == LH_OK)
        st = lh_batch_dispatch_put(
            r->dispatch,
            &(lh_batch_put){
                .i = w->i, .line = r->line.data, .bytes = r->line.bytes, .failed = how != LH_OK, .timing = timing});
    json_decref(timing);
    return st;
}

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
    int64_t context; /* its number; 0: none */
    int64_t more;    /* of lh_context, of a new one */
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

/* The context of the request, which may be that of the one before. ids: rank 0, of a new one. */
static lh_status share_context(run *r, const heading *h, const lh_tokens *ids, lh_batch_work *w)
{
    lh_status st = LH_OK;
    lh_batch_context *c = NULL;
    const char *prefills = r->options->common.prefills;
    if (h->context && h->context != r->contexts) {
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
        r->context = lh_batch_context_hold(c);
        r->contexts = h->context;
        c = NULL;
    }
    if (h->context) w->context = lh_batch_context_hold(r->context);
done:
    lh_batch_context_release(c);
    return st;
}

static heading heading_of(const lh_batch_upcoming *next)
{
    const lh_batch_work *w = next->work;
    if (!w) return (heading){.i = -1};
    return (heading){.i = w->i,
                     .number = w->line.number,
                     .bytes = w->line.bytes,
                     .hash = w->line.hash,
                     .context = next->context,
                     .more = next->more};
}

static lh_status next_task(void *self, lh_task **out)
{
    run *r = self;
    lh_batch_upcoming next = {.work = NULL};
    heading h;
    *out = NULL;
    lh_comm_step(r->comm, "next request", -1);
    lh_status st = is_first(r) ? lh_batch_dispatch_next(r->dispatch, &next) : LH_OK;
    LH_TRY_DONE(lh_comm_agree(r->comm, st));
    h = heading_of(&next);
    LH_TRY_DONE(lh_comm_bcast(r->comm, 0, &h, sizeof h));
    if (h.i < 0) return LH_OK;
    LH_TRY_DONE(receive(r, &h, &next.work));
    LH_TRY_DONE(share_context(r, &h, next.ids, next.work));
    LH_TRY_DONE(lh_prompt_share(r->comm, &next.work->prompt));
    LH_TRY_DONE(lh_prompt_share(r->comm, &next.work->ends));
    LH_TRY_DONE(lh_comm_agree(r->comm, lh_batch_work_make_task(next.work)));
    next.work->owner = r;
    *place_of(r, NULL) = next.work;
    next.work->task.done = finish_task;
    *out = &next.work->task;
    return LH_OK;
done:
    lh_batch_work_close(next.work);
    return st;
}

static lh_status pulse(void *self)
{
    run *r = self;
    lh_status st = is_first(r) ? lh_batch_dispatch_pulse(r->dispatch) : LH_OK;
    if (st == LH_OK) st = lh_batch_check_interrupt();
    return lh_comm_agree(r->comm, st);
}

static lh_status open_run(run *r)
{
    const lh_batch_run_options *o = r->options;
    LH_TRY(lh_calloc(&r->open, o->most + 2, sizeof *r->open));
    if (o->output) {
        lh_batch_ledger_open(&r->ledger, o->output, lh_batch_input_count(o->input), o->max_errors);
        LH_TRY(lh_batch_queue_open(&r->queue, &(lh_batch_queue_options){.common = &o->common,
                                                                        .input = o->input,
                                                                        .owner = lh_batch_ledger_owner(&r->ledger),
                                                                        .in_order = o->in_order}));
    }
    if (!is_first(r)) return LH_OK;
    return lh_batch_dispatch_open(&r->dispatch, o->leaders, &o->common, r->queue, &r->ledger);
}

static void close_run(run *r)
{
    lh_batch_ledger_close(&r->ledger);
    for (int64_t k = 0; r->open && k < r->options->most + 2; k++) lh_batch_work_close(r->open[k]);
    lh_free(r->open);
    lh_batch_context_release(r->context);
    lh_batch_dispatch_close(r->dispatch);
    lh_batch_queue_close(r->queue);
    lh_buf_clear(&r->line);
}

/* Of all replicas. */
static lh_status add_figures(const run *r, lh_scheduler_figures *f)
{
    int64_t counts[] = {f->tasks, f->prompt_tokens, f->new_tokens, f->steps, f->resumed};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) counts[i] *= is_first(r);
    LH_TRY(lh_comm_allreduce(r->options->world, counts, sizeof counts / sizeof *counts, LH_I64, LH_SUM));
    f->tasks = counts[0];
    f->prompt_tokens = counts[1];
    f->new_tokens = counts[2];
    f->steps = counts[3];
    f->resumed = counts[4];
    return LH_OK;
}

/* Until all replicas have ended, the ranks of this one wait, too: an interrupt of any of them ends the run. */
static lh_status wait_for_all(run *r, lh_status *st)
{
    int64_t asked = 0, over = 0;
    if (is_first(r)) LH_TRY(lh_batch_dispatch_end(r->dispatch, *st));
    while (!over) {
        asked = lh_interrupt_asked();
        LH_TRY(lh_comm_allreduce(r->comm, &asked, 1, LH_I64, LH_MAX));
        if (is_first(r)) LH_TRY(lh_batch_dispatch_wait(r->dispatch, asked != 0, &over));
        LH_TRY(lh_comm_bcast(r->comm, 0, &over, sizeof over));
    }
    if (is_first(r)) *st = lh_batch_dispatch_verdict(r->dispatch, *st);
    return LH_OK;
}

/* Collective over the world: what the run ends with on all ranks. An interrupt that came when all was done is none. */
static lh_status settle(const run *r, lh_status st)
{
    lh_comm *world = r->options->world;
    int64_t whole = 0;
    LH_TRY(lh_comm_agree(world, st == LH_EINTERRUPTED ? LH_OK : st));
    if (r->options->output) {
        const lh_batch_state *s = lh_batch_output_state(r->options->output);
        whole = s->done == s->total;
    }
    LH_TRY(lh_comm_bcast(world, 0, &whole, sizeof whole));
    if (!whole) return lh_comm_agree(world, st);
    lh_error_clear();
    return LH_OK;
}

lh_status lh_batch_run(const lh_batch_run_options *options, lh_scheduler_figures *figures)
{
    lh_status st = LH_OK, told = LH_OK;
    run r = {.options = options, .comm = lh_engine_get(options->common.engine)->comm};
    *figures = (lh_scheduler_figures){0};
    LH_TRY_DONE(lh_comm_agree(options->world, open_run(&r)));
    if (is_first(&r)) LH_TRY_DONE(lh_batch_dispatch_meet(r.dispatch, lh_comm_rank(options->world)));
    st = lh_schedule(options->common.engine,
                     &(lh_scheduler_options){.most = options->most,
                                             .prefill_share = options->prefill_share,
                                             .checkpoint_s = options->checkpoint_s,
                                             .run = options->record,
                                             .self = &r,
                                             .next = next_task,
                                             .pulse = pulse},
                     figures);
    /* what a rank alone failed with ends it, and the launcher the others */
    if (st != LH_OK && !lh_comm_agreed(r.comm)) goto done;
    told = wait_for_all(&r, &st);
    if (told != LH_OK) { /* the others do not know */
        st = told;
        goto done;
    }
    LH_TRY_DONE(settle(&r, st));
    LH_TRY_DONE(add_figures(&r, figures));
done:
    close_run(&r);
    return st;
}
