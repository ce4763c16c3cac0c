/* from_tables.c - the tables of `eval` as figures. A table with policies and budgets gives one figure for each of its
 * measures: `means` curves over budgets and, of several tasks, tables of tasks and policies as papers print them;
 * `curve` curves over positions; tables with a depth maps. Every other column that identifies rows (length, scenario)
 * becomes a dimension. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/analysis/measures.h"
#include "lab/report/report_impl.h"

/* The points of a column that identifies rows, in the order in which they appear; budgets of references (full) are
 * left out. */
typedef struct key {
    const char *name, *unit;
    int64_t column, count;
    lh_cell *points;
    const char **labels;
    double *values;
} key;

enum { KEYS = LH_FIGURE_DIMS, CANDIDATES = 6, SPLITS = 2 };

/* More values than this come from a damaged file. */
static const int64_t MAX_VALUES = INT64_C(1) << 22;

/* How a table is drawn. */
typedef struct form {
    const char *table, *column; /* its name after the task, a column that it must have; NULL: any */
    const char *suffix, *about; /* of the names and titles of its figures */
    lh_figure_view view;
    const char *x, *y;
    const char *keys[CANDIDATES + 1]; /* columns that identify rows: the first KEYS that vary become dimensions */
    const char *left_out;             /* a point that is the mean of all others; NULL: none */
    const char *splits[SPLITS];       /* columns with a separate figure for every value; NULL: none */
    const char *measures[3];          /* ends with NULL; none: all */
} form;

