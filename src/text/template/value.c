/* value.c - comparison and containers of a template's values. */
#include "text/template/value.h"

#include <string.h>

#include "text/template/texts.h"

lh_tpl_value lh_tpl_arg(const lh_tpl_args *args, int64_t i, const char *name)
{
    if (i >= 0 && i < args->n) return args->at[i];
    for (int64_t k = 0; name && k < args->named; k++)
        if (strcmp(args->names[k], name) == 0) return args->named_at[k];
    return lh_tpl_undefined(name);
}

const char *lh_tpl_type(lh_tpl_value v)
{
    static const char *const names[] = {"Undefined", "NoneType", "bool",      "int",      "str",
                                        "list",      "dict",     "Namespace", "function", "macro"};
    return names[v.kind];
}

int lh_tpl_true(lh_tpl_value v)
{
    switch (v.kind) {
    case LH_TPL_UNDEFINED:
    case LH_TPL_NONE: return 0;
    case LH_TPL_BOOL:
    case LH_TPL_INT: return v.i != 0;
    case LH_TPL_TEXT: return v.text->bytes > 0;
    case LH_TPL_LIST: return v.list->n > 0;
    case LH_TPL_DICT: return v.dict->keys.n > 0;
    default: return 1;
    }
}

static lh_status equal_lists(lh_tpl_pool *pool, const lh_tpl_list *a, const lh_tpl_list *b, int *out)
{
    *out = a->n == b->n;
    for (int64_t i = 0; *out && i < a->n; i++) LH_TRY(lh_tpl_equal(pool, a->at[i], b->at[i], out));
    return LH_OK;
}

static lh_status equal_dicts(lh_tpl_pool *pool, const lh_tpl_dict *a, const lh_tpl_dict *b, int *out)
{
    *out = a->keys.n == b->keys.n;
    for (int64_t i = 0; *out && i < a->keys.n; i++) {
        lh_tpl_value other;
        LH_TRY(lh_tpl_dict_get(pool, b, a->keys.at[i], &other, out));
        if (*out) LH_TRY(lh_tpl_equal(pool, a->values.at[i], other, out));
    }
    return LH_OK;
}

static lh_status equal_values(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out)
{
    if (lh_tpl_is_number(a) && lh_tpl_is_number(b)) {
        *out = a.i == b.i;
        return LH_OK;
    }
    *out = 0;
    if (a.kind != b.kind) return LH_OK;
    switch (a.kind) {
    case LH_TPL_TEXT:
        LH_TRY(lh_tpl_step(pool, a.text->bytes / 64));
        *out = lh_tpl_text_is(a.text, b.text->data, b.text->bytes);
        return LH_OK;
    case LH_TPL_LIST: return equal_lists(pool, a.list, b.list, out);
    case LH_TPL_DICT: return equal_dicts(pool, a.dict, b.dict, out);
    case LH_TPL_NAMESPACE: *out = a.dict == b.dict; return LH_OK;
    case LH_TPL_FUNCTION: *out = a.function == b.function; return LH_OK;
    case LH_TPL_MACRO: *out = a.macro == b.macro; return LH_OK;
    default: *out = 1; return LH_OK;
    }
}

/* No value contains itself: lists and dictionaries are made whole, and members of a namespace are not compared. */
lh_status lh_tpl_equal(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out)
{
    LH_TRY(lh_tpl_enter(pool));
    return lh_tpl_leave(pool, equal_values(pool, a, b, out));
}

static lh_status compare_values(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out)
{
    if (lh_tpl_is_number(a) && lh_tpl_is_number(b)) {
        *out = (a.i > b.i) - (a.i < b.i);
        return LH_OK;
    }
    if (a.kind == LH_TPL_TEXT && b.kind == LH_TPL_TEXT) {
        int64_t n = a.text->bytes < b.text->bytes ? a.text->bytes : b.text->bytes;
        LH_TRY(lh_tpl_step(pool, n / 64));
        *out = n ? memcmp(a.text->data, b.text->data, (size_t)n) : 0;
        if (*out == 0) *out = (a.text->bytes > b.text->bytes) - (a.text->bytes < b.text->bytes);
        return LH_OK;
    }
    if (a.kind == LH_TPL_LIST && b.kind == LH_TPL_LIST) {
        for (int64_t i = 0; i < a.list->n && i < b.list->n; i++) {
            LH_TRY(lh_tpl_compare(pool, a.list->at[i], b.list->at[i], out));
            if (*out) return LH_OK;
        }
        *out = (a.list->n > b.list->n) - (a.list->n < b.list->n);
        return LH_OK;
    }
    LH_FAIL(LH_EINPUT, "values of the types '%s' and '%s' have no order", lh_tpl_type(a), lh_tpl_type(b));
}

lh_status lh_tpl_compare(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out)
{
    LH_TRY(lh_tpl_enter(pool));
    return lh_tpl_leave(pool, compare_values(pool, a, b, out));
}

/* ---- lists and dictionaries ---- */

