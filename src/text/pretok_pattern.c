/* pretok_pattern.c - searches literals and regular expressions. Hugging Face compiles with Oniguruma, we translate to
 * PCRE2's syntax. JIT is used where PCRE2 has it.
 *
 * A foreign expression must not take hours or gigabytes. PCRE2's own limits bound one search, not a text, and do not
 * count the characters that a repetition walks over. So an expression is compiled twice. Nearly every search ends
 * within a few bytes and steps: the quick code sees a window of the text and has a low limit. If the window or the
 * limit does not suffice, the counted code searches again: PCRE2 calls back at every item, and the distance walked
 * is counted against the budget of the text. Both give the same matches. */
#include "text/pretok.h"

#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* ---- syntax ----
 *
 * Tables list the known elements; any other element is refused by name, because the two engines read it differently or
 * have not been compared. Differences between Oniguruma (https://github.com/kkos/oniguruma/blob/master/doc/RE) and
 * PCRE2:
 *
 * - Oniguruma's bracketed classes nest and intersect, [a-z&&[^aeiou]]; PCRE2 10.42 reads '[' and '&&' as characters.
 * - ^ and $ hold at every line, and (?m) lets a dot match line feeds.
 * - X{n,m}+ repeats X{n,m}, which is not possessive; X{n}? is optional, not lazy; X{,m} is X{0,m}.
 * - \w has marks and numbers, \s lacks U+180E, \h is a hexadecimal digit, \v a vertical tab, \p{Han} the script
 *   without its extensions. */

/* PCRE2 repeats no more often. */
enum { REPEATS_MAX = 65535 };

enum { GROUPS_MAX = 128, CLASSES_MAX = 16 };

typedef struct translation {
    const char *name, *regex;
    const char *at; /* the next character */
    lh_buf *out;
    int64_t *longest;
    int64_t atom;               /* begin in *out of the last item that can be repeated; -1: none */
    int64_t groups[GROUPS_MAX]; /* begins of open groups */
    int64_t branch[GROUPS_MAX]; /* begins of their last branches, after options */
    int depth, classes;
    int caseless[GROUPS_MAX]; /* true under (?i) */
} translation;

static lh_status refuse(const translation *t, const char *what, int bytes, const char *why)
{
    LH_FAIL(LH_EINPUT, "'%s': '%.*s' in the regular expression '%.200s' is not understood: %s", t->name, bytes, what,
            t->regex, why);
}

/* ---- escapes ---- */

/* Members of a bracketed class. Outside of a class Oniguruma's \w has the numbers of Latin-1, too. */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"
#define WORDS_IN_CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORDS WORDS_IN_CLASS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define HEX "0-9a-fA-F"

/* Sets of characters: members of a bracketed class, or their complement. */
typedef struct set {
    char letter;
    int negated;
    const char *alone, *in_class;
} set;

static const set sets[] = {{'s', 0, SPACES, SPACES},        {'S', 1, SPACES, SPACES}, {'w', 0, WORDS, WORDS_IN_CLASS},
                           {'W', 1, WORDS, WORDS_IN_CLASS}, {'h', 0, HEX, HEX},       {'H', 1, HEX, HEX},
                           {'d', 0, "\\d", "\\d"},          {'D', 1, "\\d", "\\d"}};

static const struct {
    char letter;
    const char *is;
} characters[] = {{'t', "\\t"},   {'n', "\\n"},   {'r', "\\r"},  {'f', "\\f"},
                  {'v', "\\x0b"}, {'a', "\\x07"}, {'e', "\\x1b"}};

/* Outside of classes: positions, and items that do not match a single character. */
#define WORD_BEFORE "(?<=[" WORDS "])"
#define WORD_AFTER "(?=[" WORDS "])"
#define NO_WORD_BEFORE "(?<![" WORDS "])"
#define NO_WORD_AFTER "(?![" WORDS "])"
static const struct {
    char letter;
    const char *is;
} items[] = {{'b', "(?:" WORD_BEFORE NO_WORD_AFTER "|" NO_WORD_BEFORE WORD_AFTER ")"},
             {'B', "(?:" WORD_BEFORE WORD_AFTER "|" NO_WORD_BEFORE NO_WORD_AFTER ")"},
             {'A', "\\A"},
             {'z', "\\z"},
             {'Z', "\\Z"},
             {'R', "\\R"},
             {'K', "\\K"}};

static int is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static const set *set_of(char letter)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (sets[i].letter == letter) return &sets[i];
    return NULL;
}

/* A code point as \x{…}: \xHH below U+0080 (above, Oniguruma reads a byte), \x{H…}, \uHHHH. */
static lh_status read_code(translation *t, lh_buf *out)
{
    const char *at = t->at + 2;
    const int braces = t->at[1] == 'x' && *at == '{', max = braces ? 8 : t->at[1] == 'u' ? 4 : 2;
    long code = 0;
    int n = 0;
    at += braces;
    for (; n < max && strchr("0123456789abcdefABCDEF", *at) && *at; n++, at++)
        code = 16 * code + (*at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10);
    if (n == 0 || (t->at[1] == 'u' && n < 4) || (braces && *at != '}') || (n == 2 && !braces && code >= 0x80))
        LH_TRY(refuse(t, t->at, 4, "no code point is written so"));
    LH_TRY(lh_buf_printf(out, "\\x{%lx}", code));
    t->at = at + braces;
    return LH_OK;
}

/* \p{NAME}, \p{^NAME} and \P{NAME}. General categories and properties have the same names; other names are scripts,
 * without script extensions. */
static lh_status read_property(translation *t, lh_buf *out)
{
    static const char *const same[] = {"L",
                                       "Lu",
                                       "Ll",
                                       "Lt",
                                       "Lm",
                                       "Lo",
                                       "M",
                                       "Mn",
                                       "Mc",
                                       "Me",
                                       "N",
                                       "Nd",
                                       "Nl",
                                       "No",
                                       "P",
                                       "Pc",
                                       "Pd",
                                       "Ps",
                                       "Pe",
                                       "Pi",
                                       "Pf",
                                       "Po",
                                       "S",
                                       "Sm",
                                       "Sc",
                                       "Sk",
                                       "So",
                                       "Z",
                                       "Zs",
                                       "Zl",
                                       "Zp",
                                       "C",
                                       "Cc",
                                       "Cf",
                                       "Cn",
                                       "Co",
                                       "Any",
                                       "Alphabetic",
                                       "Uppercase",
                                       "Lowercase",
                                       "White_Space",
                                       "Emoji",
                                       "Extended_Pictographic"};
    enum { NAME_BYTES = 48 };
    char name[NAME_BYTES];
    const char *at = t->at + 3, *end = t->at[2] == '{' ? strchr(at, '}') : NULL;
    int negated = t->at[1] == 'P', scripts = 1;
    if (!end) return refuse(t, t->at, 3, "a property is written \\p{NAME}");
    if (*at == '^') negated ^= 1, at++;
    const size_t bytes = (size_t)(end - at);
    for (size_t i = 0; i < bytes; i++)
        if (!is_letter_or_digit(at[i]) && at[i] != '_')
            return refuse(t, t->at, (int)(end + 1 - t->at), "no such property");
    if (bytes == 0 || bytes >= sizeof name) return refuse(t, t->at, 8, "no such property");
    memcpy(name, at, bytes);
    name[bytes] = '\0';
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(name, same[i]) == 0) scripts = 0;
    LH_TRY(lh_buf_printf(out, "\\%c{%s%s}", negated ? 'P' : 'p', scripts ? "sc:" : "", name));
    t->at = end + 1;
    return LH_OK;
}

