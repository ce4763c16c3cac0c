/* run.c - executes the statements of a chat template. */
#include "text/template/run.h"

#include <string.h>

#include "text/template/print.h"
#include "text/template/run_impl.h"

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

/* ---- statements ---- */

static lh_status write_value(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_value v, text;
    LH_TRY(lh_tpl_evaluate(run, s->a, &v));
    LH_TRY(lh_tpl_str(run->pool, v, &text));
    return lh_tpl_append(run->pool, run->out, text.text);
}

static lh_status choose_branch(lh_tpl_run *run, const lh_tpl_stmt *s)
{
    lh_tpl_value v;
    while (s && s->action == LH_TPL_IF) { /* the branches of elif without recursion */
        LH_TRY(lh_tpl_evaluate(run, s->a, &v));
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

/* The items for which the condition of the loop holds. */
static lh_status filter_items(lh_tpl_run *run, const lh_tpl_stmt *s, lh_tpl_list *items)
{
    lh_tpl_scope *scope = run->scope;
    lh_tpl_list kept = {0};
    if (!s->b) return LH_OK;
    LH_TRY(open_scope(run, scope));
    for (int64_t i = 0; i < items->n; i++) {
        lh_tpl_value v;
        LH_TRY(assign(run, s, items->at[i]));
        LH_TRY(lh_tpl_evaluate(run, s->b, &v));
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
    LH_TRY(lh_tpl_evaluate(run, s->a, &over));
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
    LH_TRY(lh_tpl_evaluate(run, s->a, &v));
    if (!s->name) return assign(run, s, v);
    const lh_tpl_expr target = {.node = LH_TPL_LOOKUP, .line = s->line, .name = s->names[0]};
    LH_TRY(lh_tpl_evaluate(run, &target, &of));
    if (of.kind != LH_TPL_NAMESPACE)
        LH_FAIL(LH_EINPUT, "members are set in a namespace, and '%.40s' is of the type '%s'", s->names[0],
                lh_tpl_type(of));
    LH_TRY(lh_tpl_text_borrow(run->pool, s->name, (int64_t)strlen(s->name), &key));
    return lh_tpl_dict_put(run->pool, of.dict, key, v);
}

/* What a body writes, as a value; in a scope of its own. */
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

/* What a body writes, through the filters of its tag. */
static lh_status capture_filtered(lh_tpl_run *run, const lh_tpl_stmt *s, lh_tpl_value *out)
{
    lh_tpl_scope *scope = run->scope;
    LH_TRY(capture(run, s->body, out));
    if (!s->a) return LH_OK;
    LH_TRY(open_scope(run, scope));
    LH_TRY(lh_tpl_set_name(run, lh_tpl_body_name, *out));
    LH_TRY(lh_tpl_evaluate(run, s->a, out));
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
    /* The innermost statement names its line; what the template says itself stays as it is. */
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

lh_status lh_tpl_call_macro(lh_tpl_run *run, const lh_tpl_macro *macro, const lh_tpl_args *args, lh_tpl_value *out)
{
    const lh_tpl_stmt *s = macro->defined;
    lh_tpl_scope *scope = run->scope;
    if (args->n > s->n) LH_FAIL(LH_EINPUT, "the macro '%.40s' takes %lld arguments", s->name, (long long)s->n);
    LH_TRY(open_scope(run, macro->scope));
    for (int64_t i = 0; i < s->n; i++) {
        lh_tpl_value v = lh_tpl_arg(args, i, s->names[i]);
        if (v.kind == LH_TPL_UNDEFINED && i >= args->n && s->defaults[i])
            LH_TRY(lh_tpl_evaluate(run, s->defaults[i], &v));
        LH_TRY(lh_tpl_set_name(run, s->names[i], v));
    }
    LH_TRY(capture(run, s->body, out));
    run->scope = scope;
    return LH_OK;
}
