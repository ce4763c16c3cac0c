/* run_policies.c - runs one prompt with many policies: a prefill fills the caches of all policies that evict at its
 * end. */
#include "lab/eval/run_policies.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "kv/figures.h"
#include "lab/eval/keep_files.h"
#include "model/sampler.h"

/* ---- progress ---- */

double lh_prefill_cost(const lh_config *c, int64_t tokens)
{
    const double n = (double)tokens, width = (double)(c->heads * c->head_dim);
    const double linear = (double)c->hidden * (2 * width + 2 * (double)(c->kv_heads * c->head_dim) +
                                               3 * (double)lh_config_mlp_channels_passed(c));
    return n * (linear + n * width); /* a token attends to n / 2 keys, twice: queries by keys, weights by values */
}

void lh_work_begin(lh_eval_work *work)
{
    work->since_s = lh_clock_s();
}

static void report_work(const lh_eval_work *work)
{
    if (work->progress.advance) work->progress.advance(work->progress.self, work);
}

static void add_work(lh_eval_work *work, lh_work_kind kind, double amount)
{
    const double now = lh_clock_s();
    work->pace[kind].done += amount;
    work->pace[kind].seconds += now - work->since_s;
    work->since_s = now;
}

void lh_work_advance(lh_eval_work *work, lh_work_kind kind, double amount)
{
    add_work(work, kind, amount);
    report_work(work);
}

void lh_work_show(const lh_eval_work *work, lh_work_kind kind, double amount)
{
    lh_eval_work now = *work;
    if (!work->progress.advance) return;
    add_work(&now, kind, amount);
    report_work(&now);
}

void lh_work_finish_prompt(lh_eval_work *work)
{
    work->prompts++;
    report_work(work);
}

double lh_work_left_s(const lh_eval_work *work)
{
    double left = 0;
    for (int k = 0; k < LH_WORK_KINDS; k++) {
        const lh_work_pace *p = &work->pace[k];
        if (p->total - p->done <= 1e-9 * p->total) continue;
        if (p->done <= 0) return -1;
        left += (p->total - p->done) * p->seconds / p->done;
    }
    return left;
}

/* ---- answers ---- */

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

/* The policies of a prefill, which fills all their caches. */
typedef struct batch {
    lh_policy *plans;
    int64_t *numbers; /* indices in the list */
    int64_t n;
    lh_keep_sets *sets; /* replaces a policy's choice if `given` is not NULL */
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
static lh_status read_given(batch *b, lh_engine *engine, const lh_policies_request *r)
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
    const lh_policies_request *request;
    double cost;
} follower;

static lh_status follow_prefill(void *self, int64_t done, int64_t total)
{
    const follower *f = self;
    lh_work_show(f->request->work, LH_WORK_PREFILL, (double)done / (double)total * f->cost);
    return LH_OK;
}

lh_status lh_cache_count(const lh_eval_setup *setup, lh_cache_at *at)
{
    const lh_engine_view *engine = lh_engine_get(lh_session_engine(at->session));
    const lh_policy *policy = &setup->policies->at[at->policy].policy;
    lh_kv_stats stats = {0};
    LH_TRY(lh_comm_agree(engine->comm, lh_kv_stats_of(lh_session_kv(at->session), &stats)));
    LH_TRY(lh_comm_allreduce(engine->comm, &stats.entries_counted, 1, LH_I64, LH_SUM));
    at->figures.entries_kept = stats.entries_counted;
    at->figures.kv_bytes =
        stats.entries_counted * lh_entry_bytes(lh_kv_kept_type(&engine->kv_types, policy), engine->config->head_dim);
    at->figures.evict_s = setup->timed ? stats.evict_s : (double)NAN;
    return LH_OK;
}