/* An escape of a character inside and outside of classes. *read: true if it is one. */
static lh_status read_character(translation *t, lh_buf *out, int *read)
{
    const char c = t->at[1];
    *read = 1;
    if (c == 'x' || c == 'u') return read_code(t, out);
    for (size_t i = 0; i < sizeof characters / sizeof *characters; i++)
        if (characters[i].letter == c) {
            t->at += 2;
            return lh_buf_puts(out, characters[i].is);
        }
    *read = c && !is_letter_or_digit(c) && (unsigned char)c < 0x80;
    if (!*read) return LH_OK;
    LH_TRY(lh_buf_append(out, t->at, 2));
    t->at += 2;
    return LH_OK;
}

/* ---- bracketed classes ---- */

/* The operand of an intersection: members of a bracketed class, and expressions of single characters. */
typedef struct operand {
    lh_buf members, others;
    int ends_with_set;
} operand;

static lh_status add_other(operand *o, const char *before, const char *text, const char *after)
{
    return lh_buf_printf(&o->others, "%s%s%s%s", o->others.bytes ? "|" : "", before, text, after);
}

/* Appends the operand as an expression of a single character, and empties it. */
static lh_status end_operand(const translation *t, operand *o, int negated, lh_buf *out)
{
    const char *members = o->members.bytes ? o->members.data : "", *others = o->others.bytes ? o->others.data : "";
    if (!*members && !*others) LH_TRY(refuse(t, "[", 1, "a class without characters"));
    if (!*others)
        LH_TRY(lh_buf_printf(out, "[%s%s]", negated ? "^" : "", members));
    else if (!*members)
        LH_TRY(lh_buf_printf(out, "(?:%s)", others));
    else
        LH_TRY(lh_buf_printf(out, "(?:[%s]|%s)", members, others));
    o->members.bytes = o->others.bytes = 0;
    o->ends_with_set = 0;
    return LH_OK;
}

