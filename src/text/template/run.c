/* run.c - evaluates the expressions of a chat template, as Jinja and Python do, and executes its statements. */
#include "text/template/run.h"

#include <string.h>

#include "text/template/calls.h"
#include "text/template/print.h"

static lh_status evaluate(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out);
static lh_status call_macro(lh_tpl_run *run, const lh_tpl_macro *macro, const lh_tpl_args *args, lh_tpl_value *out);

/* ---- variables ---- */

lh_status lh_tpl_set_name(lh_tpl_run *run, const char *name, lh_tpl_value value)
{
    lh_tpl_scope *s = run->scope;
    for (int64_t i = 0; i < s->n; i++)
        if (strcmp(s->names[i], name) == 0) {
            s->values[i] = value;
            return lh_tpl_step(run->pool, 1);
        }
    if (s->n == s->cap) {
        int64_t cap = s->cap ? 2 * s->cap : 4;
        const char **names;
        lh_tpl_value *values;
        LH_TRY(lh_tpl_alloc(run->pool, &names, cap, sizeof *names));
        LH_TRY(lh_tpl_alloc(run->pool, &values, cap, sizeof *values));
        if (s->n) memcpy(names, s->names, (size_t)s->n * sizeof *names);
        if (s->n) memcpy(values, s->values, (size_t)s->n * sizeof *values);
        s->names = names;
        s->values = values;
        s->cap = cap;
    }
    s->names[s->n] = name;
    s->values[s->n++] = value;
    return lh_tpl_step(run->pool, 1 + s->n / 16);
}

static lh_status open_scope(lh_tpl_run *run, lh_tpl_scope *outer)
{
    lh_tpl_scope *s;
    LH_TRY(lh_tpl_alloc(run->pool, &s, 1, sizeof *s));
    s->outer = outer;
    run->scope = s;
    return LH_OK;
}

/* One name gets the value, several its items. */
static lh_status assign(lh_tpl_run *run, const lh_tpl_stmt *s, lh_tpl_value value)
{
    lh_tpl_list items;
    if (s->n == 1) return lh_tpl_set_name(run, s->names[0], value);
    LH_TRY(lh_tpl_items(run->pool, value, &items));
    if (items.n != s->n) LH_FAIL(LH_EINPUT, "%lld values for %lld names", (long long)items.n, (long long)s->n);
    for (int64_t i = 0; i < s->n; i++) LH_TRY(lh_tpl_set_name(run, s->names[i], items.at[i]));
    return LH_OK;
}

/* ---- names and members ---- */

static lh_status make_function(lh_tpl_run *run, const char *name, lh_tpl_value self, lh_tpl_value *out)
{
    lh_tpl_function *f;
    LH_TRY(lh_tpl_alloc(run->pool, &f, 1, sizeof *f));
    *f = (lh_tpl_function){name, self};
    *out = (lh_tpl_value){.kind = LH_TPL_FUNCTION, .function = f};
    return LH_OK;
}

static lh_status look_up(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    for (const lh_tpl_scope *s = run->scope; s; s = s->outer)
        for (int64_t i = s->n - 1; i >= 0; i--)
            if (strcmp(s->names[i], e->name) == 0) {
                *out = s->values[i];
                return LH_OK;
            }
    if (lh_tpl_find_function(e->name) || strcmp(e->name, "raise_exception") == 0)
        return make_function(run, e->name, lh_tpl_undefined(NULL), out);
    *out = lh_tpl_undefined(e->name);
    return LH_OK;
}

static lh_status fail_undefined(lh_tpl_value v)
{
    LH_FAIL(LH_EINPUT, "'%.60s' is undefined", v.name ? v.name : "a value");
}

/* A method, if the value has one of this name. */
static lh_status method(lh_tpl_run *run, lh_tpl_value of, const char *name, lh_tpl_value *out)
{
    *out = lh_tpl_undefined(name);
    return lh_tpl_find_method(of.kind, name) ? make_function(run, name, of, out) : LH_OK;
}