/* Collective. Reads the figures of the cache, and writes its keep sets if the setup has a folder for them. */
static lh_status look_at(const lh_policies_request *r, lh_cache_at *at)
{
    const lh_eval_setup *setup = r->setup;
    const lh_policy_choice *choice = &setup->policies->at[at->policy];
    LH_TRY(lh_cache_count(setup, at));
    at->figures.filled = !choice->given && lh_policy_is_filled(&choice->policy, r->prompt->n);
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

static lh_status run_batch(lh_engine *engine, const lh_policies_request *r, batch *b, lh_cache_visit visit, void *self)
{
    lh_status st = LH_OK;
    lh_session *session = NULL;
    follower f = {r, lh_prefill_cost(lh_engine_get(engine)->config, r->prompt->n)};
    lh_forward_progress progress = {sizeof progress, &f, follow_prefill};
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

/* ---- all policies ---- */

static int shares_prefill(const lh_policy_list *policies, int64_t i)
{
    return lh_policy_shares_prefill(&policies->at[i].policy);
}

static int64_t count_prefills(const lh_eval_setup *setup)
{
    const lh_policy_list *policies = setup->policies;
    const int64_t together = setup->together ? setup->together : policies->n;
    int64_t sharing = 0;
    for (int64_t i = 0; i < policies->n; i++) sharing += shares_prefill(policies, i);
    return (sharing + together - 1) / together + policies->n - sharing;
}

void lh_policies_expect(lh_eval_work *work, const lh_eval_setup *setup, const lh_config *config,
                        const lh_policies_plan *plan)
{
    work->pace[LH_WORK_PREFILL].total += (double)count_prefills(setup) * lh_prefill_cost(config, plan->tokens);
    work->pace[LH_WORK_ANSWER].total += (double)(setup->policies->n * plan->answer);
}

static void add_policy(batch *b, const lh_policies_request *r, int64_t i)
{
    b->plans[b->n] = r->setup->policies->at[i].policy;
    lh_policy_ask(&b->plans[b->n], r->question);
    b->numbers[b->n++] = i;
}

lh_status lh_run_policies(lh_engine *engine, const lh_policies_request *r, lh_cache_visit visit, void *self)
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

/* ---- likelihood ---- */

int64_t lh_likelihood_rows(int64_t tokens)
{
    return lh_max_i64(1, lh_min_i64(tokens - 1, LH_LIKELIHOOD_BLOCK));
}

/* Collective. The last n rows of logits are those before ids[at .. at + n). Adds to *best. */
static lh_status read_rows(lh_session *session, const lh_likelihood *how, int64_t at, int64_t n, double *nll,
                           int64_t *best)
{
    const int64_t vocab = lh_engine_get(lh_session_engine(session))->config->vocab;
    const int32_t *ids = how->ids->ids;
    const float *logits = NULL;
    int64_t rows;
    LH_TRY(lh_session_logits(session, &logits, &rows));
    for (int64_t i = at; i < at + n && logits; i++) {
        const float *row = logits + (rows - n + i - at) * vocab;
        nll[i] = lh_nll_of(row, vocab, ids[i]);
        if (best) *best += lh_best_of(row, vocab) == ids[i];
        if (how->row) how->row(how->self, i, row);
    }
    return LH_OK;
}

lh_status lh_likelihood_of(lh_session *session, const lh_likelihood *how, double *nll, int64_t *best)
{
    lh_status st = LH_OK;
    const int32_t *ids = how->ids->ids;
    const int64_t n = how->ids->n;
    if (best) *best = 0;
    if (n == 0) return LH_OK;
    LH_TRY_DONE(read_rows(session, how, 0, 1, nll, best));
    for (int64_t at = 1, fed; at < n; at += fed) {
        fed = how->policy->every ? 1 : lh_min_i64(n - at, LH_LIKELIHOOD_BLOCK);
        lh_session_keep_logits(session, fed);
        LH_TRY_DONE(how->policy->every ? lh_session_step(session, ids[at - 1])
                                       : lh_session_block(session, ids + at - 1, fed));
        LH_TRY_DONE(read_rows(session, how, at, fed, nll, best));
        if (how->work) lh_work_show(how->work, LH_WORK_ANSWER, (double)(at + fed));
    }
done:
    lh_session_keep_logits(session, 1);
    return st;
}

double lh_nll_mean(const double *nll, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += nll[i];
    return n ? sum / (double)n : (double)NAN;
}

/* ---- warnings ---- */

/* A warning in the words of the first policy that it holds for. */
typedef struct warning {
    char *text;
    const lh_policy_choice *first, *latest; /* latest: NULL: the first is the only one */
    lh_buf others;                          /* "snapkv --budget 600; h2o --budget 500, 600" */
} warning;

typedef struct warnings {
    warning *at;
    int64_t n;
} warnings;

static void clear_warnings(warnings *all)
{
    for (int64_t i = 0; i < all->n; i++) {
        lh_free(all->at[i].text);
        lh_buf_clear(&all->at[i].others);
    }
    lh_free(all->at);
}

/* 1 if two texts differ in numbers only. */
static int is_same(const char *a, const char *b)
{
    static const char number[] = "0123456789.";
    for (;; a++, b++) {
        a += strspn(a, number);
        b += strspn(b, number);
        if (*a != *b) return 0;
        if (!*a) return 1;
    }
}

static lh_status add_other(warning *w, const lh_policy_choice *choice)
{
    const int goes_on = w->latest && strcmp(w->latest->name, choice->name) == 0;
    LH_TRY(lh_buf_printf(&w->others, "%s%s%s%s", goes_on || !w->latest ? "" : "; ", goes_on ? ", " : choice->name,
                         goes_on ? "" : " --budget ", choice->budget));
    w->latest = choice;
    return LH_OK;
}

static lh_status add_warning(warnings *all, const lh_policy_choice *choice, const char *text)
{
    for (int64_t i = 0; i < all->n; i++)
        if (is_same(all->at[i].text, text)) return add_other(&all->at[i], choice);
    LH_TRY(lh_realloc(&all->at, all->n + 1, sizeof *all->at));
    all->at[all->n] = (warning){.first = choice};
    return lh_strdup(&all->at[all->n++].text, text);
}

/* The lines of `text`, which it cuts. */
static lh_status add_lines(warnings *all, const lh_policy_choice *choice, char *text)
{
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = '\0';
        LH_TRY(add_warning(all, choice, line));
    }
    return LH_OK;
}

lh_status lh_eval_warn_of_policies(const lh_policy_list *policies, const int64_t *lengths, int64_t n)
{
    lh_status st = LH_OK;
    lh_buf lines = {0};
    warnings all = {0};
    for (int64_t p = 0; p < policies->n; p++) {
        const lh_policy_choice *choice = &policies->at[p];
        lines.bytes = 0;
        if (choice->given) continue;
        for (int64_t i = 0; i < n && lines.bytes == 0; i++)
            LH_TRY_DONE(lh_policy_warnings(&choice->policy, lengths[i], &lines));
        if (lines.bytes) LH_TRY_DONE(add_lines(&all, choice, lines.data));
    }
    for (const warning *w = all.at; w && w < all.at + all.n; w++)
        lh_warn("%s --budget %s: %s%s%s%s", w->first->name, w->first->budget, w->text, w->latest ? " (also " : "",
                w->latest ? w->others.data : "", w->latest ? ")" : "");
done:
    clear_warnings(&all);
    lh_buf_clear(&lines);
    return st;
}