static lh_status read_class(translation *t, lh_buf *out);

/* True for a property of upper or lower case: \p{Lu}. */
static int names_case(const char *at)
{
    static const char *const names[] = {"Lu}", "Ll}", "Lt}", "Uppercase}", "Lowercase}"};
    if ((at[1] | 32) != 'p' || at[2] != '{') return 0;
    at += 3 + (at[3] == '^');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(at, names[i], strlen(names[i])) == 0) return 1;
    return 0;
}

static lh_status read_class_escape(translation *t, operand *o)
{
    const char c = t->at[1];
    const set *is = set_of(c);
    int read = 0;
    o->ends_with_set = 1;
    if (is) {
        t->at += 2;
        return is->negated ? add_other(o, "[^", is->in_class, "]") : lh_buf_puts(&o->members, is->in_class);
    }
    if (t->caseless[t->depth] && names_case(t->at))
        return refuse(t, t->at, 6, "under (?i) a class has the other case, too, which PCRE2 leaves out");
    if (c == 'p' || c == 'P') return read_property(t, &o->members);
    o->ends_with_set = 0;
    LH_TRY(read_character(t, &o->members, &read));
    return read ? LH_OK : refuse(t, t->at, 2, "a class has no such escape");
}

/* A '-' that is no range stands at the end of an operand, or at its start. */
static lh_status read_hyphen(translation *t, operand *o)
{
    const char next = t->at[1];
    const int ends = next == ']' || (next == '&' && t->at[2] == '&');
    const int starts = o->members.bytes == 0 && !o->ends_with_set;
    const int before_set = next == '[' || (next == '\\' && (set_of(t->at[2]) || t->at[2] == 'p' || t->at[2] == 'P'));
    if (!ends && !starts && (o->ends_with_set || before_set))
        LH_TRY(refuse(t, t->at, 2, "a range has a character at both ends"));
    LH_TRY(lh_buf_puts(&o->members, ends || starts ? "\\-" : "-"));
    t->at++;
    return LH_OK;
}

