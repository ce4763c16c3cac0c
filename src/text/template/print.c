/* print.c - values of a template as text. */
#include "text/template/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"

static lh_status repr(lh_tpl_pool *pool, lh_tpl_builder *b, lh_tpl_value v);

static lh_status puts_to(lh_tpl_pool *pool, lh_tpl_builder *b, const char *text)
{
    return lh_tpl_append_bytes(pool, b, text, (int64_t)strlen(text));
}

static lh_status put_scalar(lh_tpl_pool *pool, lh_tpl_builder *b, lh_tpl_value v, int json)
{
    static const char *const words[2][3] = {{"None", "True", "False"}, {"null", "true", "false"}};
    char number[48];
    switch (v.kind) {
    case LH_TPL_NONE: return puts_to(pool, b, words[json][0]);
    case LH_TPL_BOOL: return puts_to(pool, b, words[json][v.i ? 1 : 2]);
    case LH_TPL_INT: snprintf(number, sizeof number, "%lld", (long long)v.i); break;
    case LH_TPL_UNDEFINED: return json ? LH_OK : puts_to(pool, b, "Undefined");
    default: LH_FAIL(LH_EINPUT, "a value of the type '%s' cannot be written", lh_tpl_type(v));
    }
    return puts_to(pool, b, number);
}

/* ---- str and repr ---- */

