/* fidelity_means.c - means of the rows of a fidelity run, over the windows of every policy, budget and length, as a
 * table and as Markdown. */
#include <math.h>
#include <string.h>

#include "base/markdown.h"
#include "lab/eval/fidelity.h"
#include "lab/eval/fidelity_impl.h"

#define BUDGET "entries per KV head, or % of the prompt"
#define SIMILARITY_OF(what, first)                                                        \
    [first] = {"rouge1", "F1 of words" what, LH_COLUMN_F64},                              \
    [first + 1] = {"rouge2", "F1 of pairs of words" what, LH_COLUMN_F64},                 \
    [first + 2] = {"rougel", "F1 of the longest common subsequence" what, LH_COLUMN_F64}, \
    [first + 3] = {"bleu", "0 to 1" what, LH_COLUMN_F64}

const lh_column lh_fidelity_columns[] = {[W_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                         [W_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                         [W_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                         [W_WINDOW] = {"window", "", LH_COLUMN_I64},
                                         [W_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},
                                         [W_AGREEMENT] = {"agreement", "share of tokens", LH_COLUMN_F64},
                                         [W_DIVERGED] = {"diverged_at", "tokens", LH_COLUMN_I64},
                                         SIMILARITY_OF("", W_ROUGE1),
                                         [W_KL] = {"kl", "nats", LH_COLUMN_F64},
                                         [W_BEST] = {"best", "share of tokens", LH_COLUMN_F64},
                                         [W_TEXT] = {"text", "", LH_COLUMN_TEXT},
                                         LH_FIGURE_COLUMNS(W_FIGURES),
                                         [W_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};
const lh_column lh_repeated_columns[] = {[R_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                         [R_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                         [R_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                         [R_WINDOW] = {"window", "", LH_COLUMN_I64},
                                         SIMILARITY_OF("", R_ROUGE1),
                                         [R_TEXT] = {"text", "", LH_COLUMN_TEXT},
                                         [R_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum {
    M_POLICY,
    M_BUDGET,
    M_LENGTH,
    M_WINDOWS,
    M_MEASURES,                  /* the first of them */
    M_REPEATED = M_MEASURES + 8, /* the first measure of the reconstructions */
    M_FIGURES = M_REPEATED + 4,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};

const lh_column lh_fidelity_mean_columns[] = {
    [M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
    [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
    [M_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
    [M_WINDOWS] = {"windows", "windows", LH_COLUMN_I64},
    [M_MEASURES] = {"agreement", "share of tokens", LH_COLUMN_F64},
    {"diverged_at", "tokens", LH_COLUMN_F64},
    SIMILARITY_OF("", M_MEASURES + 2),
    [M_MEASURES + 6] = {"kl", "nats", LH_COLUMN_F64},
    [M_MEASURES + 7] = {"best", "share of tokens", LH_COLUMN_F64},
    [M_REPEATED] = {"repeated_rouge1", "F1 of words", LH_COLUMN_F64},
    {"repeated_rouge2", "F1 of pairs of words", LH_COLUMN_F64},
    {"repeated_rougel", "F1 of the longest common subsequence", LH_COLUMN_F64},
    {"repeated_bleu", "0 to 1", LH_COLUMN_F64},
    LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "agreement"),
    [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* The first columns are the same in both tables: policy, budget, length, window. */
_Static_assert(W_WINDOW == 3 && R_WINDOW == 3, "columns that name a row");

static int is_of(const lh_cell *row, const lh_policy_choice *choice, int64_t length)
{
    return row[W_LENGTH].number == length && strcmp(row[W_POLICY].text, choice->name) == 0 &&
           strcmp(row[W_BUDGET].text, choice->budget) == 0;
}

/* Mean of a column over the rows of a policy and length; NAN if there are none. *n: number of rows. */
static double mean_of(const lh_table *table, const lh_policy_choice *choice, int64_t length, int64_t column, int64_t *n)
{
    double sum = 0;
    int64_t had = 0;
    *n = 0;
    for (int64_t i = 0; i < table->n; i++) {
        const lh_cell *row = lh_table_row(table, i);
        if (!is_of(row, choice, length)) continue;
        double value = table->columns[column].type == LH_COLUMN_I64 ? (double)row[column].number : row[column].value;
        (*n)++;
        if (isnan(value)) continue;
        sum += value;
        had++;
    }
    return had ? sum / (double)had : (double)NAN;
}

static lh_figure_sums figures_of(const lh_table *windows, const lh_policy_choice *choice, int64_t length)
{
    lh_figure_sums sums = {0};
    for (int64_t i = 0; i < windows->n; i++) {
        const lh_cell *row = lh_table_row(windows, i);
        if (is_of(row, choice, length)) lh_figures_add(&sums, &row[W_FIGURES]);
    }
    return sums;
}

lh_status lh_fidelity_means(const lh_fidelity_result *result, lh_table *means)
{
    const lh_fidelity_request *q = result->request;
    lh_table_init(means, lh_fidelity_mean_columns);
    for (int64_t l = 0; l < q->length_count; l++)
        for (int64_t p = 0; p < q->setup.policies->n; p++) {
            const lh_policy_choice *choice = &q->setup.policies->at[p];
            lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                                      [M_BUDGET] = {.text = choice->budget},
                                      [M_LENGTH] = {.number = q->lengths[l]}};
            int64_t n = 0, unused;
            for (int64_t m = 0; m < M_REPEATED - M_MEASURES; m++)
                row[M_MEASURES + m].value = mean_of(&result->windows, choice, q->lengths[l], W_AGREEMENT + m, &n);
            for (int64_t m = 0; m < M_FIGURES - M_REPEATED; m++)
                row[M_REPEATED + m].value = mean_of(&result->repeated, choice, q->lengths[l], R_ROUGE1 + m, &unused);
            if (n == 0) continue;
            const lh_figure_sums figures = figures_of(&result->windows, choice, q->lengths[l]);
            row[M_WINDOWS].number = n;
            lh_mean_figures_put(&row[M_FIGURES], &(lh_mean_figures){row[M_MEASURES].value, &figures, q->setup.model});
            LH_TRY(lh_table_add(means, row));
        }
    return LH_OK;
}

/* ---- text ---- */

static const char *const headings[] = {"policy",  "budget", "agreement", "diverged at", "ROUGE-1",           "ROUGE-2",
                                       "ROUGE-L", "BLEU",   "KL",        "same best",   "repeated: ROUGE-1", "ROUGE-2",
                                       "ROUGE-L", "BLEU"};
enum { HEADINGS = sizeof headings / sizeof *headings, MEASURES_AT = 2 };

/* Fills the table with the means of one length. */
static lh_status fill_table(const lh_markdown *table, const lh_table *means, int64_t length)
{
    int64_t r = 1;
    for (int64_t c = 0; c < table->width; c++) LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, c), headings[c]));
    for (int64_t i = 0; i < means->n; i++) {
        const lh_cell *row = lh_table_row(means, i);
        if (row[M_LENGTH].number != length) continue;
        LH_TRY(lh_buf_puts(lh_markdown_cell(table, r, 0), row[M_POLICY].text));
        LH_TRY(lh_buf_puts(lh_markdown_cell(table, r, 1), *row[M_BUDGET].text ? row[M_BUDGET].text : "all"));
        for (int64_t c = MEASURES_AT; c < table->width; c++) {
            const double value = row[M_MEASURES + c - MEASURES_AT].value;
            const int digits = c == MEASURES_AT + 1 ? 1 : 3; /* a number of tokens */
            lh_buf *cell = lh_markdown_cell(table, r, c);
            LH_TRY(isnan(value) ? lh_buf_puts(cell, "–") : lh_buf_printf(cell, "%.*f", digits, value));
        }
        r++;
    }
    return LH_OK;
}

static int64_t rows_of(const lh_table *means, int64_t length, int64_t *windows)
{
    int64_t n = 0;
    for (int64_t i = 0; i < means->n; i++) {
        const lh_cell *row = lh_table_row(means, i);
        if (row[M_LENGTH].number != length) continue;
        if (n++ == 0) *windows = row[M_WINDOWS].number;
    }
    return n;
}

static lh_status print_length(const lh_fidelity_result *result, const lh_table *means, int64_t length, lh_buf *out)
{
    lh_status st = LH_OK;
    const int64_t width = result->repeated.n ? HEADINGS : HEADINGS - (M_FIGURES - M_REPEATED);
    int64_t windows = 0, rows = rows_of(means, length, &windows);
    lh_markdown table = {0};
    if (rows == 0) return LH_OK;
    LH_TRY_DONE(lh_markdown_init(&table, rows + 1, width));
    LH_TRY_DONE(fill_table(&table, means, length));
    LH_TRY_DONE(lh_buf_printf(out,
                              "%s%lld tokens, %lld generated: means of %lld window%s compared with the full cache\n\n",
                              out->bytes ? "\n" : "", (long long)length, (long long)result->request->setup.max_new,
                              (long long)windows, windows == 1 ? "" : "s"));
    LH_TRY_DONE(lh_markdown_print(&table, 1, out));
done:
    lh_markdown_clear(&table);
    return st;
}

lh_status lh_fidelity_print(const lh_fidelity_result *result, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_table means = {0};
    LH_TRY_DONE(lh_fidelity_means(result, &means));
    for (int64_t l = 0; l < result->request->length_count; l++)
        LH_TRY_DONE(print_length(result, &means, result->request->lengths[l], out));
done:
    lh_table_clear(&means);
    return st;
}