static lh_status get_key(lh_tpl_run *run, lh_tpl_value of, lh_tpl_value key, lh_tpl_value *out, int *found)
{
    *found = 0;
    if (of.kind != LH_TPL_DICT && of.kind != LH_TPL_NAMESPACE) return LH_OK;
    return lh_tpl_dict_get(run->pool, of.dict, key, out, found);
}

static lh_status get_member(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    lh_tpl_value of;
    LH_TRY(evaluate(run, e->a, &of));
    if (of.kind == LH_TPL_UNDEFINED) return fail_undefined(of);
    LH_TRY(method(run, of, e->name, out));
    if (out->kind == LH_TPL_FUNCTION || (of.kind != LH_TPL_DICT && of.kind != LH_TPL_NAMESPACE)) return LH_OK;
    const lh_tpl_value *member = lh_tpl_dict_named(of.dict, e->name);
    LH_TRY(lh_tpl_step(run->pool, 1 + of.dict->keys.n / 16));
    if (member) *out = *member;
    return LH_OK;
}

static lh_status get_item(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    lh_tpl_value of, key;
    int found;
    LH_TRY(evaluate(run, e->a, &of));
    LH_TRY(evaluate(run, e->b, &key));
    if (of.kind == LH_TPL_UNDEFINED) return fail_undefined(of);
    LH_TRY(get_key(run, of, key, out, &found));
    if (found) return LH_OK;
    *out = lh_tpl_undefined(NULL);
    if (key.kind == LH_TPL_TEXT) {
        char *name;
        LH_TRY(lh_tpl_alloc(run->pool, &name, key.text->bytes + 1, 1));
        if (key.text->bytes) memcpy(name, key.text->data, (size_t)key.text->bytes);
        return method(run, of, name, out);
    }
    if (key.kind != LH_TPL_INT && key.kind != LH_TPL_BOOL) return LH_OK;
    const int64_t n = of.kind == LH_TPL_LIST ? of.list->n : of.kind == LH_TPL_TEXT ? lh_tpl_text_length(of.text) : 0;
    const int64_t i = key.i < 0 ? key.i + n : key.i;
    if (i < 0 || i >= n) return LH_OK;
    if (of.kind == LH_TPL_TEXT) return lh_tpl_text_slice(run->pool, of.text, i, 1, 1, out);
    *out = of.list->at[i];
    return LH_OK;
}

/* A bound of a slice: an integer, or absent. */
static lh_status bound(lh_tpl_run *run, const lh_tpl_expr *e, int *given, int64_t *out)
{
    lh_tpl_value v = lh_tpl_none();
    if (e) LH_TRY(evaluate(run, e, &v));
    *given = v.kind != LH_TPL_NONE;
    if (*given) LH_TRY(lh_tpl_need_int(v, "a slice"));
    if (*given) *out = v.i;
    return LH_OK;
}

/* A bound as Python clips it, for a value of n items. */
static int64_t clip(int64_t at, int64_t n, int64_t step)
{
    if (at < 0) at += n;
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    return at < low ? low : at > high ? high : at;
}

static lh_status get_slice(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    lh_tpl_value of;
    int has_from, has_until, has_step;
    int64_t from = 0, until = 0, step = 1;
    LH_TRY(evaluate(run, e->a, &of));
    LH_TRY(bound(run, e->b, &has_from, &from));
    LH_TRY(bound(run, e->c, &has_until, &until));
    LH_TRY(bound(run, e->items[0], &has_step, &step));
    if (of.kind == LH_TPL_UNDEFINED) return fail_undefined(of);
    if (of.kind != LH_TPL_LIST && of.kind != LH_TPL_TEXT)
        LH_FAIL(LH_EINPUT, "a value of the type '%s' has no slices", lh_tpl_type(of));
    if (step == 0) LH_FAIL(LH_EINPUT, "the step of a slice is 0");
    const int64_t n = of.kind == LH_TPL_LIST ? of.list->n : lh_tpl_text_length(of.text);
    from = has_from ? clip(from, n, step) : step > 0 ? 0 : n - 1;
    until = has_until ? clip(until, n, step) : step > 0 ? n : -1;
    if (step > n + 1) step = n + 1; /* the same items, and no overflow below */
    if (step < -n - 1) step = -n - 1;
    int64_t count = step > 0 ? (until - from + step - 1) / step : (from - until - step - 1) / -step;
    if (count < 0) count = 0;
    if (of.kind == LH_TPL_TEXT) return lh_tpl_text_slice(run->pool, of.text, from, step, count, out);
    LH_TRY(lh_tpl_list_make(run->pool, out));
    for (int64_t i = 0; i < count; i++) LH_TRY(lh_tpl_list_push(run->pool, out->list, of.list->at[from + i * step]));
    return LH_OK;
}