static lh_status read_class_item(translation *t, operand *o)
{
    lh_status st = LH_OK;
    lh_buf nested = {0};
    if (*t->at == '\\') return read_class_escape(t, o);
    if (*t->at == '-') return read_hyphen(t, o);
    if (*t->at == '[' && t->at[1] == ':') return refuse(t, t->at, 8, "POSIX classes differ between engines");
    if (*t->at == '[') {
        LH_TRY_DONE(read_class(t, &nested));
        LH_TRY_DONE(add_other(o, "", nested.data, ""));
        o->ends_with_set = 1;
        goto done;
    }
    o->ends_with_set = 0;
    if (strchr("^:.=", *t->at)) LH_TRY_DONE(lh_buf_puts(&o->members, "\\"));
    LH_TRY_DONE(lh_buf_append(&o->members, t->at++, 1));
done:
    lh_buf_clear(&nested);
    return st;
}

/* Appends one expression of a single character. */
static lh_status read_class(translation *t, lh_buf *out)
{
    lh_status st = LH_OK;
    operand o = {0};
    lh_buf joined = {0};
    const char *start = t->at++;
    const int negated = *t->at == '^';
    int operands = 1;
    if (++t->classes > CLASSES_MAX) LH_TRY_DONE(refuse(t, start, 1, "classes are nested too deep"));
    t->at += negated;
    if (*t->at == ']') { /* as the first character it is literal */
        LH_TRY_DONE(lh_buf_puts(&o.members, "\\]"));
        t->at++;
    }
    while (*t->at != ']') {
        if (!*t->at) LH_TRY_DONE(refuse(t, start, 8, "a class does not end"));
        if (t->at[0] != '&' || t->at[1] != '&') {
            LH_TRY_DONE(read_class_item(t, &o));
            continue;
        }
        LH_TRY_DONE(lh_buf_puts(&joined, "(?="));
        LH_TRY_DONE(end_operand(t, &o, 0, &joined));
        LH_TRY_DONE(lh_buf_puts(&joined, ")"));
        operands++;
        t->at += 2;
    }
    t->at++;
    t->classes--;
    if (operands == 1 && !o.others.bytes) { /* a class of PCRE2 */
        LH_TRY_DONE(end_operand(t, &o, negated, out));
        goto done;
    }
    LH_TRY_DONE(end_operand(t, &o, 0, &joined));
    LH_TRY_DONE(lh_buf_printf(out, negated ? "(?:(?!%s)(?s:.))" : "(?:%s)", joined.data));
done:
    lh_buf_clear(&o.members);
    lh_buf_clear(&o.others);
    lh_buf_clear(&joined);
    return st;
}

/* ---- groups ---- */

/* Options (?i), (?m), (?-i), alone or before a colon: Oniguruma's m is PCRE2's s. Alone they hold for the rest of the
 * group; the engines divide its branches differently unless the options come first. */
static lh_status read_options(translation *t)
{
    const char *at = t->at + 2;
    LH_TRY(lh_buf_puts(t->out, "(?"));
    for (int on = 1; *at == 'i' || *at == 'm' || *at == '-'; at++) {
        if (*at == '-') on = 0;
        if (*at == 'i') t->caseless[t->depth] = on;
        LH_TRY(lh_buf_append(t->out, *at == 'm' ? "s" : at, 1));
    }
    if (*at != ':' && *at != ')') return refuse(t, t->at, (int)(at + 1 - t->at), "groups have no such options");
    if (*at == ')' && t->groups[t->depth] != t->branch[t->depth - 1])
        return refuse(t, t->at, (int)(at + 1 - t->at), "options stand at the beginning of a branch");
    LH_TRY(lh_buf_append(t->out, at, 1));
    if (*at == ')') { /* no group: for the rest of the surrounding group */
        t->caseless[t->depth - 1] = t->caseless[t->depth];
        t->depth--;
    }
    t->branch[t->depth] = t->out->bytes;
    t->at = at + 1;
    return LH_OK;
}

