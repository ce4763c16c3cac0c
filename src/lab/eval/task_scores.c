/* task_scores.c - sums the scores of answers up by task. */
#include "lab/eval/task_scores.h"

#include <math.h>
#include <string.h>

#include "base/markdown.h"
#include "lab/eval/measures.h"

#define BUDGET "entries per KV head, or % of the prompt"

enum {
    A_POLICY,
    A_BUDGET,
    A_LENGTH,
    A_SCENARIO,
    A_TASK,
    A_LINE,
    A_TOKENS,
    A_CONTEXT_TOKENS,
    A_SCORE,
    A_EXACT,
    A_ANSWER_MEASURES,
    A_EXPECTED = A_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    A_ANSWER,
    A_FIGURES,
    A_COLUMNS = A_FIGURES + LH_FIGURES
};

const lh_column lh_task_score_columns[] = {[A_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                           [A_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                           [A_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                           [A_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                           [A_TASK] = {"task", "", LH_COLUMN_LABEL},
                                           [A_LINE] = {"line", "", LH_COLUMN_I64},
                                           [A_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
                                           [A_CONTEXT_TOKENS] = {"context_tokens", "tokens", LH_COLUMN_I64},
                                           [A_SCORE] = {"score", "%", LH_COLUMN_F64},
                                           [A_EXACT] = {"exact", "1: the score is 100", LH_COLUMN_I64},
                                           LH_ANSWER_MEASURE_COLUMNS(A_ANSWER_MEASURES),
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
    M_ANSWER_MEASURES,
    M_FIGURES = M_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
const lh_column lh_score_mean_columns[] = {
    [M_POLICY] = {"policy", "", LH_COLUMN_LABEL},     [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
    [M_LENGTH] = {"length", "tokens", LH_COLUMN_I64}, [M_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
    [M_TASK] = {"task", "", LH_COLUMN_LABEL},         [M_PROMPTS] = {"prompts", "prompts", LH_COLUMN_I64},
    [M_SCORE] = {"score", "%", LH_COLUMN_F64},        [M_EXACT] = {"exact", "share of the prompts", LH_COLUMN_F64},
    LH_ANSWER_MEASURE_COLUMNS(M_ANSWER_MEASURES),     LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "score"),
    [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

lh_status lh_task_scores_add(lh_table *answers, const lh_task_score *score)
{
    lh_cell row[A_COLUMNS] = {
        [A_POLICY] = {.text = score->choice->name}, [A_BUDGET] = {.text = score->choice->budget},
        [A_LENGTH] = {.number = score->length},     [A_SCENARIO] = {.text = lh_scenario_names[score->scenario]},
        [A_TASK] = {.text = score->task},           [A_LINE] = {.number = score->line},
        [A_TOKENS] = {.number = score->tokens},     [A_CONTEXT_TOKENS] = {.number = score->context_tokens},
        [A_SCORE] = {.value = score->value},        [A_EXACT] = {.number = score->value == 100},
        [A_EXPECTED] = {.text = score->expected},   [A_ANSWER] = {.text = score->answer}};
    lh_answer_measures_put(&row[A_ANSWER_MEASURES], score->right);
    lh_figures_put(&row[A_FIGURES], score->figures);
    return lh_table_add(answers, row);
}

void lh_task_scores_clear(lh_task_scores *scores)
{
    lh_table_clear(&scores->answers);
    lh_free((void *)scores->tasks);
    lh_free(scores->lengths);
    *scores = (lh_task_scores){0};
}

/* ---- means ---- */

/* The rows of a table. */
typedef struct selection {
    const lh_task_scores *scores;
    int64_t length;
    int scenario;
} selection;

/* Means over the prompts for a policy, a budget, a length, a scenario and a task; NAN if there are none. */
typedef struct mean {
    const char *task;
    double score, exact;
    lh_cell answer[LH_ANSWER_MEASURES];
    lh_figure_sums figures; /* n: prompts */
} mean;

static mean mean_of(const selection *of, const lh_policy_choice *choice, const char *task)
{
    mean m = {.task = task};
    double score = 0, exact = 0;
    lh_answer_sums answer = {0};
    const lh_table *answers = &of->scores->answers;
    for (int64_t i = 0; i < answers->n; i++) {
        const lh_cell *row = lh_table_row(answers, i);
        if (row[A_LENGTH].number != of->length || strcmp(row[A_TASK].text, task) != 0 ||
            strcmp(row[A_SCENARIO].text, lh_scenario_names[of->scenario]) != 0 ||
            strcmp(row[A_POLICY].text, choice->name) != 0 || strcmp(row[A_BUDGET].text, choice->budget) != 0)
            continue;
        score += row[A_SCORE].value;
        exact += (double)row[A_EXACT].number;
        lh_answer_sums_add(&answer, &row[A_ANSWER_MEASURES]);
        lh_figures_add(&m.figures, &row[A_FIGURES]);
    }
    m.score = m.figures.n ? score / (double)m.figures.n : (double)NAN;
    m.exact = m.figures.n ? exact / (double)m.figures.n : (double)NAN;
    lh_answer_sums_mean(&answer, m.answer);
    return m;
}

/* The mean of the tasks that have answers. */
static mean average_of(const selection *of, const lh_policy_choice *choice)
{
    mean all = {.task = "average"};
    int64_t tasks = 0;
    const lh_task_scores *q = of->scores;
    for (int64_t t = 0; t < q->task_count; t++) {
        const mean m = mean_of(of, choice, q->tasks[t]);
        if (m.figures.n == 0) continue;
        tasks++;
        all.score += m.score;
        all.exact += m.exact;
        for (int i = 0; i < LH_ANSWER_MEASURES; i++) all.answer[i].value += m.answer[i].value;
        all.figures.n += m.figures.n;
        for (int i = 0; i < LH_FIGURES; i++) all.figures.of[i] += m.figures.of[i];
    }
    all.score = tasks ? all.score / (double)tasks : (double)NAN;
    all.exact = tasks ? all.exact / (double)tasks : (double)NAN;
    for (int i = 0; i < LH_ANSWER_MEASURES; i++)
        all.answer[i].value = tasks ? all.answer[i].value / (double)tasks : (double)NAN;
    return all;
}

static lh_status add_mean(lh_table *means, const selection *of, const lh_policy_choice *choice, const mean *m)
{
    if (m->figures.n == 0) return LH_OK;
    lh_cell row[M_COLUMNS] = {
        [M_POLICY] = {.text = choice->name}, [M_BUDGET] = {.text = choice->budget},
        [M_LENGTH] = {.number = of->length}, [M_SCENARIO] = {.text = lh_scenario_names[of->scenario]},
        [M_TASK] = {.text = m->task},        [M_PROMPTS] = {.number = m->figures.n},
        [M_SCORE] = {.value = m->score},     [M_EXACT] = {.value = m->exact}};
    memcpy(&row[M_ANSWER_MEASURES], m->answer, sizeof m->answer);
    lh_mean_figures_put(&row[M_FIGURES], &(lh_mean_figures){m->score / 100, &m->figures, of->scores->setup->model});
    row[M_FIGURES].value *= 100; /* the interval, in % as the score */
    row[M_FIGURES + 1].value *= 100;
    return lh_table_add(means, row);
}

static lh_status add_means(lh_table *means, const selection *of, const lh_policy_choice *choice)
{
    const lh_task_scores *q = of->scores;
    for (int64_t t = 0; t < q->task_count; t++) {
        const mean m = mean_of(of, choice, q->tasks[t]);
        LH_TRY(add_mean(means, of, choice, &m));
    }
    if (q->task_count == 1) return LH_OK;
    const mean average = average_of(of, choice);
    return add_mean(means, of, choice, &average);
}

lh_status lh_task_scores_means(const lh_task_scores *q, lh_table *means)
{
    lh_table_init(means, lh_score_mean_columns);
    for (int64_t l = 0; l < q->length_count; l++)
        for (int s = 0; s < LH_SCENARIOS; s++)
            for (int64_t p = 0; p < q->setup->policies->n; p++)
                LH_TRY(add_means(means, &(selection){q, q->lengths[l], s}, &q->setup->policies->at[p]));
    return LH_OK;
}

/* ---- text ---- */

/* "12.5 3.21" */
static lh_status put_mean(lh_buf *cell, const mean *m)
{
    LH_TRY(isnan(m->score) ? lh_buf_puts(cell, "–") : lh_buf_printf(cell, "%.1f", m->score));
    return lh_answer_measures_print(m->answer, cell);
}

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const selection *of = self;
    const mean m = mean_of(of, choice, of->scores->tasks[0]);
    return put_mean(out, &m);
}

/* The row of a policy: its name and budget, the average, the tasks. */
static lh_status put_row(const lh_markdown *table, int64_t row, const selection *of, const lh_policy_choice *choice)
{
    const lh_task_scores *q = of->scores;
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
    const lh_task_scores *q = of->scores;
    static const char *const heads[] = {"policy", "budget", "average"};
    LH_TRY_DONE(lh_markdown_init(&table, 1 + q->setup->policies->n, 3 + q->task_count));
    for (int i = 0; i < 3; i++) LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 0, i), heads[i]));
    for (int64_t t = 0; t < q->task_count; t++)
        LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 0, 3 + t), q->tasks[t]));
    for (int64_t p = 0; p < q->setup->policies->n; p++)
        LH_TRY_DONE(put_row(&table, p + 1, of, &q->setup->policies->at[p]));
    LH_TRY_DONE(lh_markdown_print(&table, 1, out));
done:
    lh_markdown_clear(&table);
    return st;
}

static int has_answers(const selection *of)
{
    const lh_task_scores *q = of->scores;
    for (int64_t t = 0; t < q->task_count; t++)
        if (mean_of(of, &q->setup->policies->at[0], q->tasks[t]).figures.n) return 1;
    return 0;
}

lh_status lh_task_scores_print(const lh_task_scores *q, lh_buf *out)
{
    for (int64_t l = 0; l < q->length_count; l++)
        for (int s = 0; s < LH_SCENARIOS; s++) {
            const selection of = {q, q->lengths[l], s};
            if (!has_answers(&of)) continue;
            LH_TRY(lh_buf_printf(out,
                                 "%s%lld tokens, %s: means of scores in %%, negative log-likelihoods of the right "
                                 "answers, shares of their tokens that are the most likely ones%s%s\n\n",
                                 out->bytes ? "\n" : "", (long long)q->lengths[l], lh_scenario_names[s],
                                 q->task_count == 1 ? ", " : "", q->task_count == 1 ? q->tasks[0] : ""));
            LH_TRY(q->task_count == 1 ? lh_grid_print(q->setup->policies, &(lh_grid){&of, write_cell}, out)
                                      : print_tasks(&of, out));
        }
    return LH_OK;
}