/* A text in quotes: single ones, unless it holds those and no double ones. */
static lh_status repr_text(lh_tpl_pool *pool, lh_tpl_builder *b, const lh_tpl_text *text)
{
    lh_tpl_builder quoted = {0};
    lh_tpl_value all;
    const int has_single = text->bytes && memchr(text->data, '\'', (size_t)text->bytes);
    const int has_double = text->bytes && memchr(text->data, '"', (size_t)text->bytes);
    const char quote = has_single && !has_double ? '"' : '\'';
    LH_TRY(lh_tpl_append_bytes(pool, &quoted, &quote, 1));
    for (int64_t at = 0, bytes; at < text->bytes; at += bytes) {
        const unsigned char c = (unsigned char)text->data[at];
        char escape[8];
        bytes = lh_tpl_character(text, at);
        if (c == '\n' || c == '\t' || c == '\r')
            snprintf(escape, sizeof escape, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        else if (c < 0x20 || c == 0x7F)
            snprintf(escape, sizeof escape, "\\x%02x", c);
        else if (c == '\\' || c == (unsigned char)quote)
            snprintf(escape, sizeof escape, "\\%c", c);
        else
            snprintf(escape, sizeof escape, "%.*s", (int)bytes, text->data + at);
        LH_TRY(puts_to(pool, &quoted, escape));
    }
    LH_TRY(lh_tpl_append_bytes(pool, &quoted, &quote, 1));
    LH_TRY(lh_tpl_text_from(pool, quoted.data, quoted.bytes, text, &all));
    return lh_tpl_append(pool, b, all.text);
}

static lh_status repr_list(lh_tpl_pool *pool, lh_tpl_builder *b, const lh_tpl_list *list)
{
    LH_TRY(puts_to(pool, b, "["));
    for (int64_t i = 0; i < list->n; i++) {
        if (i) LH_TRY(puts_to(pool, b, ", "));
        LH_TRY(repr(pool, b, list->at[i]));
    }
    return puts_to(pool, b, "]");
}

static lh_status repr_dict(lh_tpl_pool *pool, lh_tpl_builder *b, const lh_tpl_dict *dict)
{
    LH_TRY(puts_to(pool, b, "{"));
    for (int64_t i = 0; i < dict->keys.n; i++) {
        if (i) LH_TRY(puts_to(pool, b, ", "));
        LH_TRY(repr(pool, b, dict->keys.at[i]));
        LH_TRY(puts_to(pool, b, ": "));
        LH_TRY(repr(pool, b, dict->values.at[i]));
    }
    return puts_to(pool, b, "}");
}

static lh_status repr(lh_tpl_pool *pool, lh_tpl_builder *b, lh_tpl_value v)
{
    LH_TRY(lh_tpl_enter(pool));
    lh_status st = v.kind == LH_TPL_TEXT   ? repr_text(pool, b, v.text)
                   : v.kind == LH_TPL_LIST ? repr_list(pool, b, v.list)
                   : v.kind == LH_TPL_DICT ? repr_dict(pool, b, v.dict)
                                           : put_scalar(pool, b, v, 0);
    return lh_tpl_leave(pool, st);
}

lh_status lh_tpl_str(lh_tpl_pool *pool, lh_tpl_value v, lh_tpl_value *out)
{
    lh_tpl_builder b = {0};
    *out = v;
    if (v.kind == LH_TPL_TEXT) return LH_OK;
    if (v.kind != LH_TPL_UNDEFINED) LH_TRY(repr(pool, &b, v));
    return lh_tpl_built(pool, &b, out);
}

/* ---- JSON ---- */

typedef struct writer {
    lh_tpl_pool *pool;
    lh_tpl_builder *out;
    const lh_tpl_json *how;
    int64_t depth;
} writer;

static lh_status json_value(writer *w, lh_tpl_value v);

/* The escape of a character in JSON; 0: none. */
static int json_escape(char out[16], const lh_tpl_text *text, int64_t at, int ascii)
{
    static const char plain[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const unsigned char c = (unsigned char)text->data[at];
    const char *found = c ? strchr(plain, c) : NULL;
    uint32_t cp = 0;
    int skip;
    if (found) return snprintf(out, 16, "\\%c", letters[found - plain]);
    if (c < 0x20) return snprintf(out, 16, "\\u%04x", c);
    if (c < 0x80 || !ascii) return 0;
    lh_utf8_read(text->data + at, text->bytes - at, &cp, &skip);
    if (cp < 0x10000) return snprintf(out, 16, "\\u%04x", (unsigned)cp);
    cp -= 0x10000;
    return snprintf(out, 16, "\\u%04x\\u%04x", (unsigned)(0xD800 + (cp >> 10)), (unsigned)(0xDC00 + (cp & 0x3FF)));
}

static lh_status json_text(writer *w, const lh_tpl_text *text)
{
    lh_tpl_builder quoted = {0};
    lh_tpl_value all;
    char escape[16];
    LH_TRY(puts_to(w->pool, &quoted, "\""));
    for (int64_t at = 0, bytes; at < text->bytes; at += bytes) {
        bytes = lh_tpl_character(text, at);
        int n = json_escape(escape, text, at, w->how->ascii);
        LH_TRY(lh_tpl_append_bytes(w->pool, &quoted, n ? escape : text->data + at, n ? n : bytes));
    }
    LH_TRY(puts_to(w->pool, &quoted, "\""));
    LH_TRY(lh_tpl_text_from(w->pool, quoted.data, quoted.bytes, text, &all));
    return lh_tpl_append(w->pool, w->out, all.text);
}

/* Before an item, or before the closing bracket of what has some. */
static lh_status json_break(writer *w, int first, int last)
{
    const int lines = w->how->indent >= 0;
    if (!first && !last) LH_TRY(puts_to(w->pool, w->out, w->how->item ? w->how->item : lines ? "," : ", "));
    if (!lines) return LH_OK;
    LH_TRY(puts_to(w->pool, w->out, "\n"));
    for (int64_t i = 0; i < w->how->indent * (w->depth - last); i++) LH_TRY(puts_to(w->pool, w->out, " "));
    return LH_OK;
}

static lh_status json_list(writer *w, const lh_tpl_list *list)
{
    LH_TRY(puts_to(w->pool, w->out, "["));
    w->depth++;
    for (int64_t i = 0; i < list->n; i++) {
        LH_TRY(json_break(w, i == 0, 0));
        LH_TRY(json_value(w, list->at[i]));
    }
    if (list->n) LH_TRY(json_break(w, 0, 1));
    w->depth--;
    return puts_to(w->pool, w->out, "]");
}

lh_status lh_tpl_sorted_keys(lh_tpl_pool *pool, const lh_tpl_dict *dict, int64_t **order)
{
    LH_TRY(lh_tpl_alloc(pool, order, dict->keys.n, sizeof **order));
    for (int64_t i = 0; i < dict->keys.n; i++) { /* insertion: dictionaries of templates are small, and steps count */
        int64_t at = i;
        for (; at > 0; at--) {
            int order_of = 0;
            LH_TRY(lh_tpl_compare(pool, dict->keys.at[i], dict->keys.at[(*order)[at - 1]], &order_of));
            if (order_of >= 0) break;
            (*order)[at] = (*order)[at - 1];
        }
        (*order)[at] = i;
    }
    return LH_OK;
}

/* A key is a text in JSON. */
static lh_status json_key(writer *w, lh_tpl_value key)
{
    lh_tpl_builder b = {0};
    lh_tpl_value text = key;
    if (key.kind != LH_TPL_TEXT) {
        LH_TRY(put_scalar(w->pool, &b, key, 1));
        LH_TRY(lh_tpl_built(w->pool, &b, &text));
    }
    return json_text(w, text.text);
}

static lh_status json_dict(writer *w, const lh_tpl_dict *dict)
{
    int64_t *order = NULL;
    if (w->how->sorted) LH_TRY(lh_tpl_sorted_keys(w->pool, dict, &order));
    LH_TRY(puts_to(w->pool, w->out, "{"));
    w->depth++;
    for (int64_t i = 0; i < dict->keys.n; i++) {
        const int64_t at = order ? order[i] : i;
        LH_TRY(json_break(w, i == 0, 0));
        LH_TRY(json_key(w, dict->keys.at[at]));
        LH_TRY(puts_to(w->pool, w->out, w->how->member ? w->how->member : ": "));
        LH_TRY(json_value(w, dict->values.at[at]));
    }
    if (dict->keys.n) LH_TRY(json_break(w, 0, 1));
    w->depth--;
    return puts_to(w->pool, w->out, "}");
}

static lh_status json_value(writer *w, lh_tpl_value v)
{
    LH_TRY(lh_tpl_enter(w->pool));
    if (v.kind == LH_TPL_UNDEFINED) LH_FAIL(LH_EINPUT, "'%s' is undefined and has no JSON", v.name ? v.name : "it");
    lh_status st = v.kind == LH_TPL_TEXT   ? json_text(w, v.text)
                   : v.kind == LH_TPL_LIST ? json_list(w, v.list)
                   : v.kind == LH_TPL_DICT ? json_dict(w, v.dict)
                                           : put_scalar(w->pool, w->out, v, 1);
    return lh_tpl_leave(w->pool, st);
}

lh_status lh_tpl_to_json(lh_tpl_pool *pool, lh_tpl_value v, const lh_tpl_json *how, lh_tpl_value *out)
{
    lh_tpl_builder b = {0};
    writer w = {pool, &b, how, 0};
    LH_TRY(json_value(&w, v));
    return lh_tpl_built(pool, &b, out);
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
