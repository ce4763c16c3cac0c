/* texts.h - texts of a template's values: made, cut, joined and searched, with their spans. Positions are bytes;
 * lh_tpl_text_slice alone counts characters, as Python does. */
#ifndef LH_TEXT_TEMPLATE_TEXTS_H
#define LH_TEXT_TEMPLATE_TEXTS_H

#include "text/template/value.h"

/* Text of the template, without spans; data is borrowed or copied. */
lh_status lh_tpl_text_borrow(lh_tpl_pool *pool, const char *data, int64_t bytes, lh_tpl_value *out);
lh_status lh_tpl_text_copy(lh_tpl_pool *pool, const char *data, int64_t bytes, lh_tpl_value *out);

/* Contents of a message (borrowed): one span. */
lh_status lh_tpl_text_content(lh_tpl_pool *pool, const char *data, int message, lh_tpl_value *out);

/* As _copy; what was made from `of` is contents if that holds any. */
lh_status lh_tpl_text_from(lh_tpl_pool *pool, const char *data, int64_t bytes, const lh_tpl_text *of,
                           lh_tpl_value *out);

int lh_tpl_text_is(const lh_tpl_text *text, const char *data, int64_t bytes);
int lh_tpl_text_has_content(const lh_tpl_text *text);

/* Bytes of the character at `at`, 1 of what is no UTF-8; number of characters. */
int64_t lh_tpl_character(const lh_tpl_text *text, int64_t at);
int64_t lh_tpl_text_length(const lh_tpl_text *text);

/* Bytes [from, until). */
lh_status lh_tpl_text_part(lh_tpl_pool *pool, const lh_tpl_text *text, int64_t from, int64_t until, lh_tpl_value *out);

/* Characters from `from` in steps of `step`, n of them. */
lh_status lh_tpl_text_slice(lh_tpl_pool *pool, const lh_tpl_text *text, int64_t from, int64_t step, int64_t n,
                            lh_tpl_value *out);

/* *at: the first place from byte `from` on, -1: none. */
lh_status lh_tpl_text_find(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *part, int64_t from,
                           int64_t *at);

/* Without characters of `set` (NULL: Python's white space) at its ends: sides 1 left, 2 right, 3 both. */
lh_status lh_tpl_text_strip(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *set, int sides,
                            lh_tpl_value *out);

/* A text that grows; all zero is empty. */
typedef struct lh_tpl_builder {
    char *data;
    int64_t bytes, cap;
    lh_tpl_span *spans;
    int64_t span_count, span_cap;
} lh_tpl_builder;

lh_status lh_tpl_append(lh_tpl_pool *pool, lh_tpl_builder *b, const lh_tpl_text *text);
lh_status lh_tpl_append_bytes(lh_tpl_pool *pool, lh_tpl_builder *b, const char *data, int64_t bytes);
lh_status lh_tpl_built(lh_tpl_pool *pool, const lh_tpl_builder *b, lh_tpl_value *out); /* b is not used again */

#endif
