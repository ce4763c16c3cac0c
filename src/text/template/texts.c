/* texts.c - texts of a template's values, and what becomes of their spans. */
#include "text/template/texts.h"

#include <string.h>

#include "base/unicode.h"

static lh_status make(lh_tpl_pool *pool, lh_tpl_text text, lh_tpl_value *out)
{
    lh_tpl_text *t;
    LH_TRY(lh_tpl_alloc(pool, &t, 1, sizeof *t));
    *t = text;
    *out = (lh_tpl_value){.kind = LH_TPL_TEXT, .text = t};
    return LH_OK;
}

static lh_status one_span(lh_tpl_pool *pool, lh_tpl_text *text, int message)
{
    lh_tpl_span *span;
    LH_TRY(lh_tpl_alloc(pool, &span, 1, sizeof *span));
    *span = (lh_tpl_span){0, text->bytes, 0, message};
    text->spans = span;
    text->span_count = 1;
    return LH_OK;
}

lh_status lh_tpl_text_borrow(lh_tpl_pool *pool, const char *data, int64_t bytes, lh_tpl_value *out)
{
    return make(pool, (lh_tpl_text){.data = data, .bytes = bytes}, out);
}

lh_status lh_tpl_text_copy(lh_tpl_pool *pool, const char *data, int64_t bytes, lh_tpl_value *out)
{
    char *copy;
    LH_TRY(lh_tpl_step(pool, bytes / 64));
    LH_TRY(lh_tpl_alloc(pool, &copy, bytes, 1));
    if (bytes) memcpy(copy, data, (size_t)bytes);
    return lh_tpl_text_borrow(pool, copy, bytes, out);
}

lh_status lh_tpl_text_content(lh_tpl_pool *pool, const char *data, int message, lh_tpl_value *out)
{
    lh_tpl_text text = {.data = data, .bytes = (int64_t)strlen(data)};
    LH_TRY(one_span(pool, &text, message)); /* also an empty one: the place of the contents */
    return make(pool, text, out);
}

lh_status lh_tpl_text_from(lh_tpl_pool *pool, const char *data, int64_t bytes, const lh_tpl_text *of, lh_tpl_value *out)
{
    LH_TRY(lh_tpl_text_copy(pool, data, bytes, out));
    lh_tpl_text text = *out->text;
    if (!lh_tpl_text_has_content(of)) return LH_OK;
    LH_TRY(one_span(pool, &text, -1));
    return make(pool, text, out);
}

int lh_tpl_text_is(const lh_tpl_text *text, const char *data, int64_t bytes)
{
    return text->bytes == bytes && (bytes == 0 || memcmp(text->data, data, (size_t)bytes) == 0);
}

int lh_tpl_text_has_content(const lh_tpl_text *text)
{
    return text->span_count > 0;
}

int64_t lh_tpl_character(const lh_tpl_text *text, int64_t at)
{
    uint32_t cp;
    int skip;
    return lh_utf8_read(text->data + at, text->bytes - at, &cp, &skip) ? skip : 1;
}

int64_t lh_tpl_text_length(const lh_tpl_text *text)
{
    int64_t n = 0;
    for (int64_t at = 0; at < text->bytes; at += lh_tpl_character(text, at)) n++;
    return n;
}

/* Spans that lie in [from, until), moved to 0. */
static lh_status cut_spans(lh_tpl_pool *pool, const lh_tpl_text *text, int64_t from, int64_t until, lh_tpl_text *out)
{
    lh_tpl_span *spans;
    if (!text->span_count) return LH_OK;
    LH_TRY(lh_tpl_step(pool, text->span_count / 16));
    LH_TRY(lh_tpl_alloc(pool, &spans, text->span_count, sizeof *spans));
    for (int64_t i = 0; i < text->span_count; i++) {
        lh_tpl_span s = text->spans[i];
        int64_t start = s.start > from ? s.start : from, end = s.start + s.bytes < until ? s.start + s.bytes : until;
        if (end < start || (end == start && s.bytes && text->span_count > 1)) continue;
        spans[out->span_count++] = (lh_tpl_span){start - from, end - start, s.skipped + start - s.start, s.message};
    }
    out->spans = spans;
    return LH_OK;
}

lh_status lh_tpl_text_part(lh_tpl_pool *pool, const lh_tpl_text *text, int64_t from, int64_t until, lh_tpl_value *out)
{
    lh_tpl_text part = {.data = text->data + from, .bytes = until - from};
    LH_TRY(cut_spans(pool, text, from, until, &part));
    return make(pool, part, out);
}

/* Byte of the `i`-th character, from a character known to be at byte *at. */
static int64_t seek(const lh_tpl_text *text, int64_t known, int64_t at, int64_t i)
{
    for (; known < i && at < text->bytes; known++) at += lh_tpl_character(text, at);
    return at;
}