static lh_status open_group(translation *t)
{
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    if (t->at[1] == '*') return refuse(t, t->at, 8, "no tokenizer needs verbs");
    if (t->depth + 1 == GROUPS_MAX) return refuse(t, t->at, 1, "groups are nested too deep");
    const int64_t start = t->out->bytes;
    size_t bytes = 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(t->at, kinds[i], strlen(kinds[i])) == 0) bytes = strlen(kinds[i]);
    if (bytes == 1 && t->at[1] == '?' && t->at[2] == '<') { /* a name */
        const char *end = strchr(t->at, '>');
        if (!end) return refuse(t, t->at, 8, "the name of a group does not end");
        bytes = (size_t)(end + 1 - t->at);
    }
    t->groups[++t->depth] = start;
    t->caseless[t->depth] = t->caseless[t->depth - 1];
    t->atom = -1;
    if (bytes == 1 && t->at[1] == '?') return read_options(t);
    LH_TRY(lh_buf_append(t->out, t->at, (int64_t)bytes));
    t->branch[t->depth] = t->out->bytes;
    t->at += bytes;
    return LH_OK;
}

static lh_status close_group(translation *t)
{
    if (t->depth == 0) return refuse(t, t->at, 1, "no group is open");
    t->atom = t->groups[t->depth--];
    LH_TRY(lh_buf_append(t->out, t->at++, 1));
    return LH_OK;
}

/* ---- repetitions ---- */

/* Inserts text at byte `at`. */
static lh_status insert(lh_buf *out, int64_t at, const char *text)
{
    const int64_t bytes = (int64_t)strlen(text), moved = out->bytes - at;
    LH_TRY(lh_buf_append(out, text, bytes));
    memmove(out->data + at + bytes, out->data + at, (size_t)moved);
    memcpy(out->data + at, text, (size_t)bytes);
    return LH_OK;
}

/* {n}, {n,}, {n,m}, {,m}; other text is literal. *read: true if it was an interval. */
static lh_status read_interval(translation *t, int *read)
{
    char *end = NULL;
    const char *at = t->at + 1;
    const int has_low = *at >= '0' && *at <= '9';
    const long long low = has_low ? strtoll(at, &end, 10) : 0;
    if (has_low) at = end;
    const int has_comma = *at == ',';
    at += has_comma;
    const int has_high = has_comma && *at >= '0' && *at <= '9';
    while (has_high && *at >= '0' && *at <= '9') at++;
    *read = *at == '}' && (has_low || has_high) && t->atom >= 0;
    if (!*read) return LH_OK;
    if (low > *t->longest) *t->longest = low < REPEATS_MAX ? low : REPEATS_MAX;
    LH_TRY(lh_buf_puts(t->out, has_low ? "{" : "{0"));
    LH_TRY(lh_buf_append(t->out, t->at + 1, at - t->at));
    t->at = at + 1;
    if (*t->at == '+' || (*t->at == '?' && !has_comma)) { /* repeats the repetition */
        LH_TRY(insert(t->out, t->atom, "(?:"));
        LH_TRY(lh_buf_puts(t->out, ")"));
    } else if (*t->at == '?') {
        LH_TRY(lh_buf_append(t->out, t->at++, 1));
    }
    return LH_OK;
}

/* ---- the expression ---- */

static lh_status read_escape(translation *t)
{
    const char c = t->at[1];
    const set *is = set_of(c);
    int read = 0;
    t->atom = t->out->bytes;
    if (is) {
        t->at += 2;
        return lh_buf_printf(t->out, "[%s%s]", is->negated ? "^" : "", is->alone);
    }
    if (c == 'p' || c == 'P') return read_property(t, t->out);
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (items[i].letter == c) {
            t->at += 2;
            return lh_buf_puts(t->out, items[i].is);
        }
    if (c && strchr("123456789gk", c)) /* characters that a back reference skips are not counted */
        return refuse(t, t->at, 2, "it refers back to a group, no tokenizer needs that");
    LH_TRY(read_character(t, t->out, &read));
    return read ? LH_OK : refuse(t, t->at, 2, "no such escape is known to mean the same in PCRE2");
}

