/* task_scores.c - sums the scores of answers up by task. */
#include "lab/eval/task_scores.h"

#include <math.h>
#include <string.h>

#include "base/markdown.h"
#include "lab/eval/keep_files.h"
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
    double low, high; /* 95% confidence interval of the score */
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
    lh_confidence_interval(m.score / 100, m.figures.n, &m.low, &m.high);
    m.low *= 100;
    m.high *= 100;
    return m;
}

/* The mean of the tasks that have answers. Its interval is made of theirs: the squares of their halves add (Newcombe,
 * Statistics in Medicine 17, 1998; MOVER of Zou and Donner, ibid. 27, 2008). */
static mean average_of(const selection *of, const lh_policy_choice *choice)
{
    mean all = {.task = "average"};
    double tasks = 0, below = 0, above = 0;
    const lh_task_scores *q = of->scores;
    for (int64_t t = 0; t < q->task_count; t++) {
        const mean m = mean_of(of, choice, q->tasks[t]);
        if (m.figures.n == 0) continue;
        tasks++;
        all.score += m.score;
        all.exact += m.exact;
        below += (m.score - m.low) * (m.score - m.low);
        above += (m.high - m.score) * (m.high - m.score);
        for (int i = 0; i < LH_ANSWER_MEASURES; i++) all.answer[i].value += m.answer[i].value;
        all.figures.n += m.figures.n;
        for (int i = 0; i < LH_FIGURES; i++) all.figures.of[i] += m.figures.of[i];
    }
    tasks = tasks > 0 ? tasks : (double)NAN;
    all.score /= tasks;
    all.exact /= tasks;
    all.low = all.score - sqrt(below) / tasks;
    all.high = all.score + sqrt(above) / tasks;
    for (int i = 0; i < LH_ANSWER_MEASURES; i++) all.answer[i].value /= tasks;
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
    row[M_FIGURES].value = m->low; /* in % as the score */
    row[M_FIGURES + 1].value = m->high;
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

/* "12.5 3.21 0.48" */
static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const selection *of = self;
    const mean m = mean_of(of, choice, of->scores->tasks[0]);
    LH_TRY(isnan(m.score) ? lh_buf_puts(out, "–") : lh_buf_printf(out, "%.1f", m.score));
    return lh_answer_measures_print(m.answer, out);
}

/* "12.5 (10–15)" */
static lh_status put_score(lh_buf *cell, const mean *m)
{
    return isnan(m->score) ? lh_buf_puts(cell, "–")
                           : lh_buf_printf(cell, "%.1f (%.0f–%.0f)", m->score, m->low, m->high);
}

/* The column of a policy: its scores by task, their average, and the averages of the likelihood. */
static lh_status put_column(const lh_markdown *table, int64_t column, const selection *of,
                            const lh_policy_choice *choice)
{
    const lh_task_scores *q = of->scores;
    const mean average = average_of(of, choice);
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, column), choice->name));
    for (int64_t t = 0; t < q->task_count; t++) {
        const mean m = mean_of(of, choice, q->tasks[t]);
        LH_TRY(put_score(lh_markdown_cell(table, 1 + t, column), &m));
    }
    LH_TRY(put_score(lh_markdown_cell(table, 1 + q->task_count, column), &average));
    for (int i = 0; i < LH_ANSWER_MEASURES; i++) {
        const double v = average.answer[i].value;
        lh_buf *cell = lh_markdown_cell(table, 2 + q->task_count + i, column);
        LH_TRY(isnan(v) ? lh_buf_puts(cell, "–") : lh_buf_printf(cell, "%.2f", v));
    }
    return LH_OK;
}

/* True for the full cache and for given keep sets, which have no budget of the list. */
static int is_reference(const lh_policy_choice *choice)
{
    return !*choice->budget || strcmp(choice->budget, LH_GIVEN_BUDGET) == 0;
}

/* True if the policy was run with this budget; a reference is in the table of every budget. */
static int has_budget(const lh_policy_choice *choice, const char *budget)
{
    return is_reference(choice) || strcmp(choice->budget, budget) == 0;
}

/* The table of a budget: a row per task, a column per policy. */
static lh_status print_budget(const selection *of, const char *budget, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_markdown table = {0};
    const lh_task_scores *q = of->scores;
    const lh_policy_list *policies = q->setup->policies;
    int64_t columns = 1;
    for (int64_t p = 0; p < policies->n; p++) columns += has_budget(&policies->at[p], budget);
    LH_TRY_DONE(lh_markdown_init(&table, 2 + q->task_count + LH_ANSWER_MEASURES, columns));
    LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 0, 0), "task"));
    for (int64_t t = 0; t < q->task_count; t++)
        LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 1 + t, 0), q->tasks[t]));
    LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 1 + q->task_count, 0), "average"));
    for (int i = 0; i < LH_ANSWER_MEASURES; i++)
        LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 2 + q->task_count + i, 0),
                                lh_score_mean_columns[M_ANSWER_MEASURES + i].name));
    columns = 1;
    for (int64_t p = 0; p < policies->n; p++)
        if (has_budget(&policies->at[p], budget)) LH_TRY_DONE(put_column(&table, columns++, of, &policies->at[p]));
    LH_TRY_DONE(lh_markdown_print(&table, 1, out));
done:
    lh_markdown_clear(&table);
    return st;
}

/* A table for every budget, in the order of the list. */
static lh_status print_tasks(const selection *of, lh_buf *out)
{
    const lh_policy_list *policies = of->scores->setup->policies;
    int64_t printed = 0;
    for (int64_t p = 0; p < policies->n; p++) {
        const char *budget = policies->at[p].budget;
        int64_t first = 0;
        while (strcmp(policies->at[first].budget, budget) != 0) first++;
        if (first < p || is_reference(&policies->at[p])) continue;
        LH_TRY(lh_buf_printf(out, "%sbudget %s\n\n", printed++ ? "\n" : "", budget));
        LH_TRY(print_budget(of, budget, out));
    }
    return printed ? LH_OK : print_budget(of, "", out);
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
            const int one = q->task_count == 1;
            if (!has_answers(&of)) continue;
            LH_TRY(lh_buf_printf(out, "%s%lld tokens, %s: mean scores in %%%s%s\n\n", out->bytes ? "\n" : "",
                                 (long long)q->lengths[l], lh_scenario_names[s],
                                 one ? ", negative log-likelihoods of the right answers, shares of their tokens that "
                                       "are the most likely ones, "
                                     : " (with 95% intervals); the last two rows are averages over the tasks",
                                 one ? q->tasks[0] : ""));
            LH_TRY(one ? lh_grid_print(q->setup->policies, &(lh_grid){&of, write_cell}, out) : print_tasks(&of, out));
        }
    return LH_OK;
}
