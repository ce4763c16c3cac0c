/* asking.c - asks every prompt of a task in every scenario, and lets each policy's cache answer. */
#include "lab/eval/asking.h"

#include "base/clock.h"
#include "base/minmax.h"

static lh_comm *comm_of(const lh_asking *a)
{
    return lh_engine_get(a->engine)->comm;
}

static int is_root(const lh_asking *a)
{
    return lh_comm_rank(comm_of(a)) == 0;
}

static lh_status check_asking(const lh_asking *a)
{
    const lh_policy_list *policies = a->setup->policies;
    LH_TRY(lh_eval_check_tokenizer(a->engine));
    for (int64_t p = 0; p < policies->n; p++)
        if (a->scenarios[LH_CONTEXT_ONLY] && policies->at[p].policy.proxies.kind == LH_PROXIES_QUESTION)
            LH_FAIL(LH_EUSAGE,
                    "policy '%s' observes the question, which comes after the eviction in the scenario context-only: "
                    "give '--scenario question-aware'",
                    policies->at[p].name);
    return LH_OK;
}

lh_status lh_asking_open(lh_asking *a, const lh_asked_chat *chat)
{
    LH_TRY(lh_comm_agree(comm_of(a), check_asking(a)));
    return lh_asked_format_open(&a->chat, a->engine, chat);
}

void lh_asking_close(lh_asking *a)
{
    lh_asked_format_close(&a->chat);
    lh_asked_prompt_clear(&a->prompt);
}

/* The answers that are generated are the task's to check before. */
static lh_status check_answer(const lh_asking *a)
{
    const int64_t positions = lh_engine_get(a->engine)->config->max_positions;
    const int64_t prompt = lh_asked_prompt_max(&a->prompt), answer = lh_asked_prompt_longest(&a->prompt);
    if (prompt + answer > positions)
        LH_FAIL(LH_EUSAGE,
                "%lld tokens of prompt and %lld of the right answer are longer than the %lld positions of the model: "
                "reduce '--length'",
                (long long)prompt, (long long)answer, (long long)positions);
    return LH_OK;
}

lh_status lh_asking_make(lh_asking *a, int64_t number)
{
    lh_status st = LH_OK;
    lh_asked_prompt_clear(&a->prompt);
    if (is_root(a)) st = a->asker->make(a->self, number, &a->prompt);
    LH_TRY(lh_comm_agree_untimed(comm_of(a), st));
    LH_TRY(lh_asked_prompt_share(comm_of(a), &a->prompt));
    return lh_comm_agree(comm_of(a), check_answer(a));
}

static void describe_case(const lh_asking *a, int64_t number, lh_scenario scenario, lh_asked_case *out)
{
    *out = (lh_asked_case){.max_new = a->setup->max_new, .seed = a->setup->seed};
    a->asker->describe(a->self, number, scenario, out);
}

/* Of the prompts that are not finished. */
static void plan_work(lh_asking *a, int64_t n)
{
    a->work.progress = a->setup->progress;
    a->work.prompts = a->work.resumed;
    for (int64_t i = 0; i < n; i++)
        for (int s = 0; s < LH_SCENARIOS; s++) {
            lh_asked_case c;
            if (!a->scenarios[s] || a->work.prompt_total++ < a->work.resumed) continue;
            describe_case(a, i, (lh_scenario)s, &c);
            lh_caches_expect(&a->work, a->setup, lh_engine_get(a->engine)->config,
                             &(lh_caches_plan){c.tokens, c.max_new + c.answer});
        }
    lh_work_begin(&a->work);
}

static lh_status judge_answer(lh_asking *a, const lh_tokens *ids, lh_asked_answer *answer)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_eval_text(lh_engine_tokenizer(a->engine), ids->ids, ids->n, &text));
    answer->text = text.data;
    LH_TRY_DONE(a->asker->judge(a->self, answer));
done:
    lh_buf_clear(&text);
    return st;
}

/* Collective. The cache has read the question. */
static lh_status read_question(const lh_asking *a, const lh_cache_at *at)
{
    const lh_tokens *question = &a->prompt.question;
    return a->scenario == LH_CONTEXT_ONLY ? lh_session_block(at->session, question->ids, question->n) : LH_OK;
}

