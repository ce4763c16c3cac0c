/* recall.c - runs the task `recall`: makes every window on rank 0, feeds it to the cache of every policy, and asks for
 * its facts. */
#include "lab/eval/recall.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "engine/prompt.h"
#include "lab/eval/measures.h"
#include "lab/eval/recall_tables.h"
#include "model/sampler.h"

typedef struct run {
    lh_engine *engine;
    const lh_recall_request *request;
    lh_recall_result *out;
    lh_table *tables[3]; /* of the result, ends with NULL */
    lh_needle_form form;
    lh_eval_format chat;
    lh_eval_setup alone; /* the setup, with a prefill for each policy */
    lh_eval_work work;
    lh_recall_spec spec;   /* of the current window */
    lh_recall_trace trace; /* its texts are on rank 0 only */
    double *nll;           /* [max(steps, longest answer)] */
    float *full_logits;    /* of the full cache before each step, [steps, vocab], rank 0 */
    double full_nll;       /* mean over the steps */
    /* of the current cache: */
    int64_t policy;
    double kl; /* sum over the steps so far */
} run;

static lh_comm *comm_of(const run *r)
{
    return lh_engine_get(r->engine)->comm;
}

static int is_root(const run *r)
{
    return lh_comm_rank(comm_of(r)) == 0;
}

static int64_t vocab_of(const run *r)
{
    return lh_engine_get(r->engine)->config->vocab;
}

/* ---- before the first prefill ---- */

/* The same on all ranks. */
static lh_status check_request(const run *r)
{
    const lh_recall_request *q = r->request;
    const int64_t positions = lh_engine_get(r->engine)->config->max_positions;
    LH_TRY(lh_eval_check_tokenizer(r->engine));
    for (int64_t i = 0; i < q->length_count; i++)
        if (q->lengths[i] + q->steps > positions)
            LH_FAIL(LH_EUSAGE,
                    "%lld tokens of prompt and %lld that are fed are longer than the %lld positions of the model: "
                    "reduce '--length' or '--steps'",
                    (long long)q->lengths[i], (long long)q->steps, (long long)positions);
    for (int64_t p = 0; p < q->setup.policies->n; p++) {
        const lh_policy *policy = &q->setup.policies->at[p].policy;
        LH_TRY(lh_policy_check_question(policy));
        for (int64_t i = 0; i < q->length_count; i++) LH_TRY(lh_policy_check(policy, q->lengths[i]));
    }
    return LH_OK;
}

/* Tokens of the longest question and answer. */
static int64_t longest_fact(const lh_recall_trace *trace)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < trace->fact_count; i++)
        longest = lh_max_i64(longest, trace->facts[i].asked.question.n + trace->facts[i].asked.answer.n);
    return longest;
}

static lh_status check_window(const run *r)
{
    const int64_t positions = lh_engine_get(r->engine)->config->max_positions;
    const int64_t all = r->trace.prompt.n + r->trace.steps.n + longest_fact(&r->trace);
    if (all > positions)
        LH_FAIL(LH_EUSAGE,
                "prompt, fed tokens, a question and its answer are %lld tokens, more than the %lld positions of the "
                "model: reduce '--length' or '--steps'",
                (long long)all, (long long)positions);
    return LH_OK;
}

/* Collective. Makes window `number`; windows are numbered by length and seed. */
static lh_status make_window(run *r, int64_t number)
{
    lh_status st = LH_OK;
    const lh_recall_request *q = r->request;
    r->spec = (lh_recall_spec){q->lengths[number / q->seeds], q->steps, q->setup.seed + (uint64_t)(number % q->seeds)};
    lh_recall_trace_clear(&r->trace);
    if (is_root(r)) st = lh_recall_make(&r->trace, lh_engine_tokenizer(r->engine), &r->form, &r->spec);
    LH_TRY(lh_comm_agree_untimed(comm_of(r), st));
    LH_TRY(lh_recall_share(comm_of(r), &r->trace));
    return lh_comm_agree(comm_of(r), check_window(r));
}

/* Of the windows that are not finished. */
static void plan_work(run *r, int64_t windows)
{
    const lh_recall_request *q = r->request;
    r->work.progress = q->setup.progress;
    r->work.prompt_total = windows;
    r->work.prompts = r->work.resumed;
    for (int64_t i = r->work.resumed; i < windows; i++)
        lh_policies_expect(&r->work, &r->alone, lh_engine_get(r->engine)->config,
                           &(lh_policies_plan){q->lengths[i / q->seeds], q->steps});
    lh_work_begin(&r->work);
}

static lh_status open_run(run *r, int64_t windows)
{
    lh_status st = LH_OK;
    const lh_recall_request *q = r->request;
    LH_TRY(lh_comm_agree(comm_of(r), check_request(r)));
    LH_TRY(lh_eval_format_open(&r->chat, r->engine, &q->chat));
    r->form = q->form;
    r->form.format = r->chat.format;
    r->form.arguments = r->chat.arguments;
    r->form.system = q->chat.system;
    r->alone = q->setup;
    r->alone.together = 1;
    for (int64_t l = 0; l < q->length_count; l++) LH_TRY(make_window(r, l * q->seeds)); /* so that these fail early */
    if (is_root(r)) st = lh_calloc(&r->full_logits, q->steps * vocab_of(r), sizeof *r->full_logits);
    LH_TRY(lh_comm_agree(comm_of(r), st));
    LH_TRY(lh_resume_begin(q->setup.resume, comm_of(r), r->tables, &r->work.resumed));
    plan_work(r, windows);
    return LH_OK;
}

/* ---- one window ---- */

