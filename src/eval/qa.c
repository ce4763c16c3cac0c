/* qa.c - runs the task `qa` over every question, scenario, policy and budget, and prints the means of the scores. */
#include "eval/qa.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/minmax.h"
#include "engine/clock.h"
#include "eval/grid.h"
#include "eval/similarity.h"

#define BUDGET "entries per KV head, or % of the prompt"

enum {
    A_POLICY,
    A_BUDGET,
    A_SCENARIO,
    A_ID,
    A_LINE,
    A_TOKENS,
    A_EXACT,
    A_F1,
    A_ROUGEL,
    A_QUESTION,
    A_EXPECTED,
    A_ANSWER,
    A_FIGURES,
    A_COLUMNS = A_FIGURES + LH_FIGURES
};
const lh_column lh_qa_columns[] = {[A_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                   [A_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                   [A_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                   [A_ID] = {"id", "", LH_COLUMN_TEXT},
                                   [A_LINE] = {"line", "", LH_COLUMN_I64},
                                   [A_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
                                   [A_EXACT] = {"em", "1: exact match", LH_COLUMN_I64},
                                   [A_F1] = {"f1", "F1 of words", LH_COLUMN_F64},
                                   [A_ROUGEL] = {"rougel", "F1 of the longest common subsequence", LH_COLUMN_F64},
                                   [A_QUESTION] = {"question", "", LH_COLUMN_TEXT},
                                   [A_EXPECTED] = {"expected", "the first right answer", LH_COLUMN_TEXT},
                                   [A_ANSWER] = {"answer", "", LH_COLUMN_TEXT},
                                   LH_FIGURE_COLUMNS(A_FIGURES),
                                   [A_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum {
    M_POLICY,
    M_BUDGET,
    M_SCENARIO,
    M_QUESTIONS,
    M_EXACT,
    M_F1,
    M_ROUGEL,
    M_FIGURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
const lh_column lh_qa_mean_columns[] = {[M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                        [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                        [M_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                        [M_QUESTIONS] = {"questions", "questions", LH_COLUMN_I64},
                                        [M_EXACT] = {"em", "share of the questions", LH_COLUMN_F64},
                                        [M_F1] = {"f1", "F1 of words", LH_COLUMN_F64},
                                        [M_ROUGEL] = {"rougel", "F1 of the longest common subsequence", LH_COLUMN_F64},
                                        LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "f1"),
                                        [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* ---- the run ---- */

/* Tokens of a prompt. */
typedef struct size {
    int64_t whole, context, question, line;
} size;

typedef struct run {
    lh_engine *engine;
    const lh_qa_request *request;
    lh_qa_result *out;
    lh_table *tables[2]; /* of the result, ends with NULL */
    lh_tokens ends;
    lh_eval_work work;
    size *sizes; /* [n], the same on all ranks */
    int64_t n;
    /* of the current question: */
    int64_t now;
    lh_asked_prompt prompt;
    lh_scenario scenario;
} run;

static lh_comm *comm_of(const run *r)
{
    return lh_engine_get(r->engine)->comm;
}

static int is_root(const run *r)
{
    return lh_comm_rank(comm_of(r)) == 0;
}

/* On rank 0. */
static lh_status encode_question(const run *r, int64_t i, lh_asked_prompt *out)
{
    const lh_qa_record *record = &r->request->data->at[i];
    return lh_asked_prompt_make(out, lh_engine_tokenizer(r->engine),
                                &(lh_asked_text){.text = record->context,
                                                 .bytes = (int64_t)strlen(record->context),
                                                 .question = record->question,
                                                 .chat = r->request->chat,
                                                 .chat_template = r->request->chat_template,
                                                 .system = r->request->system});
}

/* Collective. The sizes of all prompts. */
static lh_status measure_prompts(run *r)
{
    lh_status st = LH_OK;
    lh_asked_prompt prompt = {0};
    if (is_root(r)) r->n = r->request->data->n;
    LH_TRY_DONE(lh_comm_bcast(comm_of(r), 0, &r->n, sizeof r->n));
    st = lh_calloc(&r->sizes, r->n, sizeof *r->sizes);
    for (int64_t i = 0; i < r->n && st == LH_OK && is_root(r); i++) {
        st = encode_question(r, i, &prompt);
        r->sizes[i] = (size){prompt.whole.n, prompt.context.n, prompt.question.n, r->request->data->at[i].line};
    }
    LH_TRY_DONE(lh_comm_agree_patiently(comm_of(r), st));
    LH_TRY_DONE(lh_comm_bcast(comm_of(r), 0, r->sizes, r->n * (int64_t)sizeof *r->sizes));
done:
    lh_asked_prompt_clear(&prompt);
    return st;
}

static int64_t tokens_of(const size *s, int scenario)
{
    return scenario == LH_QUESTION_AWARE ? s->whole : s->context;
}

static lh_status check_policies(const run *r)
{
    const lh_qa_request *q = r->request;
    for (int64_t p = 0; p < q->setup.policies->n; p++) {
        const lh_policy_choice *choice = &q->setup.policies->at[p];
        if (q->scenarios[LH_CONTEXT_ONLY] && choice->policy.proxies.kind == LH_PROXIES_QUESTION)
            LH_FAIL(LH_EUSAGE,
                    "policy '%s' observes the question, which comes after the eviction in the scenario context-only: "
                    "give '--scenario question-aware'",
                    choice->name);
        for (int64_t i = 0; i < r->n; i++)
            for (int s = 0; s < LH_SCENARIOS; s++)
                if (q->scenarios[s]) LH_TRY(lh_policy_check(&choice->policy, tokens_of(&r->sizes[i], s)));
    }
    return LH_OK;
}

static lh_status check_sizes(const run *r)
{
    const int64_t positions = lh_engine_get(r->engine)->config->max_positions;
    for (int64_t i = 0; i < r->n; i++) {
        const size *s = &r->sizes[i];
        const int64_t all = lh_max_i64(s->whole, s->context + s->question);
        if (all + r->request->setup.max_new > positions)
            LH_FAIL(LH_EUSAGE,
                    "line %lld of '--data': %lld tokens of prompt and %lld of the answer are longer than the %lld "
                    "positions of the model: shorten its context, or reduce '--max-new'",
                    (long long)s->line, (long long)all, (long long)r->request->setup.max_new, (long long)positions);
    }
    return LH_OK;
}

/* Warnings for the longest and the shortest prompt. */
static lh_status warn(const run *r)
{
    int64_t lengths[2] = {0, INT64_MAX};
    for (int64_t i = 0; i < r->n; i++) {
        lengths[0] = lh_max_i64(lengths[0], r->sizes[i].context);
        lengths[1] = lh_min_i64(lengths[1], r->sizes[i].context);
    }
    return lh_eval_warn_of_policies(r->request->setup.policies, lengths, 2);
}

/* Of the questions that are not finished. */
static void plan_work(run *r)
{
    const lh_qa_request *q = r->request;
    r->work.progress = q->setup.progress;
    r->work.prompts = r->work.resumed;
    for (int64_t i = 0; i < r->n; i++)
        for (int s = 0; s < LH_SCENARIOS; s++)
            if (q->scenarios[s] && r->work.prompt_total++ >= r->work.resumed)
                lh_caches_expect(&r->work, &q->setup, lh_engine_get(r->engine)->config,
                                 &(lh_caches_plan){tokens_of(&r->sizes[i], s), q->setup.max_new});
    lh_work_begin(&r->work);
}

static lh_status open_run(run *r)
{
    lh_status st = LH_OK;
    const lh_qa_request *q = r->request;
    const lh_tokenizer *tok = lh_engine_tokenizer(r->engine);
    if (!tok)
        LH_FAIL(LH_EUSAGE, "the model has no tokenizer, so it cannot read text: import it from a folder that has one");
    LH_TRY(measure_prompts(r));
    st = check_sizes(r);
    if (st == LH_OK) st = check_policies(r);
    if (st == LH_OK) st = warn(r);
    if (st == LH_OK)
        st = lh_prompt_ends(tok, &(lh_prompt_text){.chat = q->chat, .chat_template = q->chat_template}, &r->ends);
    LH_TRY(lh_comm_agree(comm_of(r), st));
    LH_TRY(lh_resume_begin(q->setup.resume, comm_of(r), r->tables, &r->work.resumed));
    plan_work(r);
    return st;
}

/* ---- answers ---- */

static lh_status judge(run *r, const lh_cache_at *at, const lh_tokens *ids)
{
    lh_status st = LH_OK;
    const lh_policy_choice *choice = &r->request->setup.policies->at[at->policy];
    const lh_qa_record *record = &r->request->data->at[r->now];
    const size *s = &r->sizes[r->now];
    lh_cell row[A_COLUMNS] = {{0}};
    lh_answer_score score;
    lh_buf answer = {0};
    LH_TRY_DONE(lh_eval_text(lh_engine_tokenizer(r->engine), ids->ids, ids->n, &answer));
    LH_TRY_DONE(lh_answer_score_of(&score, answer.data, (const char *const *)record->answers, record->answer_count));
    row[A_POLICY].text = choice->name;
    row[A_BUDGET].text = choice->budget;
    row[A_SCENARIO].text = lh_scenario_names[r->scenario];
    row[A_ID].text = record->id;
    row[A_LINE].number = record->line;
    row[A_TOKENS].number = r->scenario == LH_QUESTION_AWARE ? s->whole : s->context + s->question;
    row[A_EXACT].number = score.exact;
    row[A_F1].value = score.f1;
    row[A_ROUGEL].value = score.rougel;
    row[A_QUESTION].text = record->question;
    row[A_EXPECTED].text = record->answers[0];
    row[A_ANSWER].text = answer.data;
    lh_figures_put(&row[A_FIGURES], &at->figures);
    LH_TRY_DONE(lh_table_add(&r->out->answers, row));
done:
    lh_buf_clear(&answer);
    return st;
}

static lh_status answer_question(void *self, const lh_cache_at *at)
{
    lh_status st = LH_OK;
    run *r = self;
    const lh_tokens *question = &r->prompt.question;
    lh_tokens ids = {0};
    lh_cache_at now = *at;
    if (r->scenario == LH_CONTEXT_ONLY) LH_TRY_DONE(lh_session_block(at->session, question->ids, question->n));
    const double start = lh_clock_s();
    LH_TRY_DONE(lh_eval_generate(at->session, &(lh_eval_answer){&r->ends, r->request->setup.max_new, &r->work}, &ids));
    now.figures.decode_s = lh_eval_seconds(&r->request->setup, start);
    if (is_root(r)) st = judge(r, &now, &ids);
    LH_TRY_DONE(lh_comm_agree(comm_of(r), st));
done:
    lh_tokens_clear(&ids);
    return st;
}

/* Collective. Makes the prompt of the current question. */
static lh_status make_prompt(run *r)
{
    lh_status st = LH_OK;
    lh_asked_prompt_clear(&r->prompt);
    if (is_root(r)) st = encode_question(r, r->now, &r->prompt);
    LH_TRY(lh_comm_agree_patiently(comm_of(r), st));
    return lh_asked_prompt_share(comm_of(r), &r->prompt);
}

static lh_status run_scenario(run *r, lh_scenario scenario)
{
    const lh_qa_request *q = r->request;
    const int aware = scenario == LH_QUESTION_AWARE;
    const int64_t question = r->prompt.question.n;
    char name[64];
    snprintf(name, sizeof name, "%04lld-%s", (long long)r->sizes[r->now].line, lh_scenario_names[scenario]);
    r->scenario = scenario;
    LH_TRY(lh_caches_each(r->engine,
                          &(lh_caches_request){.setup = &q->setup,
                                               .name = name,
                                               .prompt = lh_asked_prompt_of(&r->prompt, scenario),
                                               .question = aware ? question : 0,
                                               .more = q->setup.max_new + (aware ? 0 : question),
                                               .block = aware ? 0 : question,
                                               .seed = q->setup.seed + (uint64_t)r->now,
                                               .work = &r->work},
                          answer_question, r));
    lh_eval_finish_prompt(&q->setup, &r->work, r->tables);
    return LH_OK;
}

lh_status lh_qa_run(lh_qa_result *out, lh_engine *engine, const lh_qa_request *request)
{
    lh_status st = LH_OK;
    run r = {.engine = engine, .request = request, .out = out, .tables = {&out->answers}};
    int64_t number = 0;
    *out = (lh_qa_result){.request = request};
    lh_table_init(&out->answers, lh_qa_columns);
    LH_TRY_DONE(open_run(&r));
    for (r.now = 0; r.now < r.n; r.now++) {
        int made = 0;
        for (int s = 0; s < LH_SCENARIOS; s++) {
            if (!request->scenarios[s] || number++ < r.work.resumed) continue;
            if (!made++) LH_TRY_DONE(make_prompt(&r));
            LH_TRY_DONE(run_scenario(&r, (lh_scenario)s));
        }
    }
done:
    lh_asked_prompt_clear(&r.prompt);
    lh_tokens_clear(&r.ends);
    lh_free(r.sizes);
    return st;
}

void lh_qa_result_clear(lh_qa_result *result)
{
    lh_table_clear(&result->answers);
    *result = (lh_qa_result){0};
}

/* ---- means ---- */

/* Sums over the questions of one policy, budget and scenario. */
typedef struct sums {
    double exact, f1, rougel;
    lh_figure_sums figures;
} sums;

static sums sum_up(const lh_qa_result *result, const lh_policy_choice *choice, int scenario)
{
    sums s = {0};
    for (int64_t i = 0; i < result->answers.n; i++) {
        const lh_cell *row = lh_table_row(&result->answers, i);
        if (strcmp(row[A_SCENARIO].text, lh_scenario_names[scenario]) != 0 ||
            strcmp(row[A_POLICY].text, choice->name) != 0 || strcmp(row[A_BUDGET].text, choice->budget) != 0)
            continue;
        s.exact += (double)row[A_EXACT].number;
        s.f1 += row[A_F1].value;
        s.rougel += row[A_ROUGEL].value;
        lh_figures_add(&s.figures, &row[A_FIGURES]);
    }
    return s;
}

lh_status lh_qa_means(const lh_qa_result *result, lh_table *means)
{
    const lh_eval_setup *setup = &result->request->setup;
    lh_table_init(means, lh_qa_mean_columns);
    for (int c = 0; c < LH_SCENARIOS; c++)
        for (int64_t p = 0; p < setup->policies->n; p++) {
            const lh_policy_choice *choice = &setup->policies->at[p];
            const sums s = sum_up(result, choice, c);
            const double n = (double)s.figures.n;
            if (s.figures.n == 0) continue;
            lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                                      [M_BUDGET] = {.text = choice->budget},
                                      [M_SCENARIO] = {.text = lh_scenario_names[c]},
                                      [M_QUESTIONS] = {.number = s.figures.n},
                                      [M_EXACT] = {.value = s.exact / n},
                                      [M_F1] = {.value = s.f1 / n},
                                      [M_ROUGEL] = {.value = s.rougel / n}};
            lh_mean_figures_put(&row[M_FIGURES], &(lh_mean_figures){row[M_F1].value, &s.figures, setup->model});
            LH_TRY(lh_table_add(means, row));
        }
    return LH_OK;
}

/* ---- text ---- */

typedef struct cells {
    const lh_qa_result *result;
    int scenario;
} cells;

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const cells *c = self;
    const sums s = sum_up(c->result, choice, c->scenario);
    const double n = (double)s.figures.n;
    if (s.figures.n == 0) return lh_buf_puts(out, "–");
    return lh_buf_printf(out, "%.2f %.2f %.2f", s.exact / n, s.f1 / n, s.rougel / n);
}

lh_status lh_qa_print(const lh_qa_result *result, lh_buf *out)
{
    const lh_policy_list *policies = result->request->setup.policies;
    for (int s = 0; s < LH_SCENARIOS; s++) {
        const cells c = {result, s};
        const sums full = sum_up(result, &policies->at[0], s);
        if (full.figures.n == 0) continue;
        LH_TRY(lh_buf_printf(out, "%s%s: exact match, F1 and ROUGE-L, means of %lld question%s\n\n",
                             out->bytes ? "\n" : "", lh_scenario_names[s], (long long)full.figures.n,
                             full.figures.n == 1 ? "" : "s"));
        LH_TRY(lh_grid_print(policies, &(lh_grid){&c, write_cell}, out));
    }
    return LH_OK;
}
