#include "text/text_check.h"

#include <string.h>

#include "base/log.h"
#include "base/unicode.h"

/* What files begin with that people take for text. */
static const struct {
    const char *magic, *kind, *remedy;
} kinds[] = {
    {"%PDF-", "a PDF, not text", "'pdftotext FILE - | longhaul ... -f -' takes its text"},
    {"PK\003\004", "a ZIP archive, as DOCX, ODT and EPUB are, not text", "'pandoc FILE -t plain' makes text of it"},
    {"\037\213", "compressed by gzip, not text", "'zcat FILE | longhaul ... -f -' takes its text"},
    {"\320\317\021\340", "an old Office document, not text", "save it as text"},
    {"\377\376", "UTF-16, not UTF-8", "'iconv -f utf-16 -t utf-8 FILE' converts it"},
    {"\376\377", "UTF-16, not UTF-8", "'iconv -f utf-16 -t utf-8 FILE' converts it"}};

/* Of the first byte that is not UTF-8; -1: there is none. */
static int64_t first_bad_byte(const char *text, int64_t bytes)
{
    uint32_t cp;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip)
        if (lh_utf8_read(text + at, bytes - at, &cp, &skip) == 0) return at;
    return -1;
}

lh_status lh_text_check_kind(const char *name, const char *text, int64_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i].magic);
        if (bytes >= (int64_t)n && memcmp(text, kinds[i].magic, n) == 0)
            LH_FAIL(LH_EINPUT, "%s is %s: %s", name, kinds[i].kind, kinds[i].remedy);
    }
    return LH_OK;
}

lh_status lh_text_check(const char *name, const char *text, int64_t bytes)
{
    LH_TRY(lh_text_check_kind(name, text, bytes));
    const int64_t bad = lh_utf8_valid(text, bytes) ? -1 : first_bad_byte(text, bytes);
    if (bad >= 0)
        lh_warn("%s is not UTF-8: byte %lld is 0x%02x. The model sees U+FFFD in its place; if it is Latin-1, "
                "'iconv -f latin1 -t utf-8' converts it",
                name, (long long)bad, (unsigned char)text[bad]);
    return LH_OK;
}
