/* parse.c - the statements of a chat template. */
#include "text/template/parse.h"

#include <string.h>

#include "text/template/parse_impl.h"

const char lh_tpl_body_name[] = "";

static lh_status parse_body(lh_tpl_parser *p, const char *const *ends, const lh_tpl_stmt **out);

static lh_status new_stmt(lh_tpl_parser *p, lh_tpl_action action, lh_tpl_stmt **out)
{
    LH_TRY(lh_tpl_alloc(p->pool, out, 1, sizeof **out));
    (*out)->action = action;
    (*out)->line = p->at->line;
    return LH_OK;
}

static lh_status end_tag(lh_tpl_parser *p)
{
    if (p->at->kind != LH_TPL_BLOCK_END) LH_TPL_FAIL(p, "expected the end of the tag");
    p->at++;
    return LH_OK;
}

/* Adds a name to those of a statement. */
static lh_status add_name(lh_tpl_parser *p, lh_tpl_stmt *s, int64_t *cap)
{
    const char **more;
    if (p->at->kind != LH_TPL_NAME) LH_TPL_FAIL(p, "expected a name");
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
static lh_status parse_targets(lh_tpl_parser *p, lh_tpl_stmt *s)
{
    int64_t cap = 0;
    int bracket = lh_tpl_take(p, "(");
    LH_TRY(add_name(p, s, &cap));
    while (lh_tpl_take(p, ",")) LH_TRY(add_name(p, s, &cap));
    if (bracket && !lh_tpl_take(p, ")")) LH_TPL_FAIL(p, "expected ')'");
    return LH_OK;
}

/* The keyword that ended a body. */
static lh_status take_end(lh_tpl_parser *p)
{
    p->at += 2; /* the beginning of the tag, and its name */
    return end_tag(p);
}

static lh_status parse_if(lh_tpl_parser *p, lh_tpl_stmt *first)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    for (lh_tpl_stmt *s = first;;) {
        LH_TRY(lh_tpl_parse_expr(p, &s->a));
        LH_TRY(end_tag(p));
        LH_TRY(parse_body(p, ends, &s->body));
        const char *word = p->at[1].text;
        if (strcmp(word, "elif") == 0) { /* an `if` of its own in the place of `else` */
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

static lh_status parse_for(lh_tpl_parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    LH_TRY(parse_targets(p, s));
    if (!lh_tpl_take_word(p, "in")) LH_TPL_FAIL(p, "expected 'in'");
    LH_TRY(lh_tpl_parse_tuple(p, 0, &s->a));
    if (lh_tpl_take_word(p, "if")) LH_TRY(lh_tpl_parse_expr(p, &s->b));
    if (lh_tpl_take_word(p, "recursive")) LH_TPL_FAIL(p, "recursive loops are not read here");
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

static lh_status parse_set(lh_tpl_parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"endset", NULL};
    LH_TRY(parse_targets(p, s));
    if (lh_tpl_take(p, ".")) {
        if (s->n != 1 || p->at->kind != LH_TPL_NAME) LH_TPL_FAIL(p, "expected the name of a member");
        s->name = p->at->text;
        p->at++;
    }
    if (lh_tpl_take(p, "=")) {
        LH_TRY(lh_tpl_parse_tuple(p, 1, &s->a));
        return end_tag(p);
    }
    if (s->n != 1 || s->name) LH_TPL_FAIL(p, "expected '='");
    s->action = LH_TPL_SET_BODY;
    if (p->at->kind == LH_TPL_OPERATOR) LH_TRY(lh_tpl_parse_filters(p, &s->a));
    LH_TRY(end_tag(p));
    LH_TRY(parse_body(p, ends, &s->body));
    return take_end(p);
}

/* Parameters of a macro: names, some with defaults. */
static lh_status parse_parameters(lh_tpl_parser *p, lh_tpl_stmt *s)
{
    const lh_tpl_expr *defaults[LH_TPL_PARAMETERS] = {NULL};
    int64_t cap = 0;
    if (!lh_tpl_take(p, "(")) LH_TPL_FAIL(p, "expected '('");
    while (!lh_tpl_take(p, ")")) {
        if (s->n == LH_TPL_PARAMETERS) LH_TPL_FAIL(p, "more than %d parameters", LH_TPL_PARAMETERS);
        LH_TRY(add_name(p, s, &cap));
        if (lh_tpl_take(p, "=")) LH_TRY(lh_tpl_parse_expr(p, &defaults[s->n - 1]));
        if (!lh_tpl_take(p, ",") && !lh_tpl_is(p, ")")) LH_TPL_FAIL(p, "expected ',' or ')'");
    }
    LH_TRY(lh_tpl_alloc(p->pool, &s->defaults, s->n, sizeof *s->defaults));
    if (s->n) memcpy(s->defaults, defaults, (size_t)s->n * sizeof *defaults);
    return LH_OK;
}

static lh_status parse_macro(lh_tpl_parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"endmacro", NULL};
    const int loops = p->loops;
    if (p->at->kind != LH_TPL_NAME) LH_TPL_FAIL(p, "expected the name of a macro");
    s->name = p->at->text;
    p->at++;
    LH_TRY(parse_parameters(p, s));
    LH_TRY(end_tag(p));
    p->loops = 0;
    LH_TRY(parse_body(p, ends, &s->body));
    p->loops = loops;
    return take_end(p);
}

/* Hugging Face's mark of what the assistant generates: its body. */
static lh_status parse_generation(lh_tpl_parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"endgeneration", NULL};
    LH_TRY(end_tag(p));
    LH_TRY(parse_body(p, ends, &s->body));
    return take_end(p);
}

static lh_status parse_filter(lh_tpl_parser *p, lh_tpl_stmt *s)
{
    static const char *const ends[] = {"endfilter", NULL};
    LH_TRY(lh_tpl_parse_filters(p, &s->a));
    LH_TRY(end_tag(p));
    LH_TRY(parse_body(p, ends, &s->body));
    return take_end(p);
}

static lh_status parse_jump(lh_tpl_parser *p, lh_tpl_stmt *s)
{
    (void)s;
    if (!p->loops) LH_TPL_FAIL(p, "'break' and 'continue' stand in loops");
    return end_tag(p);
}

static const struct statement {
    const char *word;
    lh_tpl_action action;
    lh_status (*parse)(lh_tpl_parser *p, lh_tpl_stmt *s);
} statements[] = {{"if", LH_TPL_IF, parse_if},
                  {"for", LH_TPL_FOR, parse_for},
                  {"set", LH_TPL_SET, parse_set},
                  {"macro", LH_TPL_DEFINE, parse_macro},
                  {"break", LH_TPL_BREAK, parse_jump},
                  {"generation", LH_TPL_GROUP, parse_generation},
                  {"filter", LH_TPL_GROUP, parse_filter},
                  {"continue", LH_TPL_CONTINUE, parse_jump}};

static lh_status parse_tag(lh_tpl_parser *p, lh_tpl_stmt **out)
{
    p->at++;
    if (p->at->kind != LH_TPL_NAME) LH_TPL_FAIL(p, "expected the name of a statement");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (strcmp(p->at->text, statements[i].word) != 0) continue;
        LH_TRY(new_stmt(p, statements[i].action, out));
        p->at++;
        return statements[i].parse(p, *out);
    }
    LH_TPL_FAIL(p, "the statement '%.40s' is not read here", p->at->text);
}

