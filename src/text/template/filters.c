/* filters.c - the filters of chat templates, "value | NAME(…)". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/calls.h"
#include "text/template/print.h"
#include "text/template/text_ops.h"

typedef const lh_tpl_args args;

/* ---- texts ---- */

static lh_status string(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    (void)a;
    return lh_tpl_str(pool, v, out);
}

static lh_status trim(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    lh_tpl_value text, set = lh_tpl_arg(a, 0, "chars");
    LH_TRY(lh_tpl_str(pool, v, &text));
    return lh_tpl_text_strip(pool, text.text, set.kind == LH_TPL_TEXT ? set.text : NULL, 3, out);
}

#define CASE(name, to)                                                                   \
    static lh_status name(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out) \
    {                                                                                    \
        lh_tpl_value text;                                                               \
        (void)a;                                                                         \
        LH_TRY(lh_tpl_str(pool, v, &text));                                              \
        return lh_tpl_change_case(pool, text.text, to, out);                             \
    }
CASE(upper, LH_TPL_UPPER)
CASE(lower, LH_TPL_LOWER)
CASE(capitalize, LH_TPL_CAPITAL)

static lh_status replace(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    lh_tpl_value text, from, to, count = lh_tpl_arg(a, 2, "count");
    LH_TRY(lh_tpl_str(pool, v, &text));
    LH_TRY(lh_tpl_str(pool, lh_tpl_arg(a, 0, "old"), &from));
    LH_TRY(lh_tpl_str(pool, lh_tpl_arg(a, 1, "new"), &to));
    return lh_tpl_replace(pool, text.text,
                          &(lh_tpl_change){from.text, to.text, count.kind == LH_TPL_INT ? count.i : -1}, out);
}

static lh_status indent(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    lh_tpl_builder b = {0};
    lh_tpl_value lines, text, width = lh_tpl_arg(a, 0, "width");
    const int first = lh_tpl_true(lh_tpl_arg(a, 1, "first")), blank = lh_tpl_true(lh_tpl_arg(a, 2, "blank"));
    LH_TRY(lh_tpl_str(pool, v, &text));
    LH_TRY(lh_tpl_split_lines(pool, text.text, 0, &lines));
    if (text.text->bytes && text.text->data[text.text->bytes - 1] == '\n') { /* Jinja's keeps an empty last line */
        lh_tpl_value empty;
        LH_TRY(lh_tpl_text_borrow(pool, "", 0, &empty));
        LH_TRY(lh_tpl_list_push(pool, lines.list, empty));
    }
    int64_t spaces = width.kind == LH_TPL_INT ? width.i : 4;
    for (int64_t i = 0; i < lines.list->n; i++) {
        if (i) LH_TRY(lh_tpl_append_bytes(pool, &b, "\n", 1));
        int fills = i ? blank || lines.list->at[i].text->bytes : first;
        if (fills && width.kind == LH_TPL_TEXT) LH_TRY(lh_tpl_append(pool, &b, width.text));
        for (int64_t k = 0; fills && width.kind != LH_TPL_TEXT && k < spaces; k++)
            LH_TRY(lh_tpl_append_bytes(pool, &b, " ", 1));
        LH_TRY(lh_tpl_append(pool, &b, lines.list->at[i].text));
    }
    return lh_tpl_built(pool, &b, out);
}

static lh_status tojson(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    lh_tpl_value indent_of = lh_tpl_arg(a, 1, "indent"), separators = lh_tpl_arg(a, 2, "separators");
    lh_tpl_json how = {.ascii = lh_tpl_true(lh_tpl_arg(a, 0, "ensure_ascii")),
                       .sorted = lh_tpl_true(lh_tpl_arg(a, 3, "sort_keys")),
                       .indent = -1};
    char texts[2][16];
    if (indent_of.kind == LH_TPL_INT) how.indent = indent_of.i < 0 ? 0 : indent_of.i > 64 ? 64 : indent_of.i;
    if (separators.kind == LH_TPL_LIST) {
        for (int64_t i = 0; i < 2; i++) {
            lh_tpl_value s = i < separators.list->n ? separators.list->at[i] : lh_tpl_none();
            LH_TRY(lh_tpl_need_text(s, "separators"));
            if (s.text->bytes > 15) LH_FAIL(LH_EINPUT, "'tojson' got a separator of more than 15 bytes");
            memcpy(texts[i], s.text->data, (size_t)s.text->bytes);
            texts[i][s.text->bytes] = '\0';
        }
        how.item = texts[0];
        how.member = texts[1];
    }
    return lh_tpl_to_json(pool, v, &how, out);
}

