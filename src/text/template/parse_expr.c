/* parse_expr.c - the expressions of a chat template, by Jinja's order of precedence. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/parse_impl.h"

static lh_status parse_or(lh_tpl_parser *p, const lh_tpl_expr **out);
static lh_status parse_unary(lh_tpl_parser *p, int filters, const lh_tpl_expr **out);

lh_status lh_tpl_fail_at(const lh_tpl_parser *p, lh_status st)
{
    const char *near = p->at->kind == LH_TPL_BLOCK_END ? "%}" : p->at->kind == LH_TPL_PRINT_END ? "}}" : p->at->text;
    if (p->at->kind == LH_TPL_END || p->at->kind == LH_TPL_DATA) return lh_fail_within(st, "line %d", p->at->line);
    return lh_fail_within(st, "line %d, at '%.20s'", p->at->line, near);
}

static int is_word(const lh_tpl_parser *p, const char *name)
{
    return p->at->kind == LH_TPL_NAME && strcmp(p->at->text, name) == 0;
}

int lh_tpl_is(const lh_tpl_parser *p, const char *op)
{
    return p->at->kind == LH_TPL_OPERATOR && strcmp(p->at->text, op) == 0;
}

int lh_tpl_take(lh_tpl_parser *p, const char *op)
{
    if (!lh_tpl_is(p, op)) return 0;
    p->at++;
    return 1;
}

int lh_tpl_take_word(lh_tpl_parser *p, const char *name)
{
    if (!is_word(p, name)) return 0;
    p->at++;
    return 1;
}

lh_status lh_tpl_new_expr(lh_tpl_parser *p, lh_tpl_node node, lh_tpl_expr **out)
{
    LH_TRY(lh_tpl_alloc(p->pool, out, 1, sizeof **out));
    (*out)->node = node;
    (*out)->line = p->at->line;
    return LH_OK;
}

static lh_status add_item(lh_tpl_parser *p, lh_tpl_expr *e, const char *name, const lh_tpl_expr *item)
{
    if (e->n == e->cap) {
        int64_t cap = e->cap ? 2 * e->cap : 2;
        const lh_tpl_expr **items;
        const char **names;
        LH_TRY(lh_tpl_alloc(p->pool, &items, cap, sizeof *items));
        LH_TRY(lh_tpl_alloc(p->pool, &names, cap, sizeof *names));
        if (e->n) memcpy(items, e->items, (size_t)e->n * sizeof *items);
        if (e->n) memcpy(names, e->names, (size_t)e->n * sizeof *names);
        e->items = items;
        e->names = names;
        e->cap = cap;
    }
    e->items[e->n] = item;
    e->names[e->n++] = name;
    return LH_OK;
}

/* ---- primaries ---- */

static lh_status parse_string(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    lh_tpl_builder b = {0};
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_LITERAL, &e));
    for (; p->at->kind == LH_TPL_STRING; p->at++) LH_TRY(lh_tpl_append_bytes(p->pool, &b, p->at->text, p->at->bytes));
    LH_TRY(lh_tpl_built(p->pool, &b, &e->value));
    *out = e;
    return LH_OK;
}

static lh_status parse_number(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_LITERAL, &e));
    errno = 0;
    e->value = lh_tpl_int(strtoll(p->at->text, NULL, 10));
    if (errno) LH_TPL_FAIL(p, "an integer does not fit in 64 bits");
    p->at++;
    *out = e;
    return LH_OK;
}

static lh_status parse_name(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    static const struct {
        const char *name;
        lh_tpl_value value;
    } constants[] = {{"true", {.kind = LH_TPL_BOOL, .i = 1}},  {"True", {.kind = LH_TPL_BOOL, .i = 1}},
                     {"false", {.kind = LH_TPL_BOOL, .i = 0}}, {"False", {.kind = LH_TPL_BOOL, .i = 0}},
                     {"none", {.kind = LH_TPL_NONE}},          {"None", {.kind = LH_TPL_NONE}}};
    lh_tpl_expr *e;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_LOOKUP, &e));
    e->name = p->at->text;
    if (strcmp(e->name, "messages") == 0) p->asks = 1;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strcmp(e->name, constants[i].name) == 0) {
            e->node = LH_TPL_LITERAL;
            e->value = constants[i].value;
        }
    p->at++;
    *out = e;
    return LH_OK;
}

/* "[a, b]" after its bracket. */
static lh_status parse_list(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_LIST_OF, &e));
    while (!lh_tpl_take(p, "]")) {
        const lh_tpl_expr *item;
        LH_TRY(lh_tpl_parse_expr(p, &item));
        LH_TRY(add_item(p, e, NULL, item));
        if (!lh_tpl_take(p, ",") && !lh_tpl_is(p, "]")) LH_TPL_FAIL(p, "expected ',' or ']'");
    }
    *out = e;
    return LH_OK;
}

