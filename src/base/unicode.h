/* unicode.h - the one reader of UTF-8 and the classes of characters. Every function takes bytes and a length, accepts
 * any bytes and reads no further. Decoding is our own, because utf8proc does not count replacement characters as Rust
 * and Python do. */
#ifndef LH_BASE_UNICODE_H
#define LH_BASE_UNICODE_H

#include <stdint.h>

enum { LH_UTF8_BAD = 0xFFFD }; /* the replacement character */

/* Read the code point at text[0], bytes >= 1, into *cp; returns the bytes it takes. If there is no valid
 * sequence: 0, *cp is LH_UTF8_BAD and *skip the bytes that one replacement character stands for (the maximal subpart of
 * Unicode's chapter 3.9, as Rust's and Python's lossy decoders count). Else *skip is the result. */
int lh_utf8_read(const char *text, int64_t bytes, uint32_t *cp, int *skip);

/* Bytes of the character at text[0] of valid UTF-8. */
static inline int lh_utf8_length(const char *text)
{
    unsigned char c = (unsigned char)*text;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Write `cp` to out; returns its bytes. */
int lh_utf8_write(char out[4], uint32_t cp);

int lh_utf8_valid(const char *text, int64_t bytes);

/* Put '?' for every control character (C0, DEL, and C1, where U+009B begins an escape sequence) and for bytes that are
 * not UTF-8: names and texts of foreign files must not control a terminal. Returns the number of bytes that remain. */
int64_t lh_text_make_plain(char *text, int64_t bytes);

int lh_char_is_space(uint32_t cp);        /* Unicode's White_Space */
int lh_char_is_python_space(uint32_t cp); /* str.isspace: White_Space and the separators U+001C to U+001F */
int lh_char_is_word(uint32_t cp);         /* \w of regular expressions: letters, marks, digits, connectors */

/* White space of JSON and Jinja, and between sentences: single bytes of UTF-8 text. */
static inline int lh_is_ascii_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

#endif
