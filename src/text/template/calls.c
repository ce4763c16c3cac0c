/* calls.c - functions, filters and tests of chat templates, and helpers that methods share. */
#include "text/template/calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/print.h"
#include "text/template/value.h"

enum { MAX_RANGE = 100000 }; /* as Jinja's sandbox */

lh_status lh_tpl_member_path(lh_tpl_pool *pool, lh_tpl_value of, lh_tpl_value path, lh_tpl_value *out)
{
    *out = of;
    if (path.kind == LH_TPL_INT) {
        int64_t i = path.i, n = of.kind == LH_TPL_LIST ? of.list->n : 0;
        if (i < 0) i += n;
        *out = i >= 0 && i < n ? of.list->at[i] : lh_tpl_undefined(NULL);
        return LH_OK;
    }
    LH_TRY(lh_tpl_need_text(path, "attribute"));
    for (int64_t at = 0; at <= path.text->bytes;) {
        const char *dot =
            path.text->bytes > at ? memchr(path.text->data + at, '.', (size_t)(path.text->bytes - at)) : NULL;
        int64_t end = dot ? dot - path.text->data : path.text->bytes;
        lh_tpl_value key;
        int found = 0;
        LH_TRY(lh_tpl_text_part(pool, path.text, at, end, &key));
        if (out->kind == LH_TPL_DICT) LH_TRY(lh_tpl_dict_get(pool, out->dict, key, out, &found));
        if (!found) *out = lh_tpl_undefined(NULL);
        at = end + 1;
    }
    return LH_OK;
}

/* ---- functions ---- */

static lh_status make_range(lh_tpl_pool *pool, lh_tpl_value self, const lh_tpl_args *args, lh_tpl_value *out)
{
    int64_t from = 0, until = 0, step = 1;
    (void)self;
    for (int64_t i = 0; i < args->n; i++) LH_TRY(lh_tpl_need_int(args->at[i], "range"));
    if (args->n < 1 || args->n > 3) LH_FAIL(LH_EINPUT, "'range' takes one to three integers");
    until = args->at[args->n > 1].i;
    if (args->n > 1) from = args->at[0].i;
    if (args->n > 2) step = args->at[2].i;
    if (step == 0) LH_FAIL(LH_EINPUT, "the step of 'range' is 0");
    double n = ((double)until - (double)from) / (double)step;
    if (n > MAX_RANGE) LH_FAIL(LH_EINPUT, "'range' is limited to %d integers", MAX_RANGE);
    LH_TRY(lh_tpl_list_make(pool, out));
    for (int64_t i = from; step > 0 ? i < until : i > until;) {
        LH_TRY(lh_tpl_list_push(pool, out->list, lh_tpl_int(i)));
        if (__builtin_add_overflow(i, step, &i)) break; /* past `until`, and past 64 bits */
    }
    return LH_OK;
}

static lh_status make_named(lh_tpl_pool *pool, const lh_tpl_args *args, lh_tpl_kind kind, lh_tpl_value *out)
{
    LH_TRY(lh_tpl_dict_make(pool, out, kind));
    for (int64_t i = 0; i < args->n; i++) { /* of another dictionary */
        if (args->at[i].kind != LH_TPL_DICT) LH_FAIL(LH_EINPUT, "a dictionary is made of names and of dictionaries");
        for (int64_t k = 0; k < args->at[i].dict->keys.n; k++)
            LH_TRY(lh_tpl_dict_put(pool, out->dict, args->at[i].dict->keys.at[k], args->at[i].dict->values.at[k]));
    }
    for (int64_t i = 0; i < args->named; i++) {
        lh_tpl_value key;
        LH_TRY(lh_tpl_text_borrow(pool, args->names[i], (int64_t)strlen(args->names[i]), &key));
        LH_TRY(lh_tpl_dict_put(pool, out->dict, key, args->named_at[i]));
    }
    return LH_OK;
}

static lh_status make_namespace(lh_tpl_pool *pool, lh_tpl_value self, const lh_tpl_args *args, lh_tpl_value *out)
{
    (void)self;
    return make_named(pool, args, LH_TPL_NAMESPACE, out);
}

