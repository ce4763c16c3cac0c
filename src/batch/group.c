/* group.c - finds what requests share: by the file that they name, or token by token. */
#include "batch/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/minmax.h"
#include "batch/context_file.h"
#include "batch/encode.h"

/* What requests with one policy, and the same before the context, share. */
typedef struct context {
    uint64_t before; /* hash of what stands before the file's text; 0 without a file */
    lh_policy policy;
    lh_tokens ids;   /* of the file's text; or of the first request, whose first `shared` all have */
    int64_t shared;  /* tokens of it that are the context */
    int64_t members; /* also those that are answered */
    int64_t longest; /* whole prompt */
} context;

typedef struct member {
    int64_t i, context;
    int64_t from;  /* tokens of the context's ids that come before those below */
    uint64_t hash; /* of the file's text; 0 without one */
    lh_tokens prompt;
    int64_t run;           /* tokens of the whole prompt and the longest answer */
    int64_t rotates_until; /* lh_config_rotates_until of that: members with other rotary factors share no cache */
} member;

struct lh_batch_group {
    const lh_batch_common *common;
    lh_buf name, text; /* of the file; empty name: none was read */
    uint64_t hash;     /* of that text */
    lh_buf why;        /* it cannot be read; empty: it can */
    context *contexts;
    int64_t context_count;
    member *members; /* that are wanted */
    int64_t member_count, next;
    int64_t caches, more; /* prefills of contexts so far, and `more` of the last one */
};

lh_status lh_batch_group_open(lh_batch_group **out, const lh_batch_common *common)
{
    LH_TRY(lh_calloc(out, 1, sizeof **out));
    (*out)->common = common;
    return LH_OK;
}

void lh_batch_group_close(lh_batch_group *g)
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

/* ---- the file ---- */

/* Once for all requests; a failure is that of each of them. */
static lh_status read_file(lh_batch_group *g, const char *name)
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

/* Of everything but the file's text and the question; never 0. */
static lh_status hash_before(const lh_batch_request *r, uint64_t *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_buf_printf(&text, "%d %s", (int)r->api, r->context_file));
    for (int64_t k = 0; k + 1 < r->messages.n; k++) {
        LH_TRY_DONE(lh_buf_append(&text, r->messages.at[k].role, (int64_t)strlen(r->messages.at[k].role) + 1));
        LH_TRY_DONE(lh_buf_append(&text, r->messages.at[k].content, (int64_t)strlen(r->messages.at[k].content) + 1));
    }
    *out = lh_hash64(text.data, text.bytes) | 1;
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- members ---- */

/* The one with this policy and beginning, or a new one. */
static lh_status find_context(lh_batch_group *g, uint64_t before, const lh_policy *policy, context **out)
{
    for (int64_t k = 0; k < g->context_count; k++) {
        *out = &g->contexts[k];
        if ((*out)->before == before && memcmp(&(*out)->policy, policy, sizeof *policy) == 0) return LH_OK;
    }
    LH_TRY(lh_realloc(&g->contexts, g->context_count + 1, sizeof *g->contexts));
    *out = &g->contexts[g->context_count++];
    memset(*out, 0, sizeof **out);
    (*out)->before = before;
    memcpy(&(*out)->policy, policy, sizeof *policy);
    return LH_OK;
}

static int64_t common_tokens(const lh_tokens *a, const lh_tokens *b, int64_t most)
{
    int64_t n = 0;
    while (n < most && n < a->n && n < b->n && a->ids[n] == b->ids[n]) n++;
    return n;
}

static lh_status push_ids(lh_tokens *out, const int32_t *ids, int64_t n)
{
    for (int64_t k = 0; k < n; k++) LH_TRY(lh_tokens_push(out, ids[k]));
    return LH_OK;
}

/* The question about the file's text. */
static lh_status add_question(lh_batch_group *g, lh_batch_work *w, lh_tokens *prompt, context **out)
{
    uint64_t before = 0;
    LH_TRY(read_file(g, w->request.context_file));
    w->line.context_hash = g->hash;
    LH_TRY(hash_before(&w->request, &before));
    LH_TRY(find_context(g, before, &w->policy, out));
    context *c = *out;
    if (!c->members) c->ids.n = 0; /* of one that could not be encoded */
    LH_TRY(lh_batch_encode_question(g->common, &w->request, &g->text, c->members ? NULL : &c->ids, prompt));
    if (c->ids.n == 0) LH_FAIL(LH_EINPUT, "'context_file': '%s' holds no token", w->request.context_file);
    c->shared = c->ids.n;
    return lh_batch_check_tokens(g->common, &w->request, c->ids.n, prompt);
}

/* What a whole prompt has beside what all have; `prompt` becomes that. */
static lh_status add_prompt(lh_batch_group *g, const lh_batch_work *w, lh_tokens *prompt, context **out)
{
    LH_TRY(lh_batch_encode(g->common, &w->request, prompt));
    LH_TRY(lh_batch_check_tokens(g->common, &w->request, 0, prompt)); /* or it would change what the others share */
    LH_TRY(find_context(g, 0, &w->policy, out));
    context *c = *out;
    if (!c->members) {
        c->ids.n = 0;
        LH_TRY(push_ids(&c->ids, prompt->ids, prompt->n));
        c->shared = prompt->n;
    }
    c->shared = lh_min_i64(common_tokens(&c->ids, prompt, c->shared), lh_max_i64(prompt->n - 1, 0));
    memmove(prompt->ids, prompt->ids + c->shared, (size_t)(prompt->n - c->shared) * sizeof *prompt->ids);
    prompt->n -= c->shared;
    return LH_OK;
}

lh_status lh_batch_group_add(lh_batch_group *g, lh_batch_work *w, int wanted)
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

static void warn_of_little(const context *c)
{
    if (c->members > 1 && !is_shared(c))
        lh_warn("%lld requests with one 'context_id' have %lld tokens in common, less than half of the %lld of the "
                "longest: they are answered without a context",
                (long long)c->members, (long long)c->shared, (long long)c->longest);
}

/* What came after what was shared when it was added is now preceded by what is shared no more. */
static lh_status complete(const lh_batch_group *g, member *m)
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

lh_status lh_batch_group_settle(lh_batch_group *g)
{
    for (int64_t k = 0; k < g->member_count; k++) LH_TRY(complete(g, &g->members[k]));
    if (g->member_count) qsort(g->members, (size_t)g->member_count, sizeof *g->members, by_cache);
    for (int64_t k = 0; k < g->context_count; k++) {
        warn_of_little(&g->contexts[k]);
        g->contexts[k].ids.n = g->contexts[k].shared;
    }
    return LH_OK;
}

/* The member is the first that goes on from the next cache. */
static void begin_cache(lh_batch_group *g, const member *m)
{
    const member *end = g->members + g->member_count;
    g->caches++;
    g->more = 0;
    for (const member *of = m; of < end && shares_cache(m, of); of++)
        g->more = lh_max_i64(g->more, of->run - g->contexts[of->context].shared);
}

int lh_batch_group_next(lh_batch_group *g, lh_batch_member *out)
{
    if (g->next == g->member_count) return 0;
    const member *m = &g->members[g->next++];
    const context *c = &g->contexts[m->context];
    if (m == g->members || !shares_cache(m - 1, m)) begin_cache(g, m);
    *out = (lh_batch_member){.i = m->i, .number = g->caches - 1, .hash = m->hash, .prompt = &m->prompt};
    if (is_shared(c)) {
        out->context = &c->ids;
        out->more = g->more;
    }
    return 1;
}
