/* questions.c - encodes prompts, asks every prompt of a task in every scenario, and lets each policy's cache answer. */
#include "lab/eval/questions.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/minmax.h"

/* ---- prompts ---- */

static lh_status open_format(lh_eval_format *out, const lh_tokenizer *tok, const lh_eval_chat *chat)
{
    LH_TRY(lh_prompt_format(tok, &(lh_prompt_text){.chat_template = chat->chat_template}, &out->format));
    return lh_prompt_ends(tok, &(lh_prompt_text){.chat = 1, .format = out->format}, &out->ends);
}

lh_status lh_eval_format_open(lh_eval_format *out, const lh_engine *engine, const lh_eval_chat *chat)
{
    lh_status st = LH_OK;
    lh_comm *comm = lh_engine_get(engine)->comm;
    out->arguments = chat->arguments;
    if (chat->on && lh_comm_rank(comm) == 0) st = open_format(out, lh_engine_tokenizer(engine), chat);
    LH_TRY(lh_comm_agree(comm, st));
    return lh_prompt_share(comm, &out->ends);
}

void lh_eval_format_close(lh_eval_format *format)
{
    lh_chat_close(format->format);
    lh_tokens_clear(&format->ends);
    *format = (lh_eval_format){0};
}

/* For lh_prompt_encode. questions: NULL, or the question if it is separate. */
static lh_prompt_text prompt_text(const lh_eval_prompt_text *asked, const lh_buf *text, const char *const *questions)
{
    return (lh_prompt_text){.text = text->data,
                            .bytes = text->bytes,
                            .questions = questions,
                            .question_count = questions != NULL,
                            .joint = asked->joint,
                            .answer = asked->prefix,
                            .chat = asked->format != NULL,
                            .format = asked->format,
                            .arguments = asked->arguments,
                            .system = asked->system};
}

/* Appends the tokens of a text that continues the prompt. In plain text a blank stands before it, as the model would
 * begin it. */
static lh_status encode_after(lh_tokens *out, const lh_tokenizer *tok, const char *before, const char *text)
{
    lh_status st = LH_OK;
    lh_buf after = {0};
    out->n = 0;
    if (!*text) return LH_OK;
    LH_TRY_DONE(lh_buf_printf(&after, "%s%s", before, text));
    LH_TRY_DONE(lh_tokenizer_encode(tok, after.data, after.bytes, LH_ENCODE_CONTINUES, out));
done:
    lh_buf_clear(&after);
    return st;
}

/* The right answer, which is unchanged if there is a joint, or the choices. */
static lh_status encode_answers(lh_eval_prompt *out, const lh_tokenizer *tok, const lh_eval_prompt_text *text)
{
    if (text->answer) LH_TRY(encode_after(&out->answer, tok, text->format || text->joint ? "" : " ", text->answer));
    if (!text->choice_count) return LH_OK;
    LH_TRY(lh_calloc(&out->choices, text->choice_count, sizeof *out->choices));
    for (; out->choice_count < text->choice_count; out->choice_count++)
        LH_TRY(encode_after(&out->choices[out->choice_count], tok, text->format ? "" : " ",
                            text->choices[out->choice_count]));
    return LH_OK;
}

/* The parts of a prompt, the question after the context. Without a chat format the answer continues the text. */
static lh_status join_parts(lh_buf *context, lh_buf *question, const lh_eval_prompt_text *asked)
{
    LH_TRY(lh_buf_append(context, asked->text, asked->bytes));
    if (!asked->joint && !asked->format) return lh_buf_printf(question, "\n\nQuestion: %s\nAnswer:", asked->question);
    if (asked->joint && !asked->format) LH_TRY(lh_buf_puts(context, asked->joint));
    LH_TRY(lh_buf_puts(question, asked->question));
    if (asked->prefix && !asked->format) LH_TRY(lh_buf_puts(question, asked->prefix));
    return LH_OK;
}

lh_status lh_eval_prompt_make(lh_eval_prompt *out, const lh_tokenizer *tok, const lh_eval_prompt_text *text)
{
    lh_status st = LH_OK;
    lh_buf context = {0}, question = {0}, all = {0};
    lh_tokens *questions = NULL, *none = NULL;
    out->whole.n = out->context.n = 0;
    LH_TRY_DONE(join_parts(&context, &question, text));
    LH_TRY_DONE(lh_buf_append(&all, context.data, context.bytes));
    if (text->format && all.bytes) LH_TRY_DONE(lh_buf_puts(&all, text->joint ? text->joint : "\n\n"));
    LH_TRY_DONE(lh_buf_append(&all, question.data, question.bytes));
    const lh_prompt_text aware = prompt_text(text, &all, NULL);
    const lh_prompt_text apart = prompt_text(text, &context, (const char *const[]){question.data});
    LH_TRY_DONE(lh_prompt_encode(tok, &aware, &out->whole, &none));
    LH_TRY_DONE(lh_prompt_encode(tok, &apart, &out->context, &questions));
    lh_tokens_clear(&out->question);
    out->question = questions[0];
    LH_TRY_DONE(encode_answers(out, tok, text));
done:
    lh_free(questions);
    lh_free(none);
    lh_buf_clear(&context);
    lh_buf_clear(&question);
    lh_buf_clear(&all);
    return st;
}

