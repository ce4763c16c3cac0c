/* report.c - reads analyses, makes figures of their tables, and groups figures by name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "lab/analysis/measures.h"
#include "lab/analysis/summary.h"
#include "lab/report/report_impl.h"

/* Values of a figure in a page: more are averaged. */
enum { MAX_VALUES = 300000 };

/* ---- large figures ---- */

/* Points and values of dimension `d` in bins of `wide`; the other dimensions stay. */
static lh_status bin_dim(const lh_figure *figure, int d, int64_t wide, lh_figures *out)
{
    lh_status st = LH_OK;
    const lh_figure_dim *from = &figure->dims[d];
    lh_figure small = *figure;
    lh_figure_dim *to = &small.dims[d];
    float *values = NULL;
    double *points = NULL;
    int64_t before = 1, after = 1;
    for (int k = 0; k < d; k++) before *= figure->dims[k].count;
    for (int k = d + 1; k < figure->dim_count; k++) after *= figure->dims[k].count;
    to->count = (from->count + wide - 1) / wide;
    LH_TRY_DONE(lh_calloc(&values, before * to->count * after, sizeof *values));
    LH_TRY_DONE(lh_calloc(&points, to->count, sizeof *points));
    for (int64_t i = 0; i < to->count; i++) points[i] = from->values ? from->values[i * wide] : (double)(i * wide);
    for (int64_t b = 0; b < before; b++)
        for (int64_t i = 0; i < to->count; i++)
            for (int64_t a = 0; a < after; a++) {
                double sum = 0, found = 0;
                for (int64_t k = i * wide; k < (i + 1) * wide && k < from->count; k++) {
                    const float v = figure->values[(b * from->count + k) * after + a];
                    if (!isfinite(v)) continue;
                    sum += (double)v;
                    found++;
                }
                values[(b * to->count + i) * after + a] = found ? (float)(sum / found) : NAN;
            }
    to->labels = NULL;
    to->values = points;
    small.values = values;
    LH_TRY_DONE(lh_figures_append(out, &small));
done:
    lh_free(values);
    lh_free(points);
    return st;
}

/* The longest dimension whose points may be averaged; -1: none. */
static int longest_dim(const lh_figure *figure)
{
    int longest = -1;
    for (int d = 0; d < figure->dim_count; d++) {
        const lh_figure_dim *dim = &figure->dims[d];
        if (dim->labels || dim->count < 2 || strcmp(dim->name, "budget") == 0) continue;
        if (longest < 0 || dim->count > figure->dims[longest].count) longest = d;
    }
    return longest;
}

lh_status lh_figure_shrink(const lh_figure *figure, int64_t max_values, lh_figures *out)
{
    lh_status st = LH_OK;
    lh_figures steps = {0};
    const lh_figure *now = figure;
    while (lh_figure_count(now) > max_values) {
        const int longest = longest_dim(now);
        if (longest < 0) break;
        const int64_t wide = (lh_figure_count(now) + max_values - 1) / max_values, n = now->dims[longest].count;
        lh_figures next = {0};
        LH_TRY_DONE(bin_dim(now, longest, wide < n / 16 ? wide : 2, &next));
        lh_figures_clear(&steps);
        steps = next;
        now = &steps.list[0];
    }
    LH_TRY_DONE(lh_figures_append(out, now));
done:
    lh_figures_clear(&steps);
    return st;
}

/* ---- a file ---- */

static int is_plain(const char *word)
{
    return *word &&
           strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:%=@+-") == strlen(word);
}

static lh_status put_word(lh_buf *out, const char *word)
{
    LH_TRY(lh_buf_puts(out, " "));
    if (is_plain(word)) return lh_buf_puts(out, word);
    LH_TRY(lh_buf_puts(out, "'"));
    for (; *word; word++) LH_TRY(*word == '\'' ? lh_buf_puts(out, "'\\''") : lh_buf_append(out, word, 1));
    return lh_buf_puts(out, "'");
}

static lh_status put_value(lh_buf *out, const json_t *value)
{
    lh_status st = LH_OK;
    char *text =
        json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    LH_TRY_DONE(put_word(out, json_is_string(value) ? json_string_value(value) : text ? text : "?"));
done:
    free(text);
    return st;
}

