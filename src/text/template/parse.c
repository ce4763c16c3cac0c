/* parse.c - the expressions of a chat template, by Jinja's order of precedence, and its statements. */
#include "text/template/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/lex.h"
#include "text/template/value.h"

enum { PARAMETERS_MAX = 32 };

typedef struct parser {
    lh_tpl_pool *pool;
    const lh_tpl_token *at;
    int loops; /* around this place */
    int asks;  /* true: the template reads the messages */
} parser;

/* ---- tokens ---- */

/* Adds "line N, at 'token'" to a failure. */
#define PARSE_FAIL(p, ...) return fail_at(p, lh_fail(LH_EINPUT, __FILE__, __LINE__, __VA_ARGS__))

static lh_status fail_at(const parser *p, lh_status st)
{
    const char *near = p->at->kind == LH_TPL_BLOCK_END ? "%}" : p->at->kind == LH_TPL_PRINT_END ? "}}" : p->at->text;
    if (p->at->kind == LH_TPL_END || p->at->kind == LH_TPL_DATA) return lh_fail_within(st, "line %d", p->at->line);
    return lh_fail_within(st, "line %d, at '%.20s'", p->at->line, near);
}

static int is_word(const parser *p, const char *name)
{
    return p->at->kind == LH_TPL_NAME && strcmp(p->at->text, name) == 0;
}

static int is_operator(const parser *p, const char *op)
{
    return p->at->kind == LH_TPL_OPERATOR && strcmp(p->at->text, op) == 0;
}

static int take(parser *p, const char *op)
{
    if (!is_operator(p, op)) return 0;
    p->at++;
    return 1;
}

static int take_word(parser *p, const char *name)
{
    if (!is_word(p, name)) return 0;
    p->at++;
    return 1;
}

/* ---- expressions ---- */

static lh_status parse_or(parser *p, const lh_tpl_expr **out);
static lh_status parse_unary(parser *p, int filters, const lh_tpl_expr **out);
static lh_status parse_expr(parser *p, const lh_tpl_expr **out);
static lh_status parse_tuple(parser *p, int choices, const lh_tpl_expr **out);

static lh_status new_expr(parser *p, lh_tpl_node node, lh_tpl_expr **out)
{
    LH_TRY(lh_tpl_alloc(p->pool, out, 1, sizeof **out));
    (*out)->node = node;
    (*out)->line = p->at->line;
    return LH_OK;
}

static lh_status add_item(parser *p, lh_tpl_expr *e, const char *name, const lh_tpl_expr *item)
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

static lh_status parse_string(parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    lh_tpl_builder b = {0};
    LH_TRY(new_expr(p, LH_TPL_LITERAL, &e));
    for (; p->at->kind == LH_TPL_STRING; p->at++) LH_TRY(lh_tpl_append_bytes(p->pool, &b, p->at->text, p->at->bytes));
    LH_TRY(lh_tpl_built(p->pool, &b, &e->value));
    *out = e;
    return LH_OK;
}

static lh_status parse_number(parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    LH_TRY(new_expr(p, LH_TPL_LITERAL, &e));
    errno = 0;
    e->value = lh_tpl_int(strtoll(p->at->text, NULL, 10));
    if (errno) PARSE_FAIL(p, "an integer does not fit in 64 bits");
    p->at++;
    *out = e;
    return LH_OK;
}

