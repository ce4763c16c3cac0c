/* figures.c - figures as groups of HDF5, written and read. The same rules hold both ways: a file that this program
 * writes is one that it reads. */
#include "lab/analysis/figures.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const char *const view_names[LH_VIEWS] = {"curves", "heatmap", "bars", "table"};

const char *lh_figure_view_name(lh_figure_view view)
{
    return view_names[view];
}

int64_t lh_figure_count(const lh_figure *figure)
{
    int64_t n = 1;
    for (int d = 0; d < figure->dim_count; d++) n *= figure->dims[d].count;
    return n;
}

int lh_figure_dim_find(const lh_figure *figure, const char *name)
{
    for (int d = 0; d < figure->dim_count; d++)
        if (strcmp(figure->dims[d].name, name) == 0) return d;
    return -1;
}

/* ---- rules ---- */

/* The figure that is checked, and the code of a failure: LH_EWRITE or LH_EFILE. */
typedef struct subject {
    const lh_figure *figure;
    const lh_h5 *h5;
    lh_status code;
} subject;

static lh_status fault(const subject *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static lh_status fault(const subject *s, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    LH_FAIL(s->code, "figure '%s' of '%s': %s", s->figure->name ? s->figure->name : "", lh_h5_path(s->h5), text);
}

static lh_status check_name(const subject *s)
{
    const lh_figure *figure = s->figure;
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const size_t bytes = figure->name ? strlen(figure->name) : 0;
    if (bytes < 1 || bytes >= LH_FIGURE_NAME || strspn(figure->name, allowed) != bytes)
        return fault(s, "its name must be 1 to %d of a to z, digits and '-'", LH_FIGURE_NAME - 1);
    return LH_OK;
}

static lh_status check_dim(const subject *s, int d)
{
    const lh_figure *figure = s->figure;
    const lh_figure_dim *dim = &figure->dims[d];
    if (!dim->name || !*dim->name) return fault(s, "dimension %d has no name", d);
    if (lh_figure_dim_find(figure, dim->name) != d) return fault(s, "two dimensions are called '%s'", dim->name);
    if (dim->count < 1)
        return fault(s, "dimension '%s' has %lld points, it must have one", dim->name, (long long)dim->count);
    if (dim->labels && dim->values)
        return fault(s, "dimension '%s' has labels and values, it must have one", dim->name);
    for (int64_t i = 0; i < dim->count; i++) {
        if (dim->labels && !dim->labels[i]) return fault(s, "label %lld of '%s' is missing", (long long)i, dim->name);
        if (dim->values && !isfinite(dim->values[i]))
            return fault(s, "value %lld of dimension '%s' is not finite", (long long)i, dim->name);
    }
    return LH_OK;
}

/* The dimension that `axis` names must be there, and must be named where the view needs one. */
static lh_status check_axis(const subject *s, const char *axis, int needed)
{
    const lh_figure *figure = s->figure;
    const int named = axis && *axis;
    if (needed && !named)
        return fault(s, "a view of the kind '%s' needs x%s", view_names[figure->view], needed > 1 ? " and y" : "");
    if (named && lh_figure_dim_find(figure, axis) < 0) return fault(s, "its axis '%s' is none of its dimensions", axis);
    return LH_OK;
}

static lh_status check_figure(const subject *s)
{
    const lh_figure *figure = s->figure;
    static const int needs_x[LH_VIEWS] = {1, 2, 1, 0}, needs_y[LH_VIEWS] = {0, 2, 0, 0};
    LH_TRY(check_name(s));
    if ((unsigned)figure->view >= LH_VIEWS) return fault(s, "its view must be curves, heatmap, bars or table");
    if (figure->dim_count < 1 || figure->dim_count > LH_FIGURE_DIMS)
        return fault(s, "it has %d dimensions, it must have 1 to %d", figure->dim_count, LH_FIGURE_DIMS);
    if (figure->better < -1 || figure->better > 1)
        return fault(s, "'better' is %d, it must be -1, 0 or 1", figure->better);
    for (int d = 0; d < figure->dim_count; d++) LH_TRY(check_dim(s, d));
    LH_TRY(check_axis(s, figure->x, needs_x[figure->view]));
    LH_TRY(check_axis(s, figure->y, needs_y[figure->view]));
    if (figure->x && *figure->x && figure->y && strcmp(figure->x, figure->y) == 0)
        return fault(s, "both its axes are '%s'", figure->x);
    return LH_OK;
}

/* ---- writing ---- */

static json_t *points_json(const lh_figure_dim *dim)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < dim->count; i++)
        json_array_append_new(list, dim->labels ? lh_json_text(dim->labels[i], (int64_t)strlen(dim->labels[i]))
                                                : json_real(dim->values[i]));
    return list;
}

