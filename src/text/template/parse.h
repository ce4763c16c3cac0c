/* parse.h - a chat template as a tree. Jinja's expressions are read whole; of its statements if, for (with else, if,
 * break and continue), set, macro, raw, and the blocks `generation` and `filter`. Files, inheritance and calls with a
 * body are refused: docs/chat-templates.md lists the supported statements. */
#ifndef LH_TEXT_TEMPLATE_PARSE_H
#define LH_TEXT_TEMPLATE_PARSE_H

#include "text/template/value.h"

typedef enum lh_tpl_node {
    LH_TPL_LITERAL, /* value */
    LH_TPL_LOOKUP,  /* name */
    LH_TPL_MEMBER,  /* a.name */
    LH_TPL_ITEM,    /* a[b] */
    LH_TPL_SLICE,   /* a[b:c:items[0]], each may be NULL */
    LH_TPL_CALL,    /* a(items) */
    LH_TPL_FILTER,  /* a | name(items) */
    LH_TPL_TEST,    /* a is name(items) */
    LH_TPL_LIST_OF, /* [items] */
    LH_TPL_DICT_OF, /* {items[0]: items[1], …} */
    LH_TPL_NOT,
    LH_TPL_NEGATE,
    LH_TPL_PLUS,
    LH_TPL_AND,
    LH_TPL_OR,
    LH_TPL_CHOOSE,  /* a if b else c; c may be NULL */
    LH_TPL_BINARY,  /* a name b: + - * / // % ** ~ */
    LH_TPL_COMPARE, /* a names[0] items[0] names[1] items[1] …: == != < <= > >= in not-in */
} lh_tpl_node;

typedef struct lh_tpl_expr lh_tpl_expr;
struct lh_tpl_expr {
    lh_tpl_node node;
    int line;
    const char *name;
    lh_tpl_value value;
    const lh_tpl_expr *a, *b, *c;
    const lh_tpl_expr **items;
    const char **names; /* of arguments (NULL: positional), or operators */
    int64_t n, cap;     /* of items */
};

typedef enum lh_tpl_action {
    LH_TPL_WRITE,    /* a */
    LH_TPL_IF,       /* a: body, otherwise */
    LH_TPL_FOR,      /* names in a, if b: body, otherwise */
    LH_TPL_SET,      /* names = a; with `name` the member names[0].name */
    LH_TPL_SET_BODY, /* names[0] = the output of body */
    LH_TPL_DEFINE,   /* macro `name`, parameters names with defaults */
    LH_TPL_GROUP,    /* body; with a: filtered by a, with the output of body as the innermost operand */
    LH_TPL_BREAK,
    LH_TPL_CONTINUE,
} lh_tpl_action;

typedef struct lh_tpl_stmt lh_tpl_stmt;
struct lh_tpl_stmt {
    lh_tpl_action action;
    int line;
    const char *name;
    const lh_tpl_expr *a, *b;
    const char **names;
    const lh_tpl_expr **defaults; /* [n], NULL: none */
    int64_t n;
    const lh_tpl_stmt *body, *otherwise, *next;
};

/* *out: the statements, in the pool; NULL for an empty template. LH_EINPUT: "line N: …", or if the template does not
 * read the messages. */
lh_status lh_tpl_parse(lh_tpl_pool *pool, char *source, int64_t bytes, const lh_tpl_stmt **out);

/* The name of the output of a filter block's body. */
extern const char lh_tpl_body_name[];

#endif
