/* ranking.c - which policy is ahead at a budget: first the values of single texts behind a figure and the intervals
 * that they give, then the order of policies and its verdicts. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/analysis/measures.h"
#include "lab/report/report_impl.h"

/* More values than this come from a damaged file. */
static const int64_t MAX_VALUES = INT64_C(1) << 25;

/* Columns that identify the texts of a policy at a budget. */
static const char *const identities[] = {"task", "length", "context", "scenario", "depth",
                                         "seed", "line",   "window",  "text",     NULL};

/* Tables, after the task, that have no values of single texts, or values of other answers. */
static const char *const others[] = {"/means", "/curve", "/repeated", NULL};

/* The table of a figure, and the columns that are read. */
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

/* 1 if the view has policies as series and budgets along x. */
static int is_by_budget(const lh_view *view)
{
    const lh_figure_dim *dims = view->figure->dims;
    return view->series >= 0 && strcmp(dims[view->series].name, "policy") == 0 &&
           strcmp(dims[view->x].name, "budget") == 0;
}

int lh_samples_filled_at(const lh_samples *s, const lh_view *view, int64_t series, int64_t x)
{
    return s && is_by_budget(view) && lh_samples_filled(s, series, x);
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

/* The range of a figure's values if they are answers, right or wrong: 1, or 100 in percent; else 0. */
static double answer_range(const lh_figure *f)
{
    if (f->better <= 0 || lh_measure_kind_of(f->name) != LH_MEASURE_MODEL) return 0;
    return *f->unit == '%' ? 100 : 1;
}

int lh_samples_band(const lh_samples *s, const lh_view *view, int64_t series, int64_t x, double band[2])
{
    const double range = answer_range(view->figure), shown = lh_view_value(view, 0, series, x), z = 1.959963984540054;
    double sum = 0, squares = 0, n = 0;
    if (!s || !s->values || !is_by_budget(view) || !isfinite(shown)) return 0;
    for (int d = 0; d < view->figure->dim_count; d++)
        if (!lh_view_draws(view, d) && view->pick[d] >= 0) return 0;
    for (int64_t i = 0; i < s->texts; i++) {
        const double v = s->values[(series * s->budgets + x) * s->texts + i];
        if (!isfinite(v)) continue;
        n++;
        sum += v;
        squares += v * v;
    }
    const double mean = sum / n, spread = sqrt(fmax(squares - n * mean * mean, 0) / (n - 1));
    if (n < 2 || fabs(mean - shown) > 1e-3 * fmax(fabs(shown), fabs(mean))) return 0;
    const double share = range > 0 ? mean / range : 0, wide = 1 + z * z / n;
    const double middle = range > 0 ? range * (share + z * z / (2 * n)) / wide : mean;
    const double half = range > 0 ? range * z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / wide
                                  : student((int64_t)n - 1) * spread / sqrt(n);
    band[0] = middle - half;
    band[1] = middle + half;
    return 1;
}

typedef struct pair {
    int64_t policy, other, budget;
    double range; /* of values that are right or wrong: 1, or 100 in percent; else 0 */
} pair;

/* Student's interval of the paired differences. For right and wrong answers two pairs of no lead are added (Agresti and
 * Min, Statistics in Medicine 24, 2005): otherwise few answers that all agree would have an interval of no width. */
static lh_lead lead_of(const lh_samples *s, const pair *of)
{
    const double *own = s->values + (of->policy * s->budgets + of->budget) * s->texts;
    const double *other = s->values + (of->other * s->budgets + of->budget) * s->texts;
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
    const double n = (double)lead.texts + (of->range > 0 ? 2 : 0), mean = sum / n;
    const double spread = fmax(squares + of->range * of->range - n * mean * mean, 0) / (n - 1);
    const double half = student(lead.texts - 1) * sqrt(spread / n);
    lead.low = mean - half;
    lead.high = mean + half;
    return lead;
}

/* ---- rankings ---- */

static const double QUOTED_PERCENT = 10;

int lh_can_rank(const lh_figure *figure)
{
    const int policy = lh_figure_dim_find(figure, "policy");
    return figure->better && policy >= 0 && figure->dims[policy].labels && strcmp(figure->x, "budget") == 0;
}

static const lh_figure_dim *policies_of(const lh_ranking *r)
{
    return &r->view.figure->dims[r->view.series];
}

static int is_reference(const lh_ranking *r, int64_t i)
{
    char style[LH_STYLE_CLASS];
    return lh_series_style(&(lh_palette){0}, policies_of(r), i, style) < 0;
}

/* 1 if `a` is better than `b`; a value that is no number is worst. */
static int is_better(const lh_ranking *r, double a, double b)
{
    return isfinite(a) && (!isfinite(b) || r->view.figure->better * (a - b) > 0);
}

static double value_of(const lh_ranking *r, int64_t policy, int64_t budget)
{
    return lh_view_value(&r->view, 0, policy, budget);
}

int64_t lh_ranking_reference(const lh_ranking *r, const char *name)
{
    for (int64_t s = 0; s < policies_of(r)->count; s++)
        if (strcmp(policies_of(r)->labels[s], name) == 0) return s;
    return -1;
}

lh_status lh_ranking_init(lh_ranking *r, const lh_figure *figure, const lh_samples *samples)
{
    *r = (lh_ranking){.view = {.figure = figure,
                               .x = lh_figure_dim_find(figure, "budget"),
                               .series = lh_figure_dim_find(figure, "policy"),
                               .panel = -1,
                               .pick = {-1, -1, -1, -1, -1}},
                      .samples = samples};
    const lh_figure_dim *budgets = &figure->dims[r->view.x];
    const double scale = !budgets->unit ? 0 : *budgets->unit == '%' ? 1 : strstr(budgets->unit, "share of") ? 100 : 0;
    r->quoted = budgets->count / 2;
    for (int64_t i = 0; i < budgets->count && budgets->values; i++)
        if (fabs(budgets->values[i] * scale - QUOTED_PERCENT) < 1e-6) r->quoted = i;
    LH_TRY(lh_calloc(&r->order, policies_of(r)->count, sizeof *r->order));
    for (int64_t s = 0; s < policies_of(r)->count; s++) {
        const double v = value_of(r, s, r->quoted);
        int64_t at = s;
        for (; at > 0 && is_better(r, v, value_of(r, r->order[at - 1], r->quoted)); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = s;
    }
    return LH_OK;
}

void lh_ranking_clear(lh_ranking *r)
{
    lh_free(r->order);
    *r = (lh_ranking){0};
}

/* ---- who is ahead ---- */

static int takes_part(const lh_ranking *r, int64_t policy, int64_t budget)
{
    return !is_reference(r, policy) && !lh_samples_filled(r->samples, policy, budget) &&
           isfinite(value_of(r, policy, budget));
}

/* 1 if two values look the same on the page, which shows three digits. */
static int looks_equal(double a, double b)
{
    char shown[2][32];
    snprintf(shown[0], sizeof shown[0], "%.3g", a + 0.0); /* + 0: no "-0" */
    snprintf(shown[1], sizeof shown[1], "%.3g", b + 0.0);
    return strcmp(shown[0], shown[1]) == 0;
}

/* 1 if the policy is no worse than the full cache. */
static int loses_nothing(const lh_ranking *r, int64_t policy, int64_t budget)
{
    const int64_t full = lh_ranking_reference(r, "full");
    const double all = full < 0 ? (double)NAN : value_of(r, full, budget);
    return isfinite(all) && !is_better(r, all, value_of(r, policy, budget));
}

/* How the best policy stands to another one: EQUAL, LOSSLESS, UNCLEAR or AHEAD. */
static lh_standing compare(const lh_ranking *r, const pair *of, lh_lead *lead)
{
    const lh_figure *f = r->view.figure;
    const lh_samples *s = r->samples;
    *lead = (lh_lead){.texts = s->texts, .low = NAN, .high = NAN};
    if (looks_equal(value_of(r, of->policy, of->budget), value_of(r, of->other, of->budget))) return LH_STANDING_EQUAL;
    if (loses_nothing(r, of->other, of->budget)) return LH_STANDING_LOSSLESS;
    if (s->texts < 2) return LH_STANDING_AHEAD;
    if (!s->values) return LH_STANDING_UNCLEAR;
    *lead = lead_of(s, of);
    return (f->better > 0 ? lead->low > 0 : lead->high < 0) ? LH_STANDING_AHEAD : LH_STANDING_UNCLEAR;
}

static pair pair_of(const lh_ranking *r, int64_t best, int64_t other, int64_t budget)
{
    const lh_figure *f = r->view.figure;
    return (pair){best, other, budget, answer_range(f)};
}

/* -1: no policy has a value. */
static int64_t best_at(const lh_ranking *r, int64_t budget)
{
    int64_t best = -1;
    for (int64_t s = 0; s < policies_of(r)->count; s++)
        if (takes_part(r, s, budget) && (best < 0 || is_better(r, value_of(r, s, budget), value_of(r, best, budget))))
            best = s;
    return best;
}

static int is_unanswered(const lh_ranking *r, int64_t budget)
{
    const int64_t full = lh_ranking_reference(r, "full");
    return full >= 0 && answer_range(r->view.figure) > 0 && value_of(r, full, budget) == 0;
}

/* 1 if a random choice is no worse than the policy. */
static int is_chance(const lh_ranking *r, int64_t policy, int64_t budget)
{
    const int64_t random = lh_ranking_reference(r, "random");
    const double chance = random < 0 ? (double)NAN : value_of(r, random, budget);
    return isfinite(chance) && !is_better(r, value_of(r, policy, budget), chance);
}

lh_verdict lh_ranking_judge(const lh_ranking *r, int64_t budget)
{
    lh_verdict v = {.best = best_at(r, budget), .rival = -1};
    if (v.best < 0) return v;
    v.standing = LH_STANDING_ALONE;
    for (int64_t s = 0; s < policies_of(r)->count; s++) {
        if (s == v.best || !takes_part(r, s, budget)) continue;
        const pair two = pair_of(r, v.best, s, budget);
        lh_lead lead;
        const lh_standing standing = compare(r, &two, &lead);
        const int nearer = is_better(r, value_of(r, s, budget), value_of(r, v.rival < 0 ? s : v.rival, budget));
        if (v.rival >= 0 && (standing > v.standing || (standing == v.standing && !nearer))) continue;
        v = (lh_verdict){standing, v.best, s, lead};
    }
    if (v.standing == LH_STANDING_AHEAD && is_chance(r, v.best, budget)) v.standing = LH_STANDING_CHANCE;
    if (v.rival >= 0 && is_unanswered(r, budget)) v.standing = LH_STANDING_UNANSWERED;
    return v;
}

int lh_ranking_leads(const lh_ranking *r, int64_t policy, int64_t budget)
{
    const int64_t best = best_at(r, budget);
    int leads = 0, worse = 0;
    if (best < 0 || is_unanswered(r, budget)) return 0;
    for (int64_t s = 0; s < policies_of(r)->count; s++) {
        if (!takes_part(r, s, budget)) continue;
        const pair two = pair_of(r, best, s, budget);
        lh_lead lead;
        const int close = s == best || compare(r, &two, &lead) != LH_STANDING_AHEAD;
        worse |= !close;
        leads |= close && s == policy;
    }
    return leads && worse;
}