/* ---- calls ---- */

static lh_status evaluate_args(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_args *out)
{
    const char **names;
    *out = (lh_tpl_args){0};
    LH_TRY(lh_tpl_alloc(run->pool, &out->at, e->n, sizeof *out->at));
    LH_TRY(lh_tpl_alloc(run->pool, &out->named_at, e->n, sizeof *out->named_at));
    LH_TRY(lh_tpl_alloc(run->pool, &names, e->n, sizeof *names));
    for (int64_t i = 0; i < e->n; i++) {
        lh_tpl_value v;
        LH_TRY(evaluate(run, e->items[i], &v));
        if (e->names[i]) {
            names[out->named] = e->names[i];
            out->named_at[out->named++] = v;
        } else {
            out->at[out->n++] = v;
        }
    }
    out->names = names;
    return LH_OK;
}

/* raise_exception: the template refuses the conversation. */
static lh_status raise_message(lh_tpl_run *run, const lh_tpl_args *args)
{
    lh_tpl_value text;
    LH_TRY(lh_tpl_str(run->pool, lh_tpl_arg(args, 0, "message"), &text));
    run->raised = 1;
    LH_FAIL(LH_EINPUT, "%.*s", (int)(text.text->bytes < 1000 ? text.text->bytes : 1000),
            text.text->bytes ? text.text->data : "");
}

static lh_status call(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    lh_tpl_value callee;
    lh_tpl_args args;
    LH_TRY(evaluate(run, e->a, &callee));
    LH_TRY(evaluate_args(run, e, &args));
    if (callee.kind == LH_TPL_MACRO) return call_macro(run, callee.macro, &args, out);
    if (callee.kind == LH_TPL_UNDEFINED) return fail_undefined(callee);
    if (callee.kind != LH_TPL_FUNCTION)
        LH_FAIL(LH_EINPUT, "a value of the type '%s' cannot be called", lh_tpl_type(callee));
    const lh_tpl_function *f = callee.function;
    if (f->self.kind == LH_TPL_UNDEFINED && strcmp(f->name, "raise_exception") == 0) return raise_message(run, &args);
    lh_tpl_call found = lh_tpl_find_function(f->name);
    if (f->self.kind != LH_TPL_UNDEFINED && !(found && strchr(f->name, '.')))
        found = lh_tpl_find_method(f->self.kind, f->name);
    return found(run->pool, f->self, &args, out);
}

static lh_status apply(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    const int tests = e->node == LH_TPL_TEST;
    lh_tpl_call found = tests ? lh_tpl_find_test(e->name) : lh_tpl_find_filter(e->name);
    lh_tpl_value v;
    lh_tpl_args args;
    if (!found) LH_FAIL(LH_EINPUT, "the %s '%.40s' is not known here", tests ? "test" : "filter", e->name);
    LH_TRY(evaluate(run, e->a, &v));
    LH_TRY(evaluate_args(run, e, &args));
    /* The day is a constant here: a template that tests for strftime_now must not find it. */
    if (tests && v.kind == LH_TPL_FUNCTION && strcmp(v.function->name, "strftime_now") == 0)
        v = lh_tpl_undefined(v.function->name);
    return found(run->pool, v, &args, out);
}