static lh_status put_option(lh_buf *out, const char *name, const json_t *value)
{
    lh_status st = LH_OK;
    const json_t *item;
    char *option = NULL;
    size_t i;
    LH_TRY_DONE(lh_asprintf(&option, "--%s", name));
    if (json_is_array(value)) {
        json_array_foreach(value, i, item) LH_TRY_DONE(put_option(out, name, item));
    } else {
        LH_TRY_DONE(put_word(out, option));
        if (!json_is_true(value)) LH_TRY_DONE(put_value(out, value));
    }
done:
    lh_free(option);
    return st;
}

/* The command that made a file: as its summary says, or from the record of its options. */
static lh_status make_command(lh_report_source *s)
{
    lh_status st = LH_OK;
    const char *said = json_string_value(json_object_get(s->summary, "command"));
    const char *command = json_string_value(json_object_get(s->run, "command"));
    const json_t *item;
    lh_buf text = {0};
    size_t i;
    if (said || !command) return said ? lh_strdup(&s->command, said) : LH_OK;
    LH_TRY_DONE(lh_buf_printf(&text, "longhaul %s", command));
    json_array_foreach(json_object_get(s->run, "arguments"), i, item) LH_TRY_DONE(put_value(&text, item));
    json_array_foreach(json_object_get(s->run, "given"), i, item)
    {
        const char *name = json_string_value(item);
        const json_t *value = name ? json_object_get(json_object_get(s->run, "options"), name) : NULL;
        if (value) LH_TRY_DONE(put_option(&text, name, value));
    }
    LH_TRY_DONE(lh_strdup(&s->command, text.data));
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_unique_name(json_t *taken, const char *name, char **out)
{
    char *unique = NULL;
    LH_TRY(lh_strdup(&unique, name));
    for (int64_t number = 2; json_object_get(taken, unique); number++) {
        lh_free(unique);
        LH_TRY(lh_asprintf(&unique, "%s-%lld", name, (long long)number));
    }
    *out = unique;
    if (json_object_set_new_nocheck(taken, unique, json_true()) != 0)
        LH_FAIL(LH_ENOMEM, "cannot allocate memory for the name '%s'", name);
    return LH_OK;
}

/* "a" of "results/a.h5". */
static lh_status make_name(lh_report_source *s, json_t *taken)
{
    lh_status st = LH_OK;
    const char *base = lh_path_name(s->path);
    const size_t bytes = strlen(base);
    const int ends = bytes > 3 && strcmp(base + bytes - 3, ".h5") == 0;
    char *name = NULL;
    LH_TRY_DONE(lh_strndup(&name, base, (int64_t)(ends ? bytes - 3 : bytes)));
    LH_TRY_DONE(lh_unique_name(taken, name, &s->name));
done:
    lh_free(name);
    return st;
}

static lh_status read_source(lh_report_source *s)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    char *run = NULL;
    LH_TRY_DONE(lh_h5_open(&h5, s->path, &(lh_h5_header){"analysis", 1, NULL}));
    LH_TRY_DONE(lh_summary_read(&s->summary, h5));
    LH_TRY_DONE(lh_h5_get_string(h5, "/", "run", &run));
    LH_TRY_DONE(lh_h5_get_string(h5, "/", "created_by", &s->created_by));
    s->run = run ? json_loads(run, 0, NULL) : NULL;
    LH_TRY_DONE(make_command(s));
    LH_TRY_DONE(lh_figures_read(&s->figures, h5));
    LH_TRY_DONE(lh_tables_read(&s->tables, h5));
    LH_TRY_DONE(lh_figures_of_tables(&s->tables, &s->figures));
    for (int64_t i = 0; i < s->figures.count; i++)
        if (lh_figure_count(&s->figures.list[i]) > MAX_VALUES)
            LH_TRY_DONE(lh_figure_shrink(&s->figures.list[i], MAX_VALUES, &s->small));
done:
    lh_free(run);
    lh_h5_close(h5);
    return st;
}

static void clear_source(lh_report_source *s)
{
    lh_figures_clear(&s->figures);
    lh_figures_clear(&s->small);
    lh_tables_clear(&s->tables);
    json_decref(s->summary);
    json_decref(s->run);
    lh_free(s->name);
    lh_free(s->command);
    lh_free(s->created_by);
}

/* ---- groups ---- */

/* Number of a figure in the order of the page: as its file asks (`figures` of the summary), then what ranks policies,
 * the strongest measure first, then the rest. */
static int64_t place_of(const lh_report_figure *f)
{
    const json_t *order = json_object_get(f->source->summary, "figures");
    for (size_t i = 0; i < json_array_size(order); i++) {
        const char *name = json_string_value(json_array_get(order, i));
        if (name && strcmp(name, f->figure->name) == 0) return (int64_t)i;
    }
    return (int64_t)json_array_size(order) + (lh_can_rank(f->figure) ? lh_measure_rank(f->figure->name) : INT16_MAX);
}