lh_status lh_tpl_text_slice(lh_tpl_pool *pool, const lh_tpl_text *text, int64_t from, int64_t step, int64_t n,
                            lh_tpl_value *out)
{
    lh_tpl_builder b = {0};
    LH_TRY(lh_tpl_step(pool, text->bytes / 16));
    if (n <= 0) return lh_tpl_text_part(pool, text, 0, 0, out);
    if (step == 1) {
        int64_t start = seek(text, 0, 0, from);
        return lh_tpl_text_part(pool, text, start, seek(text, from, start, from + n), out);
    }
    for (int64_t i = 0; i < n; i++) { /* rare: characters one by one, each sought from the beginning */
        lh_tpl_value c;
        int64_t at = seek(text, 0, 0, from + i * step);
        LH_TRY(lh_tpl_step(pool, 1 + at / 16));
        LH_TRY(lh_tpl_text_part(pool, text, at, at + lh_tpl_character(text, at), &c));
        LH_TRY(lh_tpl_append(pool, &b, c.text));
    }
    return lh_tpl_built(pool, &b, out);
}

lh_status lh_tpl_text_find(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *part, int64_t from,
                           int64_t *at)
{
    *at = -1;
    if (part->bytes > text->bytes - from) return LH_OK;
    if (part->bytes == 0) {
        *at = from;
        return LH_OK;
    }
    const char *found = memmem(text->data + from, (size_t)(text->bytes - from), part->data, (size_t)part->bytes);
    if (found) *at = found - text->data;
    return lh_tpl_step(pool, ((found ? *at : text->bytes) - from) / 64);
}

/* 1 if the character of `bytes` at `at` is one to strip. */
static int strips(const lh_tpl_text *text, int64_t at, int64_t bytes, const lh_tpl_text *set)
{
    uint32_t cp;
    int skip;
    if (!set) return lh_utf8_read(text->data + at, text->bytes - at, &cp, &skip) && lh_char_is_python_space(cp);
    return set->bytes && memmem(set->data, (size_t)set->bytes, text->data + at, (size_t)bytes) != NULL;
}

lh_status lh_tpl_text_strip(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *set, int sides,
                            lh_tpl_value *out)
{
    int64_t from = 0, until = text->bytes;
    while ((sides & 1) && from < until) {
        int64_t bytes = lh_tpl_character(text, from);
        if (!strips(text, from, bytes, set)) break;
        from += bytes;
    }
    while ((sides & 2) && until > from) {
        int64_t at = until - 1;
        while (at > from && ((unsigned char)text->data[at] & 0xC0) == 0x80) at--;
        if (!strips(text, at, until - at, set)) break;
        until = at;
    }
    LH_TRY(lh_tpl_step(pool, (text->bytes - (until - from)) / 16));
    return lh_tpl_text_part(pool, text, from, until, out);
}

/* ---- growing texts ---- */

static lh_status grow(lh_tpl_pool *pool, void *array, int64_t used, int64_t *cap, int64_t need, int64_t size)
{
    void *more;
    if (need <= *cap) return LH_OK;
    int64_t room = 2 * *cap > need ? 2 * *cap : need;
    LH_TRY(lh_tpl_alloc(pool, &more, room, size));
    if (used) memcpy(more, *(void **)array, (size_t)(used * size));
    *(void **)array = more;
    *cap = room;
    return LH_OK;
}

lh_status lh_tpl_append_bytes(lh_tpl_pool *pool, lh_tpl_builder *b, const char *data, int64_t bytes)
{
    LH_TRY(lh_tpl_step(pool, bytes / 64));
    LH_TRY(grow(pool, &b->data, b->bytes, &b->cap, b->bytes + bytes, 1));
    if (bytes) memcpy(b->data + b->bytes, data, (size_t)bytes);
    b->bytes += bytes;
    return LH_OK;
}

lh_status lh_tpl_append(lh_tpl_pool *pool, lh_tpl_builder *b, const lh_tpl_text *text)
{
    int64_t start = b->bytes;
    LH_TRY(lh_tpl_append_bytes(pool, b, text->data, text->bytes));
    LH_TRY(lh_tpl_step(pool, text->span_count / 16));
    LH_TRY(grow(pool, &b->spans, b->span_count, &b->span_cap, b->span_count + text->span_count, sizeof *b->spans));
    for (int64_t i = 0; i < text->span_count; i++) {
        lh_tpl_span s = text->spans[i], *last = b->span_count ? &b->spans[b->span_count - 1] : NULL;
        s.start += start;
        if (last && last->message == s.message && last->start + last->bytes == s.start &&
            (s.message < 0 || last->skipped + last->bytes == s.skipped))
            last->bytes += s.bytes; /* goes on where it ended, as a text that is taken apart character by character */
        else
            b->spans[b->span_count++] = s;
    }
    return LH_OK;
}

lh_status lh_tpl_built(lh_tpl_pool *pool, const lh_tpl_builder *b, lh_tpl_value *out)
{
    return make(pool, (lh_tpl_text){b->data, b->bytes, b->spans, b->span_count}, out);
}
