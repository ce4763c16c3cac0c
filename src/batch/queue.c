/* queue.c - sorts the lines of an input, finds the context of requests that name the same one, and encodes. */
#include "batch/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"

/* ---- the order of work ---- */

/* More than the bytes of a line. */
static const int64_t CONTEXTS_FIRST = INT64_C(1) << 60;

typedef struct place {
    int64_t i, first; /* first: the first line of its context */
    int64_t bytes;    /* of the longest line of its context without an answer; 0: in the order of the input */
    uint64_t context;
} place;

static int ascending(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_context(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->context != y->context) return x->context < y->context ? -1 : 1;
    return ascending(x->i, y->i);
}

static int by_length(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->bytes != y->bytes) return ascending(y->bytes, x->bytes);
    return x->first != y->first ? ascending(x->first, y->first) : ascending(x->i, y->i);
}

/* The n lines of a context get the same length; returns 0 if all have an answer. */
static int join_context(place *at, int64_t n, const uint8_t *done)
{
    int64_t longest = -1;
    for (int64_t k = 0; k < n; k++)
        if (!done[at[k].i]) longest = lh_max_i64(longest, at[k].bytes);
    for (int64_t k = 0; k < n; k++) {
        at[k].first = at[0].i;
        at[k].bytes = longest;
    }
    return longest >= 0;
}

/* at: lines sorted by context. Drops contexts with all answers; returns the number of lines left. */
static int64_t drop_done(place *at, int64_t n, const uint8_t *done)
{
    int64_t kept = 0;
    for (int64_t from = 0, to; from < n; from = to) {
        to = from + 1;
        while (to < n && at[from].context && at[to].context == at[from].context) to++;
        if (!join_context(at + from, to - from, done)) continue;
        for (int64_t k = from; k < to; k++) at[kept++] = at[k];
    }
    return kept;
}

lh_status lh_batch_order_make(lh_batch_order *out, const lh_batch_input *input, const lh_batch_order_options *options)
{
    lh_status st = LH_OK;
    const int64_t all = lh_batch_input_count(input);
    place *at = NULL;
    LH_TRY_DONE(lh_calloc(&at, all, sizeof *at));
    LH_TRY_DONE(lh_calloc(&out->lines, all, sizeof *out->lines));
    LH_TRY_DONE(lh_calloc(&out->contexts, all, sizeof *out->contexts));
    for (int64_t i = 0; i < all; i++) {
        const lh_batch_line *line = lh_batch_input_line(input, i);
        const int64_t bytes = line->bytes + (line->context ? CONTEXTS_FIRST : 0);
        at[i] = (place){.i = i, .bytes = options->in_order ? 0 : bytes, .context = line->context};
    }
    qsort(at, (size_t)all, sizeof *at, by_context);
    out->n = drop_done(at, all, options->done);
    qsort(at, (size_t)out->n, sizeof *at, by_length);
    for (int64_t k = 0; k < out->n; k++) {
        out->lines[k] = at[k].i;
        out->contexts[k] = at[k].context;
    }
done:
    lh_free(at);
    return st;
}

void lh_batch_order_clear(lh_batch_order *order)
{
    lh_free(order->lines);
    lh_free(order->contexts);
    *order = (lh_batch_order){.lines = NULL};
}

int64_t lh_batch_order_group(const lh_batch_order *order, int64_t at)
{
    const uint64_t context = order->contexts[at];
    int64_t n = 1;
    while (context && at + n < order->n && order->contexts[at + n] == context) n++;
    return n;
}

/* ---- requests that name the same context ---- */

/* Shared by requests with one policy and the same messages before the context. */
typedef struct context {
    uint64_t before; /* hash of the messages before the file's text; 0 without a file */
    lh_policy policy;
    lh_tokens ids;   /* of the file's text, or of the first request's prompt */
    int64_t shared;  /* length of their prefix that is the context */
    int64_t members; /* requests with and without an answer */
    int64_t longest; /* tokens of the longest prompt with its context */
} context;

