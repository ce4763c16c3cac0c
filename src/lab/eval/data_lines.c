#include "lab/eval/data_lines.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/text_check.h"

static const int64_t DATA_BYTES = INT64_C(1) << 32;

lh_status lh_data_text(char **out, const lh_data_line *line, const json_t *value, const char *what)
{
    const char *text = json_string_value(value);
    if (!text) LH_FAIL(LH_EINPUT, "%s: %s must be a text", line->where, what);
    if (strlen(text) != json_string_length(value)) LH_FAIL(LH_EINPUT, "%s: %s holds a zero byte", line->where, what);
    return lh_strdup(out, text);
}

lh_status lh_data_texts(char ***out, int64_t *n, const lh_data_line *line, const json_t *list, const char *what)
{
    const int64_t all = (int64_t)json_array_size(list);
    *n = 0;
    LH_TRY(lh_calloc(out, all ? all : 1, sizeof **out));
    for (; *n < all; (*n)++) LH_TRY(lh_data_text(&(*out)[*n], line, json_array_get(list, (size_t)*n), what));
    return LH_OK;
}

lh_status lh_data_id(char **out, const lh_data_line *line)
{
    const json_t *id = json_object_get(line->object, "id");
    if (json_is_string(id)) return lh_strdup(out, json_string_value(id));
    if (json_is_integer(id)) return lh_asprintf(out, "%lld", (long long)json_integer_value(id));
    return lh_asprintf(out, "%lld", (long long)line->number);
}

static lh_status take_line(const char *path, int64_t number, const lh_buf *text, lh_data_taker take, void *self)
{
    lh_status st = LH_OK;
    json_t *object = NULL;
    char *where = NULL;
    LH_TRY_DONE(lh_asprintf(&where, "line %lld of '%s'", (long long)number, path));
    LH_TRY_DONE(lh_json_parse_line(&object, where, text->data, text->bytes));
    LH_TRY_DONE(take(self, &(lh_data_line){object, where, number}));
done:
    json_decref(object);
    lh_free(where);
    return st;
}

/* LH_EINPUT where the file has no JSON lines (text/text_check.h), or, naming the line and its byte, holds a zero byte.
 */
static lh_status check_text(const lh_buf *text, const char *path)
{
    LH_TRY(lh_text_check_lines(path, text->data, text->bytes));
    const char *zero = text->bytes ? memchr(text->data, '\0', (size_t)text->bytes) : NULL, *start = text->data;
    int64_t line = 1;
    if (!zero) return LH_OK;
    for (const char *at = text->data; at < zero; at++) {
        if (*at != '\n') continue;
        line++;
        start = at + 1;
    }
    LH_FAIL(LH_EINPUT, "line %lld of '%s': byte %lld is a zero byte: it is not text", (long long)line, path,
            (long long)(zero - start + 1));
}

lh_status lh_data_lines_read(const char *path, int64_t max, uint64_t *hash, lh_data_taker take, void *self)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    int64_t number = 0, taken = 0;
    LH_TRY_DONE(lh_file_read(&text, path, DATA_BYTES));
    LH_TRY_DONE(check_text(&text, path));
    *hash = lh_hash64(text.data, text.bytes);
    for (char *at = text.data, *end; at && *at && (max == 0 || taken < max); at = *end ? end + 1 : end) {
        end = at + strcspn(at, "\n");
        number++;
        if (strspn(at, " \t\r") >= (size_t)(end - at)) continue;
        LH_TRY_DONE(take_line(path, number, &(lh_buf){.data = at, .bytes = end - at}, take, self));
        taken++;
    }
done:
    lh_buf_clear(&text);
    return st;
}
