/* check.c - goes through a queue without answering. */
#include "batch/check.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "batch/queue.h"

enum { NAMED = 10, SHOWN = 60 };

typedef struct walk {
    lh_batch_check *out;
    lh_batch_queue *queue;
    int64_t seen; /* requests, those that are refused among them */
    int64_t cap;
    int64_t context, context_tokens; /* number of the last context, and its length */
    lh_progress progress;
} walk;

static int has_none(void *self, int64_t i)
{
    (void)self;
    (void)i;
    return 0;
}

static lh_status refuse(void *self, const lh_batch_work *w, lh_status why)
{
    walk *c = self;
    lh_buf *out = &c->out->refusals;
    (void)why;
    lh_progress_update(&c->progress, ++c->seen);
    if (c->out->refused++ >= NAMED) return LH_OK;
    LH_TRY(lh_buf_printf(out, "line %lld", (long long)w->line.number));
    if (w->line.custom_id) LH_TRY(lh_buf_printf(out, " ('%.*s')", SHOWN, w->line.custom_id));
    return lh_buf_printf(out, ": %s\n", lh_error_message());
}

static lh_status tick(void *self)
{
    (void)self;
    return LH_OK;
}

static lh_status add_read(walk *c, int64_t tokens)
{
    lh_batch_check *out = c->out;
    if (out->read_count == c->cap) {
        c->cap = lh_max_i64(1024, 2 * c->cap);
        LH_TRY(lh_realloc(&out->reads, c->cap, sizeof *out->reads));
    }
    out->reads[out->read_count++] = tokens;
    out->read_tokens += tokens;
    return LH_OK;
}

static lh_status add_request(walk *c, const lh_batch_upcoming *next)
{
    lh_batch_check *out = c->out;
    const lh_batch_work *w = next->work;
    if (next->context && next->context != c->context) {
        c->context = next->context;
        c->context_tokens = next->ids->n;
        out->contexts++;
        LH_TRY(add_read(c, c->context_tokens));
    }
    const int64_t whole = w->prompt.n + (next->context ? c->context_tokens : 0);
    if (whole + w->request.max_new > out->longest + out->longest_new) {
        out->longest_line = w->line.number;
        out->longest = whole;
        out->longest_new = w->request.max_new;
    }
    out->questions += next->context != 0;
    out->new_tokens += w->request.max_new;
    lh_progress_update(&c->progress, ++c->seen);
    return add_read(c, w->prompt.n);
}

static lh_status go_through(walk *c)
{
    lh_status st = LH_OK;
    for (int more = 1; more && st == LH_OK;) {
        lh_batch_upcoming next = {.work = NULL};
        LH_TRY(lh_batch_queue_next(c->queue, &next));
        more = next.work != NULL;
        if (more) st = add_request(c, &next);
        lh_batch_work_close(next.work);
    }
    return st;
}

lh_status lh_batch_check_make(lh_batch_check *out, const lh_batch_common *common, const lh_batch_input *input)
{
    lh_status st = LH_OK;
    walk c = {.out = out};
    *out = (lh_batch_check){.requests = lh_batch_input_count(input)};
    lh_progress_init(&c.progress, "checking", "requests", out->requests);
    LH_TRY_DONE(lh_batch_queue_open(
        &c.queue, &(lh_batch_queue_options){.common = common,
                                            .input = input,
                                            .owner = {.self = &c, .has = has_none, .refuse = refuse, .tick = tick},
                                            .in_order = 1}));
    LH_TRY_DONE(go_through(&c));
    LH_TRY_DONE(lh_batch_input_unchanged(input));
done:
    lh_progress_clear(&c.progress);
    lh_batch_queue_close(c.queue);
    return st;
}

void lh_batch_check_clear(lh_batch_check *check)
{
    lh_free(check->reads);
    lh_buf_clear(&check->refusals);
    *check = (lh_batch_check){.requests = 0};
}
