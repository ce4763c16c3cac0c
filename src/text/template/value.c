/* value.c - a template's pool, its texts with their spans, and comparison and containers of its values. */
#include "text/template/value.h"

#include <string.h>
#include <utf8proc.h>

#include "base/unicode.h"

/* ---- memory, steps and depth ---- */

enum { BLOCK_BYTES = 1 << 14, ALIGN = 16, DEPTH = 400 };

struct lh_tpl_block {
    lh_tpl_block *next;
    int64_t used, bytes;
    _Alignas(ALIGN) char data[];
};

lh_status lh_tpl_alloc(lh_tpl_pool *pool, void *out, int64_t count, int64_t size)
{
    lh_tpl_block *b = pool->blocks;
    if (count < 0 || count > pool->bytes_left / size)
        LH_FAIL(LH_EINPUT, "it takes more memory than a chat template may");
    int64_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
    if (!b || b->bytes - b->used < bytes) {
        int64_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        LH_TRY(lh_calloc(&b, 1, (int64_t)sizeof *b + room));
        b->bytes = room;
        b->next = pool->blocks;
        pool->blocks = b;
    }
    const void *p = b->data + b->used;
    memcpy(out, &p, sizeof p);
    b->used += bytes;
    pool->bytes_left -= bytes;
    return LH_OK;
}

lh_status lh_tpl_step(lh_tpl_pool *pool, int64_t steps)
{
    pool->steps_left -= steps;
    if (pool->steps_left < 0) LH_FAIL(LH_EINPUT, "it takes more steps than a chat template may");
    return LH_OK;
}

lh_status lh_tpl_enter(lh_tpl_pool *pool)
{
    LH_TRY(lh_tpl_step(pool, 1));
    if (pool->depth >= DEPTH) LH_FAIL(LH_EINPUT, "it is nested deeper than %d levels", DEPTH);
    pool->depth++;
    return LH_OK;
}

void lh_tpl_pool_clear(lh_tpl_pool *pool)
{
    while (pool->blocks) {
        lh_tpl_block *next = pool->blocks->next;
        lh_free(pool->blocks);
        pool->blocks = next;
    }
}

/* ---- texts ---- */

static lh_status make(lh_tpl_pool *pool, lh_tpl_text text, lh_tpl_value *out)
{
    lh_tpl_text *t = NULL;
    LH_TRY(lh_tpl_alloc(pool, &t, 1, sizeof *t));
    *t = text;
    *out = (lh_tpl_value){.kind = LH_TPL_TEXT, .text = t};
    return LH_OK;
}

static lh_status one_span(lh_tpl_pool *pool, lh_tpl_text *text, int message)
{
    lh_tpl_span *span = NULL;
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

lh_status lh_tpl_text_content(lh_tpl_pool *pool, const char *data, int message, lh_tpl_value *out)
{
    lh_tpl_text text = {.data = data, .bytes = (int64_t)strlen(data)};
    LH_TRY(one_span(pool, &text, message)); /* also an empty one: the place of the contents */
    return make(pool, text, out);
}

lh_status lh_tpl_text_from(lh_tpl_pool *pool, const char *data, int64_t bytes, const lh_tpl_text *of, lh_tpl_value *out)
{
    char *copy = NULL;
    LH_TRY(lh_tpl_step(pool, bytes / 64));
    LH_TRY(lh_tpl_alloc(pool, &copy, bytes, 1));
    if (bytes) memcpy(copy, data, (size_t)bytes);
    lh_tpl_text text = {.data = copy, .bytes = bytes};
    if (of->span_count) LH_TRY(one_span(pool, &text, -1));
    return make(pool, text, out);
}

int lh_tpl_text_is(const lh_tpl_text *text, const char *data, int64_t bytes)
{
    return text->bytes == bytes && (bytes == 0 || memcmp(text->data, data, (size_t)bytes) == 0);
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
            last->bytes += s.bytes; /* continues the span, such as in a text that is split into characters */
        else
            b->spans[b->span_count++] = s;
    }
    return LH_OK;
}

lh_status lh_tpl_built(lh_tpl_pool *pool, const lh_tpl_builder *b, lh_tpl_value *out)
{
    return make(pool, (lh_tpl_text){b->data, b->bytes, b->spans, b->span_count}, out);
}

/* ---- replacing, splitting, joining, case ---- */

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

/* Bytes of a character of white space at `at`; 0: none. */
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

/* ---- values ---- */

lh_tpl_value lh_tpl_arg(const lh_tpl_args *args, int64_t i, const char *name)
{
    if (i >= 0 && i < args->n) return args->at[i];
    for (int64_t k = 0; name && k < args->named; k++)
        if (strcmp(args->names[k], name) == 0) return args->named_at[k];
    return lh_tpl_undefined(name);
}

const char *lh_tpl_type(lh_tpl_value v)
{
    static const char *const names[] = {"Undefined", "NoneType", "bool",      "int",      "str",
                                        "list",      "dict",     "Namespace", "function", "macro"};
    return names[v.kind];
}