/* ---- arithmetic ---- */

static lh_status fail_operands(const char *op, lh_tpl_value a, lh_tpl_value b)
{
    if (a.kind == LH_TPL_UNDEFINED) return fail_undefined(a);
    if (b.kind == LH_TPL_UNDEFINED) return fail_undefined(b);
    LH_FAIL(LH_EINPUT, "'%s' does not join values of the types '%s' and '%s'", op, lh_tpl_type(a), lh_tpl_type(b));
}

static lh_status concatenate(lh_tpl_run *run, lh_tpl_value a, lh_tpl_value b, lh_tpl_value *out)
{
    lh_tpl_builder text = {0};
    LH_TRY(lh_tpl_append(run->pool, &text, a.text));
    LH_TRY(lh_tpl_append(run->pool, &text, b.text));
    return lh_tpl_built(run->pool, &text, out);
}

static lh_status join_lists(lh_tpl_run *run, const lh_tpl_list *a, const lh_tpl_list *b, lh_tpl_value *out)
{
    LH_TRY(lh_tpl_list_make(run->pool, out));
    for (int64_t i = 0; i < a->n; i++) LH_TRY(lh_tpl_list_push(run->pool, out->list, a->at[i]));
    for (int64_t i = 0; i < b->n; i++) LH_TRY(lh_tpl_list_push(run->pool, out->list, b->at[i]));
    return LH_OK;
}

static lh_status repeat(lh_tpl_run *run, lh_tpl_value v, int64_t times, lh_tpl_value *out)
{
    lh_tpl_builder text = {0};
    if (v.kind == LH_TPL_LIST) LH_TRY(lh_tpl_list_make(run->pool, out));
    for (int64_t i = 0; i < times; i++) {
        LH_TRY(lh_tpl_step(run->pool, 1));
        if (v.kind == LH_TPL_TEXT) LH_TRY(lh_tpl_append(run->pool, &text, v.text));
        for (int64_t k = 0; v.kind == LH_TPL_LIST && k < v.list->n; k++)
            LH_TRY(lh_tpl_list_push(run->pool, out->list, v.list->at[k]));
    }
    return v.kind == LH_TPL_TEXT ? lh_tpl_built(run->pool, &text, out) : LH_OK;
}

/* Quotient and remainder of Python: rounded down. */
static lh_status divide(int64_t a, int64_t b, int rest, lh_tpl_value *out)
{
    if (b == 0) LH_FAIL(LH_EINPUT, "division by zero");
    if (b == -1) {
        if (a == INT64_MIN) LH_FAIL(LH_EINPUT, "a quotient does not fit in 64 bits");
        *out = lh_tpl_int(rest ? 0 : -a);
        return LH_OK;
    }
    int64_t quotient = a / b, remainder = a % b;
    if (remainder && (remainder < 0) != (b < 0)) {
        quotient--;
        remainder += b;
    }
    *out = lh_tpl_int(rest ? remainder : quotient);
    return LH_OK;
}

static lh_status integers(const char *op, int64_t a, int64_t b, lh_tpl_value *out)
{
    int over = 0;
    *out = lh_tpl_int(0);
    if (strcmp(op, "//") == 0) return divide(a, b, 0, out);
    if (*op == '%') return divide(a, b, 1, out);
    if (*op == '+') over = __builtin_add_overflow(a, b, &out->i);
    if (*op == '-') over = __builtin_sub_overflow(a, b, &out->i);
    if (*op == '*') over = __builtin_mul_overflow(a, b, &out->i);
    if (over) LH_FAIL(LH_EINPUT, "the result of '%s' does not fit in 64 bits", op);
    return LH_OK;
}

