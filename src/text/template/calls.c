/* calls.c - functions of chat templates, and what filters, tests and methods share. */
#include "text/template/calls.h"

#include <string.h>

#include "text/template/texts.h"

enum { MAX_RANGE = 100000 }; /* as Jinja's sandbox */

lh_status lh_tpl_need_text(lh_tpl_value v, const char *who)
{
    if (v.kind == LH_TPL_UNDEFINED && v.name) LH_FAIL(LH_EINPUT, "'%.60s' is undefined", v.name);
    if (v.kind != LH_TPL_TEXT)
        LH_FAIL(LH_EINPUT, "'%s' needs a text, not a value of the type '%s'", who, lh_tpl_type(v));
    return LH_OK;
}

lh_status lh_tpl_need_int(lh_tpl_value v, const char *who)
{
    if (v.kind != LH_TPL_INT && v.kind != LH_TPL_BOOL)
        LH_FAIL(LH_EINPUT, "'%s' needs an integer, not a value of the type '%s'", who, lh_tpl_type(v));
    return LH_OK;
}

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

lh_tpl_call lh_tpl_find_row(const lh_tpl_row *rows, const char *name)
{
    for (; rows && rows->name; rows++)
        if (strcmp(rows->name, name) == 0) return rows->call;
    return NULL;
}

lh_tpl_call lh_tpl_find_function(const char *name)
{
    static const lh_tpl_row rows[] = {{"range", make_range},        {"namespace", make_namespace}, {"dict", make_dict},
                                      {"strftime_now", write_date}, {"loop.cycle", cycle},         {NULL, NULL}};
    return lh_tpl_find_row(rows, name);
}
