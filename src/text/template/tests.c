/* tests.c - the tests of chat templates, "value is NAME". */
#include <string.h>

#include "text/template/calls.h"
#include "text/template/texts.h"

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
