/* calls.h - the filters, tests, methods and functions of chat templates, each a row of a table. A new one is a row;
 * docs/chat-templates.md lists the names. */
#ifndef LH_TEXT_TEMPLATE_CALLS_H
#define LH_TEXT_TEMPLATE_CALLS_H

#include "text/template/value.h"

/* self: the value that is filtered or tested, or the object of a method. */
typedef lh_status (*lh_tpl_call)(lh_tpl_pool *pool, lh_tpl_value self, const lh_tpl_args *args, lh_tpl_value *out);

/* NULL if there is none of this name. */
lh_tpl_call lh_tpl_find_filter(const char *name);
lh_tpl_call lh_tpl_find_test(const char *name);
lh_tpl_call lh_tpl_find_function(const char *name);
lh_tpl_call lh_tpl_find_method(lh_tpl_kind kind, const char *name);

/* A table of them ends with {NULL, NULL}; NULL: an empty one. */
typedef struct lh_tpl_row {
    const char *name;
    lh_tpl_call call;
} lh_tpl_row;
lh_tpl_call lh_tpl_find_row(const lh_tpl_row *rows, const char *name);

/* A member by an attribute of Jinja's filters, such as "function.name". */
lh_status lh_tpl_member_path(lh_tpl_pool *pool, lh_tpl_value of, lh_tpl_value path, lh_tpl_value *out);

/* LH_EINPUT unless it is a text, or an integer: "'who' needs …". */
lh_status lh_tpl_need_text(lh_tpl_value v, const char *who);
lh_status lh_tpl_need_int(lh_tpl_value v, const char *who);

#endif
