/* lex.c - tokens of a chat template. */
#include "text/template/lex.h"

#include <string.h>

#include "base/unicode.h"

typedef struct lexer {
    lh_tpl_pool *pool;
    const char *at, *end;
    int line, line_starts; /* line_starts: true after the end of a line */
    lh_tpl_token *tokens;
    int64_t n, cap;
} lexer;

#define FAIL_AT(line, ...) return fail_at(line, lh_fail(LH_EINPUT, __FILE__, __LINE__, __VA_ARGS__))

static lh_status fail_at(int line, lh_status st)
{
    return lh_fail_within(st, "line %d", line);
}

static lh_status push(lexer *x, lh_tpl_token_kind kind, const char *text, int64_t bytes)
{
    if (x->n == x->cap) {
        int64_t cap = x->cap ? 2 * x->cap : 64;
        lh_tpl_token *more;
        LH_TRY(lh_tpl_alloc(x->pool, &more, cap, sizeof *more));
        if (x->n) memcpy(more, x->tokens, (size_t)x->n * sizeof *more);
        x->tokens = more;
        x->cap = cap;
    }
    x->tokens[x->n++] = (lh_tpl_token){kind, x->line, text, bytes};
    return LH_OK;
}

static lh_status push_copy(lexer *x, lh_tpl_token_kind kind, const char *text, int64_t bytes)
{
    char *copy;
    LH_TRY(lh_tpl_alloc(x->pool, &copy, bytes + 1, 1));
    memcpy(copy, text, (size_t)bytes);
    return push(x, kind, copy, bytes);
}

/* Moves on, counting lines. */
static void skip(lexer *x, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) x->line += x->at[i] == '\n';
    x->at += bytes;
    if (bytes) x->line_starts = x->at[-1] == '\n';
}

static int begins(const lexer *x, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(x->end - x->at) >= n && memcmp(x->at, text, n) == 0;
}

/* White space at text[0 .. bytes - 1], from the left. */
static int64_t spaces(const char *text, int64_t bytes)
{
    int64_t n = 0;
    uint32_t cp;
    int step;
    while (n < bytes && lh_utf8_read(text + n, bytes - n, &cp, &step) && lh_char_is_python_space(cp)) n += step;
    return n;
}

/* Bytes left when the white space at the end of a text goes. */
static int64_t without_last_spaces(const char *text, int64_t bytes)
{
    int64_t kept = 0;
    uint32_t cp;
    int step;
    for (int64_t at = 0; at < bytes; at += step)
        if (!lh_utf8_read(text + at, bytes - at, &cp, &step) || !lh_char_is_python_space(cp)) kept = at + step;
    return kept;
}

/* ---- tags ---- */

/* The end of a tag at x->at, `close` such as "%}": bytes that it takes, with the white space that goes with it; 0: it
 * is none. */
static int64_t tag_end(const lexer *x, const char *close, int trims)
{
    int sign = begins(x, "-") ? '-' : begins(x, "+") && *close != '}' ? '+' : 0;
    const char *at = x->at + (sign != 0);
    if (x->end - at < 2 || memcmp(at, close, 2) != 0) return 0;
    at += 2;
    if (sign == '-') return at - x->at + spaces(at, x->end - at);
    if (!sign && trims && at < x->end && *at == '\n') at++;
    return at - x->at;
}

static int hex_value(const char *text, int digits, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++) {
        char c = text[i];
        int v = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (v < 0) return 0;
        *out = *out * 16 + (uint32_t)v;
    }
    return *out <= 0x10FFFF && (*out < 0xD800 || *out > 0xDFFF);
}

/* One escape, after the backslash: returns its bytes in the source, 0: no escape, the backslash stays. out: its
 * character. */
static int read_escape(const char *at, const char *end, char out[4], int *out_bytes)
{
    static const char letters[] = "ntrabfv\\'\"", values[] = "\n\t\r\a\b\f\v\\'\"";
    const char *found = strchr(letters, *at);
    uint32_t cp = 0;
    *out_bytes = 1;
    if (*at && found) {
        *out = values[found - letters];
        return 1;
    }
    if (*at == '\n') {
        *out_bytes = 0;
        return 1;
    }
    if (*at >= '0' && *at <= '7') {
        int n = 0;
        while (n < 3 && at + n < end && at[n] >= '0' && at[n] <= '7') cp = cp * 8 + (uint32_t)(at[n++] - '0');
        *out_bytes = lh_utf8_write(out, cp);
        return n;
    }
    int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    if (!digits || end - at <= digits || !hex_value(at + 1, digits, &cp)) return 0;
    *out_bytes = lh_utf8_write(out, cp);
    return 1 + digits;
}