/* Logits before a step: the full cache's are kept, another's are compared with them. */
static void compare_row(void *self, int64_t i, const float *logits)
{
    run *r = self;
    float *full = r->full_logits + i * vocab_of(r);
    if (r->policy == 0)
        memcpy(full, logits, (size_t)vocab_of(r) * sizeof *full);
    else
        r->kl += lh_kl_of(full, logits, vocab_of(r));
}

/* Collective. Feeds all steps. */
static lh_status feed_steps(run *r, const lh_cache_at *at)
{
    const lh_tokens *steps = &r->trace.steps;
    r->policy = at->policy;
    r->kl = 0;
    LH_TRY(lh_likelihood_of(at->session,
                            &(lh_likelihood){.ids = steps,
                                             .policy = &r->request->setup.policies->at[at->policy].policy,
                                             .work = &r->work,
                                             .self = r,
                                             .row = compare_row},
                            r->nll, NULL));
    return lh_session_step(at->session, steps->ids[steps->n - 1]);
}

static lh_status add_trace(const run *r, const lh_cache_at *at)
{
    return lh_recall_add_trace(r->out, &(lh_recall_at){at, &r->spec, &r->trace},
                               &(lh_recall_along){.kl = r->kl / (double)r->trace.steps.n,
                                                  .nll = lh_nll_mean(r->nll, r->trace.steps.n),
                                                  .full_nll = r->full_nll});
}

/* Collective. *out, on rank 0: the likelihood of a fact's answer, from the state of the snapshot. */
static lh_status ask_for_fact(run *r, const lh_cache_at *at, const lh_recall_fact *fact, lh_answer_likelihood *out)
{
    const lh_tokens *question = &fact->asked.question, *answer = &fact->asked.answer;
    *out = (lh_answer_likelihood){.tokens = answer->n};
    LH_TRY(lh_session_restore(at->session));
    LH_TRY(lh_session_block(at->session, question->ids, question->n));
    LH_TRY(lh_likelihood_of(
        at->session, &(lh_likelihood){.ids = answer, .policy = &r->request->setup.policies->at[at->policy].policy},
        r->nll, &out->best));
    for (int64_t i = 0; i < answer->n; i++) out->nll += r->nll[i];
    return LH_OK;
}

static lh_status ask_for_facts(run *r, const lh_cache_at *at)
{
    for (int64_t i = 0; i < r->trace.fact_count; i++) {
        lh_status st = LH_OK;
        lh_answer_likelihood answer;
        LH_TRY(ask_for_fact(r, at, &r->trace.facts[i], &answer));
        if (is_root(r)) st = lh_recall_add_fact(r->out, &(lh_recall_at){at, &r->spec, &r->trace}, i, &answer);
        LH_TRY(lh_comm_agree(comm_of(r), st));
    }
    return LH_OK;
}

static lh_status recall_from(void *self, const lh_cache_at *at)
{
    lh_status st = LH_OK;
    run *r = self;
    lh_cache_at now = *at;
    const double start = lh_clock_s();
    LH_TRY(feed_steps(r, at));
    now.figures.decode_s = lh_eval_seconds(&r->request->setup, start);
    lh_work_advance(&r->work, LH_WORK_ANSWER, (double)r->trace.steps.n);
    LH_TRY(lh_cache_count(&r->request->setup, &now));
    if (at->policy == 0) r->full_nll = lh_nll_mean(r->nll, r->trace.steps.n);
    if (is_root(r)) st = add_trace(r, &now);
    LH_TRY(lh_comm_agree(comm_of(r), st));
    LH_TRY(lh_session_snapshot(at->session));
    return ask_for_facts(r, &now);
}

static lh_status recall_window(run *r)
{
    const lh_recall_request *q = r->request;
    const int64_t longest = longest_fact(&r->trace), fed = lh_max_i64(q->steps, longest);
    char name[LH_PROMPT_NAME_BYTES];
    lh_free(r->nll);
    r->nll = NULL;
    LH_TRY(lh_comm_agree(comm_of(r), lh_calloc(&r->nll, fed, sizeof *r->nll)));
    snprintf(name, sizeof name, "%lld-seed%llu", (long long)r->spec.length, (unsigned long long)r->spec.seed);
    LH_TRY(lh_run_policies(r->engine,
                           &(lh_policies_request){.setup = &r->alone,
                                                  .name = name,
                                                  .prompt = &r->trace.prompt,
                                                  .more = q->steps + longest,
                                                  .block = lh_max_i64(longest, lh_likelihood_rows(fed)),
                                                  .rows = lh_likelihood_rows(fed),
                                                  .seed = r->spec.seed,
                                                  .work = &r->work},
                           recall_from, r));
    lh_eval_finish_prompt(&r->alone, &r->work, r->tables);
    return LH_OK;
}

lh_status lh_recall_run(lh_recall_result *out, lh_engine *engine, const lh_recall_request *request)
{
    lh_status st = LH_OK;
    run r = {.engine = engine, .request = request, .out = out, .tables = {&out->facts, &out->traces}};
    const int64_t windows = request->length_count * request->seeds;
    *out = (lh_recall_result){.request = request};
    lh_table_init(&out->facts, lh_recall_fact_columns);
    lh_table_init(&out->traces, lh_recall_trace_columns);
    LH_TRY_DONE(open_run(&r, windows));
    for (int64_t i = r.work.resumed; i < windows; i++) {
        LH_TRY_DONE(make_window(&r, i));
        LH_TRY_DONE(recall_window(&r));
    }
done:
    lh_recall_trace_clear(&r.trace);
    lh_eval_format_close(&r.chat);
    lh_free(r.full_logits);
    lh_free(r.nll);
    return st;
}

void lh_recall_result_clear(lh_recall_result *result)
{
    lh_table_clear(&result->facts);
    lh_table_clear(&result->traces);
    *result = (lh_recall_result){0};
}
