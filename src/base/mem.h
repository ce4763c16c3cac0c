/* mem.h - host memory for small objects; models and caches are allocated through device/device.h, which accounts for
 * them. Sizes are checked: a negative count or a product above 2^62 fails with LH_ENOMEM. */
#ifndef LH_BASE_MEM_H
#define LH_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* *out = `count` zeroed elements of `size` bytes; never NULL on success, also for count 0. */
lh_status lh_calloc(void *out, int64_t count, int64_t size);

/* Resize *inout to `count` elements of `size` bytes, keeping its contents; new bytes are uninitialised. */
lh_status lh_realloc(void *inout, int64_t count, int64_t size);

/* Copy of a string; with `bytes` >= 0 its first `bytes` bytes and a NUL. */
lh_status lh_strdup(char **out, const char *text);
lh_status lh_strndup(char **out, const char *text, int64_t bytes);

/* printf into a new string. */
lh_status lh_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* LH_ENOMEM, naming `what`, unless the process can allocate `bytes` more bytes. Call it before libraries that crash,
 * or blame a file, when an allocation fails. */
lh_status lh_mem_check(const char *what, int64_t bytes);

/* Growable bytes; all zero is empty. `data` is NUL-terminated after any append. */
typedef struct lh_buf {
    char *data;
    int64_t bytes, cap_bytes;
} lh_buf;

lh_status lh_buf_append(lh_buf *buf, const void *data, int64_t bytes);
lh_status lh_buf_puts(lh_buf *buf, const char *text);
lh_status lh_buf_printf(lh_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lh_buf_clear(lh_buf *buf); /* frees */

/* A growing list of token ids; all zero is empty. */
typedef struct lh_tokens {
    int32_t *ids;
    int64_t n, cap;
} lh_tokens;

lh_status lh_tokens_push(lh_tokens *tokens, int32_t id);
void lh_tokens_clear(lh_tokens *tokens); /* frees */

/* Append text; U+FFFD replaces invalid bytes. */
lh_status lh_utf8_append(lh_buf *buf, const char *text, int64_t bytes);

/* Remove a byte order mark at data[from]: some editors write U+FEFF before UTF-8, and it is not part of the text. */
void lh_text_drop_mark(lh_buf *buf, int64_t from);

#endif