void lh_eval_prompt_clear(lh_eval_prompt *prompt)
{
    lh_tokens_clear(&prompt->whole);
    lh_tokens_clear(&prompt->context);
    lh_tokens_clear(&prompt->question);
    lh_tokens_clear(&prompt->answer);
    for (int64_t i = 0; prompt->choices && i < prompt->choice_count; i++) lh_tokens_clear(&prompt->choices[i]);
    lh_free(prompt->choices);
    *prompt = (lh_eval_prompt){0};
}

static lh_status share_choices(lh_comm *comm, lh_eval_prompt *prompt)
{
    lh_status st = LH_OK;
    LH_TRY(lh_comm_bcast(comm, 0, &prompt->choice_count, sizeof prompt->choice_count));
    if (prompt->choice_count && !prompt->choices)
        st = lh_calloc(&prompt->choices, prompt->choice_count, sizeof *prompt->choices);
    LH_TRY(lh_comm_agree(comm, st));
    for (int64_t i = 0; i < prompt->choice_count; i++) LH_TRY(lh_prompt_share(comm, &prompt->choices[i]));
    return LH_OK;
}

lh_status lh_eval_prompt_share(lh_comm *comm, lh_eval_prompt *prompt)
{
    LH_TRY(lh_prompt_share(comm, &prompt->whole));
    LH_TRY(lh_prompt_share(comm, &prompt->context));
    LH_TRY(lh_prompt_share(comm, &prompt->question));
    LH_TRY(lh_prompt_share(comm, &prompt->answer));
    return share_choices(comm, prompt);
}

const lh_tokens *lh_eval_prompt_of(const lh_eval_prompt *prompt, lh_scenario scenario)
{
    return scenario == LH_QUESTION_AWARE ? &prompt->whole : &prompt->context;
}

int64_t lh_eval_prompt_tokens(const lh_eval_prompt *prompt, lh_scenario scenario)
{
    return scenario == LH_QUESTION_AWARE ? prompt->whole.n : prompt->context.n + prompt->question.n;
}

int64_t lh_eval_prompt_max(const lh_eval_prompt *prompt)
{
    return lh_max_i64(lh_eval_prompt_tokens(prompt, LH_QUESTION_AWARE), lh_eval_prompt_tokens(prompt, LH_CONTEXT_ONLY));
}

int64_t lh_eval_prompt_longest(const lh_eval_prompt *prompt)
{
    int64_t longest = prompt->answer.n;
    for (int64_t i = 0; i < prompt->choice_count; i++) longest = lh_max_i64(longest, prompt->choices[i].n);
    return longest;
}

/* ---- the task ---- */

static lh_comm *comm_of(const lh_question_task *a)
{
    return lh_engine_get(a->engine)->comm;
}

static int is_root(const lh_question_task *a)
{
    return lh_comm_rank(comm_of(a)) == 0;
}

static lh_status check_scenarios(const lh_question_task *a)
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

lh_status lh_question_task_open(lh_question_task *a, const lh_eval_chat *chat)
{
    LH_TRY(lh_comm_agree(comm_of(a), check_scenarios(a)));
    return lh_eval_format_open(&a->chat, a->engine, chat);
}

void lh_question_task_close(lh_question_task *a)
{
    lh_eval_format_close(&a->chat);
    lh_eval_prompt_clear(&a->prompt);
}

/* The task has checked the lengths of generated answers. */
static lh_status check_answer(const lh_question_task *a)
{
    const int64_t positions = lh_engine_get(a->engine)->config->max_positions;
    const int64_t prompt = lh_eval_prompt_max(&a->prompt), answer = lh_eval_prompt_longest(&a->prompt);
    if (prompt + answer > positions)
        LH_FAIL(LH_EUSAGE,
                "%lld tokens of prompt and %lld of the right answer are longer than the %lld positions of the model: "
                "reduce '--length'",
                (long long)prompt, (long long)answer, (long long)positions);
    return LH_OK;
}

lh_status lh_question_task_make(lh_question_task *a, int64_t number)
{
    lh_status st = LH_OK;
    lh_eval_prompt_clear(&a->prompt);
    if (is_root(a)) st = a->ops->make(a->self, number, &a->prompt);
    LH_TRY(lh_comm_agree_untimed(comm_of(a), st));
    LH_TRY(lh_eval_prompt_share(comm_of(a), &a->prompt));
    return lh_comm_agree(comm_of(a), check_answer(a));
}

