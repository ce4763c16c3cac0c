/* synthetic.c - fits the prompts of every task and length, lets every cache answer them (asking.h), and scores the
 * answers. */
#include "lab/eval/synthetic.h"

#include <stdio.h>
#include <string.h>

#include "lab/eval/asking.h"

/* ---- the run ---- */

/* The prompts of one task and length. */
typedef struct group {
    const lh_synthetic_task *task;
    int64_t length, max_new;
    int64_t units;
    int64_t tokens[LH_SCENARIOS]; /* that are prefilled, of the first prompt, … */
    int64_t answer;               /* … and those of its right answer */
} group;

typedef struct run {
    lh_asking asking;
    const lh_synthetic_request *request;
    lh_task_scores *out;
    lh_synthetic_form form;
    group *groups;
    int64_t n;
    /* of the current prompt, on rank 0: */
    lh_synthetic_spec spec;
    lh_synthetic_sample sample;
} run;

/* Prompts are numbered by length, task and seed, the last changing fastest. */
static lh_synthetic_spec spec_of(const run *r, int64_t number)
{
    const group *g = &r->groups[number / r->request->count];
    return (lh_synthetic_spec){g->task, g->length, g->max_new,
                               r->request->setup.seed + (uint64_t)(number % r->request->count), g->units};
}

static lh_status make_sample(void *self, int64_t number, lh_asked_prompt *out)
{
    run *r = self;
    lh_synthetic_sample_clear(&r->sample);
    r->spec = spec_of(r, number);
    LH_TRY(lh_synthetic_make(&r->sample, &r->form, &r->spec));
    *out = r->sample.prompt;
    r->sample.prompt = (lh_asked_prompt){0};
    return LH_OK;
}

static void describe_sample(const void *self, int64_t number, lh_scenario scenario, lh_asked_case *out)
{
    const run *r = self;
    const lh_synthetic_spec spec = spec_of(r, number);
    snprintf(out->name, sizeof out->name, "%lld-%s-%s-seed%llu", (long long)spec.length, spec.task->name,
             lh_scenario_names[scenario], (unsigned long long)spec.seed);
    out->seed = spec.seed;
    out->tokens = r->groups[number / r->request->count].tokens[scenario];
    out->answer = r->groups[number / r->request->count].answer;
    out->max_new = spec.max_new;
}

static lh_status judge_sample(void *self, const lh_asked_answer *answer)
{
    run *r = self;
    const char *expected = r->sample.expected.data;
    lh_task_score score = {.choice = &r->request->setup.policies->at[answer->policy],
                           .length = r->spec.length,
                           .number = (int64_t)r->spec.seed,
                           .tokens = lh_asked_prompt_tokens(answer->prompt, answer->scenario),
                           .units = r->sample.units,
                           .scenario = answer->scenario,
                           .task = r->spec.task->label,
                           .expected = expected + strspn(expected, " "),
                           .answer = answer->text,
                           .right = &answer->right,
                           .figures = answer->figures};
    LH_TRY(lh_synthetic_score(&r->sample, r->spec.task, answer->text, &score.value));
    return lh_task_scores_add(&r->out->answers, &score);
}

/* ---- before the first prefill ---- */

static lh_status list_groups(run *r)
{
    const lh_synthetic_request *q = r->request;
    LH_TRY(lh_calloc(&r->groups, q->length_count * q->task_count, sizeof *r->groups));
    for (int64_t l = 0; l < q->length_count; l++)
        for (int64_t t = 0; t < q->task_count; t++)
            r->groups[r->n++] = (group){.task = q->tasks[t], .length = q->lengths[l], .max_new = q->setup.max_new};
    return LH_OK;
}

static lh_status check_lengths(const run *r)
{
    const int64_t positions = lh_engine_get(r->asking.engine)->config->max_positions;
    for (int64_t l = 0; l < r->request->length_count; l++)
        if (r->request->lengths[l] > positions)
            LH_FAIL(LH_EUSAGE, "'--length %lld' is longer than the %lld positions of the model",
                    (long long)r->request->lengths[l], (long long)positions);
    return LH_OK;
}

/* Collective. The units of every group, and the sizes of its first prompt, for which all policies must be possible. */
static lh_status fit_groups(run *r)
{
    lh_comm *comm = lh_engine_get(r->asking.engine)->comm;
    const lh_policy_list *policies = r->request->setup.policies;
    for (int64_t i = 0; i < r->n; i++) {
        lh_status st = LH_OK;
        group *g = &r->groups[i];
        lh_synthetic_spec spec = spec_of(r, i * r->request->count);
        if (lh_comm_rank(comm) == 0) st = lh_synthetic_fit(&r->form, &spec);
        LH_TRY(lh_comm_agree_untimed(comm, st));
        int64_t fitted[] = {spec.units, spec.max_new};
        LH_TRY(lh_comm_bcast(comm, 0, fitted, sizeof fitted));
        g->units = fitted[0];
        g->max_new = fitted[1];
        LH_TRY(lh_asking_make(&r->asking, i * r->request->count));
        g->answer = r->asking.prompt.answer.n;
        for (int s = 0; s < LH_SCENARIOS; s++) {
            g->tokens[s] = lh_asked_prompt_of(&r->asking.prompt, (lh_scenario)s)->n;
            for (int64_t p = 0; p < policies->n && st == LH_OK && r->request->scenarios[s]; p++)
                st = lh_policy_check(&policies->at[p].policy, g->tokens[s]);
        }
        LH_TRY(lh_comm_agree(comm, st));
    }
    return LH_OK;
}

lh_status lh_synthetic_run(lh_task_scores *out, lh_engine *engine, const lh_synthetic_request *request)
{
    lh_status st = LH_OK;
    static const lh_asker asker = {make_sample, describe_sample, judge_sample};
    run r = {.asking = {.engine = engine,
                        .setup = &request->setup,
                        .scenarios = request->scenarios,
                        .tables = {&out->answers},
                        .asker = &asker,
                        .self = &r},
             .request = request,
             .out = out};
    *out = (lh_task_scores){.setup = &request->setup,
                            .task_count = request->task_count,
                            .lengths = request->lengths,
                            .length_count = request->length_count};
    for (int64_t t = 0; t < request->task_count; t++)
        out->tasks[t] = (lh_scored_task){request->tasks[t]->label, request->tasks[t]->averaged};
    lh_table_init(&out->answers, lh_seed_score_columns);
    LH_TRY_DONE(lh_asking_open(&r.asking, &request->chat));
    r.form = (lh_synthetic_form){request->sources, lh_engine_tokenizer(engine), r.asking.chat.format,
                                 request->chat.system, request->asked};
    st = list_groups(&r);
    if (st == LH_OK) st = check_lengths(&r);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
    LH_TRY_DONE(fit_groups(&r));
    LH_TRY_DONE(lh_asking_run(&r.asking, r.n * request->count));
done:
    lh_asking_close(&r.asking);
    lh_synthetic_sample_clear(&r.sample);
    lh_free(r.groups);
    return st;
}
