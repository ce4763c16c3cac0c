/* report.c - reads analyses, makes figures of their tables, and puts figures of one name side by side. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "lab/analysis/measures.h"
#include "lab/analysis/summary.h"
#include "lab/report/rank.h"
#include "lab/report/report_impl.h"
#include "lab/report/view.h"

/* Values of a figure in a page: more are averaged. */
enum { MAX_VALUES = 300000 };

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

lh_status lh_name_apart(json_t *taken, const char *name, char **out)
{
    char *apart = NULL;
    LH_TRY(lh_strdup(&apart, name));
    for (int64_t number = 2; json_object_get(taken, apart); number++) {
        lh_free(apart);
        LH_TRY(lh_asprintf(&apart, "%s-%lld", name, (long long)number));
    }
    *out = apart;
    if (json_object_set_new_nocheck(taken, apart, json_true()) != 0)
        LH_FAIL(LH_ENOMEM, "cannot allocate memory for the name '%s'", name);
    return LH_OK;
}

/* "a" of "results/a.h5". */
static lh_status make_name(lh_report_source *s, json_t *taken)
{
    lh_status st = LH_OK;
    const char *slash = strrchr(s->path, '/'), *base = slash ? slash + 1 : s->path;
    const size_t bytes = strlen(base);
    const int ends = bytes > 3 && strcmp(base + bytes - 3, ".h5") == 0;
    char *name = NULL;
    LH_TRY_DONE(lh_strndup(&name, base, (int64_t)(ends ? bytes - 3 : bytes)));
    LH_TRY_DONE(lh_name_apart(taken, name, &s->name));
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

/* ---- topics ---- */

/* Place of a figure in the order of the page: as its file asks (`figures` of the summary), then what ranks policies,
 * the strongest measure first, then the rest. */
static int64_t place_of(const lh_sheet *sheet)
{
    const json_t *order = json_object_get(sheet->source->summary, "figures");
    for (size_t i = 0; i < json_array_size(order); i++) {
        const char *name = json_string_value(json_array_get(order, i));
        if (name && strcmp(name, sheet->figure->name) == 0) return (int64_t)i;
    }
    return (int64_t)json_array_size(order) +
           (lh_can_rank(sheet->figure) ? lh_measure_rank(sheet->figure->name) : INT16_MAX);
}

static lh_status make_sheet(const lh_report_source *source, int64_t i, lh_sheet *out)
{
    const lh_figure *figure = &source->figures.list[i], *drawn = figure;
    for (int64_t k = 0; k < source->small.count; k++)
        if (strcmp(source->small.list[k].name, figure->name) == 0) drawn = &source->small.list[k];
    *out = (lh_sheet){figure, drawn, source, {0}};
    return lh_samples_read(&out->samples, figure, &source->tables, source->summary);
}

/* Sheets of one name next to each other, at the place of the first of them. */
static void add_sheet(lh_report *r, lh_sheet sheet)
{
    int64_t at = 0;
    for (int64_t i = 0; i < r->sheet_count; i++)
        if (strcmp(r->sheets[i].figure->name, sheet.figure->name) == 0) at = i + 1;
    if (!at) /* none of its name: after those of the same or an earlier place */
        for (at = r->sheet_count; at > 0 && place_of(&r->sheets[at - 1]) > place_of(&sheet); at--) continue;
    memmove(r->sheets + at + 1, r->sheets + at, (size_t)(r->sheet_count - at) * sizeof *r->sheets);
    r->sheets[at] = sheet;
    r->sheet_count++;
}

static lh_status make_topics(lh_report *r)
{
    int64_t n = 0;
    for (int64_t s = 0; s < r->source_count; s++) n += r->sources[s].figures.count;
    LH_TRY(lh_calloc(&r->sheets, n, sizeof *r->sheets));
    LH_TRY(lh_calloc(&r->topics, n, sizeof *r->topics));
    for (int64_t s = 0; s < r->source_count; s++)
        for (int64_t i = 0; i < r->sources[s].figures.count; i++) {
            lh_sheet sheet;
            LH_TRY(make_sheet(&r->sources[s], i, &sheet));
            add_sheet(r, sheet);
        }
    for (int64_t i = 0; i < r->sheet_count; i++) {
        LH_TRY(lh_palette_add(&r->palette, r->sheets[i].figure));
        const int joins = i > 0 && strcmp(r->sheets[i].figure->name, r->sheets[i - 1].figure->name) == 0;
        if (!joins) r->topics[r->topic_count++].first = i;
        r->topics[r->topic_count - 1].count++;
    }
    return LH_OK;
}

void lh_topic_range(const lh_report *report, const lh_topic *topic, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int64_t i = topic->first; i < topic->first + topic->count; i++) {
        lh_view view;
        lh_view_init(&view, report->sheets[i].drawn);
        lh_view_range(&view, low, high);
    }
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
    LH_TRY_DONE(make_topics(r));
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
    return report->sheet_count == 0 && tables == 0;
}

void lh_report_close(lh_report *report)
{
    if (!report) return;
    for (int64_t i = 0; i < report->source_count; i++) clear_source(&report->sources[i]);
    for (int64_t i = 0; i < report->sheet_count; i++) lh_samples_clear(&report->sheets[i].samples);
    lh_palette_clear(&report->palette);
    lh_free(report->sources);
    lh_free(report->sheets);
    lh_free(report->topics);
    lh_free(report);
}
