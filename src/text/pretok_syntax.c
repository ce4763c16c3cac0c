/* pretok_syntax.c - translates regular expressions by tables of what is understood; what is in none of them is refused
 * by its name, because the two engines read it differently or nobody has compared them. Differences between Oniguruma
 * (https://github.com/kkos/oniguruma/blob/master/doc/RE) and PCRE2:
 *
 * - Oniguruma's bracketed classes nest and intersect, [a-z&&[^aeiou]]; PCRE2 10.42 reads '[' and '&&' as characters.
 * - ^ and $ hold at every line, and (?m) lets a dot match line feeds.
 * - X{n,m}+ repeats X{n,m}, which is not possessive; X{n}? is optional, not reluctant; X{,m} is X{0,m}.
 * - \w has marks and numbers, \s lacks U+180E, \h is a hexadecimal digit, \v a vertical tab, \p{Han} the script
 *   without its extensions. */
#include "text/pretok_syntax.h"

#include <stdlib.h>
#include <string.h>

/* PCRE2 repeats no more often. */
enum { REPEATS_MAX = 65535 };

enum { GROUPS_MAX = 128, CLASSES_MAX = 16 };

typedef struct translation {
    const char *name, *regex;
    const char *at; /* what is read next */
    lh_buf *out;
    int64_t *longest;
    int64_t atom;               /* where in *out the last item begins that can be repeated; -1: none */
    int64_t groups[GROUPS_MAX]; /* where open groups begin */
    int64_t branch[GROUPS_MAX]; /* where their last branches begin, after options */
    int depth, classes;
    int caseless[GROUPS_MAX]; /* true under (?i) */
} translation;

static lh_status refuse(const translation *t, const char *what, int bytes, const char *why)
{
    LH_FAIL(LH_EINPUT, "'%s': '%.*s' in the regular expression '%.200s' is not understood: %s", t->name, bytes, what,
            t->regex, why);
}

/* ---- escapes ---- */

/* Members of a bracketed class. By itself Oniguruma's \w has the numbers of Latin-1, too, in a class it has not. */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"
#define WORDS_IN_CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORDS WORDS_IN_CLASS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define HEX "0-9a-fA-F"

/* Sets of characters: members of a bracketed class, or all characters but these. */
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

/* Outside of classes: positions, and what matches no single character. */
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

/* \p{NAME}, \p{^NAME} and \P{NAME}. General categories and properties are called the same; other names are scripts,
 * whose extensions do not count. */
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

/* An escape that stands for a character inside and outside of classes. *read: 1 if it is one. */
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

/* The operand of an intersection: members of one bracketed class, and expressions of single characters. */
typedef struct operand {
    lh_buf members, others;
    int ends_with_set;
} operand;

static lh_status add_other(operand *o, const char *before, const char *text, const char *after)
{
    return lh_buf_printf(&o->others, "%s%s%s%s", o->others.bytes ? "|" : "", before, text, after);
}

/* Appends the operand as an expression of one character, and empties it. */
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

/* 1 for a property of one case: \p{Lu}. */
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
    if (*t->at == ']') { /* as the first character it stands for itself */
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

/* Options (?i), (?m), (?-i), alone or before a colon: Oniguruma's m is PCRE2's s. Alone they hold for what follows in
 * the group, whose branches the engines divide differently unless nothing stands before. */
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
    if (*at == ')') { /* no group: for the rest of the one around it */
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

/* {n}, {n,}, {n,m}, {,m}; what is none of these stands for itself. *read: 1 if it was one. */
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
    if (c && strchr("123456789gk", c)) /* what one walks over without matching is not counted (pretok_pattern.c) */
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

lh_status lh_pretok_translate(const char *name, const char *regex, lh_buf *out, int64_t *longest)
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
