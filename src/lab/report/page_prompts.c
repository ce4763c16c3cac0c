/* page_prompts.c - answers of `eval` beside each other: of every table that holds answers, the first prompts to which
 * policies answer differently. */
#include <string.h>

#include "base/minmax.h"
#include "lab/report/escape.h"
#include "lab/report/report_impl.h"
#include "lab/report/view.h"

enum { PROMPTS = 6, ROWS = 2000, ANSWERS = 48 };

/* Columns that tell prompts apart, and what an answer should have been. */
static const char *const prompt_columns[] = {"task", "length", "scenario", "depth",    "seed",
                                             "line", "id",     "name",     "question", NULL};
static const char *const expected_columns[] = {"expected", "secret", NULL};

static int is_text(const lh_column *column)
{
    return column->type == LH_COLUMN_TEXT || column->type == LH_COLUMN_LABEL;
}

static int is_one_prompt(const lh_table *table, int64_t a, int64_t b)
{
    for (int i = 0; prompt_columns[i]; i++) {
        const int64_t c = lh_table_column_find(table, prompt_columns[i]);
        if (c < 0) continue;
        const lh_cell *x = &lh_table_row(table, a)[c], *y = &lh_table_row(table, b)[c];
        if (is_text(&table->columns[c])               ? strcmp(x->text, y->text) != 0
            : table->columns[c].type == LH_COLUMN_I64 ? x->number != y->number
                                                      : x->value != y->value)
            return 0;
    }
    return 1;
}

/* 1 if row `first` is the first of its prompt, and a later one has another answer. */
static int is_worth_showing(const lh_table *table, int64_t answer, int64_t first)
{
    const int64_t n = lh_min_i64(table->n, ROWS);
    const char *text = lh_table_row(table, first)[answer].text;
    for (int64_t i = 0; i < first; i++)
        if (is_one_prompt(table, i, first)) return 0;
    for (int64_t i = first + 1; i < n; i++)
        if (is_one_prompt(table, i, first) && strcmp(lh_table_row(table, i)[answer].text, text) != 0) return 1;
    return 0;
}

static lh_status put_cell(const lh_column *column, const lh_cell *cell, lh_buf *out)
{
    if (is_text(column)) return lh_html_text(out, cell->text);
    if (column->type == LH_COLUMN_I64) return lh_buf_printf(out, "%lld", (long long)cell->number);
    return lh_value_text(cell->value, "", out);
}

/* "length 500, depth 0.1, question-aware". */
static lh_status put_prompt(const lh_table *table, int64_t row, lh_buf *out)
{
    const char *between = "";
    LH_TRY(lh_buf_puts(out, "<h3>"));
    for (int i = 0; prompt_columns[i]; i++) {
        const int64_t c = lh_table_column_find(table, prompt_columns[i]);
        if (c < 0) continue;
        LH_TRY(lh_buf_puts(out, between));
        if (!is_text(&table->columns[c])) LH_TRY(lh_buf_printf(out, "%s ", prompt_columns[i]));
        LH_TRY(put_cell(&table->columns[c], &lh_table_row(table, row)[c], out));
        between = ", ";
    }
    LH_TRY(lh_buf_puts(out, "</h3>\n"));
    for (int i = 0; expected_columns[i]; i++) {
        const int64_t c = lh_table_column_find(table, expected_columns[i]);
        if (c < 0) continue;
        LH_TRY(lh_buf_puts(out, "<p class=\"about\">Expected: "));
        LH_TRY(put_cell(&table->columns[c], &lh_table_row(table, row)[c], out));
        LH_TRY(lh_buf_puts(out, "</p>\n"));
    }
    return LH_OK;
}

static lh_status put_answer(const lh_report *r, const lh_table *table, int64_t row, int64_t answer, lh_buf *out)
{
    const lh_cell *cells = lh_table_row(table, row);
    const int64_t policy = lh_table_column_find(table, "policy"), budget = lh_table_column_find(table, "budget");
    LH_TRY(lh_buf_puts(out, "<blockquote><p>"));
    LH_TRY(lh_html_text(out, cells[answer].text));
    LH_TRY(lh_buf_puts(out, "</p><footer>"));
    if (policy >= 0 && table->columns[policy].type == LH_COLUMN_LABEL) {
        const lh_figure_dim dim = {.name = "policy", .count = 1, .labels = &cells[policy].text};
        LH_TRY(lh_page_key(r, &dim, 0, out));
        LH_TRY(lh_html_text(out, cells[policy].text));
    }
    if (budget >= 0) LH_TRY(lh_buf_puts(out, " "));
    if (budget >= 0) LH_TRY(put_cell(&table->columns[budget], &cells[budget], out));
    return lh_buf_puts(out, "</footer></blockquote>\n");
}

static lh_status put_table(const lh_report *r, const lh_stored_table *stored, int *heading, lh_buf *out)
{
    const lh_table *table = &stored->table;
    const int64_t answer = lh_table_column_find(table, "answer"), n = lh_min_i64(table->n, ROWS);
    int prompts = 0;
    if (answer < 0 || table->columns[answer].type != LH_COLUMN_TEXT) return LH_OK;
    for (int64_t first = 0; first < n && prompts < PROMPTS; first++) {
        int answers = 0;
        if (!is_worth_showing(table, answer, first)) continue;
        if (!*heading)
            LH_TRY(lh_buf_puts(out,
                               "<section class=\"topic wide\" id=\"answers\">\n<h2>Answers</h2>\n<p "
                               "class=\"about\">The first prompts to which policies answer differently; the tables "
                               "have all.</p>\n"));
        *heading = 1;
        prompts++;
        LH_TRY(put_prompt(table, first, out));
        LH_TRY(lh_buf_puts(out, "<div class=\"answers\">\n"));
        for (int64_t i = first; i < n && answers < ANSWERS; i++) {
            if (!is_one_prompt(table, first, i)) continue;
            LH_TRY(put_answer(r, table, i, answer, out));
            answers++;
        }
        LH_TRY(lh_buf_puts(out, "</div>\n"));
    }
    return LH_OK;
}

lh_status lh_page_prompts(const lh_report *r, lh_buf *out)
{
    int heading = 0;
    for (int64_t s = 0; s < r->source_count; s++)
        for (int64_t i = 0; i < r->sources[s].tables.count; i++)
            LH_TRY(put_table(r, &r->sources[s].tables.list[i], &heading, out));
    return heading ? lh_buf_puts(out, "</section>\n") : LH_OK;
}
