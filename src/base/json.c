#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"

lh_status lh_json_parse(json_t **out, const char *name, const void *text, int64_t bytes)
{
    json_error_t error;
    json_t *value = json_loadb(text, (size_t)bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!value)
        LH_FAIL(LH_EINPUT, "'%s' is not valid JSON: line %d, column %d: %s", name, error.line, error.column,
                error.text);
    *out = value;
    return LH_OK;
}

lh_status lh_json_read(json_t **out, const char *path, int64_t limit_bytes)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_file_read(&text, path, limit_bytes));
    LH_TRY_DONE(lh_json_parse(out, path, text.data ? text.data : "", text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value) ? value : NULL;
}

lh_status lh_json_i64(const json_t *object, const char *name, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = member(object, key);
    if (!value) return LH_OK;
    if (!json_is_integer(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' must be a whole number", name, key);
    int64_t i = json_integer_value(value);
    if (i < min || i > max)
        LH_FAIL(LH_EINPUT, "'%s': '%s' is %lld, it must be between %lld and %lld", name, key, (long long)i,
                (long long)min, (long long)max);
    *out = i;
    return LH_OK;
}

lh_status lh_json_f64(const json_t *object, const char *name, const char *key, double *out)
{
    const json_t *value = member(object, key);
    if (!value) return LH_OK;
    if (!json_is_number(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' must be a number", name, key);
    *out = json_number_value(value);
    return LH_OK;
}

lh_status lh_json_bool(const json_t *object, const char *name, const char *key, int *out)
{
    const json_t *value = member(object, key);
    if (!value) return LH_OK;
    if (!json_is_boolean(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' must be true or false", name, key);
    *out = json_is_true(value);
    return LH_OK;
}

lh_status lh_json_string(const json_t *object, const char *name, const char *key, const char **out)
{
    const json_t *value = member(object, key);
    if (!value) return LH_OK;
    if (!json_is_string(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' must be a string", name, key);
    *out = json_string_value(value);
    return LH_OK;
}

/* Bytes of the character that begins at `text`; negative: the bytes there are none, as many are to be replaced. */
static int64_t utf8_character(const unsigned char *text, int64_t bytes)
{
    static const struct {
        unsigned char first, last, low, high; /* leading bytes, and what the second may be: Unicode 15, table 3-7 */
        int more;
    } forms[] = {{0x00, 0x7f, 0x80, 0xbf, 0}, {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
                 {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2},
                 {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        if (text[0] < forms[f].first || text[0] > forms[f].last) continue;
        for (int64_t i = 1; i <= forms[f].more; i++) {
            unsigned char low = i == 1 ? forms[f].low : 0x80, high = i == 1 ? forms[f].high : 0xbf;
            if (i >= bytes || text[i] < low || text[i] > high) return -i;
        }
        return forms[f].more + 1;
    }
    return -1;
}

json_t *lh_json_text(const char *text, int64_t bytes)
{
    json_t *value = json_stringn(text, (size_t)bytes);
    lh_buf clean = {0};
    lh_status st = LH_OK;
    for (int64_t at = 0; !value && at < bytes && st == LH_OK;) {
        int64_t n = utf8_character((const unsigned char *)text + at, bytes - at);
        st = n > 0 ? lh_buf_append(&clean, text + at, n) : lh_buf_puts(&clean, "\xef\xbf\xbd");
        at += n > 0 ? n : -n;
    }
    if (!value && st == LH_OK) value = json_stringn(clean.data ? clean.data : "", (size_t)clean.bytes);
    lh_buf_clear(&clean);
    return value;
}
