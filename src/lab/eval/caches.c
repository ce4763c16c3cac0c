/* caches.c - runs one prompt with many policies: a prefill fills the caches of all policies that evict at its end. */
#include "lab/eval/caches.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "kv/figures.h"
#include "lab/eval/given_sets.h"
#include "lab/eval/keep_files.h"

static lh_status show_step(void *self, int64_t fed)
{
    lh_work_show(self, LH_WORK_ANSWER, (double)fed);
    return LH_OK;
}

lh_status lh_eval_generate(lh_session *session, const lh_eval_answer *how, lh_tokens *out)
{
    LH_TRY(lh_session_decode(
        session,
        &(lh_decode){
            .sampling = lh_greedy, .max_new = how->max_new, .ends = how->ends, .self = how->work, .step = show_step},
        out, NULL));
    lh_work_advance(how->work, LH_WORK_ANSWER, (double)how->max_new);
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
    lh_keep_sets *sets; /* in place of a policy's choice, if `given` is not NULL */
    const lh_keep_sets **given;
} batch;

/* Of `max` policies. */
static lh_status open_batch(batch *b, int64_t max)
{
    LH_TRY(lh_calloc(&b->plans, max, sizeof *b->plans));
    LH_TRY(lh_calloc(&b->numbers, max, sizeof *b->numbers));
    LH_TRY(lh_calloc(&b->sets, max, sizeof *b->sets));
    LH_TRY(lh_calloc(&b->given, max, sizeof *b->given));
    return LH_OK;
}

static void drop_sets(batch *b)
{
    for (int64_t i = 0; b->sets && i < b->n; i++) lh_keep_sets_clear(&b->sets[i]);
}

static void close_batch(batch *b)
{
    drop_sets(b);
    lh_free(b->plans);
    lh_free(b->numbers);
    lh_free(b->sets);
    lh_free((void *)b->given);
}

/* Collective. Keep sets of the batch that are given, for this prompt. */
static lh_status read_given(batch *b, lh_engine *engine, const lh_caches_request *r)
{
    const lh_given_prompt prompt = {r->name, r->prompt};
    for (int64_t i = 0; i < b->n; i++) {
        const lh_policy_choice *choice = &r->setup->policies->at[b->numbers[i]];
        b->given[i] = choice->given ? &b->sets[i] : NULL;
        if (choice->given) LH_TRY(lh_given_sets_read(&b->sets[i], engine, choice, &prompt));
    }
    return LH_OK;
}

/* A prefill that is going on. */
typedef struct follower {
    const lh_caches_request *request;
    double cost;
} follower;

static lh_status follow_prefill(void *self, int64_t done, int64_t total)
{
    const follower *f = self;
    lh_work_show(f->request->work, LH_WORK_PREFILL, (double)done / (double)total * f->cost);
    return LH_OK;
}

/* Collective. What the cache keeps: its figures, and its keep sets where they are wanted. */
static lh_status look_at(const lh_caches_request *r, lh_cache_at *at)
{
    const lh_engine_view *engine = lh_engine_get(lh_session_engine(at->session));
    const lh_eval_setup *setup = r->setup;
    const lh_policy_choice *choice = &setup->policies->at[at->policy];
    lh_kv_stats stats = {0};
    LH_TRY(lh_comm_agree(engine->comm, lh_kv_stats_of(lh_session_kv(at->session), &stats)));
    LH_TRY(lh_comm_allreduce(engine->comm, &stats.entries_counted, 1, LH_I64, LH_SUM));
    at->figures = (lh_eval_figures){.entries_kept = stats.entries_counted,
                                    .kv_bytes = stats.entries_counted * 2 * engine->config->head_dim *
                                                lh_dtype_bytes(engine->kv_dtype),
                                    .filled = !choice->given && lh_policy_is_filled(&choice->policy, r->prompt->n),
                                    .evict_s = setup->timed ? stats.evict_s : (double)NAN};
    if (!setup->keep_sets) return LH_OK;
    const lh_keep_file file = {setup->keep_sets, r->name, setup->policies, at->policy, setup->run};
    lh_status st = lh_keep_file_write(&file, at->session);
    if (st != LH_EWRITE) return st;
    if (setup->unwritten->st == LH_OK) lh_failures_add(setup->unwritten, st); /* the first message says enough */
    lh_error_clear();
    return LH_OK; /* the answers are worth more */
}