static void describe_case(const lh_question_task *a, int64_t number, lh_scenario scenario, lh_question_case *out)
{
    *out = (lh_question_case){.max_new = a->setup->max_new, .seed = a->setup->seed};
    a->ops->describe(a->self, number, scenario, out);
}

/* Counts the work of the prompts that are not finished. */
static void plan_work(lh_question_task *a, int64_t n)
{
    a->work.progress = a->setup->progress;
    a->work.prompts = a->work.resumed;
    for (int64_t i = 0; i < n; i++)
        for (int s = 0; s < LH_SCENARIOS; s++) {
            lh_question_case c;
            if (!a->scenarios[s] || a->work.prompt_total++ < a->work.resumed) continue;
            describe_case(a, i, (lh_scenario)s, &c);
            lh_policies_expect(&a->work, a->setup, lh_engine_get(a->engine)->config,
                               &(lh_policies_plan){c.tokens, c.max_new + c.answer});
        }
    lh_work_begin(&a->work);
}

static lh_status judge_answer(lh_question_task *a, const lh_tokens *ids, lh_question_answer *answer)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_eval_text(lh_engine_tokenizer(a->engine), ids->ids, ids->n, &text));
    answer->text = text.data;
    LH_TRY_DONE(a->ops->judge(a->self, answer));
done:
    lh_buf_clear(&text);
    return st;
}

/* Collective. The cache has read the question. */
static lh_status read_question(const lh_question_task *a, const lh_cache_at *at)
{
    const lh_tokens *question = &a->prompt.question;
    return a->scenario == LH_CONTEXT_ONLY ? lh_session_block(at->session, question->ids, question->n) : LH_OK;
}

/* Collective. *out, on rank 0: the likelihood of tokens after the question. */
static lh_status measure(lh_question_task *a, const lh_cache_at *at, const lh_tokens *ids, lh_answer_likelihood *out)
{
    lh_status st = LH_OK;
    double *nll = NULL;
    *out = (lh_answer_likelihood){.tokens = ids->n};
    st = lh_calloc(&nll, ids->n, sizeof *nll);
    LH_TRY_DONE(lh_comm_agree(comm_of(a), st));
    LH_TRY_DONE(lh_cache_restart(at));
    LH_TRY_DONE(read_question(a, at));
    LH_TRY_DONE(lh_likelihood_of(
        at->session,
        &(lh_likelihood){.ids = ids, .policy = &a->setup->policies->at[at->policy].policy, .work = &a->work}, nll,
        &out->best));
    for (int64_t i = 0; i < ids->n; i++) out->nll += nll[i];
done:
    lh_free(nll);
    return st;
}

/* Collective. The likelihood of the right answer, or of all choices, [choice_count]. */
static lh_status measure_answers(lh_question_task *a, const lh_cache_at *at, lh_answer_likelihood *right,
                                 lh_answer_likelihood *choices)
{
    const lh_eval_prompt *p = &a->prompt;
    *right = (lh_answer_likelihood){0};
    if (p->answer.n) LH_TRY(measure(a, at, &p->answer, right));
    for (int64_t i = 0; i < p->choice_count; i++) LH_TRY(measure(a, at, &p->choices[i], &choices[i]));
    return LH_OK;
}