static lh_status read_plain(translation *t)
{
    int bytes = 1, read = 0;
    if (*t->at == '{') {
        LH_TRY(read_interval(t, &read));
        if (read) return LH_OK;
    }
    while (((unsigned char)t->at[bytes] & 0xC0) == 0x80) bytes++;
    if (!strchr("*+?", *t->at)) t->atom = *t->at == '|' ? -1 : t->out->bytes;
    LH_TRY(lh_buf_append(t->out, t->at, bytes));
    if (*t->at == '|') t->branch[t->depth] = t->out->bytes;
    t->at += bytes;
    return LH_OK;
}

/* Appends `regex`, written for Oniguruma with Ruby's syntax, as Hugging Face compiles it, in PCRE2's: for
 * PCRE2_MULTILINE and a line feed as the newline. *longest: raised to the largest minimum of a repetition {n,m}.
 * LH_EINPUT names the element that is not known to mean the same; `name` is the file. */
static lh_status translate(const char *name, const char *regex, lh_buf *out, int64_t *longest)
{
    translation t = {.name = name, .regex = regex, .at = regex, .out = out, .longest = longest, .atom = -1};
    t.branch[0] = out->bytes;
    while (*t.at) {
        if (*t.at == '\\') {
            LH_TRY(read_escape(&t));
        } else if (*t.at == '[') {
            t.atom = out->bytes;
            LH_TRY(read_class(&t, out));
        } else if (*t.at == '(') {
            LH_TRY(open_group(&t));
        } else if (*t.at == ')') {
            LH_TRY(close_group(&t));
        } else {
            LH_TRY(read_plain(&t));
        }
    }
    return LH_OK;
}

/* ---- searches ---- */

enum { PATTERN_BYTES = 1 << 16, STACK_MIB = 4, HEAP_MIB = 64 };

/* A quick search: bytes of its window, and PCRE2's match limit. */
enum { WINDOW_BYTES = 128, WINDOW_STEPS = 256 };

/* Of a text. Published tokenizers need up to 5 steps a byte, on a megabyte of white space. */
enum { STEPS_PER_BYTE = 64, STEPS_AT_LEAST = 1 << 24 };

struct lh_pattern {
    pcre2_code *quick, *counted; /* NULL: literal */
    int64_t item_steps;          /* of an item: 1, and the maximum repetitions after which it can fail */
    char *text;                  /* the literal, or the expression as written */
    int64_t bytes;
    char *name; /* of the file */
};

struct lh_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int64_t steps, limit; /* used by the text so far, and its budget */
    int64_t item_steps;   /* of the current expression */
    PCRE2_SIZE last;      /* position of the last call back */
};

static lh_status compile(pcre2_code **out, const lh_pattern *p, const lh_buf *regex, uint32_t options)
{
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) LH_FAIL(LH_ENOMEM, "cannot allocate what a regular expression needs to be compiled");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    *out = pcre2_compile((PCRE2_SPTR)regex->data, (PCRE2_SIZE)regex->bytes,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | options, &error, &at,
                         context);
    pcre2_compile_context_free(context);
    if (!*out) {
        char why[160];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
        LH_FAIL(LH_EINPUT, "'%s': the regular expression '%.200s' is not understood: %s", p->name, p->text, why);
    }
    /* Without JIT matching is slower, not different. */
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE | (options & PCRE2_AUTO_CALLOUT ? 0 : PCRE2_JIT_PARTIAL_HARD));
    return LH_OK;
}

