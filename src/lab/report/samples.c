#include "lab/report/samples.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More values than this come from a damaged file. */
static const int64_t MAX_VALUES = INT64_C(1) << 25;

/* Columns that tell the texts of a policy at a budget apart. */
static const char *const identities[] = {"task", "length", "context", "scenario", "depth",
                                         "seed", "line",   "window",  "text",     NULL};

/* Tables, after the task, that have no values of single texts, or those of other answers. */
static const char *const others[] = {"/means", "/curve", "/repeated", NULL};

/* The table of a figure, and where it has what is read. */
typedef struct source {
    const lh_figure *figure;
    const lh_figure_dim *policies, *budgets;
    const lh_table *table;
    int64_t policy, budget, value, filled; /* columns; -1: none */
    json_t *texts;                         /* identities of texts -> their numbers */
} source;

static int is_label(const lh_table *table, int64_t column)
{
    return column >= 0 && table->columns[column].type == LH_COLUMN_LABEL;
}

static int is_number(const lh_table *table, int64_t column)
{
    return column >= 0 &&
           (table->columns[column].type == LH_COLUMN_I64 || table->columns[column].type == LH_COLUMN_F64);
}

/* The name of a column as it stands in the name of a figure. */
static int is_column_of(const char *column, const char *measure)
{
    for (; *column && *measure; column++, measure++)
        if ((isalnum((unsigned char)*column) ? tolower((unsigned char)*column) : '-') != *measure) return 0;
    return *column == *measure;
}

/* The figure's measure in a table of this name: of "needle/prompts", "needle-exact" is "exact"; "mass" is "mass". */
static const char *measure_of(const char *figure, const char *table)
{
    const size_t task = strcspn(table, "/");
    return strncmp(figure, table, task) == 0 && figure[task] == '-' ? figure + task + 1 : figure;
}

static int64_t find_column(const lh_table *table, const char *measure)
{
    for (int64_t c = 0; c < table->width; c++)
        if (is_column_of(table->columns[c].name, measure) && is_number(table, c)) return c;
    return -1;
}

/* 1 if the table has rows of single texts, of the task of the figure or of a replay. */
static int has_texts(const lh_stored_table *stored, const lh_figure *figure)
{
    const char *slash = strchr(stored->name, '/');
    const size_t task = slash ? (size_t)(slash - stored->name) : 0;
    if (!slash) return 0;
    for (const char *const *name = others; *name; name++)
        if (strcmp(slash, *name) == 0) return 0;
    return strncmp(stored->name, "replay/", task + 1) == 0 || measure_of(figure->name, stored->name) != figure->name;
}

/* Sets s->table and its columns: a table with the measure, or else any of the figure's task. */
static void find_table(source *s, const lh_tables *tables)
{
    for (int64_t i = 0; i < tables->count; i++) {
        const lh_stored_table *stored = &tables->list[i];
        const lh_table *t = &stored->table;
        const int64_t policy = lh_table_column_find(t, "policy"), budget = lh_table_column_find(t, "budget");
        const int64_t value = find_column(t, measure_of(s->figure->name, stored->name));
        const int64_t filled = lh_table_column_find(t, "filled");
        if (!is_label(t, policy) || !is_label(t, budget) || !has_texts(stored, s->figure)) continue;
        if (s->table && (s->value >= 0 || value < 0)) continue;
        s->table = t;
        s->policy = policy;
        s->budget = budget;
        s->value = value;
        s->filled = is_number(t, filled) ? filled : -1;
    }
}

/* ---- rows ---- */

static int64_t policy_of(const source *s, const lh_cell *row)
{
    for (int64_t p = 0; p < s->policies->count; p++)
        if (strcmp(s->policies->labels[p], row[s->policy].text) == 0) return p;
    return -1;
}

/* The budget "10%" is the point 10 of "% of the prompt" and 0.1 of a share of it. */
static int64_t budget_of(const source *s, const lh_cell *row)
{
    const lh_figure_dim *dim = s->budgets;
    const char *text = row[s->budget].text;
    char *end;
    const double share = dim->unit && strstr(dim->unit, "share of") ? 100 : 1, value = strtod(text, &end) / share;
    for (int64_t b = 0; b < dim->count; b++) {
        if (dim->labels && strcmp(dim->labels[b], text) == 0) return b;
        if (dim->values && end != text && fabs(dim->values[b] - value) <= 1e-9 * fabs(value)) return b;
    }
    return -1;
}

static lh_status put_identity(const source *s, const lh_cell *row, lh_buf *out)
{
    out->bytes = 0;
    for (const char *const *name = identities; *name; name++) {
        const int64_t c = lh_table_column_find(s->table, *name);
        if (is_label(s->table, c)) LH_TRY(lh_buf_printf(out, "%s/", row[c].text));
        if (is_number(s->table, c)) LH_TRY(lh_buf_printf(out, "%lld %.9g/", (long long)row[c].number, row[c].value));
    }
    return LH_OK;
}