typedef struct member {
    int64_t i, context;
    int64_t from;  /* number of the context's ids that precede `prompt` */
    uint64_t hash; /* of the file's text; 0 without a file */
    lh_tokens prompt;
    int64_t left_out;      /* tokens that truncation left out of the prompt */
    int64_t run;           /* tokens of context, prompt and longest answer */
    int64_t rotates_until; /* lh_config_rotates_until(run): members with other rotary factors share no cache */
} member;

/* The requests of the input with one context_id and context_file. */
typedef struct group {
    const lh_batch_common *common;
    lh_buf name, text; /* of the file; empty name: no file was read */
    uint64_t hash;     /* of the text */
    lh_buf why;        /* message of a failure to read the file; empty: none */
    context *contexts;
    int64_t context_count;
    member *members; /* requests without an answer */
    int64_t member_count, next;
    int64_t caches, more; /* prefilled contexts so far, and `more` of the last one */
} group;

static lh_status open_group(group **out, const lh_batch_common *common)
{
    LH_TRY(lh_calloc(out, 1, sizeof **out));
    (*out)->common = common;
    return LH_OK;
}

static void close_group(group *g)
{
    if (!g) return;
    for (int64_t k = 0; k < g->context_count; k++) lh_tokens_clear(&g->contexts[k].ids);
    for (int64_t k = 0; k < g->member_count; k++) lh_tokens_clear(&g->members[k].prompt);
    lh_free(g->contexts);
    lh_free(g->members);
    lh_buf_clear(&g->name);
    lh_buf_clear(&g->text);
    lh_buf_clear(&g->why);
    lh_free(g);
}

/* Reads the file once; after a failure all requests fail with its message. */
static lh_status read_file(group *g, const char *name)
{
    if (!g->name.bytes || strcmp(g->name.data, name) != 0) {
        g->name.bytes = g->why.bytes = 0;
        LH_TRY(lh_buf_puts(&g->name, name));
        lh_status st = lh_batch_context_read(&g->text, g->common->context_root, name);
        if (st == LH_ENOMEM) return st;
        if (st != LH_OK)
            LH_TRY(lh_buf_puts(&g->why, lh_error_message()));
        else
            g->hash = lh_batch_context_hash(&g->text);
    }
    if (g->why.bytes) LH_FAIL(LH_EINPUT, "%s", g->why.data);
    return LH_OK;
}

static lh_status put_text(lh_buf *out, const char *text)
{
    return lh_buf_append(out, text ? text : "", text ? (int64_t)strlen(text) + 1 : 1);
}

static lh_status put_arguments(lh_buf *out, const json_t *arguments)
{
    char *text = NULL;
    if (!arguments) return LH_OK;
    lh_status st = lh_json_dump(&text, arguments, JSON_COMPACT | JSON_SORT_KEYS);
    if (st == LH_OK) st = put_text(out, text);
    lh_free(text);
    return st;
}

/* Hash of API, file name, variables of the template and messages but the last one; never 0. */
static lh_status hash_before(const lh_batch_request *r, uint64_t *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_buf_printf(&text, "%d %s", (int)r->api, r->context_file));
    for (int64_t k = 0; k + 1 < r->messages.n; k++) {
        const lh_message *m = &r->messages.at[k];
        LH_TRY_DONE(put_text(&text, m->role));
        LH_TRY_DONE(put_text(&text, m->content));
        for (int i = 0; i < LH_MESSAGE_MEMBERS; i++) LH_TRY_DONE(put_text(&text, m->members[i]));
    }
    LH_TRY_DONE(put_arguments(&text, r->arguments));
    *out = lh_hash64(text.data, text.bytes) | 1;
done:
    lh_buf_clear(&text);
    return st;
}