static lh_status parse_name(parser *p, const lh_tpl_expr **out)
{
    static const struct {
        const char *name;
        lh_tpl_value value;
    } constants[] = {{"true", {.kind = LH_TPL_BOOL, .i = 1}},  {"True", {.kind = LH_TPL_BOOL, .i = 1}},
                     {"false", {.kind = LH_TPL_BOOL, .i = 0}}, {"False", {.kind = LH_TPL_BOOL, .i = 0}},
                     {"none", {.kind = LH_TPL_NONE}},          {"None", {.kind = LH_TPL_NONE}}};
    lh_tpl_expr *e;
    LH_TRY(new_expr(p, LH_TPL_LOOKUP, &e));
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
static lh_status parse_list(parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    LH_TRY(new_expr(p, LH_TPL_LIST_OF, &e));
    while (!take(p, "]")) {
        const lh_tpl_expr *item;
        LH_TRY(parse_expr(p, &item));
        LH_TRY(add_item(p, e, NULL, item));
        if (!take(p, ",") && !is_operator(p, "]")) PARSE_FAIL(p, "expected ',' or ']'");
    }
    *out = e;
    return LH_OK;
}

static lh_status parse_dict(parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    LH_TRY(new_expr(p, LH_TPL_DICT_OF, &e));
    while (!take(p, "}")) {
        const lh_tpl_expr *item;
        LH_TRY(parse_expr(p, &item));
        LH_TRY(add_item(p, e, NULL, item));
        if (!take(p, ":")) PARSE_FAIL(p, "expected ':'");
        LH_TRY(parse_expr(p, &item));
        LH_TRY(add_item(p, e, NULL, item));
        if (!take(p, ",") && !is_operator(p, "}")) PARSE_FAIL(p, "expected ',' or '}'");
    }
    *out = e;
    return LH_OK;
}

static lh_status parse_primary(parser *p, const lh_tpl_expr **out)
{
    switch (p->at->kind) {
    case LH_TPL_STRING: return parse_string(p, out);
    case LH_TPL_INTEGER: return parse_number(p, out);
    case LH_TPL_NAME: return parse_name(p, out);
    default: break;
    }
    if (take(p, "[")) return parse_list(p, out);
    if (take(p, "{")) return parse_dict(p, out);
    if (!take(p, "(")) PARSE_FAIL(p, "expected an expression");
    if (take(p, ")")) {
        lh_tpl_expr *e;
        LH_TRY(new_expr(p, LH_TPL_LIST_OF, &e));
        *out = e;
        return LH_OK;
    }
    LH_TRY(parse_tuple(p, 1, out));
    if (!take(p, ")")) PARSE_FAIL(p, "expected ')'");
    return LH_OK;
}

/* ---- members, items, calls, filters and tests ---- */

/* Arguments after '('. */
static lh_status parse_args(parser *p, lh_tpl_expr *call)
{
    while (!take(p, ")")) {
        const lh_tpl_expr *value;
        const char *name = NULL;
        if (is_operator(p, "*") || is_operator(p, "**")) PARSE_FAIL(p, "unpacked arguments are not read here");
        if (p->at->kind == LH_TPL_NAME && p->at[1].kind == LH_TPL_OPERATOR && strcmp(p->at[1].text, "=") == 0) {
            name = p->at->text;
            p->at += 2;
        }
        LH_TRY(parse_expr(p, &value));
        LH_TRY(add_item(p, call, name, value));
        if (!take(p, ",") && !is_operator(p, ")")) PARSE_FAIL(p, "expected ',' or ')'");
    }
    return LH_OK;
}

static lh_status parse_member(parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *of;
    LH_TRY(new_expr(p, LH_TPL_MEMBER, &of));
    of->a = *e;
    of->name = p->at->text;
    if (p->at->kind == LH_TPL_INTEGER) {
        of->node = LH_TPL_ITEM;
        LH_TRY(parse_number(p, &of->b));
    } else if (p->at->kind == LH_TPL_NAME) {
        p->at++;
    } else {
        PARSE_FAIL(p, "expected the name of a member");
    }
    *e = of;
    return LH_OK;
}

/* "a[b]" or "a[b:c:d]" after the bracket. */
static lh_status parse_item(parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *of;
    const lh_tpl_expr *parts[3] = {NULL};
    int n = 0;
    LH_TRY(new_expr(p, LH_TPL_ITEM, &of));
    for (;; n++) {
        if (n == 3) PARSE_FAIL(p, "expected ']'");
        if (!is_operator(p, ":") && !is_operator(p, "]")) LH_TRY(parse_expr(p, &parts[n]));
        if (!take(p, ":")) break;
        of->node = LH_TPL_SLICE;
    }
    if (!take(p, "]")) PARSE_FAIL(p, "expected ']'");
    if (of->node == LH_TPL_ITEM && !parts[0]) PARSE_FAIL(p, "expected an index");
    of->a = *e;
    of->b = parts[0];
    of->c = parts[1];
    if (of->node == LH_TPL_SLICE) LH_TRY(add_item(p, of, NULL, parts[2]));
    *e = of;
    return LH_OK;
}

static lh_status parse_call(parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *call;
    LH_TRY(new_expr(p, LH_TPL_CALL, &call));
    call->a = *e;
    LH_TRY(parse_args(p, call));
    *e = call;
    return LH_OK;
}

static lh_status parse_postfix(parser *p, const lh_tpl_expr **e)
{
    for (;;) {
        if (take(p, "."))
            LH_TRY(parse_member(p, e));
        else if (take(p, "["))
            LH_TRY(parse_item(p, e));
        else if (take(p, "("))
            LH_TRY(parse_call(p, e));
        else
            return LH_OK;
        LH_TRY(lh_tpl_step(p->pool, 1));
    }
}

static lh_status parse_one_filter(parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *filter;
    LH_TRY(new_expr(p, LH_TPL_FILTER, &filter));
    if (p->at->kind != LH_TPL_NAME) PARSE_FAIL(p, "expected the name of a filter");
    filter->name = p->at->text;
    filter->a = *e;
    p->at++;
    if (take(p, "(")) LH_TRY(parse_args(p, filter));
    *e = filter;
    return LH_OK;
}

/* True if the next token begins an argument of a test, without brackets. */
static int begins_argument(const parser *p)
{
    if (p->at->kind == LH_TPL_STRING || p->at->kind == LH_TPL_INTEGER) return 1;
    if (p->at->kind == LH_TPL_NAME)
        return !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and") && !is_word(p, "if");
    return is_operator(p, "[") || is_operator(p, "{");
}

static lh_status parse_test(parser *p, const lh_tpl_expr **e)
{
    lh_tpl_expr *test, *negated = NULL;
    const lh_tpl_expr *arg;
    if (is_word(p, "not")) LH_TRY(new_expr(p, LH_TPL_NOT, &negated));
    if (negated) p->at++;
    LH_TRY(new_expr(p, LH_TPL_TEST, &test));
    if (p->at->kind != LH_TPL_NAME) PARSE_FAIL(p, "expected the name of a test");
    test->name = p->at->text;
    test->a = *e;
    p->at++;
    if (take(p, "(")) {
        LH_TRY(parse_args(p, test));
    } else if (begins_argument(p)) {
        if (is_word(p, "is")) PARSE_FAIL(p, "tests are joined by 'and'");
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

static lh_status parse_after(parser *p, const lh_tpl_expr **e)
{
    for (;;) {
        if (take(p, "|"))
            LH_TRY(parse_one_filter(p, e));
        else if (take_word(p, "is"))
            LH_TRY(parse_test(p, e));
        else if (take(p, "("))
            LH_TRY(parse_call(p, e));
        else
            return LH_OK;
        LH_TRY(lh_tpl_step(p->pool, 1));
    }
}

/* "name | name(…)", or with a leading "|": applied to the variable lh_tpl_body_name. */
static lh_status parse_filters(parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *body;
    LH_TRY(new_expr(p, LH_TPL_LOOKUP, &body));
    body->name = lh_tpl_body_name;
    *out = body;
    (void)take(p, "|");
    LH_TRY(parse_one_filter(p, out));
    return parse_after(p, out);
}

/* ---- operators ---- */

/* Binary operators by level; later levels bind tighter. */
enum { LEVEL_SUM, LEVEL_JOIN, LEVEL_PRODUCT, LEVELS };

static const char *const operators[LEVELS][4] = {{"+", "-", NULL}, {"~", NULL}, {"*", "//", "%", NULL}};

static lh_status parse_prefixed(parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    int negates = is_operator(p, "-");
    if (!negates && !is_operator(p, "+")) {
        LH_TRY(parse_primary(p, out));
        return parse_postfix(p, out);
    }
    LH_TRY(new_expr(p, negates ? LH_TPL_NEGATE : LH_TPL_PLUS, &e));
    p->at++;
    LH_TRY(parse_unary(p, 0, &e->a));
    *out = e;
    return parse_postfix(p, out);
}

static lh_status parse_unary(parser *p, int filters, const lh_tpl_expr **out)
{
    LH_TRY(lh_tpl_enter(p->pool));
    LH_TRY(parse_prefixed(p, out));
    if (filters) LH_TRY(parse_after(p, out));
    return lh_tpl_leave(p->pool, LH_OK);
}

static const char *operator_of(const parser *p, int level)
{
    for (const char *const *op = operators[level]; *op; op++)
        if (is_operator(p, *op)) return *op;
    return NULL;
}

static lh_status parse_binary(parser *p, int level, const lh_tpl_expr **out)
{
    if (level == LEVELS) return parse_unary(p, 1, out);
    LH_TRY(parse_binary(p, level + 1, out));
    for (const char *op; (op = operator_of(p, level));) {
        lh_tpl_expr *e;
        LH_TRY(new_expr(p, LH_TPL_BINARY, &e));
        p->at++;
        e->name = op;
        e->a = *out;
        LH_TRY(parse_binary(p, level + 1, &e->b));
        *out = e;
    }
    return LH_OK;
}

/* Takes a comparison; NULL: the next token is none. */
static const char *take_comparison(parser *p)
{
    static const char *const all[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (take(p, all[i])) return all[i];
    if (take_word(p, "in")) return "in";
    if (is_word(p, "not") && p->at[1].kind == LH_TPL_NAME && strcmp(p->at[1].text, "in") == 0) {
        p->at += 2;
        return "not in";
    }
    return NULL;
}

static lh_status parse_compare(parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e = NULL;
    LH_TRY(parse_binary(p, LEVEL_SUM, out));
    for (const char *op; (op = take_comparison(p));) {
        const lh_tpl_expr *right;
        if (!e) LH_TRY(new_expr(p, LH_TPL_COMPARE, &e));
        if (e->n == 0) e->a = *out;
        LH_TRY(parse_binary(p, LEVEL_SUM, &right));
        LH_TRY(add_item(p, e, op, right));
        *out = e;
    }
    return LH_OK;
}

static lh_status parse_not(parser *p, const lh_tpl_expr **out)
{
    lh_tpl_expr *e;
    if (!is_word(p, "not")) return parse_compare(p, out);
    LH_TRY(lh_tpl_enter(p->pool));
    LH_TRY(new_expr(p, LH_TPL_NOT, &e));
    p->at++;
    LH_TRY(parse_not(p, &e->a));
    *out = e;
    return lh_tpl_leave(p->pool, LH_OK);
}

/* "or" binds looser than "and". */
static lh_status parse_logic(parser *p, int level, const lh_tpl_expr **out)
{
    static const struct {
        const char *word;
        lh_tpl_node node;
    } logic[] = {{"or", LH_TPL_OR}, {"and", LH_TPL_AND}};
    if (level == sizeof logic / sizeof *logic) return parse_not(p, out);
    LH_TRY(parse_logic(p, level + 1, out));
    while (is_word(p, logic[level].word)) {
        lh_tpl_expr *e;
        LH_TRY(new_expr(p, logic[level].node, &e));
        p->at++;
        e->a = *out;
        LH_TRY(parse_logic(p, level + 1, &e->b));
        *out = e;
    }
    return LH_OK;
}

static lh_status parse_or(parser *p, const lh_tpl_expr **out)
{
    return parse_logic(p, 0, out);
}

static lh_status parse_choice(parser *p, const lh_tpl_expr **out)
{
    LH_TRY(parse_or(p, out));
    while (is_word(p, "if")) {
        lh_tpl_expr *e;
        LH_TRY(new_expr(p, LH_TPL_CHOOSE, &e));
        p->at++;
        e->a = *out;
        LH_TRY(parse_or(p, &e->b));
        if (take_word(p, "else")) LH_TRY(parse_expr(p, &e->c));
        *out = e;
    }
    return LH_OK;
}

static lh_status parse_expr(parser *p, const lh_tpl_expr **out)
{
    LH_TRY(lh_tpl_enter(p->pool));
    return lh_tpl_leave(p->pool, parse_choice(p, out));
}

static int ends_tuple(const parser *p)
{
    return p->at->kind == LH_TPL_BLOCK_END || p->at->kind == LH_TPL_PRINT_END || is_operator(p, ")") ||
           is_word(p, "if") || is_word(p, "recursive");
}

/* Expressions with commas between them are a list. choices: "a if b" may be an item. */
static lh_status parse_tuple(parser *p, int choices, const lh_tpl_expr **out)
{
    lh_tpl_expr *e = NULL;
    LH_TRY(choices ? parse_expr(p, out) : parse_or(p, out));
    while (take(p, ",")) {
        const lh_tpl_expr *item;
        if (!e) LH_TRY(new_expr(p, LH_TPL_LIST_OF, &e));
        if (e->n == 0) LH_TRY(add_item(p, e, NULL, *out));
        *out = e;
        if (ends_tuple(p)) break;
        LH_TRY(choices ? parse_expr(p, &item) : parse_or(p, &item));
        LH_TRY(add_item(p, e, NULL, item));
    }
    return LH_OK;
}

/* ---- statements ---- */

const char lh_tpl_body_name[] = "";

static lh_status parse_body(parser *p, const char *const *ends, const lh_tpl_stmt **out);

static lh_status new_stmt(parser *p, lh_tpl_action action, lh_tpl_stmt **out)
{
    LH_TRY(lh_tpl_alloc(p->pool, out, 1, sizeof **out));
    (*out)->action = action;
    (*out)->line = p->at->line;
    return LH_OK;
}

static lh_status end_tag(parser *p)
{
    if (p->at->kind != LH_TPL_BLOCK_END) PARSE_FAIL(p, "expected the end of the tag");
    p->at++;
    return LH_OK;
}

/* Adds a name to a statement. */
static lh_status add_name(parser *p, lh_tpl_stmt *s, int64_t *cap)
{
    const char **more;
    if (p->at->kind != LH_TPL_NAME) PARSE_FAIL(p, "expected a name");
    if (s->n == *cap) {
        *cap = *cap ? 2 * *cap : 2;
        LH_TRY(lh_tpl_alloc(p->pool, &more, *cap, sizeof *more));
        if (s->n) memcpy(more, s->names, (size_t)s->n * sizeof *more);
        s->names = more;
    }
    s->names[s->n++] = p->at->text;
    p->at++;
    return LH_OK;
}

/* "a", "a, b" or "(a, b)". */
static lh_status parse_targets(parser *p, lh_tpl_stmt *s)
{
    int64_t cap = 0;
    int bracket = take(p, "(");
    LH_TRY(add_name(p, s, &cap));
    while (take(p, ",")) LH_TRY(add_name(p, s, &cap));
    if (bracket && !take(p, ")")) PARSE_FAIL(p, "expected ')'");
    return LH_OK;
}

/* Takes the tag that ended a body. */
static lh_status take_end(parser *p)
{
    p->at += 2; /* the beginning of the tag, and its name */
    return end_tag(p);
}

static lh_status parse_if(parser *p, lh_tpl_stmt *first)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    for (lh_tpl_stmt *s = first;;) {
        LH_TRY(parse_expr(p, &s->a));
        LH_TRY(end_tag(p));
        LH_TRY(parse_body(p, ends, &s->body));
        const char *word = p->at[1].text;
        if (strcmp(word, "elif") == 0) { /* another `if` as the `else` branch */
            lh_tpl_stmt *next;
            p->at += 2;
            LH_TRY(new_stmt(p, LH_TPL_IF, &next));
            s->otherwise = next;
            s = next;
            continue;
        }
        LH_TRY(take_end(p));
        if (strcmp(word, "endif") == 0) return LH_OK;
        LH_TRY(parse_body(p, last, &s->otherwise));
        return take_end(p);
    }
}

static lh_status parse_for(parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    LH_TRY(parse_targets(p, s));
    if (!take_word(p, "in")) PARSE_FAIL(p, "expected 'in'");
    LH_TRY(parse_tuple(p, 0, &s->a));
    if (take_word(p, "if")) LH_TRY(parse_expr(p, &s->b));
    if (take_word(p, "recursive")) PARSE_FAIL(p, "recursive loops are not read here");
    LH_TRY(end_tag(p));
    p->loops++;
    LH_TRY(parse_body(p, ends, &s->body));
    p->loops--;
    int more = strcmp(p->at[1].text, "else") == 0;
    LH_TRY(take_end(p));
    if (!more) return LH_OK;
    LH_TRY(parse_body(p, last, &s->otherwise));
    return take_end(p);
}

static lh_status parse_set(parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"endset", NULL};
    LH_TRY(parse_targets(p, s));
    if (take(p, ".")) {
        if (s->n != 1 || p->at->kind != LH_TPL_NAME) PARSE_FAIL(p, "expected the name of a member");
        s->name = p->at->text;
        p->at++;
    }
    if (take(p, "=")) {
        LH_TRY(parse_tuple(p, 1, &s->a));
        return end_tag(p);
    }
    if (s->n != 1 || s->name) PARSE_FAIL(p, "expected '='");
    s->action = LH_TPL_SET_BODY;
    if (p->at->kind == LH_TPL_OPERATOR) LH_TRY(parse_filters(p, &s->a));
    LH_TRY(end_tag(p));
    LH_TRY(parse_body(p, ends, &s->body));
    return take_end(p);
}

/* Parameters of a macro: names, some with defaults. */
static lh_status parse_parameters(parser *p, lh_tpl_stmt *s)
{
    const lh_tpl_expr *defaults[PARAMETERS_MAX] = {NULL};
    int64_t cap = 0;
    if (!take(p, "(")) PARSE_FAIL(p, "expected '('");
    while (!take(p, ")")) {
        if (s->n == PARAMETERS_MAX) PARSE_FAIL(p, "more than %d parameters", PARAMETERS_MAX);
        LH_TRY(add_name(p, s, &cap));
        if (take(p, "=")) LH_TRY(parse_expr(p, &defaults[s->n - 1]));
        if (!take(p, ",") && !is_operator(p, ")")) PARSE_FAIL(p, "expected ',' or ')'");
    }
    LH_TRY(lh_tpl_alloc(p->pool, &s->defaults, s->n, sizeof *s->defaults));
    if (s->n) memcpy(s->defaults, defaults, (size_t)s->n * sizeof *defaults);
    return LH_OK;
}

static lh_status parse_macro(parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"endmacro", NULL};
    const int loops = p->loops;
    if (p->at->kind != LH_TPL_NAME) PARSE_FAIL(p, "expected the name of a macro");
    s->name = p->at->text;
    p->at++;
    LH_TRY(parse_parameters(p, s));
    LH_TRY(end_tag(p));
    p->loops = 0;
    LH_TRY(parse_body(p, ends, &s->body));
    p->loops = loops;
    return take_end(p);
}

/* Hugging Face's mark around generated text. */
static lh_status parse_generation(parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"endgeneration", NULL};
    LH_TRY(end_tag(p));
    LH_TRY(parse_body(p, ends, &s->body));
    return take_end(p);
}