static json_t *dim_json(const lh_figure_dim *dim)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", lh_json_text(dim->name, (int64_t)strlen(dim->name)));
    if (dim->unit) json_object_set_new(object, "unit", lh_json_text(dim->unit, (int64_t)strlen(dim->unit)));
    json_object_set_new(object, "count", json_integer(dim->count));
    if (dim->labels) json_object_set_new(object, "labels", points_json(dim));
    if (dim->values) json_object_set_new(object, "values", points_json(dim));
    return object;
}

static lh_status put_dims(const lh_figure *figure, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    json_t *list = json_array();
    char *text = NULL;
    for (int d = 0; d < figure->dim_count; d++) json_array_append_new(list, dim_json(&figure->dims[d]));
    text = json_dumps(list, JSON_COMPACT);
    if (!text || json_array_size(list) != (size_t)figure->dim_count)
        LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the dimensions of figure '%s'", figure->name);
    LH_TRY_DONE(lh_h5_put_text(h5, name, text, (int64_t)strlen(text)));
done:
    free(text);
    json_decref(list);
    return st;
}

/* Names of a figure's objects. */
typedef struct object_name {
    char text[LH_FIGURE_NAME + 32];
} object_name;

static const char *name_of(object_name *out, const char *figure, const char *object)
{
    snprintf(out->text, sizeof out->text, "/figures/%s%s%s", figure, *object ? "/" : "", object);
    return out->text;
}

/* The attributes of text, in the order of a group's dump. */
typedef struct text_member {
    const char *attr;
    size_t offset;
} text_member;

static const text_member text_members[] = {
    {"title", offsetof(lh_figure, title)},   {"about", offsetof(lh_figure, about)}, {"unit", offsetof(lh_figure, unit)},
    {"source", offsetof(lh_figure, source)}, {"x", offsetof(lh_figure, x)},         {"y", offsetof(lh_figure, y)}};
enum { TEXT_MEMBERS = sizeof text_members / sizeof *text_members };

static const char **text_of(const lh_figure *figure, int i)
{
    return (const char **)((uintptr_t)figure + text_members[i].offset);
}

/* Figures get numbers when they are written: HDF5 sorts them by name. */
static lh_status put_number(lh_h5 *h5, const char *group)
{
    int64_t count = 0;
    LH_TRY(lh_h5_get_i64(h5, "/figures", "count", &count));
    LH_TRY(lh_h5_put_i64(h5, group, "number", count));
    LH_TRY(lh_h5_put_i64(h5, "/figures", "count", count + 1));
    return LH_OK;
}

lh_status lh_figure_write(const lh_figure *figure, lh_h5 *h5)
{
    object_name n;
    lh_h5_shape shape = {.type = LH_F32, .rank = figure->dim_count};
    LH_TRY(check_figure(&(subject){figure, h5, LH_EWRITE}));
    for (int d = 0; d < figure->dim_count; d++) shape.dims[d] = figure->dims[d].count;
    LH_TRY(lh_h5_put(h5, name_of(&n, figure->name, "values"), &shape, figure->values));
    LH_TRY(put_dims(figure, h5, name_of(&n, figure->name, "dims")));
    name_of(&n, figure->name, "");
    for (int i = 0; i < TEXT_MEMBERS; i++) {
        const char *text = *text_of(figure, i);
        LH_TRY(lh_h5_put_string(h5, n.text, text_members[i].attr, text ? text : ""));
    }
    LH_TRY(lh_h5_put_string(h5, n.text, "view", view_names[figure->view]));
    LH_TRY(lh_h5_put_i64(h5, n.text, "better", figure->better));
    return put_number(h5, n.text);
}

/* ---- reading ---- */

static void free_dim(lh_figure_dim *dim)
{
    for (int64_t i = 0; dim->labels && i < dim->count; i++) lh_free((char *)(uintptr_t)dim->labels[i]);
    lh_free((void *)(uintptr_t)dim->labels);
    lh_free((void *)(uintptr_t)dim->values);
    lh_free((char *)(uintptr_t)dim->name);
    lh_free((char *)(uintptr_t)dim->unit);
}

static void free_figure(lh_figure *figure)
{
    for (int d = 0; d < figure->dim_count; d++) free_dim(&figure->dims[d]);
    for (int i = 0; i < TEXT_MEMBERS; i++) lh_free((char *)(uintptr_t)*text_of(figure, i));
    lh_free((char *)(uintptr_t)figure->name);
    lh_free((void *)(uintptr_t)figure->values);
}

void lh_figures_clear(lh_figures *figures)
{
    for (int64_t i = 0; i < figures->count; i++) free_figure(&figures->list[i]);
    lh_free(figures->list);
    *figures = (lh_figures){0};
}

