#include "lab/eval/question_means.h"

#include <string.h>

#include "lab/eval/answer_measures.h"
#include "lab/eval/asked_prompt.h"
#include "lab/eval/grid.h"

/* Sums over the questions of one policy, budget and scenario. */
typedef struct sums {
    double of[LH_QUESTION_MEASURES_MAX];
    lh_answer_sums answers;
    lh_figure_sums figures;
} sums;

static sums sum_up(const lh_question_means *m, const lh_policy_choice *choice, int scenario)
{
    sums s = {0};
    for (int64_t i = 0; i < m->rows->n; i++) {
        const lh_cell *row = lh_table_row(m->rows, i), *measures = row + LH_QUESTION_MEASURES;
        if (strcmp(row[LH_QUESTION_SCENARIO].text, lh_scenario_names[scenario]) != 0 ||
            strcmp(row[LH_QUESTION_POLICY].text, choice->name) != 0 ||
            strcmp(row[LH_QUESTION_BUDGET].text, choice->budget) != 0)
            continue;
        for (int k = 0; k < m->measures; k++)
            s.of[k] += m->rows->columns[LH_QUESTION_MEASURES + k].type == LH_COLUMN_I64 ? (double)measures[k].number
                                                                                        : measures[k].value;
        lh_answer_sums_add(&s.answers, &measures[m->measures]);
        lh_figures_add(&s.figures, &row[m->figures]);
    }
    return s;
}

static lh_status add_mean(const lh_question_means *m, const lh_policy_choice *choice, int scenario, lh_table *out)
{
    enum { COLUMNS = LH_QUESTION_MEAN_MEASURES + LH_QUESTION_MEASURES_MAX + LH_ANSWER_MEASURES + LH_MEAN_FIGURES };
    const sums s = sum_up(m, choice, scenario);
    lh_cell row[COLUMNS] = {[LH_QUESTION_POLICY] = {.text = choice->name},
                            [LH_QUESTION_BUDGET] = {.text = choice->budget},
                            [LH_QUESTION_SCENARIO] = {.text = lh_scenario_names[scenario]},
                            [LH_QUESTION_MEAN_COUNT] = {.number = s.figures.n}};
    lh_cell *measures = row + LH_QUESTION_MEAN_MEASURES;
    if (s.figures.n == 0) return LH_OK;
    for (int k = 0; k < m->measures; k++) measures[k].value = s.of[k] / (double)s.figures.n;
    lh_answer_sums_mean(&s.answers, &measures[m->measures]);
    lh_mean_figures_put(&measures[m->measures + LH_ANSWER_MEASURES],
                        &(lh_mean_figures){measures[m->leading].value, &s.figures, m->setup->model});
    return lh_table_add(out, row);
}

lh_status lh_question_means_table(const lh_question_means *m, lh_table *out)
{
    lh_table_init(out, m->columns);
    for (int c = 0; c < LH_SCENARIOS; c++)
        for (int64_t p = 0; p < m->setup->policies->n; p++) LH_TRY(add_mean(m, &m->setup->policies->at[p], c, out));
    return LH_OK;
}

/* ---- text ---- */

typedef struct cells {
    const lh_question_means *means;
    int scenario;
} cells;

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const cells *c = self;
    const sums s = sum_up(c->means, choice, c->scenario);
    lh_cell answer[LH_ANSWER_MEASURES];
    if (s.figures.n == 0) return lh_buf_puts(out, "–");
    for (int k = 0; k < c->means->measures; k++)
        LH_TRY(lh_buf_printf(out, "%s%.2f", k ? " " : "", s.of[k] / (double)s.figures.n));
    lh_answer_sums_mean(&s.answers, answer);
    return lh_answer_measures_print(answer, out);
}

lh_status lh_question_means_print(const lh_question_means *m, lh_buf *out)
{
    const lh_policy_list *policies = m->setup->policies;
    for (int s = 0; s < LH_SCENARIOS; s++) {
        const cells c = {m, s};
        const int64_t n = sum_up(m, &policies->at[0], s).figures.n;
        if (n == 0) continue;
        LH_TRY(lh_buf_printf(out,
                             "%s%s: %s, negative log-likelihood of %s, share of its tokens that are the most likely "
                             "ones; means of %lld question%s\n\n",
                             out->bytes ? "\n" : "", lh_scenario_names[s], m->said, m->answer, (long long)n,
                             n == 1 ? "" : "s"));
        LH_TRY(lh_grid_print(policies, &(lh_grid){&c, write_cell}, out));
    }
    return LH_OK;
}