static lh_status parse_dict(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_DICT_OF, &e));
    while (!lh_tpl_take(p, "}")) {
        const lh_tpl_expr *item;
        LH_TRY(lh_tpl_parse_expr(p, &item));
        LH_TRY(add_item(p, e, NULL, item));
        if (!lh_tpl_take(p, ":")) LH_TPL_FAIL(p, "expected ':'");
        LH_TRY(lh_tpl_parse_expr(p, &item));
        LH_TRY(add_item(p, e, NULL, item));
        if (!lh_tpl_take(p, ",") && !lh_tpl_is(p, "}")) LH_TPL_FAIL(p, "expected ',' or '}'");
    }
    *out = e;
    return LH_OK;
}

static lh_status parse_primary(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    switch (p->at->kind) {
    case LH_TPL_STRING: return parse_string(p, out);
    case LH_TPL_INTEGER: return parse_number(p, out);
    case LH_TPL_NAME: return parse_name(p, out);
    default: break;
    }
    if (lh_tpl_take(p, "[")) return parse_list(p, out);
    if (lh_tpl_take(p, "{")) return parse_dict(p, out);
    if (!lh_tpl_take(p, "(")) LH_TPL_FAIL(p, "expected an expression");
    if (lh_tpl_take(p, ")")) {
        lh_tpl_expr *e;
        LH_TRY(lh_tpl_new_expr(p, LH_TPL_LIST_OF, &e));
        *out = e;
        return LH_OK;
    }
    LH_TRY(lh_tpl_parse_tuple(p, 1, out));
    if (!lh_tpl_take(p, ")")) LH_TPL_FAIL(p, "expected ')'");
    return LH_OK;
}

/* ---- what follows a primary ---- */

/* Arguments after '('. */
static lh_status parse_args(lh_tpl_parser *p, lh_tpl_expr *call)
{
    while (!lh_tpl_take(p, ")")) {
        const lh_tpl_expr *value;
        const char *name = NULL;
        if (lh_tpl_is(p, "*") || lh_tpl_is(p, "**")) LH_TPL_FAIL(p, "unpacked arguments are not read here");
        if (p->at->kind == LH_TPL_NAME && p->at[1].kind == LH_TPL_OPERATOR && strcmp(p->at[1].text, "=") == 0) {
            name = p->at->text;
            p->at += 2;
        }
        LH_TRY(lh_tpl_parse_expr(p, &value));
        LH_TRY(add_item(p, call, name, value));
        if (!lh_tpl_take(p, ",") && !lh_tpl_is(p, ")")) LH_TPL_FAIL(p, "expected ',' or ')'");
    }
    return LH_OK;
}

static lh_status parse_member(lh_tpl_parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *of;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_MEMBER, &of));
    of->a = *e;
    of->name = p->at->text;
    if (p->at->kind == LH_TPL_INTEGER) {
        of->node = LH_TPL_ITEM;
        LH_TRY(parse_number(p, &of->b));
    } else if (p->at->kind == LH_TPL_NAME) {
        p->at++;
    } else {
        LH_TPL_FAIL(p, "expected the name of a member");
    }
    *e = of;
    return LH_OK;
}

/* "a[b]" or "a[b:c:d]" after the bracket. */
static lh_status parse_item(lh_tpl_parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *of;
    const lh_tpl_expr *parts[3] = {NULL};
    int n = 0;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_ITEM, &of));
    for (;; n++) {
        if (n == 3) LH_TPL_FAIL(p, "expected ']'");
        if (!lh_tpl_is(p, ":") && !lh_tpl_is(p, "]")) LH_TRY(lh_tpl_parse_expr(p, &parts[n]));
        if (!lh_tpl_take(p, ":")) break;
        of->node = LH_TPL_SLICE;
    }
    if (!lh_tpl_take(p, "]")) LH_TPL_FAIL(p, "expected ']'");
    if (of->node == LH_TPL_ITEM && !parts[0]) LH_TPL_FAIL(p, "expected an index");
    of->a = *e;
    of->b = parts[0];
    of->c = parts[1];
    if (of->node == LH_TPL_SLICE) LH_TRY(add_item(p, of, NULL, parts[2]));
    *e = of;
    return LH_OK;
}

static lh_status parse_call(lh_tpl_parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *call;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_CALL, &call));
    call->a = *e;
    LH_TRY(parse_args(p, call));
    *e = call;
    return LH_OK;
}

