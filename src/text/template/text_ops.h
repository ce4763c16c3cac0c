/* text_ops.h - what methods and filters do to texts, beyond texts.h. */
#ifndef LH_TEXT_TEMPLATE_TEXT_OPS_H
#define LH_TEXT_TEMPLATE_TEXT_OPS_H

#include "text/template/texts.h"

/* The first `count` places of `from` by `to`; -1: all. */
typedef struct lh_tpl_change {
    const lh_tpl_text *from, *to;
    int64_t count;
} lh_tpl_change;
lh_status lh_tpl_replace(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_change *change, lh_tpl_value *out);

/* *out: a list. separator NULL: white space; at most `max` cuts from the left, -1: all. */
lh_status lh_tpl_split(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *separator, int64_t max,
                       lh_tpl_value *out);
lh_status lh_tpl_split_last(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *separator, int64_t max,
                            lh_tpl_value *out);
lh_status lh_tpl_split_lines(lh_tpl_pool *pool, const lh_tpl_text *text, int keep_ends, lh_tpl_value *out);

/* The simple case mapping of every character; titles: upper case after what is no letter. */
typedef enum lh_tpl_case { LH_TPL_UPPER, LH_TPL_LOWER, LH_TPL_CAPITAL, LH_TPL_TITLE } lh_tpl_case;
lh_status lh_tpl_change_case(lh_tpl_pool *pool, const lh_tpl_text *text, lh_tpl_case to, lh_tpl_value *out);

/* The items, which must be texts or become them, with the separator between them. */
lh_status lh_tpl_join(lh_tpl_pool *pool, const lh_tpl_list *items, const lh_tpl_text *separator, lh_tpl_value *out);

#endif