static lh_status binary(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    const char *op = e->name;
    lh_tpl_value a, b;
    LH_TRY(evaluate(run, e->a, &a));
    LH_TRY(evaluate(run, e->b, &b));
    if (*op == '~') {
        LH_TRY(lh_tpl_str(run->pool, a, &a));
        LH_TRY(lh_tpl_str(run->pool, b, &b));
        return concatenate(run, a, b, out);
    }
    if (lh_tpl_is_number(a) && lh_tpl_is_number(b)) return integers(op, a.i, b.i, out);
    if (*op == '+' && a.kind == LH_TPL_TEXT && b.kind == LH_TPL_TEXT) return concatenate(run, a, b, out);
    if (*op == '+' && a.kind == LH_TPL_LIST && b.kind == LH_TPL_LIST) return join_lists(run, a.list, b.list, out);
    const int is_product = *op == '*';
    if (is_product && (a.kind == LH_TPL_TEXT || a.kind == LH_TPL_LIST) && b.kind == LH_TPL_INT)
        return repeat(run, a, b.i, out);
    if (is_product && (b.kind == LH_TPL_TEXT || b.kind == LH_TPL_LIST) && a.kind == LH_TPL_INT)
        return repeat(run, b, a.i, out);
    return fail_operands(op, a, b);
}

static lh_status sign(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    lh_tpl_value v;
    LH_TRY(evaluate(run, e->a, &v));
    if (!lh_tpl_is_number(v)) return fail_operands(e->node == LH_TPL_PLUS ? "+" : "-", v, lh_tpl_int(0));
    *out = v;
    if (e->node == LH_TPL_PLUS) return LH_OK;
    return integers("-", 0, v.i, out);
}

/* ---- logic ---- */

static lh_status compare_one(lh_tpl_run *run, const char *op, lh_tpl_value a, lh_tpl_value b, int *yes)
{
    int order;
    if (strcmp(op, "==") == 0 || strcmp(op, "!=") == 0) {
        LH_TRY(lh_tpl_equal(run->pool, a, b, yes));
        if (*op == '!') *yes = !*yes;
        return LH_OK;
    }
    if (strcmp(op, "in") == 0 || strcmp(op, "not in") == 0) {
        LH_TRY(lh_tpl_contains(run->pool, b, a, yes));
        if (*op == 'n') *yes = !*yes;
        return LH_OK;
    }
    if (a.kind == LH_TPL_UNDEFINED || b.kind == LH_TPL_UNDEFINED) return fail_operands(op, a, b);
    LH_TRY(lh_tpl_compare(run->pool, a, b, &order));
    *yes = *op == '<' ? (op[1] ? order <= 0 : order < 0) : op[1] ? order >= 0 : order > 0;
    return LH_OK;
}

static lh_status compare(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    lh_tpl_value a, b;
    int yes = 1;
    LH_TRY(evaluate(run, e->a, &a));
    for (int64_t i = 0; i < e->n && yes; i++) {
        LH_TRY(evaluate(run, e->items[i], &b));
        LH_TRY(compare_one(run, e->names[i], a, b, &yes));
        a = b;
    }
    *out = lh_tpl_bool(yes);
    return LH_OK;
}

static lh_status negation(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    LH_TRY(evaluate(run, e->a, out));
    *out = lh_tpl_bool(!lh_tpl_true(*out));
    return LH_OK;
}

/* "a and b", "a or b": one of the two values. */
static lh_status either(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    LH_TRY(evaluate(run, e->a, out));
    if (lh_tpl_true(*out) == (e->node == LH_TPL_OR)) return LH_OK;
    return evaluate(run, e->b, out);
}

static lh_status choose_value(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    LH_TRY(evaluate(run, e->b, out));
    if (lh_tpl_true(*out)) return evaluate(run, e->a, out);
    *out = lh_tpl_undefined(NULL);
    return e->c ? evaluate(run, e->c, out) : LH_OK;
}

/* ---- literals ---- */

static lh_status literal(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    (void)run;
    *out = e->value;
    return LH_OK;
}

static lh_status list_of(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    LH_TRY(lh_tpl_list_make(run->pool, out));
    for (int64_t i = 0; i < e->n; i++) {
        lh_tpl_value v;
        LH_TRY(evaluate(run, e->items[i], &v));
        LH_TRY(lh_tpl_list_push(run->pool, out->list, v));
    }
    return LH_OK;
}

