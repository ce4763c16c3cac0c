/* unicode.c - UTF-8 and the classes of characters; categories come from utf8proc. */
#include "base/unicode.h"

#include <string.h>
#include <utf8proc.h>

/* Range of the second byte after a lead byte (Unicode 15, table 3-7). */
static void second_range(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
}

int lh_utf8_read(const char *text, int64_t bytes, uint32_t *cp, int *skip)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char low, high;
    int n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    *cp = LH_UTF8_BAD;
    *skip = 1;
    if (n == 0) return 0;
    if (n == 1) {
        *cp = s[0];
        return 1;
    }
    uint32_t value = s[0] & (0xFFu >> (n + 1));
    second_range(s[0], &low, &high);
    for (int i = 1; i < n; i++) {
        if (i >= bytes || s[i] < low || s[i] > high) {
            *skip = i;
            return 0;
        }
        value = value << 6 | (s[i] & 0x3Fu);
        low = 0x80, high = 0xBF;
    }
    *cp = value;
    *skip = n;
    return n;
}

int lh_utf8_write(char out[4], uint32_t cp)
{
    return (int)utf8proc_encode_char((utf8proc_int32_t)cp, (utf8proc_uint8_t *)out);
}

int lh_utf8_valid(const char *text, int64_t bytes)
{
    uint32_t cp;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip)
        if (!lh_utf8_read(text + at, bytes - at, &cp, &skip)) return 0;
    return 1;
}

int64_t lh_text_make_plain(char *text, int64_t bytes)
{
    int64_t n = 0;
    uint32_t cp;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip) {
        int valid = lh_utf8_read(text + at, bytes - at, &cp, &skip);
        int control = cp < 0x20 || (cp >= 0x7F && cp < 0xA0);
        if (valid && !control) {
            memmove(text + n, text + at, (size_t)skip);
            n += skip;
        } else {
            text[n++] = '?';
        }
    }
    return n;
}

int lh_char_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

int lh_char_is_python_space(uint32_t cp)
{
    return lh_char_is_space(cp) || (cp >= 0x1C && cp <= 0x1F);
}

int lh_char_is_word(uint32_t cp)
{
    if (cp == 0x200C || cp == 0x200D) return 1;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return 1;
    default: return 0;
    }
}
