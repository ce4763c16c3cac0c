/* next_token.c - the effect of evictions on the next token. The entries of the prompt are read from the trace into the
 * caches of a session, one cache for all entries and one for the keep set of each policy and budget; then the model
 * continues each cache with the same tokens, in blocks, and its distributions are compared. There is no prefill, and
 * nothing is evicted after the prompt. Ranks share the model as in a run. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/minmax.h"
#include "engine/given.h"
#include "engine/session.h"
#include "lab/replay/forced.h"
#include "lab/replay/replay_impl.h"
#include "lab/trace/trace_file.h"
#include "model/sampler.h"

enum { BLOCK = 64 }; /* tokens of a forward pass, and rows of logits in memory */

/* What one row of logits says. */
typedef struct judgement {
    double kl, nll;
    int agrees;
} judgement;

typedef struct pass {
    lh_replay *replay;
    const lh_engine_view *engine;
    lh_heads heads; /* of this rank */
    lh_forced forced;
    int64_t length; /* tokens of the run */
    float *logits;  /* [vocab] of the last token of the prompt */
    lh_session *session;
    /* on rank 0 */
    float *full;      /* [forced.count, vocab] of the full cache */
    judgement *rows;  /* [forced.count] of the cache in work */
    int64_t at;       /* rows of it that are done */
    int is_reference; /* 1: the cache in work is the full one */
} pass;

/* ---- can it be done ---- */

static lh_status check_entries(const lh_replay *r)
{
    const lh_trace_file *t = &r->trace;
    const lh_engine_view *e = lh_engine_get(r->request.engine);
    uint64_t identity = 0;
    LH_TRY(lh_trace_identity(t, &identity));
    if (identity != e->identity)
        LH_FAIL(LH_EUSAGE,
                "'%s' was recorded with another model (%016llx, not %016llx): give that one, or no '--model'",
                lh_h5_path(t->h5), (unsigned long long)identity, (unsigned long long)e->identity);
    const lh_dtype type = e->kv_types.prompt;
    if (t->shape.types.prompt != type)
        LH_FAIL(LH_EUSAGE, "'%s' holds keys and values as %s, the model would have them as %s: give '--kv-dtype %s'",
                lh_h5_path(t->h5), lh_dtype_name(t->shape.types.prompt), lh_dtype_name(type),
                lh_dtype_name(t->shape.types.prompt));
    for (int64_t l = 0; l < t->shape.layers; l++)
        if (!t->recorded[l])
            LH_FAIL(LH_EUSAGE,
                    "'%s' lacks layer %lld, and the model goes on from all layers: record them all, or give no "
                    "'--model'",
                    lh_h5_path(t->h5), (long long)l);
    return LH_OK;
}

/* Tokens of the continued run: the keys of the trace have the rotation of the recorded run. */
static lh_status find_length(const lh_replay *r, const lh_forced *forced, int64_t *length)
{
    const lh_config *c = lh_engine_get(r->request.engine)->config;
    const int64_t needed = r->trace.prompt + forced->longest;
    int64_t recorded = 0;
    LH_TRY(lh_trace_run_tokens(&r->trace, &recorded));
    *length = lh_max_i64(recorded, needed);
    if (needed > c->max_positions)
        LH_FAIL(LH_EUSAGE,
                "the prompt of '%s' and the text that continues it have %lld tokens, more than the %lld positions of "
                "the model: give a shorter text",
                lh_h5_path(r->trace.h5), (long long)needed, (long long)c->max_positions);
    if (lh_config_rotates_until(c, recorded) != lh_config_rotates_until(c, *length))
        LH_FAIL(LH_EUSAGE,
                "'%s' is of a run of %lld tokens, whose rotary embedding is not that of %lld: give a shorter text, or "
                "record it with a larger '--max-new'",
                lh_h5_path(r->trace.h5), (long long)recorded, (long long)needed);
    return LH_OK;
}

lh_status lh_replay_check_engine(const lh_replay *r)
{
    lh_status st = LH_OK;
    const lh_trace_file *t = &r->trace;
    lh_forced forced = {0};
    int64_t length = 0;
    if (!r->request.engine) return LH_OK;
    LH_TRY_DONE(check_entries(r));
    if (t->after_count == 0 && !r->request.continuation)
        LH_FAIL_DONE(LH_EUSAGE,
                     "'%s' has no tokens after the prompt for the model to go on with: record a trace with '-n 64', or "
                     "give a text with '--continuation-file'",
                     lh_h5_path(t->h5));
    LH_TRY_DONE(lh_forced_take(&forced, t, r->request.continuation, lh_engine_get(r->request.engine)->config->vocab));
    LH_TRY_DONE(find_length(r, &forced, &length));
done:
    lh_forced_clear(&forced);
    return st;
}