/* A new figure at the end, which has a name and nothing else. */
static lh_status append(lh_figures *figures, const char *name, int64_t bytes, lh_figure **out)
{
    char *copy = NULL;
    LH_TRY(lh_realloc(&figures->list, figures->count + 1, sizeof *figures->list));
    *out = &figures->list[figures->count];
    **out = (lh_figure){0};
    LH_TRY(lh_strndup(&copy, name, bytes));
    (*out)->name = copy;
    figures->count++; /* from here on a partly filled figure is freed with the list */
    return LH_OK;
}

static lh_status copy_text(const char **to, const char *text)
{
    char *copy = NULL;
    LH_TRY(lh_strdup(&copy, text ? text : ""));
    *to = copy;
    return LH_OK;
}

static lh_status copy_dim(lh_figure_dim *to, const lh_figure_dim *dim)
{
    const char **labels = NULL;
    double *values = NULL;
    to->count = dim->count;
    LH_TRY(copy_text(&to->name, dim->name));
    if (dim->unit) LH_TRY(copy_text(&to->unit, dim->unit));
    if (dim->labels) LH_TRY(lh_calloc(&labels, dim->count, sizeof *labels));
    to->labels = labels;
    for (int64_t i = 0; labels && i < dim->count; i++) LH_TRY(copy_text(&labels[i], dim->labels[i]));
    if (dim->values) LH_TRY(lh_calloc(&values, dim->count, sizeof *values));
    to->values = values;
    if (values) memcpy(values, dim->values, (size_t)dim->count * sizeof *values);
    return LH_OK;
}

lh_status lh_figures_append(lh_figures *figures, const lh_figure *figure)
{
    lh_figure *to = NULL;
    float *values = NULL;
    LH_TRY(append(figures, figure->name, (int64_t)strlen(figure->name), &to));
    to->view = figure->view;
    to->better = figure->better;
    for (int i = 0; i < TEXT_MEMBERS; i++) LH_TRY(copy_text(text_of(to, i), *text_of(figure, i)));
    for (int d = 0; d < figure->dim_count; d++) LH_TRY(copy_dim(&to->dims[to->dim_count++], &figure->dims[d]));
    LH_TRY(lh_calloc(&values, lh_figure_count(figure), sizeof *values));
    memcpy(values, figure->values, (size_t)lh_figure_count(figure) * sizeof *values);
    to->values = values;
    return LH_OK;
}

/* Labels or values, whichever list `object` has; dim->count is how many there must be. */
static lh_status get_points(const subject *s, lh_figure_dim *dim, const json_t *object)
{
    const json_t *labels = json_object_get(object, "labels"), *values = json_object_get(object, "values");
    const json_t *list = labels ? labels : values;
    const char **texts = NULL;
    double *numbers = NULL;
    if (!list) return LH_OK;
    if ((labels && values) || !json_is_array(list) || json_array_size(list) != (size_t)dim->count)
        return fault(s, "dimension '%s' must have %lld labels or values", dim->name, (long long)dim->count);
    if (labels)
        LH_TRY(lh_calloc(&texts, dim->count, sizeof *texts));
    else
        LH_TRY(lh_calloc(&numbers, dim->count, sizeof *numbers));
    dim->labels = texts;
    dim->values = numbers;
    for (int64_t i = 0; i < dim->count; i++) {
        const json_t *point = json_array_get(list, (size_t)i);
        char *copy = NULL;
        if (labels ? !json_is_string(point) : !json_is_number(point))
            return fault(s, "%s %lld of dimension '%s' is no %s", labels ? "label" : "value", (long long)i, dim->name,
                         labels ? "text" : "number");
        if (numbers) numbers[i] = json_number_value(point);
        if (labels) LH_TRY(lh_strdup(&copy, json_string_value(point)));
        if (labels) texts[i] = copy;
    }
    return LH_OK;
}

/* Dimensions from JSON; how many points they have comes from the array of values. */
static lh_status get_dims(const subject *s, lh_figure *figure, const json_t *list, const lh_h5_shape *shape)
{
    if (!json_is_array(list) || json_array_size(list) != (size_t)shape->rank || shape->rank < 1)
        return fault(s, "'dims' must be a list of %d dimensions, one for each of 'values'", shape->rank);
    for (int d = 0; d < shape->rank; d++) {
        lh_figure_dim *dim = &figure->dims[figure->dim_count++];
        const json_t *object = json_array_get(list, (size_t)d);
        const json_t *name = json_object_get(object, "name"), *unit = json_object_get(object, "unit");
        const json_t *count = json_object_get(object, "count");
        char *copy = NULL;
        if (!json_is_string(name)) return fault(s, "dimension %d has no name", d);
        LH_TRY(lh_strdup(&copy, json_string_value(name)));
        dim->name = copy;
        copy = NULL;
        if (json_is_string(unit)) LH_TRY(lh_strdup(&copy, json_string_value(unit)));
        dim->unit = copy;
        if (!json_is_integer(count) || json_integer_value(count) != shape->dims[d])
            return fault(s, "dimension '%s' says that it has other than the %lld points of 'values'", dim->name,
                         (long long)shape->dims[d]);
        dim->count = shape->dims[d];
        LH_TRY(get_points(s, dim, object));
    }
    return LH_OK;
}

