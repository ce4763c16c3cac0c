#include "lab/report/escape.h"

#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"

/* Of a character that must not appear as it is; NULL: it may. */
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

lh_status lh_html_text(lh_buf *out, const char *text)
{
    int64_t left = (int64_t)strlen(text);
    while (left > 0) {
        uint32_t cp;
        int skip;
        lh_utf8_read(text, left, &cp, &skip);
        const char *instead = replacement(cp);
        if (instead)
            LH_TRY(lh_buf_puts(out, instead));
        else
            LH_TRY(lh_buf_append(out, text, skip));
        text += skip;
        left -= skip;
    }
    return LH_OK;
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