static lh_status parse_filter(parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"endfilter", NULL};
    LH_TRY(parse_filters(p, &s->a));
    LH_TRY(end_tag(p));
    LH_TRY(parse_body(p, ends, &s->body));
    return take_end(p);
}

static lh_status parse_jump(parser *p, lh_tpl_stmt *s)
{
    (void)s;
    if (!p->loops) PARSE_FAIL(p, "'break' and 'continue' stand in loops");
    return end_tag(p);
}

static const struct statement {
    const char *word;
    lh_tpl_action action;
    lh_status (*parse)(parser *p, lh_tpl_stmt *s);
} statements[] = {{"if", LH_TPL_IF, parse_if},
                  {"for", LH_TPL_FOR, parse_for},
                  {"set", LH_TPL_SET, parse_set},
                  {"macro", LH_TPL_DEFINE, parse_macro},
                  {"break", LH_TPL_BREAK, parse_jump},
                  {"generation", LH_TPL_GROUP, parse_generation},
                  {"filter", LH_TPL_GROUP, parse_filter},
                  {"continue", LH_TPL_CONTINUE, parse_jump}};

static lh_status parse_tag(parser *p, lh_tpl_stmt **out)
{
    p->at++;
    if (p->at->kind != LH_TPL_NAME) PARSE_FAIL(p, "expected the name of a statement");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (strcmp(p->at->text, statements[i].word) != 0) continue;
        LH_TRY(new_stmt(p, statements[i].action, out));
        p->at++;
        return statements[i].parse(p, *out);
    }
    PARSE_FAIL(p, "the statement '%.40s' is not read here", p->at->text);
}

