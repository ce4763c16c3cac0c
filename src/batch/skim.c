/* skim.c - passes over JSON values; strings, which are most of a line, eight bytes at a time. */
#include "batch/skim.h"

#include <jansson.h>
#include <string.h>

#include "base/unicode.h"

/* 1 if one of eight bytes ends a string, begins an escape or is a control character (0x00 to 0x1F): each test borrows
 * into the top bit of a byte, and may also do so above a byte that it found, never below one. */
static int has_special(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    const uint64_t quote = word ^ ones * '"', escape = word ^ ones * '\\';
    return (((quote - ones) & ~quote) | ((escape - ones) & ~escape) | ((word - ones * 0x20) & ~word)) & tops ? 1 : 0;
}

/* What follows the string that begins at `at`; NULL if it is not closed. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++;;) {
        uint64_t word;
        for (; end - at >= 8; at += 8) {
            memcpy(&word, at, sizeof word);
            if (has_special(word)) break;
        }
        while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) at++;
        if (at < end && *at == '"') return at + 1;
        if (end - at < 2 || *at != '\\') return NULL;
        at += 2;
    }
}

static int is_scalar(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
           c == '.';
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
    return at;
}

/* What follows the value that begins at `at`, NULL if there is none. */
static const char *skip_value(const char *at, const char *end)
{
    const char *from = at;
    int64_t depth = 0;
    while (at < end && is_scalar(*at)) at++;
    if (at > from) return at;
    do {
        if (at >= end) return NULL;
        if (*at == '"') {
            at = skip_string(at, end);
            if (!at) return NULL;
            continue;
        }
        if ((unsigned char)*at < 0x20 && *at != '\t' && *at != '\r') return NULL;
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        if (depth <= 0 && *at != '}' && *at != ']') return NULL; /* no value begins so */
        if (depth < 0) return NULL;
        at++;
    } while (depth > 0);
    return at;
}

static int is_name(const lh_skimmed *key, const char *name)
{
    const int64_t bytes = (int64_t)strlen(name);
    lh_buf text = {0};
    if (!memchr(key->text, '\\', (size_t)key->bytes))
        return key->bytes == bytes + 2 && memcmp(key->text + 1, name, (size_t)bytes) == 0;
    const int same = lh_skimmed_text(key, &text) && strcmp(text.data, name) == 0;
    lh_buf_clear(&text);
    return same;
}

int lh_skim(const char *line, int64_t bytes, const char *const *names, lh_skimmed *out)
{
    const char *end = line + bytes, *at = skip_space(line, end);
    for (int i = 0; names[i]; i++) out[i] = (lh_skimmed){0};
    if (at >= end || *at != '{') return 0;
    at = skip_space(at + 1, end);
    if (at < end && *at == '}') return skip_space(at + 1, end) == end;
    for (;;) {
        lh_skimmed key = {at, 0}, value;
        if (at >= end || *at != '"' || !(at = skip_string(at, end))) return 0;
        key.bytes = at - key.text;
        at = skip_space(at, end);
        if (at >= end || *at != ':') return 0;
        value.text = skip_space(at + 1, end);
        at = skip_value(value.text, end);
        if (!at) return 0;
        value.bytes = at - value.text;
        for (int i = 0; names[i]; i++)
            if (is_name(&key, names[i])) out[i] = value;
        at = skip_space(at, end);
        if (at >= end || (*at != ',' && *at != '}')) return 0;
        if (*at == '}') return skip_space(at + 1, end) == end;
        at = skip_space(at + 1, end);
    }
}

int lh_skimmed_text(const lh_skimmed *value, lh_buf *out)
{
    out->bytes = 0;
    if (!value->text || value->bytes < 2 || *value->text != '"') return 0;
    if (!memchr(value->text, '\\', (size_t)value->bytes))
        return lh_utf8_valid(value->text + 1, value->bytes - 2) &&
               lh_buf_append(out, value->text + 1, value->bytes - 2) == LH_OK;
    json_t *text = json_loadb(value->text, (size_t)value->bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    const char *string = json_string_value(text);
    const int64_t bytes = (int64_t)json_string_length(text);
    const int good = string && (int64_t)strlen(string) == bytes && lh_buf_append(out, string, bytes) == LH_OK;
    json_decref(text);
    return good;
}

int lh_skimmed_i64(const lh_skimmed *value, int64_t *out)
{
    json_t *number = value->text ? json_loadb(value->text, (size_t)value->bytes, JSON_DECODE_ANY, NULL) : NULL;
    const int good = json_is_integer(number);
    if (good) *out = json_integer_value(number);
    json_decref(number);
    return good;
}