/* Collective. *out, on rank 0: of tokens that come after the question, from the state after it. */
static lh_status measure(lh_asking *a, const lh_cache_at *at, const lh_tokens *ids, lh_answer_likelihood *out)
{
    lh_status st = LH_OK;
    double *nll = NULL;
    *out = (lh_answer_likelihood){.tokens = ids->n};
    st = lh_calloc(&nll, ids->n, sizeof *nll);
    LH_TRY_DONE(lh_comm_agree(comm_of(a), st));
    LH_TRY_DONE(lh_cache_restart(at));
    LH_TRY_DONE(read_question(a, at));
    LH_TRY_DONE(lh_likelihood_of(
        at->session, &(lh_likelihood){ids, &a->setup->policies->at[at->policy].policy, &a->work}, nll, &out->best));
    for (int64_t i = 0; i < ids->n; i++) out->nll += nll[i];
done:
    lh_free(nll);
    return st;
}

/* Collective. Of the right answer, or of all choices, [choice_count]. */
static lh_status measure_answers(lh_asking *a, const lh_cache_at *at, lh_answer_likelihood *right,
                                 lh_answer_likelihood *choices)
{
    const lh_asked_prompt *p = &a->prompt;
    *right = (lh_answer_likelihood){0};
    if (p->answer.n) LH_TRY(measure(a, at, &p->answer, right));
    for (int64_t i = 0; i < p->choice_count; i++) LH_TRY(measure(a, at, &p->choices[i], &choices[i]));
    return LH_OK;
}

static lh_status answer_prompt(void *self, const lh_cache_at *at)
{
    lh_status st = LH_OK;
    lh_asking *a = self;
    lh_tokens ids = {0};
    lh_cache_at now = *at;
    lh_answer_likelihood right, *choices = NULL;
    st = lh_calloc(&choices, a->prompt.choice_count, sizeof *choices);
    LH_TRY_DONE(lh_comm_agree(comm_of(a), st));
    LH_TRY_DONE(read_question(a, at));
    const double start = lh_clock_s();
    LH_TRY_DONE(lh_eval_generate(at->session, &(lh_eval_answer){&a->chat.ends, a->now.max_new, &a->work}, &ids));
    now.figures.decode_s = lh_eval_seconds(a->setup, start);
    LH_TRY_DONE(measure_answers(a, at, &right, choices));
    if (a->prompt.choice_count) now.figures.decode_s = lh_eval_seconds(a->setup, start); /* nothing is generated */
    lh_work_advance(&a->work, LH_WORK_ANSWER, (double)a->now.answer);
    if (is_root(a))
        st = judge_answer(a, &ids,
                          &(lh_asked_answer){.policy = at->policy,
                                             .scenario = a->scenario,
                                             .prompt = &a->prompt,
                                             .figures = &now.figures,
                                             .right = right,
                                             .choices = choices});
    LH_TRY_DONE(lh_comm_agree(comm_of(a), st));
done:
    lh_tokens_clear(&ids);
    lh_free(choices);
    return st;
}

/* Every policy answers the current prompt in a scenario. */
static lh_status ask(lh_asking *a, int64_t number, lh_scenario scenario)
{
    const int aware = scenario == LH_QUESTION_AWARE;
    const int64_t question = a->prompt.question.n, answer = lh_asked_prompt_longest(&a->prompt);
    const int64_t rows = lh_likelihood_rows(answer);
    a->scenario = scenario;
    describe_case(a, number, scenario, &a->now);
    LH_TRY(lh_caches_each(a->engine,
                          &(lh_caches_request){.setup = a->setup,
                                               .name = a->now.name,
                                               .prompt = lh_asked_prompt_of(&a->prompt, scenario),
                                               .question = aware ? question : 0,
                                               .more = lh_max_i64(a->now.max_new, answer) + (aware ? 0 : question),
                                               .block = lh_max_i64(aware ? 0 : question, rows),
                                               .rows = rows,
                                               .seed = a->now.seed,
                                               .work = &a->work},
                          answer_prompt, a));
    lh_eval_finish_prompt(a->setup, &a->work, a->tables);
    return LH_OK;
}

lh_status lh_asking_run(lh_asking *a, int64_t n)
{
    int64_t cases = 0;
    LH_TRY(lh_resume_begin(a->setup->resume, comm_of(a), a->tables, &a->work.resumed));
    plan_work(a, n);
    for (int64_t i = 0; i < n; i++) {
        int made = 0;
        for (int s = 0; s < LH_SCENARIOS; s++) {
            if (!a->scenarios[s] || cases++ < a->work.resumed) continue;
            if (!made++) LH_TRY(lh_asking_make(a, i));
            LH_TRY(ask(a, i, (lh_scenario)s));
        }
    }
    return LH_OK;
}
