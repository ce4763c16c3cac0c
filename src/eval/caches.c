/* caches.c - runs one prompt with many policies: a prefill fills the caches of all policies that evict at its end. */
#include "eval/caches.h"

void lh_eval_advance(lh_eval_work *work, int64_t tokens)
{
    work->done += tokens;
    if (work->progress.advance) work->progress.advance(work->progress.self, work->done, work->total);
}

void lh_eval_show_part(const lh_eval_work *work, int64_t tokens)
{
    if (work->progress.advance) work->progress.advance(work->progress.self, work->done + tokens, work->total);
}

lh_status lh_eval_share(lh_comm *comm, lh_tokens *ids)
{
    lh_status st = LH_OK;
    const int root = lh_comm_rank(comm) == 0;
    int64_t n = ids->n;
    LH_TRY(lh_comm_bcast(comm, 0, &n, sizeof n));
    if (!root) st = lh_realloc(&ids->ids, n, sizeof *ids->ids);
    LH_TRY(lh_comm_agree(comm, st));
    if (!root) ids->cap = n;
    ids->n = n;
    if (n) LH_TRY(lh_comm_bcast(comm, 0, ids->ids, n * (int64_t)sizeof *ids->ids));
    return st;
}

static lh_status show_step(void *self, int64_t fed)
{
    lh_eval_show_part(self, fed);
    return LH_OK;
}

lh_status lh_eval_generate(lh_session *session, const lh_eval_answer *how, lh_tokens *out)
{
    LH_TRY(lh_session_decode(
        session,
        &(lh_decode){
            .sampling = lh_greedy, .max_new = how->max_new, .ends = how->ends, .self = how->work, .step = show_step},
        out, NULL));
    lh_eval_advance(how->work, how->max_new);
    return LH_OK;
}

lh_status lh_eval_text(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_detokenizer d = {.tok = tok};
    LH_TRY_DONE(lh_buf_puts(out, ""));
    for (int64_t i = 0; i < n; i++) LH_TRY_DONE(lh_detokenizer_push(&d, ids[i], out));
    LH_TRY_DONE(lh_detokenizer_finish(&d, out));
done:
    lh_detokenizer_clear(&d);
    return st;
}

/* ---- one prefill ---- */

/* The policies whose caches one prefill fills. */
typedef struct batch {
    lh_policy *plans;
    int64_t *numbers; /* indices in the list */
    int64_t n;
} batch;

static lh_status follow_prefill(void *self, int64_t done, int64_t total)
{
    const lh_caches_request *r = self;
    lh_eval_show_part(r->work, (int64_t)((double)done / (double)total * (double)r->prompt->n));
    return LH_OK;
}

static lh_status run_batch(lh_engine *engine, const lh_caches_request *r, const batch *b, lh_cache_visit visit,
                           void *self)
{
    lh_status st = LH_OK;
    lh_session *session = NULL;
    lh_forward_progress progress = {(void *)(uintptr_t)r, follow_prefill};
    LH_TRY_DONE(lh_session_open(&session, engine,
                                &(lh_session_options){.policy = &b->plans[0],
                                                      .others = b->n > 1 ? b->plans + 1 : NULL,
                                                      .other_count = b->n - 1,
                                                      .profiles = &r->policies->profiles,
                                                      .prompt = r->prompt->n,
                                                      .more = r->more,
                                                      .length = r->prompt->n + r->more,
                                                      .block = r->block,
                                                      .restores = 1,
                                                      .seed = r->seed}));
    LH_TRY_DONE(lh_session_prefill(session, r->prompt->ids, r->prompt->n, &progress));
    lh_eval_advance(r->work, r->prompt->n);
    for (int64_t i = 0; i < b->n; i++) {
        lh_cache_at at = {b->numbers[i], session, i};
        LH_TRY_DONE(lh_cache_restart(&at));
        LH_TRY_DONE(visit(self, &at));
    }
done:
    lh_session_close(session);
    return st;
}

lh_status lh_cache_restart(const lh_cache_at *at)
{
    return lh_session_switch(at->session, at->cache);
}

/* ---- all of them ---- */

static int shares_prefill(const lh_policy_list *policies, int64_t i)
{
    return policies->at[i].policy.block == 0;
}

int64_t lh_caches_prefills(const lh_policy_list *policies, int64_t together)
{
    int64_t sharing = 0;
    for (int64_t i = 0; i < policies->n; i++) sharing += shares_prefill(policies, i);
    if (together == 0) together = policies->n;
    return (sharing + together - 1) / together + policies->n - sharing;
}

static void add_policy(batch *b, const lh_caches_request *r, int64_t i)
{
    b->plans[b->n] = r->policies->at[i].policy;
    lh_policy_ask(&b->plans[b->n], r->question);
    b->numbers[b->n++] = i;
}

lh_status lh_caches_each(lh_engine *engine, const lh_caches_request *r, lh_cache_visit visit, void *self)
{
    lh_status st = LH_OK;
    const lh_policy_list *policies = r->policies;
    const int64_t most = r->together ? r->together : policies->n;
    batch b = {0};
    st = lh_calloc(&b.plans, policies->n, sizeof *b.plans);
    if (st == LH_OK) st = lh_calloc(&b.numbers, policies->n, sizeof *b.numbers);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
    for (int64_t i = 0; i < policies->n; i++) {
        if (shares_prefill(policies, i)) add_policy(&b, r, i);
        if (b.n == 0 || (b.n < most && i + 1 < policies->n)) continue;
        LH_TRY_DONE(run_batch(engine, r, &b, visit, self));
        b.n = 0;
    }
    for (int64_t i = 0; i < policies->n; i++) {
        if (shares_prefill(policies, i)) continue;
        b.n = 0;
        add_policy(&b, r, i);
        LH_TRY_DONE(run_batch(engine, r, &b, visit, self));
    }
done:
    lh_free(b.plans);
    lh_free(b.numbers);
    return st;
}
