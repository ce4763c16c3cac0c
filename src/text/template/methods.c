/* methods.c - methods of texts and dictionaries, as Python's; those that change a value do not exist. */
#include <string.h>

#include "text/template/calls.h"
#include "text/template/print.h"
#include "text/template/value.h"

typedef const lh_tpl_args args;

/* A text as argument; NULL: absent or none. */
static lh_status text_arg(args *a, int64_t i, const char *name, const char *who, const lh_tpl_text **out)
{
    lh_tpl_value v = lh_tpl_arg(a, i, name);
    *out = NULL;
    if (v.kind == LH_TPL_NONE || (v.kind == LH_TPL_UNDEFINED && i >= a->n)) return LH_OK;
    LH_TRY(lh_tpl_need_text(v, who));
    *out = v.text;
    return LH_OK;
}

static lh_status int_arg(args *a, int64_t i, const char *name, int64_t otherwise, int64_t *out)
{
    lh_tpl_value v = lh_tpl_arg(a, i, name);
    *out = otherwise;
    if (v.kind == LH_TPL_UNDEFINED) return LH_OK;
    LH_TRY(lh_tpl_need_int(v, name));
    *out = v.i;
    return LH_OK;
}

/* ---- texts ---- */

static lh_status strip_sides(lh_tpl_pool *pool, lh_tpl_value self, args *a, int sides, lh_tpl_value *out)
{
    const lh_tpl_text *set;
    LH_TRY(text_arg(a, 0, "chars", "strip", &set));
    return lh_tpl_text_strip(pool, self.text, set, sides, out);
}

static lh_status strip(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    return strip_sides(pool, self, a, 3, out);
}

static lh_status lstrip(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    return strip_sides(pool, self, a, 1, out);
}

static lh_status rstrip(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    return strip_sides(pool, self, a, 2, out);
}

static lh_status split(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    const lh_tpl_text *separator;
    int64_t max;
    LH_TRY(text_arg(a, 0, "sep", "split", &separator));
    LH_TRY(int_arg(a, 1, "maxsplit", -1, &max));
    return lh_tpl_split(pool, self.text, separator, max, out);
}

static lh_status rsplit(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    const lh_tpl_text *separator;
    int64_t max;
    LH_TRY(text_arg(a, 0, "sep", "rsplit", &separator));
    LH_TRY(int_arg(a, 1, "maxsplit", -1, &max));
    return lh_tpl_split_last(pool, self.text, separator, max, out);
}

static lh_status splitlines(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    return lh_tpl_split_lines(pool, self.text, lh_tpl_true(lh_tpl_arg(a, 0, "keepends")), out);
}

/* 1 if the text has `part` at this end; *part_v may be a list of them. */
static lh_status has_end(lh_tpl_value self, lh_tpl_value part_v, int last, int *out)
{
    const lh_tpl_list one = {.at = &part_v, .n = 1}, *parts = part_v.kind == LH_TPL_LIST ? part_v.list : &one;
    *out = 0;
    for (int64_t i = 0; i < parts->n && !*out; i++) {
        LH_TRY(lh_tpl_need_text(parts->at[i], last ? "endswith" : "startswith"));
        const lh_tpl_text *part = parts->at[i].text, *text = self.text;
        if (part->bytes > text->bytes) continue;
        *out = part->bytes == 0 ||
               memcmp(text->data + (last ? text->bytes - part->bytes : 0), part->data, (size_t)part->bytes) == 0;
    }
    return LH_OK;
}

static lh_status startswith(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    int yes;
    (void)pool;
    LH_TRY(has_end(self, lh_tpl_arg(a, 0, NULL), 0, &yes));
    *out = lh_tpl_bool(yes);
    return LH_OK;
}

static lh_status endswith(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    int yes;
    (void)pool;
    LH_TRY(has_end(self, lh_tpl_arg(a, 0, NULL), 1, &yes));
    *out = lh_tpl_bool(yes);
    return LH_OK;
}

static lh_status remove_end(lh_tpl_pool *pool, lh_tpl_value self, args *a, int last, lh_tpl_value *out)
{
    lh_tpl_value part = lh_tpl_arg(a, 0, NULL);
    int yes;
    LH_TRY(lh_tpl_need_text(part, last ? "removesuffix" : "removeprefix"));
    LH_TRY(has_end(self, part, last, &yes));
    int64_t bytes = yes ? part.text->bytes : 0;
    return lh_tpl_text_part(pool, self.text, last ? 0 : bytes, self.text->bytes - (last ? bytes : 0), out);
}

