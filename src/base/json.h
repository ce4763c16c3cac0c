/* json.h - reads foreign JSON with jansson; messages name the file and the member.
 * Ownership is jansson's: json_decref what lh_json_parse and lh_json_read return. */
#ifndef LH_BASE_JSON_H
#define LH_BASE_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* `name` stands for the text in messages. Fails with LH_EINPUT, naming line and column; NUL inside strings,
 * integers up to 2^63 and duplicate keys (the last one wins) are allowed. */
lh_status lh_json_parse(json_t **out, const char *name, const void *text, int64_t bytes);
lh_status lh_json_read(json_t **out, const char *path, int64_t limit_bytes);

/* The same for JSON that a person wrote: a repeated member is refused, because one of its values would be dropped. */
lh_status lh_json_parse_asked(json_t **out, const char *name, const void *text, int64_t bytes);

/* The same for a line of a file; `where` is its place, such as "line 3 of 'x.jsonl'". */
lh_status lh_json_parse_line(json_t **out, const char *where, const void *text, int64_t bytes);

/* A member, borrowed; NULL if it is absent or null. */
const json_t *lh_json_member(const json_t *object, const char *key);

/* Typed members of `object`. If the member is absent or null, *out keeps its value: set the default before. A member
 * of another type, or a number outside [min, max], fails with LH_EINPUT. `name` stands for the object in messages.
 * Strings are borrowed. */
lh_status lh_json_i64(const json_t *object, const char *name, const char *key, int64_t min, int64_t max, int64_t *out);
lh_status lh_json_f64(const json_t *object, const char *name, const char *key, double *out);
lh_status lh_json_bool(const json_t *object, const char *name, const char *key, int *out);
lh_status lh_json_string(const json_t *object, const char *name, const char *key, const char **out);

/* Append JSON text [bytes] that controls no terminal: DEL and the C1 controls, which JSON allows in strings, become
 * escapes, and bytes that are not UTF-8 become U+FFFD. The value stays the same. */
lh_status lh_json_put_plain(lh_buf *out, const char *json, int64_t bytes);

/* Set a member; the reference to `value` is taken, also by a failure. LH_ENOMEM, also if `value` is NULL. */
lh_status lh_json_set(json_t *object, const char *key, json_t *value);

/* *out: `value` as text, with jansson's flags; lh_free. */
lh_status lh_json_dump(char **out, const json_t *value, size_t flags);

/* A JSON string from text that need not be UTF-8: invalid bytes become U+FFFD (lh_utf8_append). New reference; NULL if
 * out of memory. */
json_t *lh_json_text(const char *text, int64_t bytes);

#endif
