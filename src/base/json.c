/* json.c - parses JSON with jansson and reads typed members. */
#include "base/json.h"

#include "base/file.h"
#include "base/unicode.h"

/* ASKED: for JSON that a person wrote. */
enum { FLAGS = JSON_ALLOW_NUL | JSON_DECODE_ANY, ASKED = FLAGS | JSON_REJECT_DUPLICATES };

static lh_status parse(json_t **out, const char *name, const void *text, int64_t bytes, size_t flags)
{
    json_error_t error;
    json_t *value = json_loadb(text, (size_t)bytes, flags, &error);
    if (!value)
        LH_FAIL(LH_EINPUT, "'%s' is not valid JSON: line %d, column %d: %s", name, error.line, error.column,
                error.text);
    *out = value;
    return LH_OK;
}

lh_status lh_json_parse(json_t **out, const char *name, const void *text, int64_t bytes)
{
    return parse(out, name, text, bytes, FLAGS);
}

lh_status lh_json_parse_asked(json_t **out, const char *name, const void *text, int64_t bytes)
{
    return parse(out, name, text, bytes, ASKED);
}

lh_status lh_json_parse_line(json_t **out, const char *where, const void *text, int64_t bytes)
{
    json_error_t error;
    *out = json_loadb(text, (size_t)bytes, ASKED, &error);
    if (!*out) LH_FAIL(LH_EINPUT, "%s is not a JSON value by itself: column %d: %s", where, error.column, error.text);
    return LH_OK;
}

lh_status lh_json_read(json_t **out, const char *path, int64_t limit_bytes)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_file_read_regular(&text, path, limit_bytes));
    LH_TRY_DONE(lh_json_parse(out, path, text.data ? text.data : "", text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

const json_t *lh_json_member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value) ? value : NULL;
}

lh_status lh_json_i64(const json_t *object, const char *name, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = lh_json_member(object, key);
    if (!value) return LH_OK;
    if (!json_is_integer(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' must be an integer", name, key);
    int64_t i = json_integer_value(value);
    if (i < min || i > max)
        LH_FAIL(LH_EINPUT, "'%s': '%s' is %lld, it must be between %lld and %lld", name, key, (long long)i,
                (long long)min, (long long)max);
    *out = i;
    return LH_OK;
}

lh_status lh_json_f64(const json_t *object, const char *name, const char *key, double *out)
{
    const json_t *value = lh_json_member(object, key);
    if (!value) return LH_OK;
    if (!json_is_number(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' must be a number", name, key);
    *out = json_number_value(value);
    return LH_OK;
}

lh_status lh_json_bool(const json_t *object, const char *name, const char *key, int *out)
{
    const json_t *value = lh_json_member(object, key);
    if (!value) return LH_OK;
    if (!json_is_boolean(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' must be true or false", name, key);
    *out = json_is_true(value);
    return LH_OK;
}

lh_status lh_json_string(const json_t *object, const char *name, const char *key, const char **out)
{
    const json_t *value = lh_json_member(object, key);
    if (!value) return LH_OK;
    if (!json_is_string(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' must be a string", name, key);
    *out = json_string_value(value);
    return LH_OK;
}

lh_status lh_json_set(json_t *object, const char *key, json_t *value)
{
    if (!value || json_object_set_new(object, key, value) != 0)
        LH_FAIL(LH_ENOMEM, "cannot allocate memory for '%s' as JSON", key);
    return LH_OK;
}

lh_status lh_json_dump(char **out, const json_t *value, size_t flags)
{
    *out = json_dumps(value, flags);
    if (!*out) LH_FAIL(LH_ENOMEM, "cannot allocate memory for JSON text");
    return LH_OK;
}

json_t *lh_json_text(const char *text, int64_t bytes)
{
    json_t *value = json_stringn(text, (size_t)bytes);
    lh_buf clean = {0};
    if (!value && lh_utf8_append(&clean, text, bytes) == LH_OK)
        value = json_stringn(clean.data ? clean.data : "", (size_t)clean.bytes);
    lh_buf_clear(&clean);
    return value;
}

lh_status lh_json_put_plain(lh_buf *out, const char *json, int64_t bytes)
{
    int64_t good = 0; /* bytes before here are in `out` */
    uint32_t cp;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip) {
        const int valid = lh_utf8_read(json + at, bytes - at, &cp, &skip) != 0;
        if (valid && (cp < 0x7F || cp >= 0xA0)) continue;
        LH_TRY(lh_buf_append(out, json + good, at - good));
        LH_TRY(lh_buf_printf(out, "\\u%04x", (unsigned)cp));
        good = at + skip;
    }
    return lh_buf_append(out, json + good, bytes - good);
}