/* A string from its opening quote. */
static lh_status lex_string(lexer *x)
{
    const char quote = *x->at, *from = x->at + 1, *close = from;
    while (close < x->end && *close != quote) close += *close == '\\' && close + 1 < x->end ? 2 : 1;
    if (close >= x->end) FAIL_AT(x->line, "a string does not end");
    char *text;
    int64_t bytes = 0;
    LH_TRY(lh_tpl_alloc(x->pool, &text, 4 * (close - from) + 1, 1));
    for (const char *c = from; c < close;) {
        char escaped[4];
        int n = 0, taken = *c == '\\' ? read_escape(c + 1, close, escaped, &n) : 0;
        if (taken) {
            memcpy(text + bytes, escaped, (size_t)n);
            bytes += n;
            c += 1 + taken;
        } else {
            text[bytes++] = *c++;
        }
    }
    text[bytes] = '\0';
    LH_TRY(push(x, LH_TPL_STRING, text, bytes));
    skip(x, close + 1 - x->at);
    return LH_OK;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_name(char c)
{
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *digits(const char *at, const char *end)
{
    while (at < end && (is_digit(*at) || (*at == '_' && at + 1 < end && is_digit(at[1])))) at++;
    return at;
}

static lh_status lex_number(lexer *x)
{
    char text[64];
    int64_t bytes = 0;
    const char *end = digits(x->at, x->end);
    const int has_fraction = end + 1 < x->end && *end == '.' && is_digit(end[1]);
    if (has_fraction || (end < x->end && is_name(*end)) || end - x->at >= (int64_t)sizeof text)
        FAIL_AT(x->line, "'%.20s' is no integer, and other numbers are not read here", x->at);
    for (const char *c = x->at; c < end; c++)
        if (*c != '_') text[bytes++] = *c;
    LH_TRY(push_copy(x, LH_TPL_INTEGER, text, bytes));
    skip(x, end - x->at);
    return LH_OK;
}

static int64_t operator_bytes(const lexer *x)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (begins(x, two[i])) return 2;
    return strchr("+-/*%~[](){}><=.:|,", *x->at) && *x->at ? 1 : 0;
}

/* The inside of a tag, up to its end. */
static lh_status lex_tag(lexer *x, const char *close, lh_tpl_token_kind end)
{
    const int begun = x->line;
    int open = 0; /* brackets */
    for (;;) {
        skip(x, spaces(x->at, x->end - x->at));
        if (x->at >= x->end) FAIL_AT(begun, "a tag does not end");
        int64_t bytes = open ? 0 : tag_end(x, close, end == LH_TPL_BLOCK_END);
        if (bytes) {
            LH_TRY(push(x, end, "", 0));
            skip(x, bytes);
            return LH_OK;
        }
        if (*x->at == '"' || *x->at == '\'') {
            LH_TRY(lex_string(x));
        } else if (is_digit(*x->at)) {
            LH_TRY(lex_number(x));
        } else if (is_name(*x->at)) {
            const char *name = x->at;
            while (name < x->end && is_name(*name)) name++;
            LH_TRY(push_copy(x, LH_TPL_NAME, x->at, name - x->at));
            skip(x, name - x->at);
        } else {
            bytes = operator_bytes(x);
            if (!bytes) FAIL_AT(x->line, "unexpected character '%.*s'", lh_utf8_length(x->at), x->at);
            open += strchr("([{", *x->at) ? 1 : strchr(")]}", *x->at) ? -1 : 0;
            if (open < 0) FAIL_AT(x->line, "unexpected '%c'", *x->at);
            LH_TRY(push_copy(x, LH_TPL_OPERATOR, x->at, bytes));
            skip(x, bytes);
        }
    }
}

/* ---- text between tags ---- */

/* Text up to a tag at `tag`, with `sign` after its opening. Before a tag that prints nothing, the white space from the
 * beginning of the line is removed. */
static lh_status lex_data(lexer *x, const char *tag, char sign, int prints)
{
    int64_t bytes = tag - x->at, kept = bytes;
    if (sign == '-') {
        kept = without_last_spaces(x->at, bytes);
    } else if (sign != '+' && !prints) {
        const char *newline = bytes ? memrchr(x->at, '\n', (size_t)bytes) : NULL;
        int64_t line = newline ? newline + 1 - x->at : 0;
        if ((line > 0 || x->line_starts) && spaces(x->at + line, bytes - line) == bytes - line) kept = line;
    }
    if (kept) LH_TRY(push(x, LH_TPL_DATA, x->at, kept));
    skip(x, bytes);
    return LH_OK;
}

/* "{% raw %}" at x->at, or "{% endraw %}" with word "endraw": its bytes, 0 if it is none. */
static int64_t raw_tag(const lexer *x, const char *word, int trims)
{
    lexer y = *x;
    if (!begins(&y, "{%")) return 0;
    y.at += 2;
    if (y.at < y.end && (*y.at == '-' || *y.at == '+')) y.at++;
    y.at += spaces(y.at, y.end - y.at);
    if (!begins(&y, word)) return 0;
    y.at += strlen(word);
    y.at += spaces(y.at, y.end - y.at);
    int64_t bytes = tag_end(&y, "%}", trims);
    return bytes ? y.at + bytes - x->at : 0;
}

static lh_status lex_raw(lexer *x, int64_t bytes)
{
    const int begun = x->line;
    skip(x, bytes);
    for (const char *tag = x->at; tag < x->end; tag++) {
        lexer y = *x;
        y.at = tag;
        bytes = *tag == '{' ? raw_tag(&y, "endraw", 1) : 0;
        if (!bytes) continue;
        LH_TRY(lex_data(x, tag, tag[2], 0));
        skip(x, bytes);
        return LH_OK;
    }
    FAIL_AT(begun, "'raw' does not end");
}

static lh_status lex_comment(lexer *x)
{
    const char *end = memmem(x->at + 2, (size_t)(x->end - x->at - 2), "#}", 2);
    if (!end) FAIL_AT(x->line, "a comment does not end");
    if (end > x->at + 2 && (end[-1] == '-' || end[-1] == '+')) end--;
    skip(x, end - x->at);
    skip(x, tag_end(x, "#}", 1));
    return LH_OK;
}

/* The next "{{", "{%" or "{#", or the end. */
static const char *next_tag(const lexer *x)
{
    for (const char *at = x->at; at + 1 < x->end; at++)
        if (*at == '{' && strchr("{%#", at[1]) && at[1]) return at;
    return x->end;
}

static lh_status lex_next(lexer *x)
{
    const char *tag = next_tag(x);
    char sign = x->end - tag > 2 ? tag[2] : 0;
    LH_TRY(lex_data(x, tag, tag == x->end ? '+' : sign, tag < x->end && tag[1] == '{'));
    if (x->at == x->end) return LH_OK;
    if (tag[1] == '#') return lex_comment(x);
    int64_t raw = raw_tag(x, "raw", 0);
    if (raw) return lex_raw(x, raw);
    int prints = tag[1] == '{';
    LH_TRY(push(x, prints ? LH_TPL_PRINT_BEGIN : LH_TPL_BLOCK_BEGIN, "", 0));
    skip(x, 2 + (sign == '-' || (sign == '+' && !prints)));
    return lex_tag(x, prints ? "}}" : "%}", prints ? LH_TPL_PRINT_END : LH_TPL_BLOCK_END);
}

/* \r\n and \r become \n, and one of them at the end goes; returns the bytes left. */
static int64_t normal_lines(char *text, int64_t bytes)
{
    int64_t n = 0;
    for (int64_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n') continue;
        text[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    return n && text[n - 1] == '\n' ? n - 1 : n;
}

lh_status lh_tpl_lex(lh_tpl_pool *pool, char *source, int64_t bytes, lh_tpl_token **out, int64_t *n)
{
    lexer x = {.pool = pool, .at = source, .end = source + normal_lines(source, bytes), .line = 1, .line_starts = 1};
    while (x.at < x.end) LH_TRY(lex_next(&x));
    LH_TRY(push(&x, LH_TPL_END, "", 0));
    *out = x.tokens;
    *n = x.n;
    return LH_OK;
}