static lh_status make_dict(lh_tpl_pool *pool, lh_tpl_value self, const lh_tpl_args *args, lh_tpl_value *out)
{
    (void)self;
    return make_named(pool, args, LH_TPL_DICT, out);
}

/* Another value in each round of a loop: `self` is the loop. */
static lh_status cycle(lh_tpl_pool *pool, lh_tpl_value self, const lh_tpl_args *args, lh_tpl_value *out)
{
    const lh_tpl_value *index = self.kind == LH_TPL_DICT ? lh_tpl_dict_named(self.dict, "index0") : NULL;
    (void)pool;
    if (args->n < 1 || !index) LH_FAIL(LH_EINPUT, "'loop.cycle' needs values to go through");
    *out = args->at[index->i % args->n];
    return LH_OK;
}

/* The day is a constant, as in the built-in formats: today's would give other ids tomorrow. */
static lh_status write_date(lh_tpl_pool *pool, lh_tpl_value self, const lh_tpl_args *args, lh_tpl_value *out)
{
    static const struct {
        char letter;
        const char *text;
    } parts[] = {{'d', "26"},   {'m', "07"},     {'Y', "2024"}, {'y', "24"},         {'b', "Jul"},
                 {'B', "July"}, {'A', "Friday"}, {'a', "Fri"},  {'H', "00"},         {'M', "00"},
                 {'S', "00"},   {'j', "208"},    {'e', "26"},   {'F', "2024-07-26"}, {'%', "%"}};
    lh_tpl_value format = lh_tpl_arg(args, 0, "format");
    lh_tpl_builder b = {0};
    (void)self;
    LH_TRY(lh_tpl_need_text(format, "strftime_now"));
    for (int64_t i = 0; i < format.text->bytes; i++) {
        const char *c = format.text->data + i, *text = NULL;
        for (size_t k = 0; *c == '%' && i + 1 < format.text->bytes && k < sizeof parts / sizeof *parts; k++)
            if (parts[k].letter == c[1]) text = parts[k].text;
        LH_TRY(lh_tpl_append_bytes(pool, &b, text ? text : c, text ? (int64_t)strlen(text) : 1));
        i += text != NULL;
    }
    return lh_tpl_built(pool, &b, out);
}

lh_tpl_call lh_tpl_find_function(const char *name)
{
    static const lh_tpl_row rows[] = {{"range", make_range},        {"namespace", make_namespace}, {"dict", make_dict},
                                      {"strftime_now", write_date}, {"loop.cycle", cycle},         {NULL, NULL}};
    return lh_tpl_find_row(rows, name);
}

/* ---- tests: "value is NAME" ---- */

#define TEST(name, condition)                                                                            \
    static lh_status name(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out) \
    {                                                                                                    \
        (void)pool, (void)args;                                                                          \
        *out = lh_tpl_bool(condition);                                                                   \
        return LH_OK;                                                                                    \
    }

TEST(is_defined, v.kind != LH_TPL_UNDEFINED)
TEST(is_undefined, v.kind == LH_TPL_UNDEFINED)
TEST(is_none, v.kind == LH_TPL_NONE)
TEST(is_boolean, v.kind == LH_TPL_BOOL)
TEST(is_true, v.kind == LH_TPL_BOOL && v.i)
TEST(is_false, v.kind == LH_TPL_BOOL && !v.i)
TEST(is_integer, v.kind == LH_TPL_INT)
TEST(is_number, v.kind == LH_TPL_INT || v.kind == LH_TPL_BOOL)
TEST(is_string, v.kind == LH_TPL_TEXT)
TEST(is_mapping, v.kind == LH_TPL_DICT)
TEST(is_sequence, v.kind == LH_TPL_LIST || v.kind == LH_TPL_TEXT || v.kind == LH_TPL_DICT || v.kind == LH_TPL_UNDEFINED)
TEST(is_iterable, v.kind == LH_TPL_LIST || v.kind == LH_TPL_TEXT || v.kind == LH_TPL_DICT || v.kind == LH_TPL_UNDEFINED)
TEST(is_callable, v.kind == LH_TPL_FUNCTION || v.kind == LH_TPL_MACRO)

