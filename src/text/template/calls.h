/* calls.h - the filters, tests, methods and functions of chat templates, each a row of a table. A new one is a row;
 * docs/chat-templates.md lists the names. */
#ifndef LH_TEXT_TEMPLATE_CALLS_H
#define LH_TEXT_TEMPLATE_CALLS_H

#include "text/template/value.h"

/* NULL if there is none of this name. */
lh_tpl_call lh_tpl_find_filter(const char *name);
lh_tpl_call lh_tpl_find_test(const char *name);
lh_tpl_call lh_tpl_find_function(const char *name);
lh_tpl_call lh_tpl_find_method(lh_tpl_kind kind, const char *name);

/* A member by an attribute of Jinja's filters, such as "function.name". */
lh_status lh_tpl_member_path(lh_tpl_pool *pool, lh_tpl_value of, lh_tpl_value path, lh_tpl_value *out);

#endif
