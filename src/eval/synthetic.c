/* synthetic.c - fits the prompts of every task and length, lets every cache answer them (asking.h), and prints the
 * means of the scores. */
#include "eval/synthetic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/markdown.h"
#include "eval/asking.h"
#include "eval/grid.h"
#include "eval/likelihood.h"

#define BUDGET "entries per KV head, or % of the prompt"

enum {
    A_POLICY,
    A_BUDGET,
    A_LENGTH,
    A_SCENARIO,
    A_TASK,
    A_SEED,
    A_TOKENS,
    A_UNITS,
    A_SCORE,
    A_EXACT,
    A_NLL,
    A_EXPECTED,
    A_ANSWER,
    A_FIGURES,
    A_COLUMNS = A_FIGURES + LH_FIGURES
};
const lh_column lh_synthetic_columns[] = {[A_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                          [A_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                          [A_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                          [A_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                          [A_TASK] = {"task", "", LH_COLUMN_LABEL},
                                          [A_SEED] = {"seed", "", LH_COLUMN_I64},
                                          [A_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
                                          [A_UNITS] = {"units", "lines, words or documents of haystack", LH_COLUMN_I64},
                                          [A_SCORE] = {"score", "%", LH_COLUMN_F64},
                                          [A_EXACT] = {"exact", "1: the score is 100", LH_COLUMN_I64},
                                          [A_NLL] = LH_ANSWER_NLL_COLUMN,
                                          [A_EXPECTED] = {"expected", "", LH_COLUMN_TEXT},
                                          [A_ANSWER] = {"answer", "", LH_COLUMN_TEXT},
                                          LH_FIGURE_COLUMNS(A_FIGURES),
                                          [A_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum {
    M_POLICY,
    M_BUDGET,
    M_LENGTH,
    M_SCENARIO,
    M_TASK,
    M_PROMPTS,
    M_SCORE,
    M_EXACT,
    M_NLL,
    M_FIGURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
const lh_column lh_synthetic_mean_columns[] = {[M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                               [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                               [M_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                               [M_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                               [M_TASK] = {"task", "", LH_COLUMN_LABEL},
                                               [M_PROMPTS] = {"prompts", "prompts", LH_COLUMN_I64},
                                               [M_SCORE] = {"score", "%", LH_COLUMN_F64},
                                               [M_EXACT] = {"exact", "share of the prompts", LH_COLUMN_F64},
                                               [M_NLL] = LH_ANSWER_NLL_COLUMN,
                                               LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "score"),
                                               [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

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
    lh_synthetic_result *out;
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
    const lh_policy_choice *choice = &r->request->setup.policies->at[answer->policy];
    lh_cell row[A_COLUMNS] = {{0}};
    LH_TRY(lh_synthetic_score(&r->sample, r->spec.task, answer->text, &row[A_SCORE].value));
    row[A_POLICY].text = choice->name;
    row[A_BUDGET].text = choice->budget;
    row[A_LENGTH].number = r->spec.length;
    row[A_SCENARIO].text = lh_scenario_names[answer->scenario];
    row[A_TASK].text = r->spec.task->label;
    row[A_SEED].number = (int64_t)r->spec.seed;
    row[A_TOKENS].number = lh_asked_prompt_tokens(answer->prompt, answer->scenario);
    row[A_UNITS].number = r->sample.units;
    row[A_NLL].value = answer->nll;
    row[A_EXACT].number = row[A_SCORE].value == 100;
    row[A_EXPECTED].text = r->sample.expected.data + strspn(r->sample.expected.data, " ");
    row[A_ANSWER].text = answer->text;
    lh_figures_put(&row[A_FIGURES], answer->figures);
    return lh_table_add(&r->out->answers, row);
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
        LH_TRY(lh_comm_agree_patiently(comm, st));
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

lh_status lh_synthetic_run(lh_synthetic_result *out, lh_engine *engine, const lh_synthetic_request *request)
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
    *out = (lh_synthetic_result){.request = request};
    lh_table_init(&out->answers, lh_synthetic_columns);
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

void lh_synthetic_result_clear(lh_synthetic_result *result)
{
    lh_table_clear(&result->answers);
    *result = (lh_synthetic_result){0};
}

/* ---- means ---- */

/* The rows of a table. */
typedef struct selection {
    const lh_synthetic_result *result;
    int64_t length;
    int scenario;
} selection;

/* Over the prompts of one policy, budget, length, scenario and task; NAN if there are none. */
typedef struct mean {
    const char *task;
    double score, exact, nll;
    lh_figure_sums figures; /* n: prompts */
} mean;

static mean mean_of(const selection *of, const lh_policy_choice *choice, const lh_synthetic_task *task)
{
    mean m = {.task = task->label};
    double score = 0, exact = 0;
    lh_nll_sum nll = {0};
    const lh_table *answers = &of->result->answers;
    for (int64_t i = 0; i < answers->n; i++) {
        const lh_cell *row = lh_table_row(answers, i);
        if (row[A_LENGTH].number != of->length || strcmp(row[A_TASK].text, task->label) != 0 ||
            strcmp(row[A_SCENARIO].text, lh_scenario_names[of->scenario]) != 0 ||
            strcmp(row[A_POLICY].text, choice->name) != 0 || strcmp(row[A_BUDGET].text, choice->budget) != 0)
            continue;
        score += row[A_SCORE].value;
        exact += (double)row[A_EXACT].number;
        lh_nll_add(&nll, row[A_NLL].value);
        lh_figures_add(&m.figures, &row[A_FIGURES]);
    }
    m.score = m.figures.n ? score / (double)m.figures.n : (double)NAN;
    m.exact = m.figures.n ? exact / (double)m.figures.n : (double)NAN;
    m.nll = lh_nll_of_sum(&nll);
    return m;
}

/* The mean of the averaged tasks that have answers. */
static mean average_of(const selection *of, const lh_policy_choice *choice)
{
    mean all = {.task = "average"};
    int64_t tasks = 0;
    const lh_synthetic_request *q = of->result->request;
    for (int64_t t = 0; t < q->task_count; t++) {
        if (!q->tasks[t]->averaged) continue;
        const mean m = mean_of(of, choice, q->tasks[t]);
        if (m.figures.n == 0) continue;
        tasks++;
        all.score += m.score;
        all.exact += m.exact;
        all.nll += m.nll;
        all.figures.n += m.figures.n;
        for (int i = 0; i < LH_FIGURES; i++) all.figures.of[i] += m.figures.of[i];
    }
    all.score = tasks ? all.score / (double)tasks : (double)NAN;
    all.exact = tasks ? all.exact / (double)tasks : (double)NAN;
    all.nll = tasks ? all.nll / (double)tasks : (double)NAN;
    return all;
}

static lh_status add_mean(lh_table *means, const selection *of, const lh_policy_choice *choice, const mean *m)
{
    if (m->figures.n == 0) return LH_OK;
    lh_cell row[M_COLUMNS] = {
        [M_POLICY] = {.text = choice->name}, [M_BUDGET] = {.text = choice->budget},
        [M_LENGTH] = {.number = of->length}, [M_SCENARIO] = {.text = lh_scenario_names[of->scenario]},
        [M_TASK] = {.text = m->task},        [M_PROMPTS] = {.number = m->figures.n},
        [M_SCORE] = {.value = m->score},     [M_NLL] = {.value = m->nll}};
    lh_mean_figures_put(&row[M_FIGURES],
                        &(lh_mean_figures){m->score / 100, &m->figures, of->result->request->setup.model});
    row[M_FIGURES].value *= 100; /* the interval, in % as the score */
    row[M_FIGURES + 1].value *= 100;
    return lh_table_add(means, row);
}

static lh_status add_means(lh_table *means, const selection *of, const lh_policy_choice *choice)
{
    const lh_synthetic_request *q = of->result->request;
    for (int64_t t = 0; t < q->task_count; t++) {
        const mean m = mean_of(of, choice, q->tasks[t]);
        LH_TRY(add_mean(means, of, choice, &m));
    }
    const mean average = average_of(of, choice);
    return add_mean(means, of, choice, &average);
}

lh_status lh_synthetic_means(const lh_synthetic_result *result, lh_table *means)
{
    const lh_synthetic_request *q = result->request;
    lh_table_init(means, lh_synthetic_mean_columns);
    for (int64_t l = 0; l < q->length_count; l++)
        for (int s = 0; s < LH_SCENARIOS; s++)
            for (int64_t p = 0; p < q->setup.policies->n; p++)
                LH_TRY(add_means(means, &(selection){result, q->lengths[l], s}, &q->setup.policies->at[p]));
    return LH_OK;
}

/* ---- text ---- */

/* "12.5 3.21" */
static lh_status put_mean(lh_buf *cell, const mean *m)
{
    LH_TRY(isnan(m->score) ? lh_buf_puts(cell, "–") : lh_buf_printf(cell, "%.1f", m->score));
    return lh_nll_print(m->nll, cell);
}

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const selection *of = self;
    const mean m = mean_of(of, choice, of->result->request->tasks[0]);
    return put_mean(out, &m);
}

/* The row of a policy: its name and budget, the average, the tasks. */
static lh_status put_row(const lh_markdown *table, int64_t row, const selection *of, const lh_policy_choice *choice)
{
    const lh_synthetic_request *q = of->result->request;
    const mean average = average_of(of, choice);
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, row, 0), choice->name));
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, row, 1), *choice->budget ? choice->budget : "all"));
    LH_TRY(put_mean(lh_markdown_cell(table, row, 2), &average));
    for (int64_t t = 0; t < q->task_count; t++) {
        const mean m = mean_of(of, choice, q->tasks[t]);
        LH_TRY(put_mean(lh_markdown_cell(table, row, 3 + t), &m));
    }
    return LH_OK;
}

static lh_status print_tasks(const selection *of, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_markdown table = {0};
    const lh_synthetic_request *q = of->result->request;
    static const char *const heads[] = {"policy", "budget", "average"};
    LH_TRY_DONE(lh_markdown_init(&table, 1 + q->setup.policies->n, 3 + q->task_count));
    for (int i = 0; i < 3; i++) LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 0, i), heads[i]));
    for (int64_t t = 0; t < q->task_count; t++)
        LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 0, 3 + t), q->tasks[t]->label));
    for (int64_t p = 0; p < q->setup.policies->n; p++)
        LH_TRY_DONE(put_row(&table, p + 1, of, &q->setup.policies->at[p]));
    LH_TRY_DONE(lh_markdown_print(&table, 1, out));
done:
    lh_markdown_clear(&table);
    return st;
}