static lh_status parse_postfix(lh_tpl_parser *p, const lh_tpl_expr **e)
{
    for (;;) {
        if (lh_tpl_take(p, "."))
            LH_TRY(parse_member(p, e));
        else if (lh_tpl_take(p, "["))
            LH_TRY(parse_item(p, e));
        else if (lh_tpl_take(p, "("))
            LH_TRY(parse_call(p, e));
        else
            return LH_OK;
        LH_TRY(lh_tpl_step(p->pool, 1));
    }
}

static lh_status parse_filter(lh_tpl_parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *filter;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_FILTER, &filter));
    if (p->at->kind != LH_TPL_NAME) LH_TPL_FAIL(p, "expected the name of a filter");
    filter->name = p->at->text;
    filter->a = *e;
    p->at++;
    if (lh_tpl_take(p, "(")) LH_TRY(parse_args(p, filter));
    *e = filter;
    return LH_OK;
}

/* 1 if what follows a test is its argument, without brackets. */
static int begins_argument(const lh_tpl_parser *p)
{
    if (p->at->kind == LH_TPL_STRING || p->at->kind == LH_TPL_INTEGER) return 1;
    if (p->at->kind == LH_TPL_NAME)
        return !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and") && !is_word(p, "if");
    return lh_tpl_is(p, "[") || lh_tpl_is(p, "{");
}

static lh_status parse_test(lh_tpl_parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *test, *negated = NULL;
    const lh_tpl_expr *arg;
    if (is_word(p, "not")) LH_TRY(lh_tpl_new_expr(p, LH_TPL_NOT, &negated));
    if (negated) p->at++;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_TEST, &test));
    if (p->at->kind != LH_TPL_NAME) LH_TPL_FAIL(p, "expected the name of a test");
    test->name = p->at->text;
    test->a = *e;
    p->at++;
    if (lh_tpl_take(p, "(")) {
        LH_TRY(parse_args(p, test));
    } else if (begins_argument(p)) {
        if (is_word(p, "is")) LH_TPL_FAIL(p, "tests are joined by 'and'");
        LH_TRY(parse_primary(p, &arg));
        LH_TRY(parse_postfix(p, &arg));
        LH_TRY(add_item(p, test, NULL, arg));
    }
    *e = test;
    if (!negated) return LH_OK;
    negated->a = test;
    *e = negated;
    return LH_OK;
}

static lh_status parse_after(lh_tpl_parser *p, const lh_tpl_expr **e)
{
    for (;;) {
        if (lh_tpl_take(p, "|"))
            LH_TRY(parse_filter(p, e));
        else if (lh_tpl_take_word(p, "is"))
            LH_TRY(parse_test(p, e));
        else if (lh_tpl_take(p, "("))
            LH_TRY(parse_call(p, e));
        else
            return LH_OK;
        LH_TRY(lh_tpl_step(p->pool, 1));
    }
}

lh_status lh_tpl_parse_filters(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *body;
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_LOOKUP, &body));
    body->name = lh_tpl_body_name;
    *out = body;
    (void)lh_tpl_take(p, "|");
    LH_TRY(parse_filter(p, out));
    return parse_after(p, out);
}

/* ---- operators ---- */

/* What binds tighter than a binary operator of this level. */
enum { LEVEL_SUM, LEVEL_JOIN, LEVEL_PRODUCT, LEVELS };

static const char *const operators[LEVELS][4] = {{"+", "-", NULL}, {"~", NULL}, {"*", "//", "%", NULL}};

static lh_status parse_prefixed(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    int negates = lh_tpl_is(p, "-");
    if (!negates && !lh_tpl_is(p, "+")) {
        LH_TRY(parse_primary(p, out));
        return parse_postfix(p, out);
    }
    LH_TRY(lh_tpl_new_expr(p, negates ? LH_TPL_NEGATE : LH_TPL_PLUS, &e));
    p->at++;
    LH_TRY(parse_unary(p, 0, &e->a));
    *out = e;
    return parse_postfix(p, out);
}

static lh_status parse_unary(lh_tpl_parser *p, int filters, const lh_tpl_expr **out)
{
    LH_TRY(lh_tpl_enter(p->pool));
    LH_TRY(parse_prefixed(p, out));
    if (filters) LH_TRY(parse_after(p, out));
    return lh_tpl_leave(p->pool, LH_OK);
}

static const char *operator_of(const lh_tpl_parser *p, int level)
{
    for (const char *const *op = operators[level]; *op; op++)
        if (lh_tpl_is(p, *op)) return *op;
    return NULL;
}