lh_status lh_pattern_regex(lh_pattern **out, const char *name, const char *regex)
{
    lh_status st = LH_OK;
    lh_pattern *p = NULL;
    lh_buf text = {0};
    if (strlen(regex) > PATTERN_BYTES)
        LH_FAIL_DONE(LH_EINPUT, "'%s': a regular expression of %zu bytes, at most %d are sensible", name, strlen(regex),
                     PATTERN_BYTES);
    LH_TRY_DONE(lh_calloc(&p, 1, sizeof *p));
    LH_TRY_DONE(lh_strdup(&p->name, name));
    LH_TRY_DONE(lh_strdup(&p->text, regex));
    LH_TRY_DONE(lh_buf_puts(&text, ""));
    LH_TRY_DONE(translate(name, regex, &text, &p->item_steps));
    p->item_steps++;
    LH_TRY_DONE(compile(&p->quick, p, &text, 0));
    LH_TRY_DONE(compile(&p->counted, p, &text, PCRE2_AUTO_CALLOUT));
    *out = p;
    p = NULL;
done:
    lh_pattern_free(p);
    lh_buf_clear(&text);
    return st;
}

lh_status lh_pattern_parse(lh_pattern **out, const char *name, const json_t *spec)
{
    lh_status st = LH_OK;
    lh_pattern *p = NULL;
    const json_t *literal = json_object_get(spec, "String"), *regex = json_object_get(spec, "Regex");
    if (json_is_string(spec)) literal = spec;
    if (json_is_string(regex)) {
        st = lh_pattern_regex(out, name, json_string_value(regex));
        goto done;
    }
    if (!json_is_string(literal))
        LH_FAIL_DONE(LH_EINPUT, "'%s': a 'pattern' must be {\"String\": text} or {\"Regex\": text}", name);
    LH_TRY_DONE(lh_calloc(&p, 1, sizeof *p));
    p->bytes = (int64_t)json_string_length(literal);
    LH_TRY_DONE(lh_strndup(&p->text, json_string_value(literal), p->bytes));
    *out = p;
    p = NULL;
done:
    lh_pattern_free(p);
    return st;
}

void lh_pattern_free(lh_pattern *pattern)
{
    if (!pattern) return;
    pcre2_code_free(pattern->quick);
    pcre2_code_free(pattern->counted);
    lh_free(pattern->text);
    lh_free(pattern->name);
    lh_free(pattern);
}

lh_status lh_matcher_open(lh_matcher **out, int64_t text_bytes)
{
    LH_TRY(lh_calloc(out, 1, sizeof **out));
    (*out)->limit = STEPS_AT_LEAST + STEPS_PER_BYTE * text_bytes;
    return LH_OK;
}

/* Called by the counted code before every item of an expression; a result other than 0 ends the search. */
static int count_steps(pcre2_callout_block *at, void *self)
{
    lh_matcher *m = self;
    PCRE2_SIZE here = at->current_position;
    m->steps += m->item_steps + (int64_t)(here > m->last ? here - m->last : m->last - here);
    m->last = here;
    return m->steps > m->limit ? PCRE2_ERROR_CALLOUT : 0;
}

/* Workspace of regular expressions, made for the first of them: most tokenizers decode without any. */
static lh_status prepare(lh_matcher *m)
{
    if (m->data) return LH_OK;
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(1 << 15, STACK_MIB << 20, NULL);
    m->data = pcre2_match_data_create(1, NULL);
    if (!m->data || !m->context) LH_FAIL(LH_ENOMEM, "cannot allocate what a regular expression needs to match");
    pcre2_jit_stack_assign(m->context, NULL, m->stack); /* NULL without JIT: no effect */
    pcre2_set_heap_limit(m->context, HEAP_MIB << 10);
    pcre2_set_callout(m->context, count_steps, m);
    return LH_OK;
}

void lh_matcher_close(lh_matcher *matcher)
{
    if (!matcher) return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    lh_free(matcher);
}

static void next_literal(const lh_pattern *p, lh_subject subject, lh_match *match)
{
    const char *at = NULL, *from = subject.text + match->end;
    if (p->bytes && match->end < subject.bytes)
        at = memmem(from, (size_t)(subject.bytes - match->end), p->text, (size_t)p->bytes);
    match->found = at != NULL;
    if (at) match->start = at - subject.text, match->end = match->start + p->bytes;
}