/* Figures of one name are neighbours, at the place of the first of them. */
static lh_status add_figure(lh_report *r, const lh_report_source *source, const lh_figure *figure)
{
    lh_report_figure f = {.figure = figure, .drawn = figure, .source = source};
    int64_t at = 0;
    for (int64_t k = 0; k < source->small.count; k++)
        if (strcmp(source->small.list[k].name, figure->name) == 0) f.drawn = &source->small.list[k];
    LH_TRY(lh_samples_read(&f.samples, figure, &source->tables, source->summary));
    for (int64_t i = 0; i < r->figure_count; i++)
        if (strcmp(r->figures[i].figure->name, figure->name) == 0) at = i + 1;
    if (!at) /* the first of its name: after all figures of the same or an earlier place */
        for (at = r->figure_count; at > 0 && place_of(&r->figures[at - 1]) > place_of(&f); at--) continue;
    memmove(r->figures + at + 1, r->figures + at, (size_t)(r->figure_count - at) * sizeof *r->figures);
    r->figures[at] = f;
    r->figure_count++;
    return LH_OK;
}

/* One axis for the figures of a group, so that they compare. */
static void measure_group(const lh_report *r, lh_figure_group *group)
{
    lh_span all = LH_NO_SPAN;
    group->shown = LH_NO_SPAN;
    for (int64_t i = group->first; i < group->first + group->count; i++) {
        lh_view view;
        lh_view_init(&view, r->figures[i].drawn);
        lh_view_span(&view, &group->shown);
        for (int64_t k = 0; k < lh_figure_count(view.figure); k++) lh_span_add(&all, (double)view.figure->values[k]);
    }
    lh_axis_init(&group->axis, r->figures[group->first].drawn, &group->shown, &all);
}

static lh_status make_groups(lh_report *r)
{
    int64_t n = 0;
    for (int64_t s = 0; s < r->source_count; s++) n += r->sources[s].figures.count;
    LH_TRY(lh_calloc(&r->figures, n, sizeof *r->figures));
    LH_TRY(lh_calloc(&r->groups, n, sizeof *r->groups));
    for (int64_t s = 0; s < r->source_count; s++)
        for (int64_t i = 0; i < r->sources[s].figures.count; i++)
            LH_TRY(add_figure(r, &r->sources[s], &r->sources[s].figures.list[i]));
    for (int64_t i = 0; i < r->figure_count; i++) {
        LH_TRY(lh_palette_add(&r->palette, r->figures[i].figure));
        const int joins = i > 0 && strcmp(r->figures[i].figure->name, r->figures[i - 1].figure->name) == 0;
        if (!joins) r->groups[r->group_count++].first = i;
        r->groups[r->group_count - 1].count++;
    }
    for (int64_t g = 0; g < r->group_count; g++) measure_group(r, &r->groups[g]);
    return LH_OK;
}

lh_status lh_report_open(lh_report **out, const char *const *paths, int64_t n)
{
    lh_status st = LH_OK;
    lh_report *r = NULL;
    json_t *names = json_object();
    LH_TRY_DONE(lh_calloc(&r, 1, sizeof *r));
    LH_TRY_DONE(lh_calloc(&r->sources, n, sizeof *r->sources));
    for (int64_t i = 0; i < n; i++) {
        r->sources[i].path = paths[i];
        r->source_count++;
        LH_TRY_DONE(make_name(&r->sources[i], names));
        LH_TRY_DONE(read_source(&r->sources[i]));
    }
    LH_TRY_DONE(make_groups(r));
    *out = r;
    r = NULL;
done:
    json_decref(names);
    lh_report_close(r);
    return st;
}

int lh_report_is_empty(const lh_report *report)
{
    int64_t tables = 0;
    for (int64_t i = 0; i < report->source_count; i++) tables += report->sources[i].tables.count;
    return report->figure_count == 0 && tables == 0;
}

void lh_report_close(lh_report *report)
{
    if (!report) return;
    for (int64_t i = 0; i < report->source_count; i++) clear_source(&report->sources[i]);
    for (int64_t i = 0; i < report->figure_count; i++) lh_samples_clear(&report->figures[i].samples);
    lh_palette_clear(&report->palette);
    lh_free(report->sources);
    lh_free(report->figures);
    lh_free(report->groups);
    lh_free(report);
}
