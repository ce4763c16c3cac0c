/* json.h - reading foreign JSON with jansson, with messages that name the file and the member.
 * Ownership is jansson's: json_decref what lh_json_parse and lh_json_read return. */
#ifndef LH_BASE_JSON_H
#define LH_BASE_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

/* `name` is what messages call the text. Fails with LH_EINPUT, naming line and column; NUL inside strings,
 * integers up to 2^63 and duplicate keys (the last one wins) are allowed. */
lh_status lh_json_parse(json_t **out, const char *name, const void *text, int64_t bytes);
lh_status lh_json_read(json_t **out, const char *path, int64_t limit_bytes);

/* Typed members of `object`. When the member is absent or null, *out keeps what it held: set the default
 * before. A member of another type, or a number outside [min, max], fails with LH_EINPUT. `name` is what
 * messages call the object. Strings are borrowed. */
lh_status lh_json_i64(const json_t *object, const char *name, const char *key, int64_t min, int64_t max, int64_t *out);
lh_status lh_json_f64(const json_t *object, const char *name, const char *key, double *out);
lh_status lh_json_bool(const json_t *object, const char *name, const char *key, int *out);
lh_status lh_json_string(const json_t *object, const char *name, const char *key, const char **out);

/* A JSON string of text that may be no UTF-8: what is none becomes U+FFFD, as a decoder that replaces does it (one for
 * every maximal part of a character). New reference; NULL when memory is out. */
json_t *lh_json_text(const char *text, int64_t bytes);

#endif