static int match_at(pcre2_code *code, lh_matcher *m, lh_subject subject, int64_t from, uint32_t options)
{
    return pcre2_match(code, (PCRE2_SPTR)subject.text, (PCRE2_SIZE)subject.bytes, (PCRE2_SIZE)from,
                       PCRE2_NO_UTF_CHECK | options, m->data, m->context);
}

/* The subject up to the end of the window that begins at `from`. */
static lh_subject window_of(lh_subject subject, int64_t from)
{
    int64_t end = from + WINDOW_BYTES;
    if (end >= subject.bytes) return subject;
    while (((unsigned char)subject.text[end] & 0xC0) == 0x80) end--;
    return (lh_subject){subject.text, end};
}

/* The result of pcre2_match for the first match at or after `from`. */
static int search(const lh_pattern *p, lh_matcher *m, lh_subject subject, int64_t from)
{
    pcre2_set_match_limit(m->context, WINDOW_STEPS);
    for (;;) {
        lh_subject window = window_of(subject, from);
        const int is_whole = window.bytes == subject.bytes;
        int rc = match_at(p->quick, m, window, from, is_whole ? 0 : PCRE2_PARTIAL_HARD);
        if (rc >= 0 && (is_whole || (int64_t)pcre2_get_ovector_pointer(m->data)[1] < window.bytes)) return rc;
        if (rc != PCRE2_ERROR_NOMATCH) break; /* it needs more text or more steps */
        if (is_whole) return rc;
        from = window.bytes;
    }
    pcre2_set_match_limit(m->context, UINT32_MAX);
    m->last = (PCRE2_SIZE)from;
    m->item_steps = p->item_steps;
    return match_at(p->counted, m, subject, from, 0);
}

static lh_status fail_search(const lh_pattern *p, const lh_matcher *m, int rc)
{
    char why[160];
    switch (rc) {
    case PCRE2_ERROR_CALLOUT:
        LH_FAIL(
            LH_EINPUT,
            "'%s': the tokenizer's regular expressions take more than %lld steps on this text, the last is '%.200s'",
            p->name, (long long)m->limit, p->text);
    case PCRE2_ERROR_JIT_STACKLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
        LH_FAIL(LH_EINPUT, "'%s': the tokenizer's regular expression '%.200s' takes more than %d MiB on this text",
                p->name, p->text, rc == PCRE2_ERROR_HEAPLIMIT ? HEAP_MIB : STACK_MIB);
    default:
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        LH_FAIL(LH_EINPUT, "'%s': the tokenizer's regular expression '%.200s' fails on this text: %s", p->name, p->text,
                why);
    }
}

lh_status lh_pattern_next(const lh_pattern *pattern, lh_matcher *matcher, lh_subject subject, lh_match *match)
{
    int64_t before = match->found ? match->end : -1, from = match->end;
    if (!pattern->quick) {
        next_literal(pattern, subject, match);
        return LH_OK;
    }
    LH_TRY(prepare(matcher));
    match->found = 0;
    while (from <= subject.bytes) {
        int rc = search(pattern, matcher, subject, from);
        if (rc == PCRE2_ERROR_NOMATCH) return LH_OK;
        if (rc < 0) LH_TRY(fail_search(pattern, matcher, rc));
        const PCRE2_SIZE *where = pcre2_get_ovector_pointer(matcher->data);
        int64_t start = (int64_t)where[0], end = (int64_t)where[1];
        if (start >= from && end >= start && end != before) { /* \K can move the start anywhere */
            *match = (lh_match){start, end, 1};
            return LH_OK;
        }
        if (from == subject.bytes) return LH_OK;
        from += lh_utf8_length(subject.text + from);
    }
    return LH_OK;
}