void lh_eval_finish_prompt(const lh_eval_setup *setup, lh_eval_work *work, lh_table *const *tables)
{
    if (setup->unwritten->st == LH_OK) lh_resume_add(setup->resume, tables);
    lh_work_finish_prompt(work);
}

lh_status lh_eval_check_tokenizer(const lh_engine *engine)
{
    if (!lh_engine_tokenizer(engine))
        LH_FAIL(LH_EUSAGE, "the model has no tokenizer, so it cannot read text: import it from a folder that has one");
    return LH_OK;
}

lh_status lh_eval_check_lengths(const lh_eval_setup *setup, const lh_config *config, const int64_t *lengths, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (lengths[i] + setup->max_new > config->max_positions)
            LH_FAIL(LH_EUSAGE,
                    "%lld tokens of prompt and %lld of the answer are longer than the %lld positions of the model: "
                    "reduce '--length' or '--max-new'",
                    (long long)lengths[i], (long long)setup->max_new, (long long)config->max_positions);
        for (int64_t p = 0; p < setup->policies->n; p++)
            LH_TRY(lh_policy_check(&setup->policies->at[p].policy, lengths[i]));
    }
    return LH_OK;
}

double lh_eval_seconds(const lh_eval_setup *setup, double start_s)
{
    return setup->timed ? lh_clock_s() - start_s : (double)NAN;
}

static lh_status run_batch(lh_engine *engine, const lh_caches_request *r, batch *b, lh_cache_visit visit, void *self)
{
    lh_status st = LH_OK;
    lh_session *session = NULL;
    follower f = {r, lh_prefill_cost(lh_engine_get(engine)->config, r->prompt->n)};
    lh_forward_progress progress = {&f, follow_prefill};
    LH_TRY_DONE(read_given(b, engine, r));
    LH_TRY_DONE(lh_session_open(&session, engine,
                                &(lh_session_options){.policy = &b->plans[0],
                                                      .given = b->given,
                                                      .others = b->n > 1 ? b->plans + 1 : NULL,
                                                      .other_count = b->n - 1,
                                                      .profiles = &r->setup->policies->profiles,
                                                      .prompt = r->prompt->n,
                                                      .more = r->more,
                                                      .fork_more = r->more,
                                                      .length = r->prompt->n + r->more,
                                                      .rows = r->rows,
                                                      .block = r->block,
                                                      .seed = r->seed}));
    LH_TRY_DONE(lh_session_prefill(session, r->prompt->ids, r->prompt->n, &progress));
    lh_work_advance(r->work, LH_WORK_PREFILL, f.cost);
    for (int64_t i = 0; i < b->n; i++) {
        lh_cache_at at = {b->numbers[i], session, i, {0}};
        LH_TRY_DONE(lh_cache_restart(&at));
        LH_TRY_DONE(look_at(r, &at));
        LH_TRY_DONE(visit(self, &at));
    }
done:
    lh_session_close(session);
    drop_sets(b);
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

static int64_t count_prefills(const lh_eval_setup *setup)
{
    const lh_policy_list *policies = setup->policies;
    const int64_t together = setup->together ? setup->together : policies->n;
    int64_t sharing = 0;
    for (int64_t i = 0; i < policies->n; i++) sharing += shares_prefill(policies, i);
    return (sharing + together - 1) / together + policies->n - sharing;
}

void lh_caches_expect(lh_eval_work *work, const lh_eval_setup *setup, const lh_config *config,
                      const lh_caches_plan *plan)
{
    work->pace[LH_WORK_PREFILL].total += (double)count_prefills(setup) * lh_prefill_cost(config, plan->tokens);
    work->pace[LH_WORK_ANSWER].total += (double)(setup->policies->n * plan->answer);
}

static void add_policy(batch *b, const lh_caches_request *r, int64_t i)
{
    b->plans[b->n] = r->setup->policies->at[i].policy;
    lh_policy_ask(&b->plans[b->n], r->question);
    b->numbers[b->n++] = i;
}

lh_status lh_caches_each(lh_engine *engine, const lh_caches_request *r, lh_cache_visit visit, void *self)
{
    lh_status st = LH_OK;
    const lh_policy_list *policies = r->setup->policies;
    const int64_t most = r->setup->together ? r->setup->together : policies->n;
    batch b = {0};
    st = open_batch(&b, policies->n);
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
    close_batch(&b);
    return st;
}