static lh_status remainder_of(lh_tpl_value v, int64_t by, int64_t *out)
{
    LH_TRY(lh_tpl_need_int(v, "a test of an integer"));
    if (by == 0) LH_FAIL(LH_EINPUT, "division by zero");
    *out = by == -1 ? 0 : v.i % by;
    return LH_OK;
}

static lh_status is_even(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out)
{
    int64_t rest = 0;
    (void)pool, (void)args;
    LH_TRY(remainder_of(v, 2, &rest));
    *out = lh_tpl_bool(rest == 0);
    return LH_OK;
}

static lh_status is_odd(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out)
{
    LH_TRY(is_even(pool, v, args, out));
    out->i = !out->i;
    return LH_OK;
}

static lh_status is_divisible(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out)
{
    int64_t rest = 0;
    lh_tpl_value by = lh_tpl_arg(args, 0, "num");
    (void)pool;
    LH_TRY(lh_tpl_need_int(by, "divisibleby"));
    LH_TRY(remainder_of(v, by.i, &rest));
    *out = lh_tpl_bool(rest == 0);
    return LH_OK;
}

static lh_status is_equal(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out)
{
    int same;
    LH_TRY(lh_tpl_equal(pool, v, lh_tpl_arg(args, 0, NULL), &same));
    *out = lh_tpl_bool(same);
    return LH_OK;
}

static lh_status is_not_equal(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out)
{
    LH_TRY(is_equal(pool, v, args, out));
    out->i = !out->i;
    return LH_OK;
}

static lh_status is_same(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out)
{
    lh_tpl_value other = lh_tpl_arg(args, 0, NULL);
    if (v.kind != other.kind) {
        *out = lh_tpl_bool(0);
        return LH_OK;
    }
    return is_equal(pool, v, args, out);
}

static lh_status is_in(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out)
{
    int found;
    LH_TRY(lh_tpl_contains(pool, lh_tpl_arg(args, 0, NULL), v, &found));
    *out = lh_tpl_bool(found);
    return LH_OK;
}

#define ORDER(name, condition)                                                                           \
    static lh_status name(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_args *args, lh_tpl_value *out) \
    {                                                                                                    \
        int order;                                                                                       \
        LH_TRY(lh_tpl_compare(pool, v, lh_tpl_arg(args, 0, NULL), &order));                              \
        *out = lh_tpl_bool(condition);                                                                   \
        return LH_OK;                                                                                    \
    }

ORDER(is_less, order < 0)
ORDER(is_at_most, order <= 0)
ORDER(is_greater, order > 0)
ORDER(is_at_least, order >= 0)

lh_tpl_call lh_tpl_find_test(const char *name)
{
    static const lh_tpl_row rows[] = {{"defined", is_defined},
                                      {"undefined", is_undefined},
                                      {"none", is_none},
                                      {"boolean", is_boolean},
                                      {"true", is_true},
                                      {"false", is_false},
                                      {"integer", is_integer},
                                      {"number", is_number},
                                      {"string", is_string},
                                      {"mapping", is_mapping},
                                      {"sequence", is_sequence},
                                      {"iterable", is_iterable},
                                      {"callable", is_callable},
                                      {"even", is_even},
                                      {"odd", is_odd},
                                      {"divisibleby", is_divisible},
                                      {"eq", is_equal},
                                      {"equalto", is_equal},
                                      {"ne", is_not_equal},
                                      {"sameas", is_same},
                                      {"in", is_in},
                                      {"lt", is_less},
                                      {"lessthan", is_less},
                                      {"le", is_at_most},
                                      {"gt", is_greater},
                                      {"greaterthan", is_greater},
                                      {"ge", is_at_least},
                                      {NULL, NULL}};
    return lh_tpl_find_row(rows, name);
}

/* ---- filters: "value | NAME(…)" ---- */

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

/* "map(attribute='a', default=b)", or "map('filter', …)". As in Jinja's select, values that are not true, such as
 * none, have no items for map. */
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

/* ---- further filters ---- */

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