static lh_status answer_prompt(void *self, const lh_cache_at *at)
{
    lh_status st = LH_OK;
    lh_question_task *a = self;
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
                          &(lh_question_answer){.policy = at->policy,
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
static lh_status ask(lh_question_task *a, int64_t number, lh_scenario scenario)
{
    const int aware = scenario == LH_QUESTION_AWARE;
    const int64_t question = a->prompt.question.n, answer = lh_eval_prompt_longest(&a->prompt);
    const int64_t rows = lh_likelihood_rows(answer);
    a->scenario = scenario;
    describe_case(a, number, scenario, &a->now);
    LH_TRY(lh_run_policies(a->engine,
                           &(lh_policies_request){.setup = a->setup,
                                                  .name = a->now.name,
                                                  .prompt = lh_eval_prompt_of(&a->prompt, scenario),
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

lh_status lh_question_task_run(lh_question_task *a, int64_t n)
{
    int64_t cases = 0;
    LH_TRY(lh_resume_begin(a->setup->resume, comm_of(a), a->tables, &a->work.resumed));
    plan_work(a, n);
    for (int64_t i = 0; i < n; i++) {
        int made = 0;
        for (int s = 0; s < LH_SCENARIOS; s++) {
            if (!a->scenarios[s] || cases++ < a->work.resumed) continue;
            if (!made++) LH_TRY(lh_question_task_make(a, i));
            LH_TRY(ask(a, i, (lh_scenario)s));
        }
    }
    return LH_OK;
}

/* ---- sizes ---- */

void lh_question_sizes_clear(lh_question_sizes *sizes)
{
    lh_free(sizes->at);
    *sizes = (lh_question_sizes){0};
}

static int64_t tokens_of(const lh_question_size *s, int scenario)
{
    return scenario == LH_QUESTION_AWARE ? s->whole : s->context;
}

static lh_question_size size_of(const lh_eval_prompt *p)
{
    lh_question_size s = {p->whole.n, p->context.n, p->question.n, p->answer.n, lh_eval_prompt_longest(p),
                          p->line,    p->max_new};
    for (int64_t i = 0; i < p->choice_count; i++) s.answers += p->choices[i].n;
    return s;
}

/* On rank 0. */
static lh_status make_all(lh_question_sizes *out, lh_question_task *a)
{
    lh_status st = LH_OK;
    lh_eval_prompt prompt = {0};
    for (int64_t i = 0; i < out->n; i++) {
        lh_eval_prompt_clear(&prompt);
        LH_TRY_DONE(a->ops->make(a->self, i, &prompt));
        out->at[i] = size_of(&prompt);
    }
done:
    lh_eval_prompt_clear(&prompt);
    return st;
}

static lh_status check_policies(const lh_question_sizes *sizes, const lh_question_task *a)
{
    const lh_policy_list *policies = a->setup->policies;
    for (int64_t p = 0; p < policies->n; p++)
        for (int64_t i = 0; i < sizes->n; i++)
            for (int s = 0; s < LH_SCENARIOS; s++)
                if (a->scenarios[s]) LH_TRY(lh_policy_check(&policies->at[p].policy, tokens_of(&sizes->at[i], s)));
    return LH_OK;
}

static lh_status check_positions(const lh_question_sizes *sizes, const lh_question_task *a)
{
    const int64_t positions = lh_engine_get(a->engine)->config->max_positions;
    for (int64_t i = 0; i < sizes->n; i++) {
        const lh_question_size *s = &sizes->at[i];
        const int64_t all = lh_max_i64(s->whole, s->context + s->question);
        const int64_t answer = lh_max_i64(s->max_new ? s->max_new : a->setup->max_new, s->longest);
        if (all + answer > positions)
            LH_FAIL(LH_EUSAGE,
                    "line %lld of '--data': %lld tokens of prompt and %lld of the answer are longer than the %lld "
                    "positions of the model: shorten its context%s",
                    (long long)s->line, (long long)all, (long long)answer, (long long)positions,
                    answer > s->longest ? ", or reduce '--max-new'" : "");
    }
    return LH_OK;
}

static lh_status warn(const lh_question_sizes *sizes, const lh_question_task *a)
{
    int64_t lengths[2] = {0, INT64_MAX};
    const int scenario = a->scenarios[LH_CONTEXT_ONLY] ? LH_CONTEXT_ONLY : LH_QUESTION_AWARE;
    for (int64_t i = 0; i < sizes->n; i++) {
        lengths[0] = lh_max_i64(lengths[0], tokens_of(&sizes->at[i], scenario));
        lengths[1] = lh_min_i64(lengths[1], tokens_of(&sizes->at[i], scenario));
    }
    return lh_eval_warn_of_policies(a->setup->policies, lengths, 2);
}

lh_status lh_question_sizes_measure(lh_question_sizes *out, lh_question_task *a, int64_t n)
{
    lh_comm *comm = lh_engine_get(a->engine)->comm;
    const int root = lh_comm_rank(comm) == 0;
    out->n = n;
    LH_TRY(lh_comm_bcast(comm, 0, &out->n, sizeof out->n));
    lh_status st = lh_calloc(&out->at, out->n, sizeof *out->at);
    if (st == LH_OK && root) st = make_all(out, a);
    LH_TRY(lh_comm_agree_untimed(comm, st));
    LH_TRY(lh_comm_bcast(comm, 0, out->at, out->n * (int64_t)sizeof *out->at));
    st = check_positions(out, a);
    if (st == LH_OK) st = check_policies(out, a);
    if (st == LH_OK) st = warn(out, a);
    return lh_comm_agree(comm, st);
}

void lh_question_sizes_describe(const lh_question_sizes *sizes, int64_t number, lh_scenario scenario,
                                lh_question_case *out)
{
    const lh_question_size *s = &sizes->at[number];
    snprintf(out->name, sizeof out->name, "%04lld-%s", (long long)s->line, lh_scenario_names[scenario]);
    out->seed += (uint64_t)number;
    out->tokens = tokens_of(s, scenario);
    out->answer = s->answers;
    if (s->max_new) out->max_new = s->max_new;
}