static const form forms[] = {
    {.table = "/means",
     .suffix = "",
     .about = "",
     .view = LH_VIEW_CURVES,
     .x = "budget",
     .y = "policy",
     .keys = {"policy", "budget", "task", "length", "context", "scenario"},
     .left_out = "average"},
    {.table = "/means",
     .column = "task",
     .suffix = "-by-task",
     .about = " by task",
     .view = LH_VIEW_TABLE,
     .x = "policy",
     .y = "task",
     .keys = {"policy", "budget", "task"},
     .splits = {"length", "scenario"},
     .measures = {"score", "answer_nll"}},
    {.table = "/curve",
     .column = "from",
     .suffix = "-by-position",
     .about = " by position",
     .view = LH_VIEW_CURVES,
     .x = "from",
     .y = "policy",
     .keys = {"policy", "from", "budget", "context"}},
    {.table = "/curve",
     .column = "age",
     .suffix = "-by-age",
     .about = " by age",
     .view = LH_VIEW_CURVES,
     .x = "age",
     .y = "policy",
     .keys = {"policy", "age", "budget", "length"},
     .splits = {"length"}},
    {.column = "depth",
     .suffix = "-by-depth",
     .about = " by depth",
     .view = LH_VIEW_HEATMAP,
     .x = "length",
     .y = "depth",
     .keys = {"policy", "budget", "depth", "length"}},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Columns that are no measures, or which tables explain themselves. */
static const char *const unmeasured[] = {
    "entries_kept", "place",   "kv_bytes",         "evict_s",       "decode_s",       "ci_low", "ci_high", "prompts",
    "questions",    "windows", "prompts_answered", "prompt_tokens", "seed",           "line",   "facts",   "answered",
    "window",       "tokens",  "needle_at",        "over_full_low", "over_full_high", "units",  "text",    "at",
    "filled",       NULL};

static int is_among(const char *const *words, const char *word)
{
    for (; *words; words++)
        if (strcmp(*words, word) == 0) return 1;
    return 0;
}

static int is_equal(const lh_column *column, const lh_cell *a, const lh_cell *b)
{
    if (column->type == LH_COLUMN_I64) return a->number == b->number;
    return column->type == LH_COLUMN_F64 ? a->value == b->value : strcmp(a->text, b->text) == 0;
}

static int64_t point_of(const key *k, const lh_column *column, const lh_cell *cell)
{
    for (int64_t i = 0; i < k->count; i++)
        if (is_equal(column, &k->points[i], cell)) return i;
    return -1;
}

static void clear_key(key *k)
{
    lh_free(k->points);
    lh_free((void *)(uintptr_t)k->labels);
    lh_free(k->values);
    *k = (key){.column = -1};
}

/* A row without a budget holds for all: the full cache. */
static int is_reference(const lh_table *table, int64_t budget, int64_t row)
{
    const char *text = lh_table_row(table, row)[budget].text;
    return !*text || strcmp(text, "all") == 0;
}

/* Budgets such as "64" or "25%" as numbers, if all are of the same kind. */
static int is_number(const char *text, int percent)
{
    char *end;
    strtod(text, &end);
    return end != text && strcmp(end, percent ? "%" : "") == 0 && isdigit((unsigned char)*text);
}

static lh_status make_points(key *k, const lh_column *column)
{
    const int text = column->type == LH_COLUMN_LABEL || column->type == LH_COLUMN_TEXT;
    int kind = -1;
    for (int percent = 0; text && percent < 2 && strcmp(k->name, "budget") == 0; percent++) {
        int all = 1;
        for (int64_t i = 0; i < k->count; i++) all &= is_number(k->points[i].text, percent);
        if (all) kind = percent;
    }
    if (!text || kind >= 0) {
        LH_TRY(lh_calloc(&k->values, k->count, sizeof *k->values));
        for (int64_t i = 0; i < k->count; i++)
            k->values[i] = column->type == LH_COLUMN_I64   ? (double)k->points[i].number
                           : column->type == LH_COLUMN_F64 ? k->points[i].value
                                                           : strtod(k->points[i].text, NULL) / (kind ? 100 : 1);
        if (kind >= 0) k->unit = kind ? "share of the prompt" : "entries per KV head";
    } else {
        LH_TRY(lh_calloc(&k->labels, k->count, sizeof *k->labels));
        for (int64_t i = 0; i < k->count; i++) k->labels[i] = k->points[i].text;
    }
    return LH_OK;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = ((const lh_cell *)a)->number, y = ((const lh_cell *)b)->number;
    return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b)
{
    const double x = ((const lh_cell *)a)->value, y = ((const lh_cell *)b)->value;
    return (x > y) - (x < y);
}

typedef struct making {
    const lh_table *table;
    const form *form;
    const char *task; /* "needle" */
    int64_t like;     /* a row with the values of the columns that the form splits by */
    key keys[KEYS];
    int key_count;
    lh_figures *out;
} making;

/* True if two rows have the same values in the columns that a form splits by. */
static int is_like(const lh_table *table, const form *f, int64_t a, int64_t b)
{
    for (int i = 0; i < SPLITS && f->splits[i]; i++) {
        const int64_t c = lh_table_column_find(table, f->splits[i]);
        if (c >= 0 && !is_equal(&table->columns[c], &lh_table_row(table, a)[c], &lh_table_row(table, b)[c])) return 0;
    }
    return 1;
}

static int varies(const lh_table *table, int64_t c)
{
    for (int64_t i = 1; i < table->n; i++)
        if (!is_equal(&table->columns[c], &lh_table_row(table, 0)[c], &lh_table_row(table, i)[c])) return 1;
    return 0;
}

static int is_left_out(const form *f, const lh_column *column, const lh_cell *cell)
{
    return f->left_out && column->type == LH_COLUMN_LABEL && strcmp(cell->text, f->left_out) == 0;
}

/* *k of the column `name`; k->column is -1 if the table has none, or if all rows have the same there. */
static lh_status read_key(key *k, const making *m, const char *name, int64_t budget)
{
    const lh_table *table = m->table;
    const int64_t c = lh_table_column_find(table, name);
    *k = (key){.name = name, .column = -1};
    if (c < 0) return LH_OK;
    const lh_column *column = &table->columns[c];
    LH_TRY(lh_calloc(&k->points, table->n, sizeof *k->points));
    for (int64_t i = 0; i < table->n; i++) {
        const lh_cell *cell = &lh_table_row(table, i)[c];
        if (!is_like(table, m->form, m->like, i)) continue;
        if (c == budget && is_reference(table, budget, i)) continue;
        if (is_left_out(m->form, column, cell)) continue;
        if (point_of(k, column, cell) < 0) k->points[k->count++] = *cell;
    }
    if (k->count == 0 || (k->count == 1 && strcmp(name, "policy") != 0 && c != budget)) {
        clear_key(k);
        return LH_OK;
    }
    k->column = c;
    k->unit = column->unit;
    if (column->type == LH_COLUMN_I64) qsort(k->points, (size_t)k->count, sizeof *k->points, by_number);
    if (column->type == LH_COLUMN_F64) qsort(k->points, (size_t)k->count, sizeof *k->points, by_value);
    return make_points(k, column);
}

static double number_of(const lh_table *table, int64_t row, int64_t column)
{
    const lh_cell *cell = &lh_table_row(table, row)[column];
    return table->columns[column].type == LH_COLUMN_I64 ? (double)cell->number : cell->value;
}

/* Adds a row's value to its place; the value of a reference to the places of all budgets. */
static void add_row(const making *m, int64_t row, int64_t measured, double *sums, int64_t *counts)
{
    int64_t at = 0, stride = 1, budgets = 1, budget_stride = 0;
    const double v = number_of(m->table, row, measured);
    for (int d = m->key_count - 1; d >= 0; d--) {
        const key *k = &m->keys[d];
        const lh_column *column = &m->table->columns[k->column];
        const int all = strcmp(k->name, "budget") == 0 && is_reference(m->table, k->column, row);
        const int64_t i = all ? 0 : point_of(k, column, &lh_table_row(m->table, row)[k->column]);
        if (all) budgets = k->count;
        if (all) budget_stride = stride;
        if (i < 0) return;
        at += i * stride;
        stride *= k->count;
    }
    for (int64_t b = 0; b < budgets && isfinite(v); b++) {
        sums[at + b * budget_stride] += v;
        counts[at + b * budget_stride]++;
    }
}

static lh_status fill_values(const making *m, int64_t measured, float **out)
{
    lh_status st = LH_OK;
    double *sums = NULL;
    int64_t *counts = NULL, n = 1;
    for (int d = 0; d < m->key_count; d++) n *= m->keys[d].count;
    LH_TRY_DONE(lh_calloc(&sums, n, sizeof *sums));
    LH_TRY_DONE(lh_calloc(&counts, n, sizeof *counts));
    LH_TRY_DONE(lh_calloc(out, n, sizeof **out));
    for (int64_t i = 0; i < m->table->n; i++)
        if (is_like(m->table, m->form, m->like, i)) add_row(m, i, measured, sums, counts);
    for (int64_t i = 0; i < n; i++) (*out)[i] = counts[i] ? (float)(sums[i] / (double)counts[i]) : NAN;
done:
    lh_free(sums);
    lh_free(counts);
    return st;
}

static int has_key(const making *m, const char *name)
{
    for (int d = 0; d < m->key_count; d++)
        if (strcmp(m->keys[d].name, name) == 0) return 1;
    return 0;
}

static int has_values(const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isfinite(values[i])) return 1;
    return 0;
}

