/* parse_impl.h - what parse.c (statements) and parse_expr.c (expressions) share. */
#ifndef LH_TEXT_TEMPLATE_PARSE_IMPL_H
#define LH_TEXT_TEMPLATE_PARSE_IMPL_H

#include "text/template/lex.h"
#include "text/template/parse.h"
#include "text/template/texts.h"

enum { LH_TPL_PARAMETERS = 32 };

typedef struct lh_tpl_parser {
    lh_tpl_pool *pool;
    const lh_tpl_token *at;
    int loops; /* around this place */
    int asks;  /* 1: the template looks at the messages */
} lh_tpl_parser;

/* LH_EINPUT: "line N: … before 'token'". */
lh_status lh_tpl_fail_at(const lh_tpl_parser *p, lh_status st);
#define LH_TPL_FAIL(p, ...) return lh_tpl_fail_at(p, lh_fail(LH_EINPUT, __FILE__, __LINE__, __VA_ARGS__))

int lh_tpl_is(const lh_tpl_parser *p, const char *op);
int lh_tpl_take(lh_tpl_parser *p, const char *op); /* 1 if this operator was next, which is taken */
int lh_tpl_take_word(lh_tpl_parser *p, const char *name);

lh_status lh_tpl_new_expr(lh_tpl_parser *p, lh_tpl_node node, lh_tpl_expr **out);
lh_status lh_tpl_parse_expr(lh_tpl_parser *p, const lh_tpl_expr **out);

/* Expressions with commas between them are a list; choices: "a if b" may stand among them. */
lh_status lh_tpl_parse_tuple(lh_tpl_parser *p, int choices, const lh_tpl_expr **out);

/* "name | name(…)", or with a leading "|": applied to the variable lh_tpl_body_name. */
lh_status lh_tpl_parse_filters(lh_tpl_parser *p, const lh_tpl_expr **out);

#endif
