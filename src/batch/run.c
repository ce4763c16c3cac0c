/* run.c - requests in turn: rank 0 reads and encodes them and shares them out, and writes the lines of those that are
 * done. */
#include "batch/run.h"

#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/progress.h"
#include "batch/encode.h"
#include "batch/group.h"
#include "batch/order.h"
#include "engine/prompt.h"

typedef struct run {
    const lh_batch_run_options *options;
    lh_comm *comm;
    lh_batch_work **open;      /* [most + 2]: those at work, and one that waits; NULL: free */
    lh_batch_context *context; /* of the last request that had one ... */
    int64_t contexts;          /* ... which is the so-many-th of the run */
    /* rank 0 */
    lh_batch_order order;
    int64_t next, failed;  /* failed: in this run */
    lh_batch_group *group; /* whose requests come next; NULL: none */
    int64_t group_context; /* number of the last context within it; -1: none yet */
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

static lh_status make_order(run *r)
{
    const lh_batch_run_options *o = r->options;
    const int64_t all = lh_batch_input_count(o->input);
    uint8_t *done = NULL;
    LH_TRY(lh_calloc(&done, all, 1));
    for (int64_t i = 0; i < all; i++) done[i] = (uint8_t)lh_batch_output_has(o->output, i);
    lh_status st = lh_batch_order_make(&r->order, o->input, done, o->in_order);
    lh_free(done);
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

/* What comes next, and what it shares. */
typedef struct upcoming {
    lh_batch_work *work;      /* NULL: nothing comes any more */
    const lh_tokens *context; /* before its prompt; NULL: none */
    int64_t more;             /* of lh_context */
    int is_new;               /* 1: the context is another one than the last */
} upcoming;

/* A line that cannot be answered has its line of the output. */
static lh_status drop_work(run *r, lh_batch_work *w, lh_status st)
{
    if (w && is_of_request(st)) st = put_line(r, w, LH_FINISH_STOP, st);
    lh_batch_work_close(w);
    return st;
}

/* The line, with a context that it shares or without; *out->work NULL: it cannot be answered. */
static lh_status read_alone(run *r, int64_t i, upcoming *out)
{
    const lh_batch_run_options *o = r->options;
    lh_batch_work *w = NULL;
    lh_status st = lh_batch_work_open(&w, &o->common, i, lh_batch_input_line(o->input, i), 0);
    if (st == LH_OK) st = lh_batch_encode(&o->common, &w->request, &w->prompt);
    if (st != LH_OK) return drop_work(r, w, st);
    out->work = w;
    return LH_OK;
}

static lh_status read_member(run *r, const lh_batch_member *m, upcoming *out)
{
    const lh_batch_run_options *o = r->options;
    lh_batch_work *w = NULL;
    lh_status st = lh_batch_work_open(&w, &o->common, m->i, lh_batch_input_line(o->input, m->i), m->context != NULL);
    for (int64_t k = 0; st == LH_OK && k < m->prompt->n; k++) st = lh_tokens_push(&w->prompt, m->prompt->ids[k]);
    if (st != LH_OK) return drop_work(r, w, st);
    *out = (upcoming){.work = w, .context = m->context, .more = m->more, .is_new = m->number != r->group_context};
    if (m->context) r->group_context = m->number;
    return LH_OK;
}

/* Lines of one context: what they share. Those that cannot be answered fail. */
static lh_status open_group(run *r, int64_t n)
{
    const lh_batch_run_options *o = r->options;
    LH_TRY(lh_batch_group_open(&r->group, &o->common));
    r->group_context = -1;
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = r->order.lines[r->next + k];
        const int wanted = !lh_batch_output_has(o->output, i);
        lh_batch_work *w = NULL;
        LH_TRY(check_interrupt());
        lh_status st = lh_batch_work_open(&w, &o->common, i, lh_batch_input_line(o->input, i), 1);
        if (st == LH_OK) st = lh_batch_group_add(r->group, w, wanted);
        if (st != LH_OK && is_of_request(st) && !wanted) {
            lh_error_clear(); /* it has its line */
            st = LH_OK;
        }
        LH_TRY(drop_work(r, w, st));
    }
    r->next += n;
    return lh_batch_group_settle(r->group);
}

static int is_of_context(const lh_batch_input *input, int64_t i)
{
    return lh_batch_input_line(input, i)->context != 0;
}

/* The next request that can be answered. */
static lh_status read_next(run *r, upcoming *out)
{
    const lh_batch_input *input = r->options->input;
    lh_batch_member member;
    while (!out->work) {
        LH_TRY(check_interrupt());
        if (r->group && lh_batch_group_next(r->group, &member)) {
            LH_TRY(read_member(r, &member, out));
            continue;
        }
        lh_batch_group_close(r->group);
        r->group = NULL;
        if (r->next == r->order.n) return LH_OK;
        if (is_of_context(input, r->order.lines[r->next]))
            LH_TRY(open_group(r, lh_batch_order_turn(&r->order, input, r->next)));
        else
            LH_TRY(read_alone(r, r->order.lines[r->next++], out));
    }
    return lh_batch_encode_ends(&r->options->common, &out->work->request, &out->work->ends);
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
    int64_t context; /* of the run, as run.contexts; 0: none */
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

/* The context of the request, which may be that of the one before. ids: rank 0. */
static lh_status share_context(run *r, const heading *h, const lh_tokens *ids, lh_batch_work *w)
{
    lh_status st = LH_OK;
    lh_batch_context *c = NULL;
    if (h->context && h->context != r->contexts) {
        st = lh_calloc(&c, 1, sizeof *c);
        for (int64_t k = 0; st == LH_OK && ids && k < ids->n; k++) st = lh_tokens_push(&c->ids, ids->ids[k]);
        LH_TRY_DONE(lh_comm_agree(r->comm, st));
        LH_TRY_DONE(lh_prompt_share(r->comm, &c->ids));
        c->policy = w->policy;
        c->shared = (lh_context){.prompt = c->ids,
                                 .policy = &c->policy,
                                 .profiles = r->options->common.profiles,
                                 .seed = r->options->common.defaults->sampling.seed,
                                 .more = h->more};
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

static heading heading_of(const run *r, const upcoming *next)
{
    const lh_batch_work *w = next->work;
    if (!w) return (heading){.i = -1};
    return (heading){.i = w->i,
                     .number = w->line.number,
                     .bytes = w->line.bytes,
                     .hash = w->line.hash,
                     .context = next->context ? r->contexts + next->is_new : 0,
                     .more = next->more};
}

static lh_status next_task(void *self, lh_task **out)
{
    run *r = self;
    upcoming next = {.work = NULL};
    heading h;
    *out = NULL;
    lh_status st = is_first(r) ? read_next(r, &next) : LH_OK;
    LH_TRY_DONE(lh_comm_agree_patiently(r->comm, st));
    h = heading_of(r, &next);
    LH_TRY_DONE(lh_comm_bcast(r->comm, 0, &h, sizeof h));
    if (h.i < 0) return LH_OK;
    LH_TRY_DONE(receive(r, &h, &next.work));
    LH_TRY_DONE(share_context(r, &h, next.context, next.work));
    LH_TRY_DONE(lh_prompt_share(r->comm, &next.work->prompt));
    LH_TRY_DONE(lh_prompt_share(r->comm, &next.work->ends));
    lh_batch_work_make_task(next.work);
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
    lh_batch_context_release(r.context);
    lh_batch_group_close(r.group);
    lh_batch_order_clear(&r.order);
    lh_buf_clear(&r.line);
    return st;
}