static lh_status dict_of(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    LH_TRY(lh_tpl_dict_make(run->pool, out, LH_TPL_DICT));
    for (int64_t i = 0; i + 1 < e->n; i += 2) {
        lh_tpl_value key, v;
        LH_TRY(evaluate(run, e->items[i], &key));
        LH_TRY(evaluate(run, e->items[i + 1], &v));
        LH_TRY(lh_tpl_dict_put(run->pool, out->dict, key, v));
    }
    return LH_OK;
}

static lh_status evaluate(lh_tpl_run *run, const lh_tpl_expr *e, lh_tpl_value *out)
{
    static lh_status (*const nodes[])(lh_tpl_run * run, const lh_tpl_expr *e, lh_tpl_value *out) = {
        [LH_TPL_LITERAL] = literal,     [LH_TPL_LOOKUP] = look_up,  [LH_TPL_MEMBER] = get_member,
        [LH_TPL_ITEM] = get_item,       [LH_TPL_SLICE] = get_slice, [LH_TPL_CALL] = call,
        [LH_TPL_FILTER] = apply,        [LH_TPL_TEST] = apply,      [LH_TPL_LIST_OF] = list_of,
        [LH_TPL_DICT_OF] = dict_of,     [LH_TPL_NOT] = negation,    [LH_TPL_NEGATE] = sign,
        [LH_TPL_PLUS] = sign,           [LH_TPL_AND] = either,      [LH_TPL_OR] = either,
        [LH_TPL_CHOOSE] = choose_value, [LH_TPL_BINARY] = binary,   [LH_TPL_COMPARE] = compare};
    LH_TRY(lh_tpl_enter(run->pool));
    return lh_tpl_leave(run->pool, nodes[e->node](run, e, out));
}

/* ---- statements ---- */

static lh_status write_value(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_value v, text;
    LH_TRY(evaluate(run, s->a, &v));
    LH_TRY(lh_tpl_str(run->pool, v, &text));
    return lh_tpl_append(run->pool, run->out, text.text);
}

static lh_status choose_branch(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_value v;
    while (s && s->action == LH_TPL_IF) { /* the branches of elif without recursion */
        LH_TRY(evaluate(run, s->a, &v));
        if (lh_tpl_true(v)) return lh_tpl_execute(run, s->body);
        const lh_tpl_stmt *other = s->otherwise;
        if (!other || other->action != LH_TPL_IF || other->next) return lh_tpl_execute(run, other);
        s = other;
    }
    return LH_OK;
}

enum { INDEX, INDEX0, REVINDEX, REVINDEX0, FIRST, LAST, LENGTH, PREVIOUS, NEXT, DEPTH, DEPTH0, CYCLE, LOOP_MEMBERS };

static lh_status make_loop(lh_tpl_run *run, lh_tpl_value *loop)
{
    static const char *const names[LOOP_MEMBERS] = {"index",  "index0",   "revindex", "revindex0", "first",  "last",
                                                    "length", "previtem", "nextitem", "depth",     "depth0", "cycle"};
    lh_tpl_function *cycle;
    LH_TRY(lh_tpl_dict_make(run->pool, loop, LH_TPL_DICT));
    LH_TRY(lh_tpl_alloc(run->pool, &cycle, 1, sizeof *cycle));
    *cycle = (lh_tpl_function){"loop.cycle", *loop};
    for (int i = 0; i < LOOP_MEMBERS; i++) {
        lh_tpl_value key;
        LH_TRY(lh_tpl_text_borrow(run->pool, names[i], (int64_t)strlen(names[i]), &key));
        LH_TRY(lh_tpl_list_push(run->pool, &loop->dict->keys, key));
        LH_TRY(lh_tpl_list_push(run->pool, &loop->dict->values, lh_tpl_int(1)));
    }
    loop->dict->values.at[DEPTH0] = lh_tpl_int(0);
    loop->dict->values.at[CYCLE] = (lh_tpl_value){.kind = LH_TPL_FUNCTION, .function = cycle};
    return LH_OK;
}