lh_status lh_tpl_list_make(lh_tpl_pool *pool, lh_tpl_value *out)
{
    *out = (lh_tpl_value){.kind = LH_TPL_LIST};
    return lh_tpl_alloc(pool, &out->list, 1, sizeof *out->list);
}

lh_status lh_tpl_list_push(lh_tpl_pool *pool, lh_tpl_list *list, lh_tpl_value value)
{
    if (list->n == list->cap) {
        int64_t cap = list->cap ? 2 * list->cap : 4;
        lh_tpl_value *at;
        LH_TRY(lh_tpl_alloc(pool, &at, cap, sizeof *at));
        if (list->n) memcpy(at, list->at, (size_t)list->n * sizeof *at);
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = value;
    return lh_tpl_step(pool, 1);
}

lh_status lh_tpl_dict_make(lh_tpl_pool *pool, lh_tpl_value *out, lh_tpl_kind kind)
{
    *out = (lh_tpl_value){.kind = kind};
    return lh_tpl_alloc(pool, &out->dict, 1, sizeof *out->dict);
}

static lh_status find_key(lh_tpl_pool *pool, const lh_tpl_dict *dict, lh_tpl_value key, int64_t *at)
{
    for (*at = 0; *at < dict->keys.n; ++*at) {
        int same;
        LH_TRY(lh_tpl_equal(pool, dict->keys.at[*at], key, &same));
        if (same) return LH_OK;
    }
    *at = -1;
    return LH_OK;
}

lh_status lh_tpl_dict_put(lh_tpl_pool *pool, lh_tpl_dict *dict, lh_tpl_value key, lh_tpl_value value)
{
    int64_t at;
    if (key.kind == LH_TPL_LIST || key.kind == LH_TPL_DICT)
        LH_FAIL(LH_EINPUT, "a value of the type '%s' cannot be a key", lh_tpl_type(key));
    LH_TRY(find_key(pool, dict, key, &at));
    if (at >= 0) {
        dict->values.at[at] = value;
        return LH_OK;
    }
    LH_TRY(lh_tpl_list_push(pool, &dict->keys, key));
    return lh_tpl_list_push(pool, &dict->values, value);
}

lh_status lh_tpl_dict_get(lh_tpl_pool *pool, const lh_tpl_dict *dict, lh_tpl_value key, lh_tpl_value *out, int *found)
{
    int64_t at;
    LH_TRY(find_key(pool, dict, key, &at));
    *found = at >= 0;
    if (*found) *out = dict->values.at[at];
    return LH_OK;
}

lh_tpl_value *lh_tpl_dict_named(const lh_tpl_dict *dict, const char *name)
{
    const int64_t bytes = (int64_t)strlen(name);
    for (int64_t i = 0; i < dict->keys.n; i++)
        if (dict->keys.at[i].kind == LH_TPL_TEXT && lh_tpl_text_is(dict->keys.at[i].text, name, bytes))
            return &dict->values.at[i];
    return NULL;
}

lh_status lh_tpl_items(lh_tpl_pool *pool, lh_tpl_value v, lh_tpl_list *out)
{
    *out = (lh_tpl_list){0};
    switch (v.kind) {
    case LH_TPL_UNDEFINED: return LH_OK;
    case LH_TPL_LIST: *out = *v.list; break;
    case LH_TPL_DICT: *out = v.dict->keys; break;
    case LH_TPL_TEXT:
        for (int64_t at = 0, bytes; at < v.text->bytes; at += bytes) {
            lh_tpl_value c;
            bytes = lh_tpl_character(v.text, at);
            LH_TRY(lh_tpl_text_part(pool, v.text, at, at + bytes, &c));
            LH_TRY(lh_tpl_list_push(pool, out, c));
        }
        break;
    default: LH_FAIL(LH_EINPUT, "a value of the type '%s' cannot be iterated over", lh_tpl_type(v));
    }
    return LH_OK;
}

lh_status lh_tpl_contains(lh_tpl_pool *pool, lh_tpl_value in, lh_tpl_value item, int *out)
{
    int64_t at;
    *out = 0;
    switch (in.kind) {
    case LH_TPL_UNDEFINED: return LH_OK;
    case LH_TPL_TEXT:
        if (item.kind != LH_TPL_TEXT)
            LH_FAIL(LH_EINPUT, "'in' a text needs a text on its left, not a value of the type '%s'", lh_tpl_type(item));
        LH_TRY(lh_tpl_text_find(pool, in.text, item.text, 0, &at));
        *out = at >= 0;
        return LH_OK;
    case LH_TPL_LIST:
        for (int64_t i = 0; i < in.list->n && !*out; i++) LH_TRY(lh_tpl_equal(pool, in.list->at[i], item, out));
        return LH_OK;
    case LH_TPL_DICT:
        LH_TRY(find_key(pool, in.dict, item, &at));
        *out = at >= 0;
        return LH_OK;
    default: LH_FAIL(LH_EINPUT, "a value of the type '%s' contains nothing", lh_tpl_type(in));
    }
}