/* ---- numbers ---- */

static lh_status to_int(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    char text[64] = {0}, *end = text;
    lh_tpl_value otherwise = lh_tpl_arg(a, 0, "default");
    (void)pool;
    *out = otherwise.kind == LH_TPL_UNDEFINED ? lh_tpl_int(0) : otherwise;
    if (v.kind == LH_TPL_INT || v.kind == LH_TPL_BOOL) *out = lh_tpl_int(v.i);
    if (v.kind != LH_TPL_TEXT || v.text->bytes == 0 || v.text->bytes > 60) return LH_OK;
    memcpy(text, v.text->data, (size_t)v.text->bytes);
    double f = strtod(text, &end);
    while (*end == ' ' || *end == '\n') end++;
    if (!*end && fabs(f) < 9e15) *out = lh_tpl_int((int64_t)f);
    return LH_OK;
}

/* ---- lists ---- */

static lh_status length(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    (void)a;
    switch (v.kind) {
    case LH_TPL_UNDEFINED: *out = lh_tpl_int(0); return LH_OK;
    case LH_TPL_TEXT: *out = lh_tpl_int(lh_tpl_text_length(v.text)); return lh_tpl_step(pool, v.text->bytes / 16);
    case LH_TPL_LIST: *out = lh_tpl_int(v.list->n); return LH_OK;
    case LH_TPL_DICT: *out = lh_tpl_int(v.dict->keys.n); return LH_OK;
    default: LH_FAIL(LH_EINPUT, "a value of the type '%s' has no length", lh_tpl_type(v));
    }
}

static lh_status take(lh_tpl_pool *pool, lh_tpl_value v, int last, lh_tpl_value *out)
{
    lh_tpl_list items;
    LH_TRY(lh_tpl_items(pool, v, &items));
    *out = items.n ? items.at[last ? items.n - 1 : 0] : lh_tpl_undefined(NULL);
    return LH_OK;
}

static lh_status first(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    (void)a;
    return take(pool, v, 0, out);
}

static lh_status last(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    (void)a;
    return take(pool, v, 1, out);
}

static lh_status list(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    lh_tpl_list items;
    (void)a;
    LH_TRY(lh_tpl_items(pool, v, &items));
    LH_TRY(lh_tpl_list_make(pool, out));
    for (int64_t i = 0; i < items.n; i++) LH_TRY(lh_tpl_list_push(pool, out->list, items.at[i]));
    return LH_OK;
}

static lh_status reverse(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    lh_tpl_list items;
    lh_tpl_value turned;
    (void)a;
    LH_TRY(lh_tpl_items(pool, v, &items));
    LH_TRY(lh_tpl_list_make(pool, &turned));
    for (int64_t i = items.n - 1; i >= 0; i--) LH_TRY(lh_tpl_list_push(pool, turned.list, items.at[i]));
    *out = turned;
    if (v.kind != LH_TPL_TEXT) return LH_OK;
    return lh_tpl_join(pool, turned.list, &(lh_tpl_text){.data = ""}, out);
}

static lh_status items_of(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    if (v.kind == LH_TPL_UNDEFINED) return lh_tpl_list_make(pool, out);
    if (v.kind != LH_TPL_DICT)
        LH_FAIL(LH_EINPUT, "'items' needs a dictionary, not a value of the type '%s'", lh_tpl_type(v));
    return lh_tpl_find_method(LH_TPL_DICT, "items")(pool, v, a, out);
}