static void set_loop(lh_tpl_value loop, const lh_tpl_list *items, int64_t i)
{
    lh_tpl_value *at = loop.dict->values.at;
    const int64_t n = items->n;
    at[INDEX] = lh_tpl_int(i + 1);
    at[INDEX0] = lh_tpl_int(i);
    at[REVINDEX] = lh_tpl_int(n - i);
    at[REVINDEX0] = lh_tpl_int(n - i - 1);
    at[FIRST] = lh_tpl_bool(i == 0);
    at[LAST] = lh_tpl_bool(i == n - 1);
    at[LENGTH] = lh_tpl_int(n);
    at[PREVIOUS] = i ? items->at[i - 1] : lh_tpl_undefined("loop.previtem");
    at[NEXT] = i < n - 1 ? items->at[i + 1] : lh_tpl_undefined("loop.nextitem");
}

/* The items that fulfil the condition of the loop. */
static lh_status filter_items(lh_tpl_run *run, const lh_tpl_stmt *s, lh_tpl_list *items)
{
    lh_tpl_scope *scope = run->scope;
    lh_tpl_list kept = {0};
    if (!s->b) return LH_OK;
    LH_TRY(open_scope(run, scope));
    for (int64_t i = 0; i < items->n; i++) {
        lh_tpl_value v;
        LH_TRY(assign(run, s, items->at[i]));
        LH_TRY(evaluate(run, s->b, &v));
        if (lh_tpl_true(v)) LH_TRY(lh_tpl_list_push(run->pool, &kept, items->at[i]));
    }
    run->scope = scope;
    *items = kept;
    return LH_OK;
}

static lh_status run_loop(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_scope *scope = run->scope;
    lh_tpl_list items;
    lh_tpl_value over, loop;
    LH_TRY(evaluate(run, s->a, &over));
    LH_TRY(lh_tpl_items(run->pool, over, &items));
    LH_TRY(filter_items(run, s, &items));
    if (items.n == 0) return lh_tpl_execute(run, s->otherwise);
    LH_TRY(make_loop(run, &loop));
    for (int64_t i = 0; i < items.n && run->jump != LH_TPL_LEAVE_LOOP; i++) {
        run->jump = LH_TPL_GO_ON;
        set_loop(loop, &items, i);
        LH_TRY(open_scope(run, scope));
        LH_TRY(lh_tpl_set_name(run, "loop", loop));
        LH_TRY(assign(run, s, items.at[i]));
        LH_TRY(lh_tpl_execute(run, s->body));
    }
    run->jump = LH_TPL_GO_ON;
    run->scope = scope;
    return LH_OK;
}

static lh_status set_value(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_value v, of, key;
    LH_TRY(evaluate(run, s->a, &v));
    if (!s->name) return assign(run, s, v);
    const lh_tpl_expr target = {.node = LH_TPL_LOOKUP, .line = s->line, .name = s->names[0]};
    LH_TRY(evaluate(run, &target, &of));
    if (of.kind != LH_TPL_NAMESPACE)
        LH_FAIL(LH_EINPUT, "members are set in a namespace, and '%.40s' is of the type '%s'", s->names[0],
                lh_tpl_type(of));
    LH_TRY(lh_tpl_text_borrow(run->pool, s->name, (int64_t)strlen(s->name), &key));
    return lh_tpl_dict_put(run->pool, of.dict, key, v);
}

/* The output of a body, as a value; the body has its own scope. */
static lh_status capture(lh_tpl_run *run, const lh_tpl_stmt *body, lh_tpl_value *out)
{
    lh_tpl_builder b = {0}, *before = run->out;
    lh_tpl_scope *scope = run->scope;
    LH_TRY(open_scope(run, scope));
    run->out = &b;
    LH_TRY(lh_tpl_execute(run, body));
    run->out = before;
    run->scope = scope;
    return lh_tpl_built(run->pool, &b, out);
}

