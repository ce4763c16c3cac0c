/* ppl_means.c - means of the rows of a run of `ppl`, over the windows of every policy, budget and context, as tables
 * and as Markdown. */
#include <math.h>
#include <string.h>

#include "base/markdown.h"
#include "lab/eval/grid.h"
#include "lab/eval/likelihood.h"
#include "lab/eval/ppl.h"
#include "lab/eval/ppl_impl.h"

#define BUDGET "entries per KV head, or % of the prompt"
#define NLL "nats per token"

const lh_column lh_ppl_columns[] = {[W_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                    [W_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                    [W_CONTEXT] = {"context", "tokens", LH_COLUMN_I64},
                                    [W_WINDOW] = {"window", "", LH_COLUMN_I64},
                                    [W_TEXT] = {"text", "", LH_COLUMN_I64},
                                    [W_AT] = {"at", "tokens", LH_COLUMN_I64},
                                    [W_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},
                                    [W_NLL] = {"nll", NLL, LH_COLUMN_F64},
                                    LH_FIGURE_COLUMNS(W_FIGURES),
                                    [W_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};
const lh_column lh_ppl_position_columns[] = {[P_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                             [P_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                             [P_CONTEXT] = {"context", "tokens", LH_COLUMN_I64},
                                             [P_WINDOW] = {"window", "", LH_COLUMN_I64},
                                             [P_FROM] = {"from", "tokens after the context", LH_COLUMN_I64},
                                             [P_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},
                                             [P_NLL] = {"nll", NLL, LH_COLUMN_F64},
                                             [P_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* The first columns are the same in both tables: policy, budget, context, window. */
_Static_assert((int)W_WINDOW == (int)P_WINDOW && (int)W_CONTEXT == (int)P_CONTEXT, "columns that name a row");

enum {
    M_POLICY,
    M_BUDGET,
    M_CONTEXT,
    M_WINDOWS,
    M_TOKENS,
    M_PPL,
    M_NLL,
    M_OVER,
    M_OVER_LOW,
    M_OVER_HIGH,
    M_FIGURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
const lh_column lh_ppl_mean_columns[] = {
    [M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
    [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
    [M_CONTEXT] = {"context", "tokens", LH_COLUMN_I64},
    [M_WINDOWS] = {"windows", "windows", LH_COLUMN_I64},
    [M_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},
    [M_PPL] = {"ppl", "perplexity", LH_COLUMN_F64},
    [M_NLL] = {"nll", NLL, LH_COLUMN_F64},
    [M_OVER] = {"over_full", NLL " more than the full cache", LH_COLUMN_F64},
    [M_OVER_LOW] = {"over_full_low", "95% confidence interval of over_full", LH_COLUMN_F64},
    [M_OVER_HIGH] = {"over_full_high", "95% confidence interval of over_full", LH_COLUMN_F64},
    LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "ppl"),
    [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum { C_POLICY, C_BUDGET, C_CONTEXT, C_FROM, C_TOKENS, C_NLL, C_COLUMNS };
const lh_column lh_ppl_curve_columns[] = {
    [C_POLICY] = {"policy", "", LH_COLUMN_LABEL},       [C_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
    [C_CONTEXT] = {"context", "tokens", LH_COLUMN_I64}, [C_FROM] = {"from", "tokens after the context", LH_COLUMN_I64},
    [C_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},   [C_NLL] = {"nll", NLL, LH_COLUMN_F64},
    [C_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* ---- means ---- */

static int is_of(const lh_cell *row, const lh_policy_choice *choice, int64_t context)
{
    return row[W_CONTEXT].number == context && strcmp(row[W_POLICY].text, choice->name) == 0 &&
           strcmp(row[W_BUDGET].text, choice->budget) == 0;
}

/* Mean of one value per window, and the half width of its 95% confidence interval. All zero is none. */
typedef struct spread {
    int64_t n;
    double mean, squares; /* Welford's recurrence */
} spread;

static void add_value(spread *s, double value)
{
    const double before = value - s->mean;
    s->n++;
    s->mean += before / (double)s->n;
    s->squares += before * (value - s->mean);
}

static double half_width(const spread *s)
{
    if (s->n < 2) return (double)NAN;
    return 1.959963984540054 * sqrt(s->squares / (double)(s->n - 1) / (double)s->n);
}

typedef struct sums {
    spread nll, over;
    lh_figure_sums figures;
} sums;

/* The row of the full cache for the window of row `i`: the first of the window's rows. */
static const lh_cell *full_of(const lh_ppl_result *result, int64_t i)
{
    const lh_policy_choice *full = &result->request->setup.policies->at[0];
    const int64_t context = lh_table_row(&result->windows, i)[W_CONTEXT].number;
    while (i > 0 && !is_of(lh_table_row(&result->windows, i), full, context)) i--;
    return lh_table_row(&result->windows, i);
}

static sums sum_up(const lh_ppl_result *result, const lh_policy_choice *choice, int64_t context)
{
    sums s = {0};
    for (int64_t i = 0; i < result->windows.n; i++) {
        const lh_cell *row = lh_table_row(&result->windows, i);
        if (!is_of(row, choice, context)) continue;
        add_value(&s.nll, row[W_NLL].value);
        add_value(&s.over, row[W_NLL].value - full_of(result, i)[W_NLL].value);
        lh_figures_add(&s.figures, &row[W_FIGURES]);
    }
    return s;
}

static lh_status add_mean(const lh_ppl_result *result, const lh_policy_choice *choice, int64_t context, lh_table *means)
{
    const lh_ppl_request *q = result->request;
    const sums s = sum_up(result, choice, context);
    const double half = half_width(&s.nll), over = half_width(&s.over);
    if (s.nll.n == 0) return LH_OK;
    lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                              [M_BUDGET] = {.text = choice->budget},
                              [M_CONTEXT] = {.number = context},
                              [M_WINDOWS] = {.number = s.nll.n},
                              [M_TOKENS] = {.number = s.nll.n * q->score},
                              [M_PPL] = {.value = exp(s.nll.mean)},
                              [M_NLL] = {.value = s.nll.mean},
                              [M_OVER] = {.value = s.over.mean},
                              [M_OVER_LOW] = {.value = s.over.mean - over},
                              [M_OVER_HIGH] = {.value = s.over.mean + over}};
    lh_mean_figures_put(&row[M_FIGURES], &(lh_mean_figures){(double)NAN, &s.figures, q->setup.model});
    row[M_FIGURES].value = exp(s.nll.mean - half); /* no share: Wilson's interval does not hold */
    row[M_FIGURES + 1].value = exp(s.nll.mean + half);
    return lh_table_add(means, row);
}

lh_status lh_ppl_means(const lh_ppl_result *result, lh_table *means)
{
    const lh_ppl_request *q = result->request;
    lh_table_init(means, lh_ppl_mean_columns);
    for (int64_t c = 0; c < q->context_count; c++)
        for (int64_t p = 0; p < q->setup.policies->n; p++)
            LH_TRY(add_mean(result, &q->setup.policies->at[p], q->contexts[c], means));
    return LH_OK;
}

/* Adds the rows of one policy, budget and context. Every window has all bins, in their order. */
static lh_status add_curve(const lh_ppl_result *result, const lh_policy_choice *choice, int64_t context,
                           lh_table *curve)
{
    lh_status st = LH_OK;
    const int64_t bins = result->request->bins;
    lh_cell *rows = NULL;
    int64_t seen = 0;
    LH_TRY_DONE(lh_calloc(&rows, bins * C_COLUMNS, sizeof *rows));
    for (int64_t i = 0; i < result->positions.n; i++) {
        const lh_cell *row = lh_table_row(&result->positions, i);
        if (!is_of(row, choice, context)) continue;
        lh_cell *out = rows + seen++ % bins * C_COLUMNS;
        out[C_FROM].number = row[P_FROM].number;
        out[C_TOKENS].number += row[P_TOKENS].number;
        out[C_NLL].value += row[P_NLL].value * (double)row[P_TOKENS].number;
    }
    for (int64_t b = 0; seen && b < bins; b++) {
        lh_cell *out = rows + b * C_COLUMNS;
        out[C_POLICY].text = choice->name;
        out[C_BUDGET].text = choice->budget;
        out[C_CONTEXT].number = context;
        out[C_NLL].value /= (double)out[C_TOKENS].number;
        LH_TRY_DONE(lh_table_add(curve, out));
    }
done:
    lh_free(rows);
    return st;
}

lh_status lh_ppl_curve(const lh_ppl_result *result, lh_table *curve)
{
    const lh_ppl_request *q = result->request;
    lh_table_init(curve, lh_ppl_curve_columns);
    for (int64_t c = 0; c < q->context_count; c++)
        for (int64_t p = 0; p < q->setup.policies->n; p++)
            LH_TRY(add_curve(result, &q->setup.policies->at[p], q->contexts[c], curve));
    return LH_OK;
}

/* ---- text ---- */

typedef struct cells {
    const lh_ppl_result *result;
    int64_t context;
} cells;

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const cells *c = self;
    const sums s = sum_up(c->result, choice, c->context);
    if (s.nll.n == 0) return lh_buf_puts(out, "–");
    return lh_buf_printf(out, "%.3f %+.4f", exp(s.nll.mean), s.over.mean);
}

static lh_status fill_curve(const lh_markdown *table, const lh_table *curve, int64_t first, int64_t bins)
{
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, 0), "policy"));
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, 1), "budget"));
    for (int64_t r = 0; r + 1 < table->rows; r++)
        for (int64_t b = 0; b < bins; b++) {
            const lh_cell *row = lh_table_row(curve, first + r * bins + b);
            const char *budget = *row[C_BUDGET].text ? row[C_BUDGET].text : "all";
            if (r == 0) LH_TRY(lh_buf_printf(lh_markdown_cell(table, 0, 2 + b), "%lld", (long long)row[C_FROM].number));
            if (b == 0) LH_TRY(lh_buf_puts(lh_markdown_cell(table, r + 1, 0), row[C_POLICY].text));
            if (b == 0) LH_TRY(lh_buf_puts(lh_markdown_cell(table, r + 1, 1), budget));
            LH_TRY(lh_buf_printf(lh_markdown_cell(table, r + 1, 2 + b), "%.3f", row[C_NLL].value));
        }
    return LH_OK;
}

/* The curves of one context. */
static lh_status print_curve(const lh_ppl_result *result, const lh_table *curve, int64_t context, lh_buf *out)
{
    lh_status st = LH_OK;
    const int64_t bins = result->request->bins;
    int64_t first = -1, rows = 0;
    lh_markdown table = {0};
    for (int64_t i = 0; i < curve->n; i++) {
        if (lh_table_row(curve, i)[C_CONTEXT].number != context) continue;
        if (first < 0) first = i;
        rows++;
    }
    LH_TRY_DONE(lh_markdown_init(&table, rows / bins + 1, 2 + bins));
    LH_TRY_DONE(fill_curve(&table, curve, first, bins));
    LH_TRY_DONE(lh_buf_puts(out, "\nNats per token from each token after the context on\n\n"));
    LH_TRY_DONE(lh_markdown_print(&table, 3, out));
done:
    lh_markdown_clear(&table);
    return st;
}

lh_status lh_ppl_print(const lh_ppl_result *result, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_ppl_request *q = result->request;
    lh_table curve = {0};
    LH_TRY_DONE(lh_ppl_curve(result, &curve));
    for (int64_t c = 0; c < q->context_count; c++) {
        const cells of = {result, q->contexts[c]};
        const sums full = sum_up(result, &q->setup.policies->at[0], q->contexts[c]);
        if (full.nll.n == 0) continue;
        LH_TRY_DONE(lh_buf_printf(out,
                                  "%sContext of %lld tokens: perplexity of the %lld after it, and nats per token more "
                                  "than with the full cache, over %lld window%s\n\n",
                                  out->bytes ? "\n" : "", (long long)q->contexts[c], (long long)q->score,
                                  (long long)full.nll.n, full.nll.n == 1 ? "" : "s"));
        LH_TRY_DONE(lh_grid_print(q->setup.policies, &(lh_grid){&of, write_cell}, out));
        if (q->bins > 1) LH_TRY_DONE(print_curve(result, &curve, q->contexts[c], out));
    }
done:
    lh_table_clear(&curve);
    return st;
}