static lh_status removeprefix(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    return remove_end(pool, self, a, 0, out);
}

static lh_status removesuffix(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    return remove_end(pool, self, a, 1, out);
}

static lh_status replace(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    lh_tpl_change change;
    LH_TRY(lh_tpl_need_text(lh_tpl_arg(a, 0, "old"), "replace"));
    LH_TRY(lh_tpl_need_text(lh_tpl_arg(a, 1, "new"), "replace"));
    change.from = lh_tpl_arg(a, 0, "old").text;
    change.to = lh_tpl_arg(a, 1, "new").text;
    LH_TRY(int_arg(a, 2, "count", -1, &change.count));
    return lh_tpl_replace(pool, self.text, &change, out);
}

#define CASE(name, to)                                                                      \
    static lh_status name(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out) \
    {                                                                                       \
        (void)a;                                                                            \
        return lh_tpl_change_case(pool, self.text, to, out);                                \
    }
CASE(upper, LH_TPL_UPPER)
CASE(lower, LH_TPL_LOWER)
CASE(capitalize, LH_TPL_CAPITAL)
CASE(title, LH_TPL_TITLE)

/* Characters before the first place of the argument, -1: none. */
static lh_status find(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    int64_t at;
    LH_TRY(lh_tpl_need_text(lh_tpl_arg(a, 0, NULL), "find"));
    LH_TRY(lh_tpl_text_find(pool, self.text, lh_tpl_arg(a, 0, NULL).text, 0, &at));
    const lh_tpl_text before = {.data = self.text->data, .bytes = at};
    *out = lh_tpl_int(at < 0 ? -1 : lh_tpl_text_length(&before));
    return LH_OK;
}

/* Characters before the last place. */
static lh_status rfind(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    int64_t at = -1, next = 0;
    LH_TRY(lh_tpl_need_text(lh_tpl_arg(a, 0, NULL), "rfind"));
    while (next >= 0) {
        LH_TRY(lh_tpl_text_find(pool, self.text, lh_tpl_arg(a, 0, NULL).text, at + 1, &next));
        LH_TRY(lh_tpl_step(pool, 1));
        if (next >= 0) at = next;
    }
    const lh_tpl_text before = {.data = self.text->data, .bytes = at};
    *out = lh_tpl_int(at < 0 ? -1 : lh_tpl_text_length(&before));
    return LH_OK;
}

static lh_status join(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    lh_tpl_list items;
    LH_TRY(lh_tpl_items(pool, lh_tpl_arg(a, 0, NULL), &items));
    for (int64_t i = 0; i < items.n; i++) LH_TRY(lh_tpl_need_text(items.at[i], "join"));
    return lh_tpl_join(pool, &items, self.text, out);
}

/* The value of a field of `format`, by its number, by its name, or, of an empty one, by its turn. *turn: -1 after a
 * field with a number. */
static lh_status field_value(args *a, const char *field, int64_t bytes, int64_t *turn, lh_tpl_value *out)
{
    int64_t i = 0, digits = 0;
    while (digits < bytes && digits < 6 && field[digits] >= '0' && field[digits] <= '9')
        i = 10 * i + field[digits++] - '0';
    if (digits == bytes) {
        if (bytes ? *turn > 0 : *turn < 0) LH_FAIL(LH_EINPUT, "'format' has both '{}' and '{0}'");
        if (bytes) *turn = -1;
        if (!bytes) i = (*turn)++;
        if (i >= a->n)
            LH_FAIL(LH_EINPUT, "'format' has %lld values and asks for number %lld", (long long)a->n, (long long)i);
        *out = a->at[i];
        return LH_OK;
    }
    for (int64_t k = 0; k < a->named; k++) {
        if ((int64_t)strlen(a->names[k]) != bytes || memcmp(a->names[k], field, (size_t)bytes) != 0) continue;
        *out = a->named_at[k];
        return LH_OK;
    }
    LH_FAIL(LH_EINPUT, "'format' knows '{}', '{0}' and '{name}', not '{%.*s}'", (int)(bytes < 40 ? bytes : 40), field);
}