/* The context with this policy and these messages before it, which may be new. */
static lh_status find_context(group *g, uint64_t before, const lh_policy *policy, context **out)
{
    for (int64_t k = 0; k < g->context_count; k++) {
        *out = &g->contexts[k];
        if ((*out)->before == before && lh_policy_same(&(*out)->policy, policy)) return LH_OK;
    }
    LH_TRY(lh_realloc(&g->contexts, g->context_count + 1, sizeof *g->contexts));
    *out = &g->contexts[g->context_count++];
    memset(*out, 0, sizeof **out);
    (*out)->before = before;
    memcpy(&(*out)->policy, policy, sizeof *policy);
    return LH_OK;
}

static int64_t common_prefix(const lh_tokens *a, const lh_tokens *b, int64_t max)
{
    int64_t n = 0;
    while (n < max && n < a->n && n < b->n && a->ids[n] == b->ids[n]) n++;
    return n;
}

static lh_status push_ids(lh_tokens *out, const int32_t *ids, int64_t n)
{
    for (int64_t k = 0; k < n; k++) LH_TRY(lh_tokens_push(out, ids[k]));
    return LH_OK;
}

/* *prompt: the question about the file's text. */
static lh_status add_question(group *g, lh_batch_work *w, lh_tokens *prompt, context **out)
{
    uint64_t before = 0;
    LH_TRY(read_file(g, w->request.context_file));
    w->line.context_hash = g->hash;
    LH_TRY(hash_before(&w->request, &before));
    LH_TRY(find_context(g, before, &w->policy, out));
    context *c = *out;
    if (!c->members) c->ids.n = 0; /* of a request that could not be encoded */
    LH_TRY(lh_batch_encode_question(g->common, &w->request, &g->text, c->members ? NULL : &c->ids, prompt));
    if (c->ids.n == 0) LH_FAIL(LH_EINPUT, "'context_file': '%s' holds no token", w->request.context_file);
    c->shared = c->ids.n;
    return lh_batch_check_tokens(g->common, &w->request, c->ids.n, prompt);
}

/* *prompt: the prompt after the common prefix of all requests so far. */
static lh_status add_prompt(group *g, lh_batch_work *w, lh_tokens *prompt, context **out)
{
    LH_TRY(lh_batch_encode(g->common, &w->request, prompt, &w->left_out));
    /* a refused prompt must not shorten the context of the other requests */
    LH_TRY(lh_batch_check_tokens(g->common, &w->request, 0, prompt));
    LH_TRY(find_context(g, 0, &w->policy, out));
    context *c = *out;
    if (!c->members) {
        c->ids.n = 0;
        LH_TRY(push_ids(&c->ids, prompt->ids, prompt->n));
        c->shared = prompt->n;
    }
    c->shared = lh_min_i64(common_prefix(&c->ids, prompt, c->shared), lh_max_i64(prompt->n - 1, 0));
    memmove(prompt->ids, prompt->ids + c->shared, (size_t)(prompt->n - c->shared) * sizeof *prompt->ids);
    prompt->n -= c->shared;
    return LH_OK;
}

/* The work is borrowed for the call; its line gets the hash of the file's text. wanted: true if the request has no
 * answer. LH_EINPUT, LH_EUSAGE: it cannot be answered, and does not belong to the group. */
static lh_status add_member(group *g, lh_batch_work *w, int wanted)
{
    lh_status st = LH_OK;
    context *c = NULL;
    lh_tokens prompt = {0};
    int64_t run;
    LH_TRY_DONE(w->request.context_file ? add_question(g, w, &prompt, &c) : add_prompt(g, w, &prompt, &c));
    c->members++;
    c->longest = lh_max_i64(c->longest, c->shared + prompt.n);
    if (!wanted) goto done;
    LH_TRY_DONE(lh_realloc(&g->members, g->member_count + 1, sizeof *g->members));
    run = c->shared + prompt.n + w->request.max_new;
    g->members[g->member_count++] = (member){.i = w->i,
                                             .context = c - g->contexts,
                                             .from = c->shared,
                                             .prompt = prompt,
                                             .hash = w->line.context_hash,
                                             .left_out = w->left_out,
                                             .run = run,
                                             .rotates_until = lh_config_rotates_until(g->common->config, run)};
    prompt = (lh_tokens){0};
done:
    lh_tokens_clear(&prompt);
    return st;
}

