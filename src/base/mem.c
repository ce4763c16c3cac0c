/* mem.c - checked allocation on the host, and growable bytes. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/unicode.h"

static lh_status total_bytes(size_t *out, int64_t count, int64_t size)
{
    int64_t total;
    if (count < 0 || size < 0 || __builtin_mul_overflow(count, size, &total) || total > (INT64_C(1) << 62))
        LH_FAIL(LH_ENOMEM, "%lld elements of %lld bytes exceed any memory", (long long)count, (long long)size);
    *out = total ? (size_t)total : 1;
    return LH_OK;
}

lh_status lh_calloc(void *out, int64_t count, int64_t size)
{
    size_t total = 0;
    void *p = NULL;
    LH_TRY(total_bytes(&total, count, size));
    p = calloc(total, 1);
    if (!p) LH_FAIL(LH_ENOMEM, "cannot allocate %.1f MiB of host memory", (double)total / (1 << 20));
    memcpy(out, &p, sizeof p);
    return LH_OK;
}

lh_status lh_realloc(void *inout, int64_t count, int64_t size)
{
    size_t total = 0;
    void *old, *p = NULL;
    memcpy(&old, inout, sizeof old);
    LH_TRY(total_bytes(&total, count, size));
    p = realloc(old, total);
    if (!p) LH_FAIL(LH_ENOMEM, "cannot allocate %.1f MiB of host memory", (double)total / (1 << 20));
    memcpy(inout, &p, sizeof p);
    return LH_OK;
}

lh_status lh_strndup(char **out, const char *text, int64_t bytes)
{
    char *copy = NULL;
    LH_TRY(lh_calloc(&copy, bytes + 1, 1));
    memcpy(copy, text, (size_t)bytes);
    *out = copy;
    return LH_OK;
}

lh_status lh_strdup(char **out, const char *text)
{
    return lh_strndup(out, text, (int64_t)strlen(text));
}

lh_status lh_asprintf(char **out, const char *format, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    LH_TRY(lh_calloc(&text, (int64_t)n + 1, 1));
    va_start(ap, format);
    vsnprintf(text, (size_t)n + 1, format, ap);
    va_end(ap);
    *out = text;
    return LH_OK;
}

void lh_free(void *p)
{
    free(p);
}

static lh_status reserve(lh_buf *buf, int64_t more)
{
    int64_t need = buf->bytes + more + 1;
    if (need > buf->cap_bytes) {
        int64_t cap = buf->cap_bytes ? buf->cap_bytes : 64;
        while (cap < need) cap *= 2;
        LH_TRY(lh_realloc(&buf->data, cap, 1));
        buf->cap_bytes = cap;
    }
    return LH_OK;
}

lh_status lh_mem_check(const char *what, int64_t bytes)
{
    /* not malloc: compilers remove its call where the memory is not used */
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        LH_FAIL(LH_ENOMEM,
                "%s needs %lld MiB of memory, which are not there: raise the limit ('ulimit -v', or the job's)", what,
                (long long)(bytes >> 20));
    munmap(p, (size_t)bytes);
    return LH_OK;
}

lh_status lh_buf_append(lh_buf *buf, const void *data, int64_t bytes)
{
    LH_TRY(reserve(buf, bytes));
    if (bytes) memcpy(buf->data + buf->bytes, data, (size_t)bytes);
    buf->bytes += bytes;
    buf->data[buf->bytes] = '\0';
    return LH_OK;
}

lh_status lh_buf_puts(lh_buf *buf, const char *text)
{
    return lh_buf_append(buf, text, (int64_t)strlen(text));
}

lh_status lh_buf_printf(lh_buf *buf, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    LH_TRY(reserve(buf, n));
    va_start(ap, format);
    vsnprintf(buf->data + buf->bytes, (size_t)n + 1, format, ap);
    va_end(ap);
    buf->bytes += n;
    return LH_OK;
}

lh_status lh_utf8_append(lh_buf *buf, const char *text, int64_t bytes)
{
    int64_t good = 0; /* start of the valid run that is not yet appended */
    uint32_t cp;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip) {
        if (lh_utf8_read(text + at, bytes - at, &cp, &skip)) continue;
        LH_TRY(lh_buf_append(buf, text + good, at - good));
        LH_TRY(lh_buf_append(buf, "\xEF\xBF\xBD", 3));
        good = at + skip;
    }
    LH_TRY(lh_buf_append(buf, text + good, bytes - good));
    return LH_OK;
}

void lh_text_drop_mark(lh_buf *buf, int64_t from)
{
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    const int64_t n = (int64_t)sizeof mark, rest = buf->bytes - from - n;
    if (rest < 0 || memcmp(buf->data + from, mark, sizeof mark) != 0) return;
    memmove(buf->data + from, buf->data + from + n, (size_t)rest + 1);
    buf->bytes -= n;
}

void lh_buf_clear(lh_buf *buf)
{
    lh_free(buf->data);
    *buf = (lh_buf){0};
}

lh_status lh_tokens_push(lh_tokens *tokens, int32_t id)
{
    if (tokens->n == tokens->cap) {
        int64_t cap = tokens->cap ? 2 * tokens->cap : 64;
        LH_TRY(lh_realloc(&tokens->ids, cap, sizeof *tokens->ids));
        tokens->cap = cap;
    }
    tokens->ids[tokens->n++] = id;
    return LH_OK;
}

void lh_tokens_clear(lh_tokens *tokens)
{
    lh_free(tokens->ids);
    *tokens = (lh_tokens){0};
}
