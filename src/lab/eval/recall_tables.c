/* recall_tables.c - rows of `recall`, their means by kind and by age of a fact, and their printed tables. */
#include "lab/eval/recall_tables.h"

#include <math.h>
#include <string.h>

#include "base/markdown.h"

enum {
    F_POLICY,
    F_BUDGET,
    F_LENGTH,
    F_SEED,
    F_PLACE,
    F_TASK,
    F_AT,
    F_AGE,
    F_EXACT,
    F_ANSWER_MEASURES,
    F_FACT = F_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    F_ANSWER,
    F_FIGURES,
    F_COLUMNS = F_FIGURES + LH_FIGURES
};
enum {
    T_POLICY,
    T_BUDGET,
    T_LENGTH,
    T_SEED,
    T_TOKENS,
    T_STEPS,
    T_KL,
    T_NLL,
    T_OVER,
    T_FIGURES,
    T_COLUMNS = T_FIGURES + LH_FIGURES
};
enum {
    M_POLICY,
    M_BUDGET,
    M_LENGTH,
    M_TASK,
    M_FACTS,
    M_EXACT,
    M_ANSWER_MEASURES,
    M_KL = M_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    M_OVER,
    M_FIGURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
enum {
    C_POLICY,
    C_BUDGET,
    C_LENGTH,
    C_PLACE,
    C_AGE,
    C_FACTS,
    C_EXACT,
    C_ANSWER_MEASURES,
    C_COLUMNS = C_ANSWER_MEASURES + LH_ANSWER_MEASURES
};

#define BUDGET "entries per KV head, or % of the prompt"
const lh_column lh_recall_fact_columns[] = {[F_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                            [F_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                            [F_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                            [F_SEED] = {"seed", "", LH_COLUMN_I64},
                                            [F_PLACE] = {"place", "", LH_COLUMN_I64},
                                            [F_TASK] = {"task", "", LH_COLUMN_LABEL},
                                            [F_AT] = {"fact_at", "tokens", LH_COLUMN_I64},
                                            [F_AGE] = {"age", "tokens", LH_COLUMN_I64},
                                            [F_EXACT] = {"exact", "1: yes", LH_COLUMN_I64},
                                            LH_ANSWER_MEASURE_COLUMNS(F_ANSWER_MEASURES),
                                            [F_FACT] = {"fact", "", LH_COLUMN_TEXT},
                                            [F_ANSWER] = {"answer", "", LH_COLUMN_TEXT},
                                            LH_FIGURE_COLUMNS(F_FIGURES),
                                            [F_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};
const lh_column lh_recall_trace_columns[] = {[T_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                             [T_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                             [T_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                             [T_SEED] = {"seed", "", LH_COLUMN_I64},
                                             [T_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
                                             [T_STEPS] = {"steps", "tokens", LH_COLUMN_I64},
                                             [T_KL] = {"kl", "nats", LH_COLUMN_F64},
                                             [T_NLL] = {"nll", "nats per token", LH_COLUMN_F64},
                                             [T_OVER] = {"over_full", "nats per token", LH_COLUMN_F64},
                                             LH_FIGURE_COLUMNS(T_FIGURES),
                                             [T_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};
const lh_column lh_recall_mean_columns[] = {[M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                            [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                            [M_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                            [M_TASK] = {"task", "", LH_COLUMN_LABEL},
                                            [M_FACTS] = {"facts", "facts", LH_COLUMN_I64},
                                            [M_EXACT] = {"exact", "share of the facts", LH_COLUMN_F64},
                                            LH_ANSWER_MEASURE_COLUMNS(M_ANSWER_MEASURES),
                                            [M_KL] = {"kl", "nats", LH_COLUMN_F64},
                                            [M_OVER] = {"over_full", "nats per token", LH_COLUMN_F64},
                                            LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "answer_best"),
                                            [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};
const lh_column lh_recall_curve_columns[] = {[C_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                             [C_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                             [C_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                             [C_PLACE] = {"place", "", LH_COLUMN_I64},
                                             [C_AGE] = {"age", "tokens", LH_COLUMN_F64},
                                             [C_FACTS] = {"facts", "facts", LH_COLUMN_I64},
                                             [C_EXACT] = {"exact", "share of the facts", LH_COLUMN_F64},
                                             LH_ANSWER_MEASURE_COLUMNS(C_ANSWER_MEASURES),
                                             [C_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* The first columns are the same in both tables: policy, budget, length, seed. */
_Static_assert(F_SEED == 3 && T_SEED == 3, "columns that name a row");

/* ---- rows ---- */

static void put_names(const lh_recall_result *out, const lh_recall_at *at, lh_cell *row)
{
    const lh_policy_choice *choice = &out->request->setup.policies->at[at->cache->policy];
    row[F_POLICY].text = choice->name;
    row[F_BUDGET].text = choice->budget;
    row[F_LENGTH].number = at->spec->length;
    row[F_SEED].number = (int64_t)at->spec->seed;
}

lh_status lh_recall_add_fact(lh_recall_result *out, const lh_recall_at *at, int64_t place,
                             const lh_answer_likelihood *answer)
{
    const lh_recall_fact *fact = &at->trace->facts[place];
    lh_cell row[F_COLUMNS] = {[F_PLACE] = {.number = place},
                              [F_TASK] = {.text = fact->kind},
                              [F_AT] = {.number = fact->at},
                              [F_AGE] = {.number = fact->age},
                              [F_EXACT] = {.number = answer->best == answer->tokens},
                              [F_FACT] = {.text = fact->sentence.data},
                              [F_ANSWER] = {.text = fact->answer.data}};
    put_names(out, at, row);
    lh_answer_measures_put(&row[F_ANSWER_MEASURES], answer);
    lh_figures_put(&row[F_FIGURES], &at->cache->figures);
    return lh_table_add(&out->facts, row);
}

lh_status lh_recall_add_trace(lh_recall_result *out, const lh_recall_at *at, const lh_recall_along *along)
{
    lh_cell row[T_COLUMNS] = {[T_TOKENS] = {.number = at->trace->prompt.n},
                              [T_STEPS] = {.number = at->trace->steps.n},
                              [T_KL] = {.value = along->kl},
                              [T_NLL] = {.value = along->nll},
                              [T_OVER] = {.value = along->nll - along->full_nll}};
    put_names(out, at, row);
    lh_figures_put(&row[T_FIGURES], &at->cache->figures);
    return lh_table_add(&out->traces, row);
}

/* ---- means ---- */

/* The facts of a length that a mean is of. */
typedef struct cells {
    const lh_recall_result *result;
    int64_t length;
    const char *kind; /* NULL: all kinds */
    int64_t place;    /* in the window; -1: all places */
} cells;

/* Sums over them for a policy and a budget. */
typedef struct sums {
    int64_t n, exact;
    double age;
    lh_answer_sums answers;
    lh_figure_sums figures;
} sums;

static int is_of(const lh_cell *row, const lh_policy_choice *choice, int64_t length)
{
    return row[F_LENGTH].number == length && strcmp(row[F_POLICY].text, choice->name) == 0 &&
           strcmp(row[F_BUDGET].text, choice->budget) == 0;
}

static sums sum_up(const cells *c, const lh_policy_choice *choice)
{
    sums s = {0};
    for (int64_t i = 0; i < c->result->facts.n; i++) {
        const lh_cell *row = lh_table_row(&c->result->facts, i);
        if (!is_of(row, choice, c->length) || (c->kind && strcmp(row[F_TASK].text, c->kind) != 0) ||
            (c->place >= 0 && row[F_PLACE].number != c->place))
            continue;
        s.n++;
        s.exact += row[F_EXACT].number;
        s.age += (double)row[F_AGE].number;
        lh_answer_sums_add(&s.answers, &row[F_ANSWER_MEASURES]);
        lh_figures_add(&s.figures, &row[F_FIGURES]);
    }
    return s;
}

static double mean(double sum, int64_t n)
{
    return n ? sum / (double)n : (double)NAN;
}

/* Mean of a column of the traces. */
static double mean_along(const lh_recall_result *result, const lh_policy_choice *choice, int64_t length, int column)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < result->traces.n; i++) {
        const lh_cell *row = lh_table_row(&result->traces, i);
        if (!is_of(row, choice, length)) continue;
        sum += row[column].value;
        n++;
    }
    return mean(sum, n);
}

/* Calls `take` for every length and kind, and, of several kinds, for all of them together. */
static lh_status each_kind(const lh_recall_result *result, lh_status (*take)(void *self, const cells *c), void *self)
{
    const lh_recall_request *q = result->request;
    const lh_needle_kinds *kinds = &q->form.kinds;
    for (int64_t l = 0; l < q->length_count; l++) {
        for (int64_t k = 0; k < kinds->n; k++)
            LH_TRY(take(self, &(cells){result, q->lengths[l], kinds->at[k].name, -1}));
        if (kinds->n > 1) LH_TRY(take(self, &(cells){result, q->lengths[l], NULL, -1}));
    }
    return LH_OK;
}

static lh_status add_means(void *self, const cells *c)
{
    lh_table *means = self;
    const lh_eval_setup *setup = &c->result->request->setup;
    for (int64_t p = 0; p < setup->policies->n; p++) {
        const lh_policy_choice *choice = &setup->policies->at[p];
        const sums s = sum_up(c, choice);
        if (s.n == 0) continue;
        lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                                  [M_BUDGET] = {.text = choice->budget},
                                  [M_LENGTH] = {.number = c->length},
                                  [M_TASK] = {.text = c->kind ? c->kind : "average"},
                                  [M_FACTS] = {.number = s.n},
                                  [M_EXACT] = {.value = mean((double)s.exact, s.n)},
                                  [M_KL] = {.value = mean_along(c->result, choice, c->length, T_KL)},
                                  [M_OVER] = {.value = mean_along(c->result, choice, c->length, T_OVER)}};
        lh_answer_sums_mean(&s.answers, &row[M_ANSWER_MEASURES]);
        lh_mean_figures_put(&row[M_FIGURES],
                            &(lh_mean_figures){row[M_ANSWER_MEASURES + 1].value, &s.figures, setup->model});
        LH_TRY(lh_table_add(means, row));
    }
    return LH_OK;
}

lh_status lh_recall_means(const lh_recall_result *result, lh_table *means)
{
    lh_table_init(means, lh_recall_mean_columns);
    return each_kind(result, add_means, means);
}

static lh_status add_ages(const lh_recall_result *result, const lh_policy_choice *choice, int64_t length,
                          lh_table *curve)
{
    for (int64_t place = 0; place < result->request->form.keys; place++) {
        const sums s = sum_up(&(cells){result, length, NULL, place}, choice);
        if (s.n == 0) continue;
        lh_cell row[C_COLUMNS] = {[C_POLICY] = {.text = choice->name},
                                  [C_BUDGET] = {.text = choice->budget},
                                  [C_LENGTH] = {.number = length},
                                  [C_PLACE] = {.number = place},
                                  [C_AGE] = {.value = mean(s.age, s.n)},
                                  [C_FACTS] = {.number = s.n},
                                  [C_EXACT] = {.value = mean((double)s.exact, s.n)}};
        lh_answer_sums_mean(&s.answers, &row[C_ANSWER_MEASURES]);
        LH_TRY(lh_table_add(curve, row));
    }
    return LH_OK;
}

lh_status lh_recall_curve(const lh_recall_result *result, lh_table *curve)
{
    const lh_recall_request *q = result->request;
    lh_table_init(curve, lh_recall_curve_columns);
    for (int64_t l = 0; l < q->length_count; l++)
        for (int64_t p = 0; p < q->setup.policies->n; p++)
            LH_TRY(add_ages(result, &q->setup.policies->at[p], q->lengths[l], curve));
    return LH_OK;
}

/* ---- text ---- */

static lh_status write_facts(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const sums s = sum_up(self, choice);
    lh_cell answer[LH_ANSWER_MEASURES];
    if (s.n == 0) return lh_buf_puts(out, "–");
    LH_TRY(lh_buf_printf(out, "%lld/%lld", (long long)s.exact, (long long)s.n));
    lh_answer_sums_mean(&s.answers, answer);
    return lh_answer_measures_print(answer, out);
}

static lh_status write_along(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const cells *c = self;
    const double kl = mean_along(c->result, choice, c->length, T_KL);
    if (isnan(kl)) return lh_buf_puts(out, "–");
    return lh_buf_printf(out, "%.3f %+.3f", kl, mean_along(c->result, choice, c->length, T_OVER));
}

static lh_status print_facts(void *self, const cells *c)
{
    lh_buf *out = self;
    const lh_recall_request *q = c->result->request;
    if (sum_up(c, &q->setup.policies->at[0]).n == 0) return LH_OK;
    LH_TRY(lh_buf_printf(out,
                         "%s%lld tokens and %lld that are fed, %s: facts with an exact answer, mean negative "
                         "log-likelihood of the answer, mean share of its tokens that are the most likely ones\n\n",
                         out->bytes ? "\n" : "", (long long)c->length, (long long)q->steps,
                         c->kind ? c->kind : "average"));
    return lh_grid_print(q->setup.policies, &(lh_grid){c, write_facts}, out);
}

/* Rows are policies with their budgets, columns are places. */
static lh_status fill_ages(const lh_markdown *table, const lh_table *curve, int64_t first, int64_t places)
{
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, 0), "policy"));
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, 1), "budget"));
    for (int64_t r = 0; r + 1 < table->rows; r++)
        for (int64_t f = 0; f < places; f++) {
            const lh_cell *row = lh_table_row(curve, first + r * places + f);
            const char *budget = *row[C_BUDGET].text ? row[C_BUDGET].text : "all";
            if (r == 0) LH_TRY(lh_buf_printf(lh_markdown_cell(table, 0, 2 + f), "%.0f", row[C_AGE].value));
            if (f == 0) LH_TRY(lh_buf_puts(lh_markdown_cell(table, r + 1, 0), row[C_POLICY].text));
            if (f == 0) LH_TRY(lh_buf_puts(lh_markdown_cell(table, r + 1, 1), budget));
            LH_TRY(lh_buf_printf(lh_markdown_cell(table, r + 1, 2 + f), "%.2f %.2f", row[C_ANSWER_MEASURES].value,
                                 row[C_ANSWER_MEASURES + 1].value));
        }
    return LH_OK;
}

static lh_status print_ages(const lh_recall_result *result, const lh_table *curve, int64_t length, lh_buf *out)
{
    lh_status st = LH_OK;
    const int64_t places = result->request->form.keys;
    int64_t first = -1, rows = 0;
    lh_markdown table = {0};
    for (int64_t i = 0; i < curve->n; i++) {
        if (lh_table_row(curve, i)[C_LENGTH].number != length) continue;
        if (first < 0) first = i;
        rows++;
    }
    LH_TRY_DONE(lh_markdown_init(&table, rows / places + 1, 2 + places));
    LH_TRY_DONE(fill_ages(&table, curve, first, places));
    LH_TRY_DONE(lh_buf_puts(out, "\nBy the mean number of tokens after the fact: log-likelihood and share\n\n"));
    LH_TRY_DONE(lh_markdown_print(&table, 3, out));
done:
    lh_markdown_clear(&table);
    return st;
}

lh_status lh_recall_print(const lh_recall_result *result, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_recall_request *q = result->request;
    lh_table curve = {0};
    LH_TRY_DONE(each_kind(result, print_facts, out));
    LH_TRY_DONE(lh_recall_curve(result, &curve));
    for (int64_t l = 0; l < q->length_count; l++) {
        const cells c = {result, q->lengths[l], NULL, -1};
        if (sum_up(&c, &q->setup.policies->at[0]).n == 0) continue;
        LH_TRY_DONE(print_ages(result, &curve, q->lengths[l], out));
        LH_TRY_DONE(lh_buf_puts(out,
                                "\nThe fed tokens: mean KL divergence from the full cache, and nats per token more "
                                "than with it\n\n"));
        LH_TRY_DONE(lh_grid_print(q->setup.policies, &(lh_grid){&c, write_along}, out));
    }
done:
    lh_table_clear(&curve);
    return st;
}