/* ---- sessions ---- */

static lh_status read_layer(void *self, int64_t layer, void *keys, void *values)
{
    const pass *p = self;
    return lh_trace_read_entries(&p->replay->trace,
                                 &(lh_trace_entries){layer, p->heads.kv_first, p->heads.kv_count, keys, values});
}

/* The caches of a session: the full cache, or a policy's caches at all budgets. */
typedef struct caches {
    lh_policy policies[LH_STUDY_BUDGETS];
    const lh_keep_sets *given[LH_STUDY_BUDGETS];
    int64_t budgets[LH_STUDY_BUDGETS];
    int64_t n;
} caches;

/* Collective. */
static lh_status open_session(pass *p, const caches *c)
{
    const lh_trace_file *t = &p->replay->trace;
    const int64_t block = lh_min_i64(p->forced.longest - 1, BLOCK);
    lh_session_close(p->session);
    p->session = NULL;
    LH_TRY(lh_session_open(&p->session, p->replay->request.engine,
                           &(lh_session_options){.policy = &c->policies[0],
                                                 .others = c->policies + 1,
                                                 .other_count = c->n - 1,
                                                 .given = c->given,
                                                 .prompt = t->prompt,
                                                 .more = p->forced.longest,
                                                 .fork_more = p->forced.longest,
                                                 .length = p->length,
                                                 .rows = block,
                                                 .block = block}));
    return lh_session_fill(
        p->session,
        &(lh_session_prompt){.ids = t->tokens, .n = t->prompt, .logits = p->logits, .self = p, .read = read_layer});
}

/* ---- the tokens ---- */

/* Rows of logits after the tokens from `first` on, on rank 0. */
static void judge_rows(pass *p, int64_t first, int64_t n, const float *logits)
{
    const lh_forced *f = &p->forced;
    const int64_t vocab = p->engine->config->vocab;
    int64_t row[BLOCK], count = 0;
    for (int64_t i = 0; i < n; i++)
        if (f->judged[first + i]) row[count++] = i;
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++) {
        const float *own = logits + row[i] * vocab;
        float *full = p->full + (p->at + i) * vocab;
        if (p->is_reference) memcpy(full, own, (size_t)vocab * sizeof *own);
        p->rows[p->at + i] = (judgement){.kl = lh_kl_of(full, own, vocab),
                                         .nll = lh_nll_of(own, vocab, f->ids[first + row[i] + 1]),
                                         .agrees = lh_best_of(own, vocab) == lh_best_of(full, vocab)};
    }
    p->at += count;
}

/* Collective. Every answer, from the state after the prompt. */
static lh_status force_all(pass *p, int64_t cache)
{
    const lh_forced *f = &p->forced;
    const float *logits = NULL;
    int64_t rows = 0;
    p->at = 0;
    for (int64_t a = 0; a < f->answers; a++) {
        const int64_t end = f->first[a + 1] - 1;
        LH_TRY(lh_session_switch(p->session, cache));
        for (int64_t at = f->first[a], n; at < end; at += n) {
            n = lh_min_i64(end - at, BLOCK);
            lh_session_keep_logits(p->session, n);
            LH_TRY(lh_session_block(p->session, f->ids + at, n));
            LH_TRY(lh_session_logits(p->session, &logits, &rows));
            if (logits) judge_rows(p, at, n, logits);
        }
    }
    return LH_OK;
}

static lh_continued mean_of(const pass *p, int64_t policy, int64_t budget)
{
    const int64_t n = p->forced.count;
    lh_continued m = {.study = &p->replay->study, .policy = policy, .budget = budget};
    for (int64_t i = 0; i < n; i++) {
        m.kl += p->rows[i].kl / (double)n;
        m.agreement += p->rows[i].agrees / (double)n;
        m.nll += p->rows[i].nll / (double)n;
    }
    return m;
}

/* ---- one trace ---- */

static int is_first(const pass *p)
{
    return lh_comm_rank(p->engine->comm) == 0;
}

static lh_status open_pass(pass *p)
{
    const int64_t vocab = p->engine->config->vocab;
    const lh_replay *r = p->replay;
    p->heads = lh_model_kv_shape(p->engine->model, &p->engine->kv_types).heads;
    LH_TRY(lh_forced_take(&p->forced, &r->trace, r->request.continuation, vocab));
    LH_TRY(find_length(r, &p->forced, &p->length));
    LH_TRY(lh_trace_logits(&r->trace, vocab, &p->logits));
    if (!is_first(p)) return LH_OK;
    LH_TRY(lh_calloc(&p->full, p->forced.count * vocab, sizeof *p->full));
    return lh_calloc(&p->rows, p->forced.count, sizeof *p->rows);
}