int lh_tpl_true(lh_tpl_value v)
{
    switch (v.kind) {
    case LH_TPL_UNDEFINED:
    case LH_TPL_NONE: return 0;
    case LH_TPL_BOOL:
    case LH_TPL_INT: return v.i != 0;
    case LH_TPL_TEXT: return v.text->bytes > 0;
    case LH_TPL_LIST: return v.list->n > 0;
    case LH_TPL_DICT: return v.dict->keys.n > 0;
    default: return 1;
    }
}

static lh_status equal_lists(lh_tpl_pool *pool, const lh_tpl_list *a, const lh_tpl_list *b, int *out)
{
    *out = a->n == b->n;
    for (int64_t i = 0; *out && i < a->n; i++) LH_TRY(lh_tpl_equal(pool, a->at[i], b->at[i], out));
    return LH_OK;
}

static lh_status equal_dicts(lh_tpl_pool *pool, const lh_tpl_dict *a, const lh_tpl_dict *b, int *out)
{
    *out = a->keys.n == b->keys.n;
    for (int64_t i = 0; *out && i < a->keys.n; i++) {
        lh_tpl_value other;
        LH_TRY(lh_tpl_dict_get(pool, b, a->keys.at[i], &other, out));
        if (*out) LH_TRY(lh_tpl_equal(pool, a->values.at[i], other, out));
    }
    return LH_OK;
}

static lh_status equal_values(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out)
{
    if (lh_tpl_is_number(a) && lh_tpl_is_number(b)) {
        *out = a.i == b.i;
        return LH_OK;
    }
    *out = 0;
    if (a.kind != b.kind) return LH_OK;
    switch (a.kind) {
    case LH_TPL_TEXT:
        LH_TRY(lh_tpl_step(pool, a.text->bytes / 64));
        *out = lh_tpl_text_is(a.text, b.text->data, b.text->bytes);
        return LH_OK;
    case LH_TPL_LIST: return equal_lists(pool, a.list, b.list, out);
    case LH_TPL_DICT: return equal_dicts(pool, a.dict, b.dict, out);
    case LH_TPL_NAMESPACE: *out = a.dict == b.dict; return LH_OK;
    case LH_TPL_FUNCTION: *out = a.function == b.function; return LH_OK;
    case LH_TPL_MACRO: *out = a.macro == b.macro; return LH_OK;
    default: *out = 1; return LH_OK;
    }
}

/* No value contains itself: lists and dictionaries are made whole, and members of a namespace are not compared. */
lh_status lh_tpl_equal(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out)
{
    LH_TRY(lh_tpl_enter(pool));
    return lh_tpl_leave(pool, equal_values(pool, a, b, out));
}

static lh_status compare_values(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out)
{
    if (lh_tpl_is_number(a) && lh_tpl_is_number(b)) {
        *out = (a.i > b.i) - (a.i < b.i);
        return LH_OK;
    }
    if (a.kind == LH_TPL_TEXT && b.kind == LH_TPL_TEXT) {
        int64_t n = a.text->bytes < b.text->bytes ? a.text->bytes : b.text->bytes;
        LH_TRY(lh_tpl_step(pool, n / 64));
        *out = n ? memcmp(a.text->data, b.text->data, (size_t)n) : 0;
        if (*out == 0) *out = (a.text->bytes > b.text->bytes) - (a.text->bytes < b.text->bytes);
        return LH_OK;
    }
    if (a.kind == LH_TPL_LIST && b.kind == LH_TPL_LIST) {
        for (int64_t i = 0; i < a.list->n && i < b.list->n; i++) {
            LH_TRY(lh_tpl_compare(pool, a.list->at[i], b.list->at[i], out));
            if (*out) return LH_OK;
        }
        *out = (a.list->n > b.list->n) - (a.list->n < b.list->n);
        return LH_OK;
    }
    LH_FAIL(LH_EINPUT, "values of the types '%s' and '%s' have no order", lh_tpl_type(a), lh_tpl_type(b));
}

lh_status lh_tpl_compare(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out)
{
    LH_TRY(lh_tpl_enter(pool));
    return lh_tpl_leave(pool, compare_values(pool, a, b, out));
}

/* ---- lists and dictionaries ---- */

lh_status lh_tpl_list_make(lh_tpl_pool *pool, lh_tpl_value *out)
{
    *out = (lh_tpl_value){.kind = LH_TPL_LIST};
    return lh_tpl_alloc(pool, &out->list, 1, sizeof *out->list);
}