static lh_status parse_binary(lh_tpl_parser *p, int level, const lh_tpl_expr **out)
{
    if (level == LEVELS) return parse_unary(p, 1, out);
    LH_TRY(parse_binary(p, level + 1, out));
    for (const char *op; (op = operator_of(p, level));) {
        lh_tpl_expr *e;
        LH_TRY(lh_tpl_new_expr(p, LH_TPL_BINARY, &e));
        p->at++;
        e->name = op;
        e->a = *out;
        LH_TRY(parse_binary(p, level + 1, &e->b));
        *out = e;
    }
    return LH_OK;
}

/* The comparison that is next, which is taken; NULL: none. */
static const char *take_comparison(lh_tpl_parser *p)
{
    static const char *const all[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (lh_tpl_take(p, all[i])) return all[i];
    if (lh_tpl_take_word(p, "in")) return "in";
    if (is_word(p, "not") && p->at[1].kind == LH_TPL_NAME && strcmp(p->at[1].text, "in") == 0) {
        p->at += 2;
        return "not in";
    }
    return NULL;
}

static lh_status parse_compare(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e = NULL;
    LH_TRY(parse_binary(p, LEVEL_SUM, out));
    for (const char *op; (op = take_comparison(p));) {
        const lh_tpl_expr *right;
        if (!e) LH_TRY(lh_tpl_new_expr(p, LH_TPL_COMPARE, &e));
        if (e->n == 0) e->a = *out;
        LH_TRY(parse_binary(p, LEVEL_SUM, &right));
        LH_TRY(add_item(p, e, op, right));
        *out = e;
    }
    return LH_OK;
}

static lh_status parse_not(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    if (!is_word(p, "not")) return parse_compare(p, out);
    LH_TRY(lh_tpl_enter(p->pool));
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_NOT, &e));
    p->at++;
    LH_TRY(parse_not(p, &e->a));
    *out = e;
    return lh_tpl_leave(p->pool, LH_OK);
}

/* "or" binds looser than "and". */
static lh_status parse_logic(lh_tpl_parser *p, int level, const lh_tpl_expr **out)
{
    static const struct {
        const char *word;
        lh_tpl_node node;
    } logic[] = {{"or", LH_TPL_OR}, {"and", LH_TPL_AND}};
    if (level == sizeof logic / sizeof *logic) return parse_not(p, out);
    LH_TRY(parse_logic(p, level + 1, out));
    while (is_word(p, logic[level].word)) {
        lh_tpl_expr *e;
        LH_TRY(lh_tpl_new_expr(p, logic[level].node, &e));
        p->at++;
        e->a = *out;
        LH_TRY(parse_logic(p, level + 1, &e->b));
        *out = e;
    }
    return LH_OK;
}

static lh_status parse_or(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    return parse_logic(p, 0, out);
}

static lh_status parse_choice(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    LH_TRY(parse_or(p, out));
    while (is_word(p, "if")) {
        lh_tpl_expr *e;
        LH_TRY(lh_tpl_new_expr(p, LH_TPL_CHOOSE, &e));
        p->at++;
        e->a = *out;
        LH_TRY(parse_or(p, &e->b));
        if (lh_tpl_take_word(p, "else")) LH_TRY(lh_tpl_parse_expr(p, &e->c));
        *out = e;
    }
    return LH_OK;
}

lh_status lh_tpl_parse_expr(lh_tpl_parser *p, const lh_tpl_expr **out)
{
    LH_TRY(lh_tpl_enter(p->pool));
    return lh_tpl_leave(p->pool, parse_choice(p, out));
}

static int ends_tuple(const lh_tpl_parser *p)
{
    return p->at->kind == LH_TPL_BLOCK_END || p->at->kind == LH_TPL_PRINT_END || lh_tpl_is(p, ")") ||
           is_word(p, "if") || is_word(p, "recursive");
}

lh_status lh_tpl_parse_tuple(lh_tpl_parser *p, int choices, const lh_tpl_expr **out)
{
    lh_tpl_expr *e = NULL;
    LH_TRY(choices ? lh_tpl_parse_expr(p, out) : parse_or(p, out));
    while (lh_tpl_take(p, ",")) {
        const lh_tpl_expr *item;
        if (!e) LH_TRY(lh_tpl_new_expr(p, LH_TPL_LIST_OF, &e));
        if (e->n == 0) LH_TRY(add_item(p, e, NULL, *out));
        *out = e;
        if (ends_tuple(p)) break;
        LH_TRY(choices ? lh_tpl_parse_expr(p, &item) : parse_or(p, &item));
        LH_TRY(add_item(p, e, NULL, item));
    }
    return LH_OK;
}