/* Appends "-4096-context-only" and ", length 4096, context-only": the values by which the form splits, of columns that
 * have several. */
static lh_status put_split(const making *m, lh_buf *name, lh_buf *title)
{
    LH_TRY(lh_buf_puts(name, m->form->suffix));
    LH_TRY(lh_buf_puts(title, m->form->about));
    for (int i = 0; i < SPLITS && m->form->splits[i]; i++) {
        const int64_t c = lh_table_column_find(m->table, m->form->splits[i]);
        if (c < 0 || !varies(m->table, c)) continue;
        const lh_column *column = &m->table->columns[c];
        const lh_cell *cell = &lh_table_row(m->table, m->like)[c];
        if (column->type == LH_COLUMN_I64) {
            LH_TRY(lh_buf_printf(name, "-%lld", (long long)cell->number));
            LH_TRY(lh_buf_printf(title, ", %s %lld", column->name, (long long)cell->number));
        } else {
            LH_TRY(lh_buf_printf(name, "-%s", cell->text));
            LH_TRY(lh_buf_printf(title, ", %s", cell->text));
        }
    }
    return LH_OK;
}

static lh_status make_figure(const making *m, int64_t measured)
{
    lh_status st = LH_OK;
    const lh_column *column = &m->table->columns[measured];
    const int less = lh_measure_better(column->name) < 0;
    const int yes = strncmp(column->unit, "1: ", 3) == 0; /* its mean is a share */
    lh_figure figure = {.unit = yes ? "share of the prompts" : column->unit,
                        .source = "",
                        .view = m->form->view,
                        .x = has_key(m, m->form->x) ? m->form->x : "budget",
                        .y = m->form->y,
                        .better = less ? -1 : 1};
    char name[LH_FIGURE_NAME], *title = NULL, *about = NULL;
    lh_buf suffix = {0}, of = {0};
    float *values = NULL;
    LH_TRY_DONE(put_split(m, &suffix, &of));
    for (int d = 0; d < m->key_count; d++) {
        const key *k = &m->keys[d];
        figure.dims[figure.dim_count++] = (lh_figure_dim){k->name, k->unit, k->count, k->labels, k->values};
    }
    snprintf(name, sizeof name, "%s-%s%s", m->task, column->name, suffix.data);
    for (char *c = name; *c; c++) *c = (char)(isalnum((unsigned char)*c) ? tolower((unsigned char)*c) : '-');
    figure.name = name;
    LH_TRY_DONE(lh_asprintf(&title, "%s: %s%s", m->task, column->name, of.data));
    *title = (char)toupper((unsigned char)*title);
    for (char *c = title; *c; c++)
        if (*c == '_') *c = ' ';
    LH_TRY_DONE(lh_asprintf(&about, "The measure '%s' of 'eval %s', %s; %s is better.", column->name, m->task,
                            figure.unit, less ? "less" : "more"));
    figure.title = title;
    figure.about = about;
    LH_TRY_DONE(fill_values(m, measured, &values));
    figure.values = values;
    if (has_values(values, lh_figure_count(&figure))) LH_TRY_DONE(lh_figures_append(m->out, &figure));
done:
    lh_buf_clear(&suffix);
    lh_buf_clear(&of);
    lh_free(title);
    lh_free(about);
    lh_free(values);
    return st;
}

