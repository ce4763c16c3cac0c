/* squad.c - answers as SQuAD's evaluation script compares them: Python's str.lower, re and str.split over Unicode. */
#include <string.h>
#include <utf8proc.h>

#include "base/unicode.h"
#include "lab/eval/text_metrics.h"

static int category_of(uint32_t cp)
{
    return (int)utf8proc_category((utf8proc_int32_t)cp);
}

/* str.isalpha */
static int is_letter(uint32_t cp)
{
    const int c = category_of(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

/* \w of Python's re: str.isalnum, or an underscore */
static int is_word(uint32_t cp)
{
    const int c = category_of(cp);
    return cp == '_' || is_letter(cp) || (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

static int is_punctuation(uint32_t cp)
{
    return cp < 0x80 && cp > ' ' && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)cp) != NULL;
}

static lh_status put(lh_buf *out, uint32_t cp)
{
    char bytes[4];
    return lh_buf_append(out, bytes, lh_utf8_write(bytes, cp));
}

lh_status lh_text_lower(lh_buf *out, const char *text)
{
    const int64_t bytes = (int64_t)strlen(text);
    uint32_t cp, before = ' ', next;
    int skip, next_skip;
    LH_TRY(lh_buf_puts(out, ""));
    for (int64_t at = 0; at < bytes; at += skip, before = cp) {
        lh_utf8_read(text + at, bytes - at, &cp, &skip);
        next = ' ';
        if (at + skip < bytes) lh_utf8_read(text + at + skip, bytes - at - skip, &next, &next_skip);
        if (cp == 0x130) { /* I with a dot: an i and a combining dot */
            LH_TRY(lh_buf_puts(out, "i\xcc\x87"));
            continue;
        }
        const int ends = cp == 0x3A3 && is_letter(before) && !is_letter(next);
        LH_TRY(put(out, ends ? 0x3C2 : (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp)));
    }
    return LH_OK;
}

/* Without ASCII punctuation. */
static void drop_punctuation(lh_buf *text)
{
    int64_t n = 0;
    for (int64_t i = 0; i < text->bytes; i++)
        if (!is_punctuation((unsigned char)text->data[i])) text->data[n++] = text->data[i];
    text->data[n] = '\0';
    text->bytes = n;
}

/* 1 if the word characters text[0 … bytes] are an article. */
static int is_article(const char *text, int64_t bytes)
{
    static const char *const articles[] = {"a", "an", "the"};
    for (int i = 0; i < 3; i++)
        if ((int64_t)strlen(articles[i]) == bytes && memcmp(text, articles[i], (size_t)bytes) == 0) return 1;
    return 0;
}

/* Bytes of the run of characters at text[0] that are word characters (`word` 1) or not. */
static int64_t run_of(const char *text, int64_t bytes, int word)
{
    uint32_t cp;
    int skip;
    int64_t at = 0;
    for (; at < bytes; at += skip) {
        lh_utf8_read(text + at, bytes - at, &cp, &skip);
        if (is_word(cp) != word) break;
    }
    return at;
}

/* An article becomes a space. */
static lh_status drop_articles(lh_buf *out, const lh_buf *text)
{
    LH_TRY(lh_buf_puts(out, ""));
    for (int64_t at = 0, n; at < text->bytes; at += n) {
        n = run_of(text->data + at, text->bytes - at, 1);
        if (is_article(text->data + at, n))
            LH_TRY(lh_buf_puts(out, " "));
        else
            LH_TRY(lh_buf_append(out, text->data + at, n));
        at += n;
        n = run_of(text->data + at, text->bytes - at, 0);
        LH_TRY(lh_buf_append(out, text->data + at, n));
    }
    return LH_OK;
}

lh_status lh_join_words(lh_buf *out, const char *text)
{
    const int64_t start = out->bytes, bytes = (int64_t)strlen(text);
    int word = 0, skip;
    LH_TRY(lh_buf_puts(out, ""));
    for (int64_t at = 0; at < bytes; at += skip) {
        uint32_t cp;
        lh_utf8_read(text + at, bytes - at, &cp, &skip);
        const int space = lh_char_is_python_space(cp);
        if (!space && !word && out->bytes > start) LH_TRY(lh_buf_puts(out, " "));
        if (!space) LH_TRY(lh_buf_append(out, text + at, skip));
        word = !space;
    }
    return LH_OK;
}

lh_status lh_squad_normalise(lh_buf *out, const char *text)
{
    lh_status st = LH_OK;
    lh_buf lowered = {0}, bare = {0};
    LH_TRY_DONE(lh_text_lower(&lowered, text));
    drop_punctuation(&lowered);
    LH_TRY_DONE(drop_articles(&bare, &lowered));
    LH_TRY_DONE(lh_join_words(out, bare.data));
done:
    lh_buf_clear(&lowered);
    lh_buf_clear(&bare);
    return st;
}