static lh_status parse_print(parser *p, lh_tpl_stmt **out)
{
    LH_TRY(new_stmt(p, LH_TPL_WRITE, out));
    p->at++;
    LH_TRY(parse_tuple(p, 1, &(*out)->a));
    if (p->at->kind != LH_TPL_PRINT_END) PARSE_FAIL(p, "expected '}}'");
    p->at++;
    return LH_OK;
}

static lh_status parse_data(parser *p, lh_tpl_stmt **out)
{
    lh_tpl_expr *text;
    LH_TRY(new_stmt(p, LH_TPL_WRITE, out));
    LH_TRY(new_expr(p, LH_TPL_LITERAL, &text));
    LH_TRY(lh_tpl_text_borrow(p->pool, p->at->text, p->at->bytes, &text->value));
    (*out)->a = text;
    p->at++;
    return LH_OK;
}

static int at_end(const parser *p, const char *const *ends)
{
    if (p->at->kind != LH_TPL_BLOCK_BEGIN || p->at[1].kind != LH_TPL_NAME) return 0;
    for (; *ends; ends++)
        if (strcmp(p->at[1].text, *ends) == 0) return 1;
    return 0;
}

/* Statements up to a tag of `ends`, which stays, or (no ends) to the end of the template. */
static lh_status parse_body(parser *p, const char *const *ends, const lh_tpl_stmt **out)
{
    const lh_tpl_stmt **next = out;
    const int begun = p->at->line;
    LH_TRY(lh_tpl_enter(p->pool));
    while (!at_end(p, ends)) {
        lh_tpl_stmt *s = NULL;
        if (p->at->kind == LH_TPL_END && *ends) {
            LH_FAIL(LH_EINPUT, "line %d: there is no '%s'", begun, ends[0]);
        } else if (p->at->kind == LH_TPL_END) {
            break;
        } else if (p->at->kind == LH_TPL_DATA) {
            LH_TRY(parse_data(p, &s));
        } else if (p->at->kind == LH_TPL_PRINT_BEGIN) {
            LH_TRY(parse_print(p, &s));
        } else {
            LH_TRY(parse_tag(p, &s));
        }
        *next = s;
        next = &s->next;
    }
    return lh_tpl_leave(p->pool, LH_OK);
}

lh_status lh_tpl_parse(lh_tpl_pool *pool, char *source, int64_t bytes, const lh_tpl_stmt **out)
{
    static const char *const none[] = {NULL};
    lh_tpl_token *tokens;
    int64_t n;
    *out = NULL;
    LH_TRY(lh_tpl_lex(pool, source, bytes, &tokens, &n));
    parser p = {.pool = pool, .at = tokens};
    LH_TRY(parse_body(&p, none, out));
    if (!p.asks) LH_FAIL(LH_EINPUT, "it is no chat template: it does not look at 'messages'");
    return LH_OK;
}