/* The output of a body, through the filters of its tag. */
static lh_status capture_filtered(lh_tpl_run *run, const lh_tpl_stmt *s, lh_tpl_value *out)
{
    lh_tpl_scope *scope = run->scope;
    LH_TRY(capture(run, s->body, out));
    if (!s->a) return LH_OK;
    LH_TRY(open_scope(run, scope));
    LH_TRY(lh_tpl_set_name(run, lh_tpl_body_name, *out));
    LH_TRY(evaluate(run, s->a, out));
    run->scope = scope;
    return LH_OK;
}

static lh_status set_body(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_value v;
    LH_TRY(capture_filtered(run, s, &v));
    return lh_tpl_set_name(run, s->names[0], v);
}

static lh_status run_group(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_value v, text;
    if (!s->a) return lh_tpl_execute(run, s->body);
    LH_TRY(capture_filtered(run, s, &v));
    LH_TRY(lh_tpl_str(run->pool, v, &text));
    return lh_tpl_append(run->pool, run->out, text.text);
}

static lh_status define_macro(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_macro *macro;
    LH_TRY(lh_tpl_alloc(run->pool, &macro, 1, sizeof *macro));
    *macro = (lh_tpl_macro){s, run->scope};
    return lh_tpl_set_name(run, s->name, (lh_tpl_value){.kind = LH_TPL_MACRO, .macro = macro});
}

static lh_status leave_loop(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    (void)s;
    run->jump = LH_TPL_LEAVE_LOOP;
    return LH_OK;
}

static lh_status next_round(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    (void)s;
    run->jump = LH_TPL_NEXT_ROUND;
    return LH_OK;
}

static lh_status execute_one(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    static lh_status (*const actions[])(lh_tpl_run * run, const lh_tpl_stmt *s) = {
        [LH_TPL_WRITE] = write_value, [LH_TPL_IF] = choose_branch,  [LH_TPL_FOR] = run_loop,
        [LH_TPL_SET] = set_value,     [LH_TPL_SET_BODY] = set_body, [LH_TPL_DEFINE] = define_macro,
        [LH_TPL_GROUP] = run_group,   [LH_TPL_BREAK] = leave_loop,  [LH_TPL_CONTINUE] = next_round};
    lh_status st = actions[s->action](run, s);
    /* The innermost statement names its line; the template's own message stays unchanged. */
    if (st == LH_EINPUT && !run->raised) {
        lh_fail_within(st, "the chat template, line %d", s->line);
        run->raised = 1;
    }
    return st;
}

lh_status lh_tpl_execute(lh_tpl_run *run, const lh_tpl_stmt *statements)
{
    LH_TRY(lh_tpl_enter(run->pool));
    for (const lh_tpl_stmt *s = statements; s && run->jump == LH_TPL_GO_ON; s = s->next) LH_TRY(execute_one(run, s));
    return lh_tpl_leave(run->pool, LH_OK);
}

/* ---- macros ---- */

static lh_status call_macro(lh_tpl_run *run, const lh_tpl_macro *macro, const lh_tpl_args *args, lh_tpl_value *out)
{
    const lh_tpl_stmt *s = macro->defined;
    lh_tpl_scope *scope = run->scope;
    if (args->n > s->n) LH_FAIL(LH_EINPUT, "the macro '%.40s' takes %lld arguments", s->name, (long long)s->n);
    LH_TRY(open_scope(run, macro->scope));
    for (int64_t i = 0; i < s->n; i++) {
        lh_tpl_value v = lh_tpl_arg(args, i, s->names[i]);
        if (v.kind == LH_TPL_UNDEFINED && i >= args->n && s->defaults[i]) LH_TRY(evaluate(run, s->defaults[i], &v));
        LH_TRY(lh_tpl_set_name(run, s->names[i], v));
    }
    LH_TRY(capture(run, s->body, out));
    run->scope = scope;
    return LH_OK;
}