static int shares_cache(const member *x, const member *y)
{
    return x->context == y->context && x->rotates_until == y->rotates_until;
}

static int by_cache(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->context != y->context) return x->context < y->context ? -1 : 1;
    if (x->rotates_until != y->rotates_until) return x->rotates_until < y->rotates_until ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

/* True if the context gets a cache. A request alone is answered as it stands; so are prompts that begin with the same
 * few tokens: what follows a context is not evicted, and a cache takes time and memory. */
static int is_shared(const context *c)
{
    return c->before != 0 || (c->members > 1 && 2 * c->shared >= c->longest);
}

static void warn_of_short_context(const context *c)
{
    if (c->members > 1 && !is_shared(c))
        lh_warn("%lld requests with one 'context_id' have %lld tokens in common, less than half of the %lld of the "
                "longest: they are answered without a context",
                (long long)c->members, (long long)c->shared, (long long)c->longest);
}

/* The context may have become shorter since the member was added: the ids that it lost precede the prompt now. */
static lh_status complete_prompt(const group *g, member *m)
{
    const context *c = &g->contexts[m->context];
    const int64_t shared = is_shared(c) ? c->shared : 0;
    lh_tokens whole = {0};
    lh_status st = push_ids(&whole, c->ids.ids + shared, m->from - shared);
    if (st == LH_OK) st = push_ids(&whole, m->prompt.ids, m->prompt.n);
    lh_tokens_clear(&m->prompt);
    m->prompt = whole;
    return st;
}

/* After all requests were added. */
static lh_status finish_group(group *g)
{
    for (int64_t k = 0; k < g->member_count; k++) LH_TRY(complete_prompt(g, &g->members[k]));
    if (g->member_count) qsort(g->members, (size_t)g->member_count, sizeof *g->members, by_cache);
    for (int64_t k = 0; k < g->context_count; k++) {
        warn_of_short_context(&g->contexts[k]);
        g->contexts[k].ids.n = g->contexts[k].shared;
    }
    return LH_OK;
}

/* The member is the first one of the next cache. */
static void begin_cache(group *g, const member *m)
{
    const member *end = g->members + g->member_count;
    g->caches++;
    g->more = 0;
    for (const member *other = m; other < end && shares_cache(m, other); other++)
        g->more = lh_max_i64(g->more, other->run - g->contexts[other->context].shared);
}

/* A request without an answer; the requests of a cache follow each other. */
typedef struct group_request {
    int64_t i;                /* of the line in the input */
    const lh_tokens *context; /* borrowed until the group is closed; NULL: it shares none */
    int64_t more;             /* of lh_context */
    int64_t cache;            /* number of the context's cache within the group */
    uint64_t hash;            /* context_hash of its line */
    int64_t left_out;         /* of lh_batch_work */
    const lh_tokens *prompt;  /* after the context, borrowed */
} group_request;

/* 0: there is no further request. */
static int next_member(group *g, group_request *out)
{
    if (g->next == g->member_count) return 0;
    const member *m = &g->members[g->next++];
    const context *c = &g->contexts[m->context];
    if (m == g->members || !shares_cache(m - 1, m)) begin_cache(g, m);
    *out = (group_request){
        .i = m->i, .cache = g->caches - 1, .hash = m->hash, .left_out = m->left_out, .prompt = &m->prompt};
    if (is_shared(c)) {
        out->context = &c->ids;
        out->more = g->more;
    }
    return 1;
}

/* ---- the queue ---- */