static int has_answers(const selection *of)
{
    const lh_synthetic_request *q = of->result->request;
    for (int64_t t = 0; t < q->task_count; t++)
        if (mean_of(of, &q->setup.policies->at[0], q->tasks[t]).figures.n) return 1;
    return 0;
}

lh_status lh_synthetic_print(const lh_synthetic_result *result, lh_buf *out)
{
    const lh_synthetic_request *q = result->request;
    for (int64_t l = 0; l < q->length_count; l++)
        for (int s = 0; s < LH_SCENARIOS; s++) {
            const selection of = {result, q->lengths[l], s};
            if (!has_answers(&of)) continue;
            LH_TRY(lh_buf_printf(out,
                                 "%s%lld tokens, %s: scores in %% and negative log-likelihoods of the right answers, "
                                 "means of %lld prompt%s%s%s\n\n",
                                 out->bytes ? "\n" : "", (long long)q->lengths[l], lh_scenario_names[s],
                                 (long long)q->count, q->count == 1 ? "" : "s",
                                 q->task_count == 1 ? " of " : " of every task",
                                 q->task_count == 1 ? q->tasks[0]->label : ""));
            LH_TRY(q->task_count == 1 ? lh_grid_print(q->setup.policies, &(lh_grid){&of, write_cell}, out)
                                      : print_tasks(&of, out));
        }
    return LH_OK;
}
