/* print.h - values of a template as text: as Python's str and repr write them, and as JSON. */
#ifndef LH_TEXT_TEMPLATE_PRINT_H
#define LH_TEXT_TEMPLATE_PRINT_H

#include "text/template/value.h"

/* str(v): a text itself, nothing for an undefined value. *out is a text. */
lh_status lh_tpl_str(lh_tpl_pool *pool, lh_tpl_value v, lh_tpl_value *out);

/* json.dumps. */
typedef struct lh_tpl_json {
    int ascii, sorted;
    int64_t indent;            /* -1: on one line */
    const char *item, *member; /* separators of items, and of a key and its value; NULL: Python's */
} lh_tpl_json;
lh_status lh_tpl_to_json(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_json *how, lh_tpl_value *out);

/* The keys of a dictionary in ascending order: *order [keys]. */
lh_status lh_tpl_sorted_keys(lh_tpl_pool *pool, const lh_tpl_dict *dict, int64_t **order);

/* The items as texts, with the separator between them. */
lh_status lh_tpl_join(lh_tpl_pool *pool, const lh_tpl_list *items, const lh_tpl_text *separator, lh_tpl_value *out);

#endif