static lh_status read_values(const subject *s, lh_figure *figure, lh_h5 *h5)
{
    lh_status st = LH_OK;
    object_name n;
    lh_h5_array *array = NULL;
    lh_h5_shape shape, same;
    char *text = NULL;
    float *values = NULL;
    json_t *list = NULL;
    int64_t bytes = 0;
    LH_TRY_DONE(lh_h5_get_text(h5, name_of(&n, figure->name, "dims"), &text, &bytes));
    LH_TRY_DONE(lh_h5_array_open(&array, h5, name_of(&n, figure->name, "values")));
    shape = *lh_h5_array_shape(array);
    list = json_loadb(text, (size_t)bytes, 0, NULL);
    LH_TRY_DONE(get_dims(s, figure, list, &shape));
    shape.type = LH_F32;
    LH_TRY_DONE(lh_h5_get(h5, n.text, &shape, &same, &values));
    figure->values = values;
done:
    lh_h5_array_close(array);
    json_decref(list);
    lh_free(text);
    return st;
}

static lh_status read_view(lh_figure *figure, lh_h5 *h5, const char *group)
{
    lh_status st = LH_OK;
    char *word = NULL;
    LH_TRY_DONE(lh_h5_get_string(h5, group, "view", &word));
    figure->view = LH_VIEWS;
    for (int v = 0; v < LH_VIEWS; v++)
        if (word && strcmp(word, view_names[v]) == 0) figure->view = (lh_figure_view)v;
done:
    lh_free(word);
    return st;
}

static lh_status read_figure(lh_figure *figure, lh_h5 *h5)
{
    const subject about = {figure, h5, LH_EFILE}, *s = &about;
    object_name n;
    int64_t better = 0;
    LH_TRY(check_name(s));
    name_of(&n, figure->name, "");
    for (int i = 0; i < TEXT_MEMBERS; i++) {
        char *text = NULL;
        LH_TRY(lh_h5_get_string(h5, n.text, text_members[i].attr, &text));
        if (!text) LH_TRY(lh_strdup(&text, ""));
        *text_of(figure, i) = text;
    }
    LH_TRY(read_view(figure, h5, n.text));
    LH_TRY(lh_h5_get_i64(h5, n.text, "better", &better));
    figure->better = better < -1 || better > 1 ? 2 : (int)better;
    LH_TRY(read_values(s, figure, h5));
    return check_figure(s);
}

/* The number of bytes of NAME, which begins at object + 9, if `object` is /figures/NAME/values; 0: it is not. */
static int64_t name_bytes(const char *object)
{
    if (strncmp(object, "/figures/", 9) != 0) return 0;
    const size_t bytes = strcspn(object + 9, "/");
    return strcmp(object + 9 + bytes, "/values") == 0 ? (int64_t)bytes : 0;
}

static lh_status visit_array(void *self, lh_h5 *h5, const char *object)
{
    lh_figures *figures = self;
    lh_figure *figure = NULL;
    const int64_t bytes = name_bytes(object);
    if (!bytes) return LH_OK;
    LH_TRY(append(figures, object + 9, bytes, &figure));
    return read_figure(figure, h5);
}

/* By number; figures without a number, from other programs, come last, sorted by name. */
static lh_status put_in_order(lh_figures *figures, lh_h5 *h5)
{
    lh_status st = LH_OK;
    object_name n;
    int64_t *numbers = NULL;
    LH_TRY_DONE(lh_calloc(&numbers, figures->count, sizeof *numbers));
    for (int64_t i = 0; i < figures->count; i++) {
        const lh_figure figure = figures->list[i];
        int64_t number = INT64_MAX, at = i;
        LH_TRY_DONE(lh_h5_get_i64(h5, name_of(&n, figure.name, ""), "number", &number));
        for (; at > 0 && numbers[at - 1] > number; at--) {
            numbers[at] = numbers[at - 1];
            figures->list[at] = figures->list[at - 1];
        }
        numbers[at] = number;
        figures->list[at] = figure;
    }
done:
    lh_free(numbers);
    return st;
}

lh_status lh_figures_read(lh_figures *out, lh_h5 *h5)
{
    *out = (lh_figures){0};
    lh_status st = lh_h5_each_array(h5, visit_array, out);
    if (st == LH_OK) st = put_in_order(out, h5);
    if (st != LH_OK) lh_figures_clear(out);
    return st;
}
