/* qa.c - runs the task `qa` over every question, scenario, policy and budget, and prints the means of the scores. */
#include "eval/qa.h"

#include <string.h>

#include "eval/asked_sizes.h"
#include "eval/grid.h"
#include "eval/likelihood.h"
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
    A_NLL,
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
                                   [A_NLL] = LH_ANSWER_NLL_COLUMN,
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
    M_NLL,
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
                                        [M_NLL] = LH_ANSWER_NLL_COLUMN,
                                        LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "f1"),
                                        [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* ---- the run ---- */

typedef struct run {
    lh_asking asking;
    const lh_qa_request *request;
    lh_qa_result *out;
    lh_asked_sizes sizes;
    const lh_qa_record *now; /* the current question, on rank 0 */
} run;

static lh_status make_question(void *self, int64_t number, lh_asked_prompt *out)
{
    run *r = self;
    r->now = &r->request->data->at[number];
    out->line = r->now->line;
    return lh_asked_prompt_make(out, lh_engine_tokenizer(r->asking.engine),
                                &(lh_asked_text){.text = r->now->context,
                                                 .bytes = (int64_t)strlen(r->now->context),
                                                 .question = r->now->question,
                                                 .answer = r->now->answers[0],
                                                 .format = r->asking.chat.format,
                                                 .system = r->request->chat.system});
}

static void describe_question(const void *self, int64_t number, lh_scenario scenario, lh_asked_case *out)
{
    lh_asked_sizes_describe(&((const run *)self)->sizes, number, scenario, out);
}

static lh_status judge_words(void *self, const lh_asked_answer *answer)
{
    run *r = self;
    const lh_policy_choice *choice = &r->request->setup.policies->at[answer->policy];
    const lh_qa_record *record = r->now;
    lh_cell row[A_COLUMNS] = {{0}};
    lh_answer_score score;
    LH_TRY(lh_answer_score_of(&score, answer->text, (const char *const *)record->answers, record->answer_count));
    row[A_POLICY].text = choice->name;
    row[A_BUDGET].text = choice->budget;
    row[A_SCENARIO].text = lh_scenario_names[answer->scenario];
    row[A_ID].text = record->id;
    row[A_LINE].number = record->line;
    row[A_TOKENS].number = lh_asked_prompt_tokens(answer->prompt, answer->scenario);
    row[A_EXACT].number = score.exact;
    row[A_F1].value = score.f1;
    row[A_ROUGEL].value = score.rougel;
    row[A_NLL].value = answer->nll;
    row[A_QUESTION].text = record->question;
    row[A_EXPECTED].text = record->answers[0];
    row[A_ANSWER].text = answer->text;
    lh_figures_put(&row[A_FIGURES], answer->figures);
    return lh_table_add(&r->out->answers, row);
}

lh_status lh_qa_run(lh_qa_result *out, lh_engine *engine, const lh_qa_request *request)
{
    lh_status st = LH_OK;
    static const lh_asker asker = {make_question, describe_question, judge_words};
    run r = {.asking = {.engine = engine,
                        .setup = &request->setup,
                        .scenarios = request->scenarios,
                        .tables = {&out->answers},
                        .asker = &asker,
                        .self = &r},
             .request = request,
             .out = out};
    *out = (lh_qa_result){.request = request};
    lh_table_init(&out->answers, lh_qa_columns);
    LH_TRY_DONE(lh_asking_open(&r.asking, &request->chat));
    LH_TRY_DONE(lh_asked_sizes_measure(&r.sizes, &r.asking, request->data->n));
    LH_TRY_DONE(lh_asking_run(&r.asking, r.sizes.n));
done:
    lh_asking_close(&r.asking);
    lh_asked_sizes_clear(&r.sizes);
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
    lh_nll_sum nll;
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
        lh_nll_add(&s.nll, row[A_NLL].value);
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
                                      [M_ROUGEL] = {.value = s.rougel / n},
                                      [M_NLL] = {.value = lh_nll_of_sum(&s.nll)}};
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
    LH_TRY(lh_buf_printf(out, "%.2f %.2f %.2f", s.exact / n, s.f1 / n, s.rougel / n));
    return lh_nll_print(lh_nll_of_sum(&s.nll), out);
}

lh_status lh_qa_print(const lh_qa_result *result, lh_buf *out)
{
    const lh_policy_list *policies = result->request->setup.policies;
    for (int s = 0; s < LH_SCENARIOS; s++) {
        const cells c = {result, s};
        const sums full = sum_up(result, &policies->at[0], s);
        if (full.figures.n == 0) continue;
        LH_TRY(lh_buf_printf(
            out,
            "%s%s: exact match, F1, ROUGE-L and negative log-likelihood of the right answer, means of %lld "
            "question%s\n\n",
            out->bytes ? "\n" : "", lh_scenario_names[s], (long long)full.figures.n, full.figures.n == 1 ? "" : "s"));
        LH_TRY(lh_grid_print(policies, &(lh_grid){&c, write_cell}, out));
    }
    return LH_OK;
}