lh_status lh_tpl_list_push(lh_tpl_pool *pool, lh_tpl_list *list, lh_tpl_value value)
{
    if (list->n == list->cap) {
        int64_t cap = list->cap ? 2 * list->cap : 4;
        lh_tpl_value *at;
        LH_TRY(lh_tpl_alloc(pool, &at, cap, sizeof *at));
        if (list->n) memcpy(at, list->at, (size_t)list->n * sizeof *at);
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = value;
    return lh_tpl_step(pool, 1);
}

lh_status lh_tpl_dict_make(lh_tpl_pool *pool, lh_tpl_value *out, lh_tpl_kind kind)
{
    *out = (lh_tpl_value){.kind = kind};
    return lh_tpl_alloc(pool, &out->dict, 1, sizeof *out->dict);
}

static lh_status find_key(lh_tpl_pool *pool, const lh_tpl_dict *dict, lh_tpl_value key, int64_t *at)
{
    for (*at = 0; *at < dict->keys.n; ++*at) {
        int same;
        LH_TRY(lh_tpl_equal(pool, dict->keys.at[*at], key, &same));
        if (same) return LH_OK;
    }
    *at = -1;
    return LH_OK;
}

lh_status lh_tpl_dict_put(lh_tpl_pool *pool, lh_tpl_dict *dict, lh_tpl_value key, lh_tpl_value value)
{
    int64_t at;
    if (key.kind == LH_TPL_LIST || key.kind == LH_TPL_DICT)
        LH_FAIL(LH_EINPUT, "a value of the type '%s' cannot be a key", lh_tpl_type(key));
    LH_TRY(find_key(pool, dict, key, &at));
    if (at >= 0) {
        dict->values.at[at] = value;
        return LH_OK;
    }
    LH_TRY(lh_tpl_list_push(pool, &dict->keys, key));
    return lh_tpl_list_push(pool, &dict->values, value);
}

lh_status lh_tpl_dict_get(lh_tpl_pool *pool, const lh_tpl_dict *dict, lh_tpl_value key, lh_tpl_value *out, int *found)
{
    int64_t at;
    LH_TRY(find_key(pool, dict, key, &at));
    *found = at >= 0;
    if (*found) *out = dict->values.at[at];
    return LH_OK;
}

lh_tpl_value *lh_tpl_dict_named(const lh_tpl_dict *dict, const char *name)
{
    const int64_t bytes = (int64_t)strlen(name);
    for (int64_t i = 0; i < dict->keys.n; i++)
        if (dict->keys.at[i].kind == LH_TPL_TEXT && lh_tpl_text_is(dict->keys.at[i].text, name, bytes))
            return &dict->values.at[i];
    return NULL;
}

lh_status lh_tpl_items(lh_tpl_pool *pool, lh_tpl_value v, lh_tpl_list *out)
{
    *out = (lh_tpl_list){0};
    switch (v.kind) {
    case LH_TPL_UNDEFINED: return LH_OK;
    case LH_TPL_LIST: *out = *v.list; break;
    case LH_TPL_DICT: *out = v.dict->keys; break;
    case LH_TPL_TEXT:
        for (int64_t at = 0, bytes; at < v.text->bytes; at += bytes) {
            lh_tpl_value c;
            bytes = lh_tpl_character(v.text, at);
            LH_TRY(lh_tpl_text_part(pool, v.text, at, at + bytes, &c));
            LH_TRY(lh_tpl_list_push(pool, out, c));
        }
        break;
    default: LH_FAIL(LH_EINPUT, "a value of the type '%s' cannot be iterated over", lh_tpl_type(v));
    }
    return LH_OK;
}

lh_status lh_tpl_contains(lh_tpl_pool *pool, lh_tpl_value in, lh_tpl_value item, int *out)
{
    int64_t at;
    *out = 0;
    switch (in.kind) {
    case LH_TPL_UNDEFINED: return LH_OK;
    case LH_TPL_TEXT:
        if (item.kind != LH_TPL_TEXT)
            LH_FAIL(LH_EINPUT, "'in' a text needs a text on its left, not a value of the type '%s'", lh_tpl_type(item));
        LH_TRY(lh_tpl_text_find(pool, in.text, item.text, 0, &at));
        *out = at >= 0;
        return LH_OK;
    case LH_TPL_LIST:
        for (int64_t i = 0; i < in.list->n && !*out; i++) LH_TRY(lh_tpl_equal(pool, in.list->at[i], item, out));
        return LH_OK;
    case LH_TPL_DICT:
        LH_TRY(find_key(pool, in.dict, item, &at));
        *out = at >= 0;
        return LH_OK;
    default: LH_FAIL(LH_EINPUT, "a value of the type '%s' contains nothing", lh_tpl_type(in));
    }
}

lh_status lh_tpl_need_text(lh_tpl_value v, const char *who)
{
    if (v.kind == LH_TPL_UNDEFINED && v.name) LH_FAIL(LH_EINPUT, "'%.60s' is undefined", v.name);
    if (v.kind != LH_TPL_TEXT)
        LH_FAIL(LH_EINPUT, "'%s' needs a text, not a value of the type '%s'", who, lh_tpl_type(v));
    return LH_OK;
}

lh_status lh_tpl_need_int(lh_tpl_value v, const char *who)
{
    if (v.kind != LH_TPL_INT && v.kind != LH_TPL_BOOL)
        LH_FAIL(LH_EINPUT, "'%s' needs an integer, not a value of the type '%s'", who, lh_tpl_type(v));
    return LH_OK;
}

lh_tpl_call lh_tpl_find_row(const lh_tpl_row *rows, const char *name)
{
    for (; rows && rows->name; rows++)
        if (strcmp(rows->name, name) == 0) return rows->call;
    return NULL;
}
