/* text_check.c - refuses data that users mistake for text, cuts text into lines, and lists the texts of a folder. */
#include "text/text_check.h"

#include <string.h>

#include "base/log.h"
#include "base/unicode.h"

/* First bytes of files that people mistake for text. */
static const struct {
    const char *magic, *kind, *remedy;
    size_t bytes; /* of the magic number; 0: up to its NUL */
} kinds[] = {
    {"\377\376\0\0", "UTF-32, not UTF-8", "'iconv -f utf-32 -t utf-8 FILE' converts it", 4},
    {"\0\0\376\377", "UTF-32, not UTF-8", "'iconv -f utf-32 -t utf-8 FILE' converts it", 4},
    {"%PDF-", "a PDF, not text", "'pdftotext FILE -' prints its text", 0},
    {"PK\003\004", "a ZIP archive, as DOCX, ODT and EPUB are, not text", "'pandoc FILE -t plain' makes text of it", 0},
    {"\037\213", "compressed by gzip, not text", "'zcat FILE' prints its text", 0},
    {"\050\265\057\375", "compressed by zstd, not text", "'zstdcat FILE' prints its text", 0},
    {"BZh91AY&SY", "compressed by bzip2, not text", "'bzcat FILE' prints its text", 0},
    {"\3757zXZ", "compressed by xz, not text", "'xzcat FILE' prints its text", 0},
    {"\320\317\021\340", "an old Office document, not text", "save it as text", 0},
    {"\377\376", "UTF-16, not UTF-8", "'iconv -f utf-16 -t utf-8 FILE' converts it", 0},
    {"\376\377", "UTF-16, not UTF-8", "'iconv -f utf-16 -t utf-8 FILE' converts it", 0}};

/* Position of the first byte that is not UTF-8; -1: none. */
static int64_t first_bad_byte(const char *text, int64_t bytes)
{
    uint32_t cp;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip)
        if (lh_utf8_read(text + at, bytes - at, &cp, &skip) == 0) return at;
    return -1;
}

static lh_status check_kind(const char *name, const char *text, int64_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = kinds[i].bytes ? kinds[i].bytes : strlen(kinds[i].magic);
        if (bytes >= (int64_t)n && memcmp(text, kinds[i].magic, n) == 0)
            LH_FAIL(LH_EINPUT, "%s is %s: %s", name, kinds[i].kind, kinds[i].remedy);
    }
    return LH_OK;
}

/* True if a JSON file is one array; an array in the first of several lines is a normal line. */
static int is_array(const char *text, int64_t bytes)
{
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    const char *at = text, *end = text + bytes;
    if (bytes >= (int64_t)sizeof mark && memcmp(text, mark, sizeof mark) == 0) at += sizeof mark;
    while (at < end && lh_is_ascii_space(*at)) at++;
    while (end > at && lh_is_ascii_space(end[-1])) end--;
    if (at == end || *at != '[') return 0;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    while (lh_is_ascii_space(stop[-1])) stop--;
    return stop[-1] != ']' || end[-1] == ']';
}

/* The name of the file in messages. */
static lh_status name_file(lh_buf *name, const char *path)
{
    return strcmp(path, "-") == 0 ? lh_buf_puts(name, "standard input") : lh_buf_printf(name, "'%s'", path);
}

lh_status lh_text_check_kind(const char *path, const char *text, int64_t bytes)
{
    lh_status st = LH_OK;
    lh_buf name = {0};
    LH_TRY_DONE(name_file(&name, path));
    LH_TRY_DONE(check_kind(name.data, text, bytes));
done:
    lh_buf_clear(&name);
    return st;
}

lh_status lh_text_check_line_ends(const char *path, const char *text, int64_t bytes)
{
    if (bytes > 0 && memchr(text, '\r', (size_t)bytes) && !memchr(text, '\n', (size_t)bytes))
        LH_FAIL(LH_EINPUT, "'%s' has carriage returns in place of line feeds: \"tr '\\r' '\\n' < FILE\" converts it",
                path);
    return LH_OK;
}

lh_status lh_text_check_lines(const char *path, const char *text, int64_t bytes)
{
    LH_TRY(lh_text_check_kind(path, text, bytes));
    if (is_array(text, bytes))
        LH_FAIL(LH_EINPUT, "'%s' is a JSON array, not JSON Lines: 'jq -c \".[]\" FILE' prints its lines", path);
    return LH_OK;
}

lh_status lh_text_check_file(const char *path, const char *text, int64_t bytes)
{
    lh_status st = LH_OK;
    lh_buf name = {0};
    LH_TRY_DONE(name_file(&name, path));
    LH_TRY_DONE(lh_text_check(name.data, text, bytes));
done:
    lh_buf_clear(&name);
    return st;
}

lh_status lh_text_check(const char *name, const char *text, int64_t bytes)
{
    LH_TRY(check_kind(name, text, bytes));
    const int64_t bad = lh_utf8_valid(text, bytes) ? -1 : first_bad_byte(text, bytes);
    if (bad >= 0)
        lh_warn("%s is not UTF-8: byte %lld is 0x%02x. The model sees U+FFFD in its place; if it is Latin-1, "
                "'iconv -f latin1 -t utf-8' converts it",
                name, (long long)bad, (unsigned char)text[bad]);
    return LH_OK;
}

lh_status lh_text_lines(lh_buf *text, char ***out, int64_t *n)
{
    lh_status st = LH_OK;
    char **lines = NULL, *rest = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < text->bytes; i++) count += text->data[i] == '\n' || text->data[i] == '\r';
    LH_TRY_DONE(lh_calloc(&lines, count + 1, sizeof *lines));
    *n = 0;
    for (char *line = strtok_r(text->data, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
        if (line[strspn(line, " \t")]) LH_TRY_DONE(lh_strdup(&lines[(*n)++], line));
    *out = lines;
    lines = NULL;
done:
    for (int64_t i = 0; lines && i < *n; i++) lh_free(lines[i]);
    lh_free(lines);
    return st;
}

enum { NAMED = 5 };

const char *const lh_text_endings[] = {".txt", ".md", ".markdown", NULL};

static lh_status name_others(const lh_paths *others, const char *folder)
{
    lh_status st = LH_OK;
    lh_buf names = {0};
    if (others->n == 0) return LH_OK;
    for (int64_t i = 0; i < others->n && i < NAMED; i++)
        LH_TRY_DONE(lh_buf_printf(&names, "%s'%s'", i ? ", " : "", lh_path_name(others->at[i])));
    if (others->n > NAMED) LH_TRY_DONE(lh_buf_printf(&names, " and %lld more", (long long)others->n - NAMED));
    lh_warn("'%s': %lld %s left out, texts are regular files '*.txt', '*.md' and '*.markdown': %s", folder,
            (long long)others->n, others->n == 1 ? "file is" : "files are", names.data);
done:
    lh_buf_clear(&names);
    return st;
}

lh_status lh_text_files(lh_paths *out, const char *folder)
{
    lh_status st = LH_OK;
    lh_paths others = {0};
    LH_TRY_DONE(lh_folder_list(out, &others, folder, lh_text_endings));
    LH_TRY_DONE(name_others(&others, folder));
    if (out->n == 0)
        LH_FAIL_DONE(LH_EINPUT, "the folder '%s' has no text: no file '*.txt', '*.md' or '*.markdown'", folder);
done:
    lh_paths_clear(&others);
    return st;
}