/* Logs the reference. */
static lh_status log_reference(pass *p)
{
    lh_replay *r = p->replay;
    const double nll = mean_of(p, 0, 0).nll;
    json_t *trace = json_array_get(r->words.traces, json_array_size(r->words.traces) - 1), *told;
    if (!isfinite(nll))
        LH_FAIL(LH_EFILE, "the model makes no finite numbers of '%s': its keys, values or tokens are damaged",
                lh_h5_path(r->trace.h5));
    told = json_pack("{s:I, s:f}", "tokens", (json_int_t)p->forced.count, "full_nll", nll);
    if (json_object_set_new(trace, "continued", told) != 0)
        LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the summary of '%s'", lh_h5_path(r->trace.h5));
    return LH_OK;
}

/* Collective. The full cache, the reference of all comparisons. */
static lh_status run_reference(pass *p)
{
    lh_status st = LH_OK;
    caches c = {.n = 1};
    LH_TRY(lh_comm_agree(p->engine->comm, lh_policy_resolve(&c.policies[0], &(lh_policy_options){.policy = "full"})));
    LH_TRY(open_session(p, &c));
    p->is_reference = 1;
    LH_TRY(force_all(p, 0));
    p->is_reference = 0;
    if (is_first(p)) st = log_reference(p);
    return lh_comm_agree(p->engine->comm, st);
}

/* The budgets of a policy, each with its keep sets, which rotate by slots where the policy does. */
static lh_status choose_caches(const pass *p, int64_t policy, caches *c)
{
    const lh_replay *r = p->replay;
    for (int64_t b = 0; b < r->study.budget_count; b++) {
        const int64_t cell = policy * r->study.budget_count + b;
        if (!r->cells[cell].policy) continue;
        LH_TRY(lh_given_policy(&c->policies[c->n]));
        c->policies[c->n].positions = r->cells[cell].policy->positions;
        c->given[c->n] = &r->keep_sets[cell];
        c->budgets[c->n++] = b;
    }
    return LH_OK;
}

static lh_status tell(pass *p, const lh_continued *m)
{
    return is_first(p) ? lh_replay_tell(p->replay, &(lh_replay_event){.continued = m}) : LH_OK;
}

/* Collective. */
static lh_status run_policy(pass *p, int64_t policy)
{
    const lh_replay_request *q = &p->replay->request;
    const int64_t budgets = p->replay->study.budget_count;
    caches c = {.n = 0};
    LH_TRY(lh_comm_agree(p->engine->comm, choose_caches(p, policy, &c)));
    if (c.n) LH_TRY(open_session(p, &c));
    for (int64_t b = 0, i = 0; b < budgets; b++) {
        lh_continued m = {&p->replay->study, policy, b, (double)NAN, (double)NAN, (double)NAN};
        if (i < c.n && c.budgets[i] == b) {
            LH_TRY(force_all(p, i++));
            if (is_first(p)) m = mean_of(p, policy, b);
        }
        LH_TRY(lh_comm_agree(p->engine->comm, tell(p, &m)));
        if (q->continued) q->continued(q->self, policy * budgets + b + 1, p->replay->study.policy_count * budgets);
    }
    return LH_OK;
}

double lh_replay_full_nll(const lh_replay *r)
{
    size_t i;
    json_t *trace;
    double sum = 0;
    json_array_foreach(r->words.traces, i, trace)
    {
        const json_t *nll = json_object_get(json_object_get(trace, "continued"), "full_nll");
        sum += nll ? json_number_value(nll) : (double)NAN;
    }
    return sum / (double)json_array_size(r->words.traces);
}

lh_status lh_replay_continue(lh_replay *r)
{
    lh_status st = LH_OK;
    pass p = {.replay = r};
    const double start = lh_clock_s();
    if (!r->request.engine) return LH_OK;
    p.engine = lh_engine_get(r->request.engine);
    LH_TRY_DONE(lh_comm_agree(p.engine->comm, open_pass(&p)));
    LH_TRY_DONE(run_reference(&p));
    for (int64_t i = 0; i < r->study.policy_count; i++) LH_TRY_DONE(run_policy(&p, i));
    r->pace.seconds -= lh_clock_s() - start; /* which is the replay's */
done:
    lh_session_close(p.session);
    lh_forced_clear(&p.forced);
    lh_free(p.logits);
    lh_free(p.full);
    lh_free(p.rows);
    return st;
}