static lh_status list_texts(source *s)
{
    lh_status st = LH_OK;
    lh_buf name = {0};
    for (int64_t i = 0; i < s->table->n; i++) {
        LH_TRY_DONE(put_identity(s, lh_table_row(s->table, i), &name));
        const char *key = name.bytes ? name.data : "";
        if (json_object_get(s->texts, key)) continue;
        if (json_object_set_new_nocheck(s->texts, key, json_integer((json_int_t)json_object_size(s->texts))) != 0)
            LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the texts of figure '%s'", s->figure->name);
    }
done:
    lh_buf_clear(&name);
    return st;
}

static lh_status fill_values(const source *s, lh_samples *out)
{
    lh_status st = LH_OK;
    lh_buf name = {0};
    const int64_t n = s->policies->count * s->budgets->count * out->texts;
    if (s->value < 0 || n > MAX_VALUES) return LH_OK;
    LH_TRY(lh_calloc(&out->values, n, sizeof *out->values));
    for (int64_t i = 0; i < n; i++) out->values[i] = NAN;
    for (int64_t i = 0; i < s->table->n; i++) {
        const lh_cell *row = lh_table_row(s->table, i);
        const int64_t p = policy_of(s, row), b = budget_of(s, row);
        if (p < 0 || b < 0) continue;
        LH_TRY_DONE(put_identity(s, row, &name));
        const int64_t at = json_integer_value(json_object_get(s->texts, name.bytes ? name.data : ""));
        out->values[(p * out->budgets + b) * out->texts + at] =
            s->table->columns[s->value].type == LH_COLUMN_I64 ? (double)row[s->value].number : row[s->value].value;
    }
done:
    lh_buf_clear(&name);
    return st;
}

static lh_status fill_marks(const source *s, lh_samples *out)
{
    if (s->filled < 0) return LH_OK;
    LH_TRY(lh_calloc(&out->filled, s->policies->count * out->budgets, sizeof *out->filled));
    for (int64_t i = 0; i < s->table->n; i++) {
        const lh_cell *row = lh_table_row(s->table, i);
        const int64_t p = policy_of(s, row), b = budget_of(s, row);
        if (p >= 0 && b >= 0 && row[s->filled].number) out->filled[p * out->budgets + b] = 1;
    }
    return LH_OK;
}

lh_status lh_samples_read(lh_samples *out, const lh_figure *figure, const lh_tables *tables, const json_t *summary)
{
    lh_status st = LH_OK;
    const int policy = lh_figure_dim_find(figure, "policy"), budget = lh_figure_dim_find(figure, "budget");
    *out = (lh_samples){0};
    if (policy < 0 || budget < 0 || !figure->dims[policy].labels) return LH_OK;
    source s = {.figure = figure, .policies = &figure->dims[policy], .budgets = &figure->dims[budget]};
    out->budgets = s.budgets->count;
    out->texts = (int64_t)json_array_size(json_object_get(summary, "traces"));
    find_table(&s, tables);
    if (!s.table) return LH_OK;
    s.texts = json_object();
    LH_TRY_DONE(list_texts(&s));
    out->texts = (int64_t)json_object_size(s.texts);
    out->by_window = lh_table_column_find(s.table, "window") >= 0;
    LH_TRY_DONE(fill_values(&s, out));
    LH_TRY_DONE(fill_marks(&s, out));
done:
    json_decref(s.texts);
    if (st != LH_OK) lh_samples_clear(out);
    return st;
}

void lh_samples_clear(lh_samples *samples)
{
    lh_free(samples->values);
    lh_free(samples->filled);
    *samples = (lh_samples){0};
}

int lh_samples_filled(const lh_samples *s, int64_t policy, int64_t budget)
{
    return s->filled && s->filled[policy * s->budgets + budget];
}

int lh_samples_filled_at(const lh_samples *s, const lh_view *view, int64_t series, int64_t x)
{
    const lh_figure_dim *dims = view->figure->dims;
    if (!s || view->series < 0 || strcmp(dims[view->series].name, "policy") != 0 ||
        strcmp(dims[view->x].name, "budget") != 0)
        return 0;
    return lh_samples_filled(s, series, x);
}

/* ---- intervals ---- */

/* The 97.5% quantile of Student's t; beyond the table the first terms of its expansion about the normal one, exact to
 * three digits. */
static double student(int64_t freedom)
{
    static const double quantiles[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
    static const double z = 1.959963984540054;
    const double f = (double)freedom;
    if (freedom <= (int64_t)(sizeof quantiles / sizeof *quantiles)) return quantiles[freedom - 1];
    return z + (z * z * z + z) / (4 * f) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * f * f);
}

lh_lead lh_samples_lead(const lh_samples *s, const lh_pair *pair)
{
    const double *own = s->values + (pair->policy * s->budgets + pair->budget) * s->texts;
    const double *other = s->values + (pair->other * s->budgets + pair->budget) * s->texts;
    lh_lead lead = {.low = NAN, .high = NAN};
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < s->texts; i++) {
        const double d = own[i] - other[i];
        if (!isfinite(d)) continue;
        lead.texts++;
        sum += d;
        squares += d * d;
    }
    if (lead.texts < 2) return lead;
    const double n = (double)lead.texts + (pair->range > 0 ? 2 : 0), mean = sum / n;
    const double spread = fmax(squares + pair->range * pair->range - n * mean * mean, 0) / (n - 1);
    const double half = student(lead.texts - 1) * sqrt(spread / n);
    lead.low = mean - half;
    lead.high = mean + half;
    return lead;
}
