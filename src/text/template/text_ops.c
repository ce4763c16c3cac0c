/* text_ops.c - replacing, splitting, joining and case of a template's texts. */
#include "text/template/text_ops.h"

#include <string.h>
#include <utf8proc.h>

#include "base/unicode.h"
#include "text/template/print.h"

static lh_status append_part(lh_tpl_pool *pool, lh_tpl_builder *b, const lh_tpl_text *text, int64_t from, int64_t until)
{
    lh_tpl_value part;
    LH_TRY(lh_tpl_text_part(pool, text, from, until, &part));
    return lh_tpl_append(pool, b, part.text);
}

lh_status lh_tpl_replace(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_change *change, lh_tpl_value *out)
{
    lh_tpl_builder b = {0};
    int64_t at = 0, found, done = 0;
    while (change->count < 0 || done < change->count) {
        LH_TRY(lh_tpl_text_find(pool, text, change->from, at, &found));
        if (found < 0) break;
        LH_TRY(append_part(pool, &b, text, at, found));
        LH_TRY(lh_tpl_append(pool, &b, change->to));
        done++;
        at = found + change->from->bytes;
        if (change->from->bytes) continue;
        if (at >= text->bytes) break; /* between characters, and at both ends */
        LH_TRY(append_part(pool, &b, text, at, at + lh_tpl_character(text, at)));
        at += lh_tpl_character(text, at);
    }
    if (done == 0) return lh_tpl_text_part(pool, text, 0, text->bytes, out);
    LH_TRY(append_part(pool, &b, text, at, text->bytes));
    return lh_tpl_built(pool, &b, out);
}

static lh_status push_part(lh_tpl_pool *pool, lh_tpl_list *list, const lh_tpl_text *text, int64_t from, int64_t until)
{
    lh_tpl_value part;
    LH_TRY(lh_tpl_text_part(pool, text, from, until, &part));
    return lh_tpl_list_push(pool, list, part);
}

/* Bytes of the white space at `at`, of one character; 0: none. */
static int64_t space_at(const lh_tpl_text *text, int64_t at)
{
    uint32_t cp;
    int skip;
    return lh_utf8_read(text->data + at, text->bytes - at, &cp, &skip) && lh_char_is_python_space(cp) ? skip : 0;
}

static lh_status split_at_spaces(lh_tpl_pool *pool, const lh_tpl_text *text, int64_t max, lh_tpl_list *list)
{
    int64_t at = 0;
    LH_TRY(lh_tpl_step(pool, text->bytes / 16));
    for (;;) {
        while (at < text->bytes && space_at(text, at)) at += space_at(text, at);
        if (at == text->bytes) return LH_OK;
        int64_t from = at;
        if (max >= 0 && list->n >= max) {
            lh_tpl_value rest, last;
            LH_TRY(lh_tpl_text_part(pool, text, from, text->bytes, &rest));
            LH_TRY(lh_tpl_text_strip(pool, rest.text, NULL, 2, &last));
            return lh_tpl_list_push(pool, list, last);
        }
        while (at < text->bytes && !space_at(text, at)) at += lh_tpl_character(text, at);
        LH_TRY(push_part(pool, list, text, from, at));
    }
}

lh_status lh_tpl_split(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *separator, int64_t max,
                       lh_tpl_value *out)
{
    int64_t at = 0, found;
    LH_TRY(lh_tpl_list_make(pool, out));
    if (!separator) return split_at_spaces(pool, text, max, out->list);
    if (!separator->bytes) LH_FAIL(LH_EINPUT, "'split' got an empty separator");
    while (max < 0 || out->list->n < max) {
        LH_TRY(lh_tpl_text_find(pool, text, separator, at, &found));
        if (found < 0) break;
        LH_TRY(push_part(pool, out->list, text, at, found));
        at = found + separator->bytes;
    }
    return push_part(pool, out->list, text, at, text->bytes);
}

lh_status lh_tpl_split_last(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *separator, int64_t max,
                            lh_tpl_value *out)
{
    lh_tpl_value all;
    LH_TRY(lh_tpl_split(pool, text, separator, -1, &all));
    if (max < 0 || all.list->n <= max + 1) {
        *out = all;
        return LH_OK;
    }
    if (!separator) LH_FAIL(LH_EINPUT, "'rsplit' of white space with a number of cuts is not read here");
    int64_t first = all.list->n - max, bytes = (first - 1) * separator->bytes; /* of what stays whole */
    for (int64_t i = 0; i < first; i++) bytes += all.list->at[i].text->bytes;
    LH_TRY(lh_tpl_list_make(pool, out));
    LH_TRY(push_part(pool, out->list, text, 0, bytes));
    for (int64_t i = first; i < all.list->n; i++) LH_TRY(lh_tpl_list_push(pool, out->list, all.list->at[i]));
    return LH_OK;
}

lh_status lh_tpl_split_lines(lh_tpl_pool *pool, const lh_tpl_text *text, int keep_ends, lh_tpl_value *out)
{
    int64_t from = 0;
    LH_TRY(lh_tpl_list_make(pool, out));
    LH_TRY(lh_tpl_step(pool, text->bytes / 16));
    for (int64_t at = 0; at < text->bytes; at++) {
        if (text->data[at] != '\n' && text->data[at] != '\r') continue;
        int64_t end = at;
        if (text->data[at] == '\r' && at + 1 < text->bytes && text->data[at + 1] == '\n') at++;
        LH_TRY(push_part(pool, out->list, text, from, keep_ends ? at + 1 : end));
        from = at + 1;
    }
    return from < text->bytes ? push_part(pool, out->list, text, from, text->bytes) : LH_OK;
}

static int is_letter(uint32_t cp)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

lh_status lh_tpl_change_case(lh_tpl_pool *pool, const lh_tpl_text *text, lh_tpl_case to, lh_tpl_value *out)
{
    lh_tpl_builder b = {0};
    int begins = to != LH_TPL_LOWER;
    for (int64_t at = 0, bytes; at < text->bytes; at += bytes) {
        uint32_t cp;
        int skip;
        char c[4];
        bytes = lh_utf8_read(text->data + at, text->bytes - at, &cp, &skip);
        if (!bytes) bytes = skip;
        utf8proc_int32_t changed =
            begins ? utf8proc_toupper((utf8proc_int32_t)cp) : utf8proc_tolower((utf8proc_int32_t)cp);
        LH_TRY(lh_tpl_append_bytes(pool, &b, c, lh_utf8_write(c, (uint32_t)changed)));
        if (to == LH_TPL_CAPITAL) begins = 0;
        if (to == LH_TPL_TITLE) begins = !is_letter(cp);
    }
    LH_TRY(lh_tpl_step(pool, text->bytes / 16));
    return lh_tpl_text_from(pool, b.data, b.bytes, text, out);
}

lh_status lh_tpl_join(lh_tpl_pool *pool, const lh_tpl_list *items, const lh_tpl_text *separator, lh_tpl_value *out)
{
    lh_tpl_builder b = {0};
    for (int64_t i = 0; i < items->n; i++) {
        lh_tpl_value text;
        LH_TRY(lh_tpl_step(pool, 1));
        if (i) LH_TRY(lh_tpl_append(pool, &b, separator));
        LH_TRY(lh_tpl_str(pool, items->at[i], &text));
        LH_TRY(lh_tpl_append(pool, &b, text.text));
    }
    return lh_tpl_built(pool, &b, out);
}