struct lh_batch_queue {
    lh_batch_queue_options options;
    lh_batch_order order;
    int64_t next;     /* in the order */
    group *group;     /* the next requests are in it; NULL: none */
    int64_t cache;    /* the last one of the group; -1: none yet */
    int64_t contexts; /* number of contexts so far */
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
        lh_batch_order_make(&q->order, o->input, &(lh_batch_order_options){.done = done, .in_order = o->in_order});
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
    close_group(q->group);
    lh_batch_order_clear(&q->order);
    lh_free(q);
}

/* True for a failure of a single request. */
static int is_refusal(lh_status st)
{
    return st == LH_EINPUT || st == LH_EUSAGE;
}

static lh_status drop_work(lh_batch_queue *q, lh_batch_work *w, lh_status st)
{
    const lh_batch_queue_owner *owner = &q->options.owner;
    if (w && is_refusal(st)) {
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

/* A question is never answered without its document. */
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
    if (st == LH_OK) st = lh_batch_encode(q->options.common, &w->request, &w->prompt, &w->left_out);
    if (st == LH_OK) st = lh_batch_check_tokens(q->options.common, &w->request, 0, &w->prompt);
    if (st != LH_OK) return drop_work(q, w, st);
    out->work = w;
    return LH_OK;
}

static lh_status read_member(lh_batch_queue *q, const group_request *m, lh_batch_upcoming *out)
{
    lh_batch_work *w = NULL;
    lh_status st = open_work(q, m->i, m->context != NULL, &w);
    if (st == LH_OK) w->line.context_hash = m->hash;
    if (st == LH_OK) w->left_out = m->left_out;
    for (int64_t k = 0; st == LH_OK && k < m->prompt->n; k++) st = lh_tokens_push(&w->prompt, m->prompt->ids[k]);
    if (st != LH_OK) return drop_work(q, w, st);
    if (m->context && m->cache != q->cache) {
        q->cache = m->cache;
        q->contexts++;
    }
    *out = (lh_batch_upcoming){.work = w, .ids = m->context, .more = m->more};
    if (m->context) out->context = q->contexts;
    return LH_OK;
}

/* Reads n lines of a context and finds the context; requests that cannot be answered are refused. */
static lh_status read_group(lh_batch_queue *q, int64_t n)
{
    const lh_batch_queue_options *o = &q->options;
    LH_TRY(open_group(&q->group, o->common));
    q->cache = -1;
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = q->order.lines[q->next + k];
        const int wanted = !o->owner.has(o->owner.self, i);
        lh_batch_work *w = NULL;
        LH_TRY(lh_batch_check_interrupt());
        LH_TRY(o->owner.tick(o->owner.self));
        lh_status st = open_work(q, i, 1, &w);
        if (st == LH_OK) st = add_member(q->group, w, wanted);
        if (is_refusal(st) && !wanted) {
            lh_error_clear(); /* it has a line in the output */
            st = LH_OK;
        }
        LH_TRY(drop_work(q, w, st));
    }
    q->next += n;
    return finish_group(q->group);
}

/* Reads the next line or group. out->work NULL: it was a group, or a request that was refused. */
static lh_status advance(lh_batch_queue *q, lh_batch_upcoming *out)
{
    const int64_t i = q->order.lines[q->next];
    close_group(q->group);
    q->group = NULL;
    if (q->order.contexts[q->next]) return read_group(q, lh_batch_order_group(&q->order, q->next));
    q->next++;
    return read_alone(q, i, out);
}

lh_status lh_batch_queue_next(lh_batch_queue *q, lh_batch_upcoming *out)
{
    group_request request;
    *out = (lh_batch_upcoming){.work = NULL};
    while (!out->work) {
        LH_TRY(lh_batch_check_interrupt());
        if (q->group && next_member(q->group, &request)) {
            LH_TRY(read_member(q, &request, out));
            continue;
        }
        if (q->next == q->order.n) return LH_OK;
        LH_TRY(advance(q, out));
    }
    return lh_batch_encode_ends(q->options.common, &out->work->request, &out->work->ends);
}