static int is_measure(const making *m, int64_t c)
{
    const lh_column *column = &m->table->columns[c];
    if (column->type != LH_COLUMN_F64 && column->type != LH_COLUMN_I64) return 0;
    if (m->form->measures[0]) return is_among(m->form->measures, column->name);
    return !is_among(m->form->keys, column->name) && !is_among(unmeasured, column->name);
}

static lh_status make_figures(making *m)
{
    lh_status st = LH_OK;
    const int64_t budget = lh_table_column_find(m->table, "budget");
    int64_t values = 1;
    for (int i = 0; m->form->keys[i] && m->key_count < KEYS; i++) {
        key *k = &m->keys[m->key_count];
        LH_TRY_DONE(read_key(k, m, m->form->keys[i], budget));
        if (k->column < 0) continue;
        m->key_count++;
        if (k->count > MAX_VALUES / values) goto done;
        values *= k->count;
    }
    if (!has_key(m, "policy") || !has_key(m, "budget") || !has_key(m, m->form->y)) goto done;
    for (int64_t c = 0; c < m->table->width; c++)
        if (is_measure(m, c)) LH_TRY_DONE(make_figure(m, c));
done:
    for (int i = 0; i < KEYS; i++) clear_key(&m->keys[i]);
    m->key_count = 0;
    return st;
}

static int has_form(const lh_table *table, const char *name, const form *f)
{
    return (f->table ? strcmp(f->table, name) == 0 : strcmp(name, "/means") != 0 && strcmp(name, "/curve") != 0) &&
           (!f->column || lh_table_column_find(table, f->column) >= 0);
}

/* The figures of a form, for every value by which it splits the table. */
static lh_status make_forms(making *m)
{
    for (m->like = 0; m->like < m->table->n; m->like++) {
        int64_t first = 0;
        while (!is_like(m->table, m->form, first, m->like)) first++;
        if (first == m->like) LH_TRY(make_figures(m));
    }
    return LH_OK;
}

lh_status lh_figures_of_tables(const lh_tables *tables, lh_figures *out)
{
    lh_status st = LH_OK;
    char *task = NULL;
    for (int64_t i = 0; i < tables->count; i++) {
        const lh_table *table = &tables->list[i].table;
        const char *name = tables->list[i].name, *slash = strchr(name, '/');
        const int64_t policy = lh_table_column_find(table, "policy"), budget = lh_table_column_find(table, "budget");
        if (!slash || policy < 0 || budget < 0 || table->columns[policy].type != LH_COLUMN_LABEL ||
            table->columns[budget].type != LH_COLUMN_LABEL)
            continue;
        lh_free(task);
        task = NULL;
        LH_TRY_DONE(lh_strndup(&task, name, slash - name < 40 ? slash - name : 40));
        for (int f = 0; f < FORMS; f++) {
            making m = {.table = table, .form = &forms[f], .task = task, .out = out};
            if (has_form(table, slash, m.form)) LH_TRY_DONE(make_forms(&m));
        }
    }
done:
    lh_free(task);
    return st;
}