/* A field of `format`, which is at *at: past its end. */
static lh_status format_field(lh_tpl_pool *pool, const lh_tpl_text *text, args *a, int64_t *at, int64_t *turn,
                              lh_tpl_builder *b)
{
    const char *field = text->data + *at + 1;
    const char *end = memchr(field, '}', (size_t)(text->bytes - *at - 1));
    lh_tpl_value value, shown;
    if (!end) LH_FAIL(LH_EINPUT, "'format' has a '{' without its '}'");
    LH_TRY(field_value(a, field, end - field, turn, &value));
    LH_TRY(lh_tpl_str(pool, value, &shown));
    *at = end + 1 - text->data;
    return lh_tpl_append(pool, b, shown.text);
}

static lh_status format(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    const lh_tpl_text *text = self.text;
    lh_tpl_builder b = {0};
    int64_t turn = 0;
    for (int64_t at = 0, from = 0; at < text->bytes; from = at) {
        lh_tpl_value part;
        while (at < text->bytes && text->data[at] != '{' && text->data[at] != '}') at++;
        const int doubled = at + 1 < text->bytes && text->data[at + 1] == text->data[at];
        LH_TRY(lh_tpl_text_part(pool, text, from, at + doubled, &part));
        LH_TRY(lh_tpl_append(pool, &b, part.text));
        if (doubled)
            at += 2;
        else if (at < text->bytes && text->data[at] == '}')
            LH_FAIL(LH_EINPUT, "'format' has a '}' without its '{'");
        else if (at < text->bytes)
            LH_TRY(format_field(pool, text, a, &at, &turn, &b));
        LH_TRY(lh_tpl_step(pool, 1));
    }
    return lh_tpl_built(pool, &b, out);
}

/* ---- dictionaries ---- */

static lh_status get(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    int found;
    LH_TRY(lh_tpl_dict_get(pool, self.dict, lh_tpl_arg(a, 0, "key"), out, &found));
    if (found) return LH_OK;
    *out = lh_tpl_arg(a, 1, "default");
    if (a->n < 2 && out->kind == LH_TPL_UNDEFINED) *out = lh_tpl_none();
    return LH_OK;
}

static lh_status copy_list(lh_tpl_pool *pool, const lh_tpl_list *from, lh_tpl_value *out)
{
    LH_TRY(lh_tpl_list_make(pool, out));
    for (int64_t i = 0; i < from->n; i++) LH_TRY(lh_tpl_list_push(pool, out->list, from->at[i]));
    return LH_OK;
}

static lh_status keys(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    (void)a;
    return copy_list(pool, &self.dict->keys, out);
}

static lh_status values(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    (void)a;
    return copy_list(pool, &self.dict->values, out);
}

static lh_status items(lh_tpl_pool *pool, lh_tpl_value self, args *a, lh_tpl_value *out)
{
    (void)a;
    LH_TRY(lh_tpl_list_make(pool, out));
    for (int64_t i = 0; i < self.dict->keys.n; i++) {
        lh_tpl_value pair;
        LH_TRY(lh_tpl_list_make(pool, &pair));
        LH_TRY(lh_tpl_list_push(pool, pair.list, self.dict->keys.at[i]));
        LH_TRY(lh_tpl_list_push(pool, pair.list, self.dict->values.at[i]));
        LH_TRY(lh_tpl_list_push(pool, out->list, pair));
    }
    return LH_OK;
}

lh_tpl_call lh_tpl_find_method(lh_tpl_kind kind, const char *name)
{
    static const lh_tpl_row texts[] = {{"strip", strip},
                                       {"lstrip", lstrip},
                                       {"rstrip", rstrip},
                                       {"split", split},
                                       {"rsplit", rsplit},
                                       {"splitlines", splitlines},
                                       {"startswith", startswith},
                                       {"endswith", endswith},
                                       {"removeprefix", removeprefix},
                                       {"removesuffix", removesuffix},
                                       {"replace", replace},
                                       {"upper", upper},
                                       {"lower", lower},
                                       {"capitalize", capitalize},
                                       {"title", title},
                                       {"find", find},
                                       {"rfind", rfind},
                                       {"join", join},
                                       {"format", format},
                                       {NULL, NULL}};
    static const lh_tpl_row dicts[] = {
        {"get", get}, {"keys", keys}, {"values", values}, {"items", items}, {NULL, NULL}};
    return lh_tpl_find_row(kind == LH_TPL_TEXT ? texts : kind == LH_TPL_DICT ? dicts : NULL, name);
}
