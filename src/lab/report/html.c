/* html.c - text of foreign files inside a page or a drawing: it stays text, and never becomes markup or script. */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "lab/report/report_impl.h"

/* What is written for a character that may be markup or is unsafe; NULL: the character itself. */
static const char *replacement(uint32_t cp)
{
    switch (cp) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    case '\t':
    case '\n': return NULL;
    case 0x2028:
    case 0x2029: return " ";
    }
    const int control = cp < 0x20 || (cp >= 0x7F && cp < 0xA0);
    const int turns = (cp >= 0x202A && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069);
    return control || turns || cp == LH_UTF8_BAD ? "\xEF\xBF\xBD" : NULL;
}

/* At most `limit` characters of text (0: all); `markup`: 1 to escape characters of markup. */
static lh_status put_escaped(lh_buf *out, const char *text, int64_t limit, int markup)
{
    int64_t left = (int64_t)strlen(text);
    for (int64_t chars = 0; left > 0; chars++) {
        uint32_t cp;
        int skip;
        if (limit && chars == limit) return lh_buf_puts(out, "…");
        lh_utf8_read(text, left, &cp, &skip);
        const char *instead = replacement(cp);
        if (instead && (markup || *instead != '&'))
            LH_TRY(lh_buf_puts(out, instead));
        else
            LH_TRY(lh_buf_append(out, text, skip));
        text += skip;
        left -= skip;
    }
    return LH_OK;
}

lh_status lh_html_text(lh_buf *out, const char *text)
{
    return put_escaped(out, text, 0, 1);
}

void lh_html_short(lh_html *h, const char *text, int64_t limit)
{
    if (h->st == LH_OK) h->st = put_escaped(h->out, text, limit, 1);
}

void lh_html_raw(lh_html *h, const void *text, int64_t bytes)
{
    if (h->st == LH_OK) h->st = lh_buf_append(h->out, text, bytes);
}

/* Length of the conversion at the start of `at`: one of those that lh_html_put knows. */
static size_t conversion_bytes(const char *at)
{
    static const char *const known[] = {"%s", "%d", "%lld", "%.1f", "%.3f", "%g", "%%"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0) return strlen(known[i]);
    assert(0);
    return 1;
}

void lh_html_put(lh_html *h, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    while (*format && h->st == LH_OK) {
        const size_t plain = strcspn(format, "%");
        h->st = lh_buf_append(h->out, format, (int64_t)plain);
        format += plain;
        if (!*format || h->st != LH_OK) break;
        const size_t bytes = conversion_bytes(format);
        switch (format[bytes - 1]) {
        case 's': h->st = put_escaped(h->out, va_arg(ap, const char *), 0, 1); break;
        case 'f': h->st = lh_buf_printf(h->out, "%.*f", format[2] - '0', va_arg(ap, double)); break;
        case '%': h->st = lh_buf_puts(h->out, "%"); break;
        case 'g': h->st = lh_buf_printf(h->out, "%g", va_arg(ap, double)); break;
        default:
            h->st = bytes > 2 ? lh_buf_printf(h->out, "%lld", va_arg(ap, long long))
                              : lh_buf_printf(h->out, "%d", va_arg(ap, int));
        }
        format += bytes;
    }
    va_end(ap);
}

void lh_html_point(lh_html *h, const lh_figure_dim *dim, int64_t i, int64_t limit)
{
    lh_buf text = {0};
    if (h->st == LH_OK) h->st = lh_point_text(dim, i, &text);
    lh_html_short(h, text.data ? text.data : "", limit);
    lh_buf_clear(&text);
}

void lh_html_value(lh_html *h, double value, const char *unit)
{
    if (h->st == LH_OK) h->st = lh_value_text(value, unit, h->out);
}

json_t *lh_html_json_text(const char *text)
{
    lh_buf plain = {0};
    const lh_status st = put_escaped(&plain, text, 0, 0);
    json_t *out = st == LH_OK ? json_stringn(plain.data ? plain.data : "", (size_t)plain.bytes) : NULL;
    lh_buf_clear(&plain);
    return out;
}

lh_status lh_html_json(lh_buf *out, const json_t *value)
{
    lh_status st = LH_OK;
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    if (!text) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the data of the page");
    for (const char *at = text; *at;) {
        const size_t plain = strcspn(at, "<>&");
        LH_TRY_DONE(lh_buf_append(out, at, (int64_t)plain));
        at += plain;
        if (*at) LH_TRY_DONE(lh_buf_printf(out, "\\u%04x", (unsigned)*at++));
    }
done:
    free(text);
    return st;
}

lh_status lh_base64(lh_buf *out, const void *data, int64_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = data;
    for (; bytes > 0; bytes -= 3, at += 3) {
        const uint32_t b = (uint32_t)at[0] << 16 | (bytes > 1 ? (uint32_t)at[1] << 8 : 0) | (bytes > 2 ? at[2] : 0);
        const char group[4] = {digits[b >> 18], digits[b >> 12 & 63], bytes > 1 ? digits[b >> 6 & 63] : '=',
                               bytes > 2 ? digits[b & 63] : '='};
        LH_TRY(lh_buf_append(out, group, sizeof group));
    }
    return LH_OK;
}