static lh_status dictsort(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    lh_tpl_value pairs;
    int64_t *order;
    LH_TRY(items_of(pool, v, a, &pairs));
    LH_TRY(lh_tpl_list_make(pool, out));
    if (v.kind != LH_TPL_DICT) return LH_OK;
    LH_TRY(lh_tpl_sorted_keys(pool, v.dict, &order));
    for (int64_t i = 0; i < pairs.list->n; i++) LH_TRY(lh_tpl_list_push(pool, out->list, pairs.list->at[order[i]]));
    return LH_OK;
}

static lh_status join(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    lh_tpl_list items;
    lh_tpl_value separator, attribute = lh_tpl_arg(a, 1, "attribute"), mapped;
    LH_TRY(lh_tpl_items(pool, v, &items));
    LH_TRY(lh_tpl_str(pool, lh_tpl_arg(a, 0, "d"), &separator));
    if (attribute.kind != LH_TPL_UNDEFINED) {
        LH_TRY(lh_tpl_list_make(pool, &mapped));
        for (int64_t i = 0; i < items.n; i++) {
            lh_tpl_value member;
            LH_TRY(lh_tpl_member_path(pool, items.at[i], attribute, &member));
            LH_TRY(lh_tpl_list_push(pool, mapped.list, member));
        }
        items = *mapped.list;
    }
    return lh_tpl_join(pool, &items, separator.text, out);
}

static lh_status extreme(lh_tpl_pool *pool, lh_tpl_value v, int sign, lh_tpl_value *out)
{
    lh_tpl_list items;
    LH_TRY(lh_tpl_items(pool, v, &items));
    *out = items.n ? items.at[0] : lh_tpl_undefined(NULL);
    for (int64_t i = 1; i < items.n; i++) {
        int order;
        LH_TRY(lh_tpl_compare(pool, items.at[i], *out, &order));
        if (sign * order > 0) *out = items.at[i];
    }
    return LH_OK;
}

static lh_status largest(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    (void)a;
    return extreme(pool, v, 1, out);
}

static lh_status smallest(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    (void)a;
    return extreme(pool, v, -1, out);
}

/* "map(attribute='a', default=b)", or "map('filter', …)". As Jinja's select, map finds nothing in what is not true,
 * such as none. */
static lh_status map(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    char name[32];
    lh_tpl_list items;
    lh_tpl_value attribute = lh_tpl_arg(a, -1, "attribute"), otherwise = lh_tpl_arg(a, -1, "default");
    lh_tpl_call filter = NULL;
    args rest = {a->n ? a->at + 1 : NULL, a->n ? a->n - 1 : 0, a->names, a->named_at, a->named};
    if (!lh_tpl_true(v)) return lh_tpl_list_make(pool, out);
    if (attribute.kind == LH_TPL_UNDEFINED) {
        LH_TRY(lh_tpl_need_text(lh_tpl_arg(a, 0, NULL), "map"));
        const lh_tpl_text *text = a->at[0].text;
        int n = text->bytes < 31 ? (int)text->bytes : 31;
        memcpy(name, text->data, (size_t)n);
        name[n] = '\0';
        filter = lh_tpl_find_filter(name);
        if (!filter) LH_FAIL(LH_EINPUT, "the filter '%s' is not known here", name);
    }
    LH_TRY(lh_tpl_items(pool, v, &items));
    LH_TRY(lh_tpl_list_make(pool, out));
    for (int64_t i = 0; i < items.n; i++) {
        lh_tpl_value item;
        LH_TRY(lh_tpl_enter(pool)); /* a filter may be `map` again */
        lh_status st =
            filter ? filter(pool, items.at[i], &rest, &item) : lh_tpl_member_path(pool, items.at[i], attribute, &item);
        LH_TRY(lh_tpl_leave(pool, st));
        if (item.kind == LH_TPL_UNDEFINED && otherwise.kind != LH_TPL_UNDEFINED) item = otherwise;
        LH_TRY(lh_tpl_list_push(pool, out->list, item));
    }
    return LH_OK;
}

