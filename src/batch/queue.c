/* queue.c - lines in their order, alone or as groups. */
#include "batch/queue.h"

#include "base/interrupt.h"
#include "base/mem.h"
#include "batch/encode.h"
#include "batch/group.h"
#include "batch/order.h"

struct lh_batch_queue {
    lh_batch_queue_options options;
    lh_batch_order order;
    int64_t next;          /* of the order */
    lh_batch_group *group; /* whose requests come next; NULL: none */
    int64_t in_group;      /* number of the last context within it; -1: none yet */
    int64_t contexts;      /* so far */
};

lh_status lh_batch_check_interrupt(void)
{
    if (lh_interrupt_asked()) LH_FAIL(LH_EINTERRUPTED, "%s", LH_BATCH_INTERRUPTED_TEXT);
    return LH_OK;
}

static lh_status make_order(lh_batch_queue *q)
{
    const lh_batch_queue_options *o = &q->options;
    const int64_t all = lh_batch_input_count(o->input);
    uint8_t *done = NULL;
    LH_TRY(lh_calloc(&done, all, 1));
    for (int64_t i = 0; i < all; i++) done[i] = (uint8_t)o->owner.has(o->owner.self, i);
    lh_status st =
        lh_batch_order_make(&q->order, o->input, &(lh_batch_order_options){.done = done, .as_they_stand = o->in_order});
    lh_free(done);
    return st;
}

lh_status lh_batch_queue_open(lh_batch_queue **out, const lh_batch_queue_options *options)
{
    lh_status st = LH_OK;
    lh_batch_queue *q = NULL;
    LH_TRY_DONE(lh_calloc(&q, 1, sizeof *q));
    q->options = *options;
    LH_TRY_DONE(make_order(q));
    *out = q;
    q = NULL;
done:
    lh_batch_queue_close(q);
    return st;
}

void lh_batch_queue_close(lh_batch_queue *q)
{
    if (!q) return;
    lh_batch_group_close(q->group);
    lh_batch_order_clear(&q->order);
    lh_free(q);
}

static int is_of_request(lh_status st)
{
    return st == LH_EINPUT || st == LH_EUSAGE;
}

static lh_status drop_work(lh_batch_queue *q, lh_batch_work *w, lh_status st)
{
    const lh_batch_queue_owner *owner = &q->options.owner;
    if (w && is_of_request(st)) {
        st = owner->refuse(owner->self, w, st);
        if (st == LH_OK) lh_error_clear();
    }
    lh_batch_work_close(w);
    return st;
}

static lh_status open_work(const lh_batch_queue *q, int64_t i, int shares_context, lh_batch_work **out)
{
    const lh_batch_queue_options *o = &q->options;
    return lh_batch_work_open(out, o->common, i, lh_batch_input_line(o->input, i), shares_context);
}

/* Never without the document that it asks about. */
static lh_status check_alone(const lh_batch_work *w)
{
    if (w->request.context_id || w->request.context_file)
        LH_FAIL(LH_EINTERNAL, "the context of line %lld was not seen", (long long)w->line.number);
    return LH_OK;
}

static lh_status read_alone(lh_batch_queue *q, int64_t i, lh_batch_upcoming *out)
{
    lh_batch_work *w = NULL;
    lh_status st = open_work(q, i, 0, &w);
    if (st == LH_OK) st = check_alone(w);
    if (st == LH_OK) st = lh_batch_encode(q->options.common, &w->request, &w->prompt);
    if (st == LH_OK) st = lh_batch_check_tokens(q->options.common, &w->request, 0, &w->prompt);
    if (st != LH_OK) return drop_work(q, w, st);
    out->work = w;
    return LH_OK;
}

static lh_status read_member(lh_batch_queue *q, const lh_batch_member *m, lh_batch_upcoming *out)
{
    lh_batch_work *w = NULL;
    lh_status st = open_work(q, m->i, m->context != NULL, &w);
    if (st == LH_OK) w->line.context_hash = m->hash;
    for (int64_t k = 0; st == LH_OK && k < m->prompt->n; k++) st = lh_tokens_push(&w->prompt, m->prompt->ids[k]);
    if (st != LH_OK) return drop_work(q, w, st);
    if (m->context && m->number != q->in_group) {
        q->in_group = m->number;
        q->contexts++;
    }
    *out = (lh_batch_upcoming){.work = w, .ids = m->context, .more = m->more};
    if (m->context) out->context = q->contexts;
    return LH_OK;
}

/* Lines of one context: what they share. Those that cannot be answered fail. */
static lh_status open_group(lh_batch_queue *q, int64_t n)
{
    const lh_batch_queue_options *o = &q->options;
    LH_TRY(lh_batch_group_open(&q->group, o->common));
    q->in_group = -1;
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = q->order.lines[q->next + k];
        const int wanted = !o->owner.has(o->owner.self, i);
        lh_batch_work *w = NULL;
        LH_TRY(lh_batch_check_interrupt());
        LH_TRY(o->owner.tick(o->owner.self));
        lh_status st = open_work(q, i, 1, &w);
        if (st == LH_OK) st = lh_batch_group_add(q->group, w, wanted);
        if (is_of_request(st) && !wanted) {
            lh_error_clear(); /* it has its line */
            st = LH_OK;
        }
        LH_TRY(drop_work(q, w, st));
    }
    q->next += n;
    return lh_batch_group_settle(q->group);
}

/* One line or group further; out->work NULL: it gave nothing to answer. */
static lh_status advance(lh_batch_queue *q, lh_batch_upcoming *out)
{
    const int64_t i = q->order.lines[q->next];
    lh_batch_group_close(q->group);
    q->group = NULL;
    if (q->order.contexts[q->next]) return open_group(q, lh_batch_order_turn(&q->order, q->next));
    q->next++;
    return read_alone(q, i, out);
}

lh_status lh_batch_queue_next(lh_batch_queue *q, lh_batch_upcoming *out)
{
    lh_batch_member member;
    *out = (lh_batch_upcoming){.work = NULL};
    while (!out->work) {
        LH_TRY(lh_batch_check_interrupt());
        if (q->group && lh_batch_group_next(q->group, &member)) {
            LH_TRY(read_member(q, &member, out));
            continue;
        }
        if (q->next == q->order.n) return LH_OK;
        LH_TRY(advance(q, out));
    }
    return lh_batch_encode_ends(q->options.common, &out->work->request, &out->work->ends);
}