static lh_status parse_print(lh_tpl_parser *p, lh_tpl_stmt **out)
{
    LH_TRY(new_stmt(p, LH_TPL_WRITE, out));
    p->at++;
    LH_TRY(lh_tpl_parse_tuple(p, 1, &(*out)->a));
    if (p->at->kind != LH_TPL_PRINT_END) LH_TPL_FAIL(p, "expected '}}'");
    p->at++;
    return LH_OK;
}

static lh_status parse_data(lh_tpl_parser *p, lh_tpl_stmt **out)
{
    lh_tpl_expr *text;
    LH_TRY(new_stmt(p, LH_TPL_WRITE, out));
    LH_TRY(lh_tpl_new_expr(p, LH_TPL_LITERAL, &text));
    LH_TRY(lh_tpl_text_borrow(p->pool, p->at->text, p->at->bytes, &text->value));
    (*out)->a = text;
    p->at++;
    return LH_OK;
}

static int at_end(const lh_tpl_parser *p, const char *const *ends)
{
    if (p->at->kind != LH_TPL_BLOCK_BEGIN || p->at[1].kind != LH_TPL_NAME) return 0;
    for (; *ends; ends++)
        if (strcmp(p->at[1].text, *ends) == 0) return 1;
    return 0;
}

/* Statements up to a tag of `ends`, which is not taken; without ends up to the end of the template. */
static lh_status parse_body(lh_tpl_parser *p, const char *const *ends, const lh_tpl_stmt **out)
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
    lh_tpl_parser p = {.pool = pool, .at = tokens};
    LH_TRY(parse_body(&p, none, out));
    if (!p.asks) LH_FAIL(LH_EINPUT, "it is no chat template: it does not look at 'messages'");
    return LH_OK;
}