/* What select, reject, selectattr and rejectattr do: `keeps` where the test (or truth) of an item or its attribute. */
static lh_status choose(lh_tpl_pool *pool, lh_tpl_value v, args *a, int attribute, int keeps, lh_tpl_value *out)
{
    char name[32] = "";
    lh_tpl_list items;
    lh_tpl_call test = NULL;
    const int64_t skip = attribute + (a->n > attribute);
    args rest = {a->n > skip ? a->at + skip : NULL, a->n > skip ? a->n - skip : 0, a->names, a->named_at, a->named};
    if (!lh_tpl_true(v)) return lh_tpl_list_make(pool, out);
    if (a->n > attribute) {
        LH_TRY(lh_tpl_need_text(a->at[attribute], "select"));
        int n = a->at[attribute].text->bytes < 31 ? (int)a->at[attribute].text->bytes : 31;
        memcpy(name, a->at[attribute].text->data, (size_t)n);
        const int equal = strcmp(name, "==") == 0, other = strcmp(name, "!=") == 0;
        test = lh_tpl_find_test(equal ? "eq" : other ? "ne" : name);
        if (!test) LH_FAIL(LH_EINPUT, "the test '%s' is not known here", name);
    }
    if (attribute && a->n < 1) LH_FAIL(LH_EINPUT, "'selectattr' needs the name of an attribute");
    LH_TRY(lh_tpl_items(pool, v, &items));
    LH_TRY(lh_tpl_list_make(pool, out));
    for (int64_t i = 0; i < items.n; i++) {
        lh_tpl_value item = items.at[i], yes;
        if (attribute) LH_TRY(lh_tpl_member_path(pool, item, a->at[0], &item));
        if (test)
            LH_TRY(test(pool, item, &rest, &yes));
        else
            yes = item;
        if (lh_tpl_true(yes) == keeps) LH_TRY(lh_tpl_list_push(pool, out->list, items.at[i]));
    }
    return LH_OK;
}

#define CHOOSE(name, attribute, keeps)                                                   \
    static lh_status name(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out) \
    {                                                                                    \
        return choose(pool, v, a, attribute, keeps, out);                                \
    }
CHOOSE(select_items, 0, 1)
CHOOSE(reject_items, 0, 0)
CHOOSE(select_by, 1, 1)
CHOOSE(reject_by, 1, 0)

/* ---- the others ---- */

static lh_status otherwise(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    const int falsy = lh_tpl_true(lh_tpl_arg(a, 1, "boolean"));
    *out = v;
    if (v.kind != LH_TPL_UNDEFINED && !(falsy && !lh_tpl_true(v))) return LH_OK;
    *out = lh_tpl_arg(a, 0, "default_value");
    return out->kind == LH_TPL_UNDEFINED && a->n == 0 ? lh_tpl_text_borrow(pool, "", 0, out) : LH_OK;
}

static lh_status same(lh_tpl_pool *pool, lh_tpl_value v, args *a, lh_tpl_value *out)
{
    (void)pool, (void)a;
    *out = v;
    return LH_OK;
}

lh_tpl_call lh_tpl_find_filter(const char *name)
{
    static const lh_tpl_row rows[] = {{"string", string},
                                      {"trim", trim},
                                      {"upper", upper},
                                      {"lower", lower},
                                      {"capitalize", capitalize},
                                      {"replace", replace},
                                      {"indent", indent},
                                      {"tojson", tojson},
                                      {"int", to_int},
                                      {"length", length},
                                      {"count", length},
                                      {"first", first},
                                      {"last", last},
                                      {"list", list},
                                      {"reverse", reverse},
                                      {"items", items_of},
                                      {"dictsort", dictsort},
                                      {"join", join},
                                      {"max", largest},
                                      {"min", smallest},
                                      {"map", map},
                                      {"select", select_items},
                                      {"reject", reject_items},
                                      {"selectattr", select_by},
                                      {"rejectattr", reject_by},
                                      {"default", otherwise},
                                      {"d", otherwise},
                                      {"safe", same},
                                      {NULL, NULL}};
    return lh_tpl_find_row(rows, name);
}
