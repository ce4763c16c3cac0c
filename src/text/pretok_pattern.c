/* pretok_pattern.c - searches literals and regular expressions. Hugging Face compiles with Oniguruma, we with PCRE2:
 * \s, \w and their negations are rewritten where the two differ. JIT is used where PCRE2 has it; a limit on steps stops
 * expressions that backtrack without end. */
#include "text/pretok_pattern.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { PATTERN_BYTES = 1 << 16, STACK_BYTES = 4 << 20 };

struct lh_pattern {
    pcre2_code *code; /* NULL: literal */
    char *literal;
    int64_t literal_bytes;
    char *name; /* of the file */
};

struct lh_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Oniguruma's classes in PCRE2's syntax. PCRE2 10.42 counts U+180E as white space and leaves marks out of \w. */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

static const struct {
    char letter;
    const char *outside, *inside; /* `inside` a bracketed class; NULL: unchanged */
} classes[] = {
    {'s', "[" SPACES "]", SPACES},
    {'S', "[^" SPACES "]", NULL},
    {'w', "[" WORDS "]", WORDS},
    {'W', "[^" WORDS "]", NULL},
};

static lh_status translate(lh_buf *out, const char *regex)
{
    int in_class = 0;
    for (const char *s = regex; *s; s++) {
        const char *instead = NULL;
        if (*s == '\\' && s[1]) {
            for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
                if (s[1] == classes[i].letter) instead = in_class ? classes[i].inside : classes[i].outside;
            LH_TRY(instead ? lh_buf_puts(out, instead) : lh_buf_append(out, s, 2));
            s++;
            continue;
        }
        LH_TRY(lh_buf_append(out, s, 1));
        if (*s == ']') in_class = 0;
        if (*s != '[' || in_class) continue;
        in_class = 1;
        if (s[1] == '^') LH_TRY(lh_buf_append(out, ++s, 1));
        if (s[1] == ']') LH_TRY(lh_buf_append(out, ++s, 1)); /* as the first character a bracket stands for itself */
    }
    return LH_OK;
}

lh_status lh_pattern_regex(lh_pattern **out, const char *name, const char *regex)
{
    lh_status st = LH_OK;
    lh_pattern *p = NULL;
    lh_buf text = {0};
    int error = 0;
    PCRE2_SIZE at = 0;
    if (strlen(regex) > PATTERN_BYTES)
        LH_FAIL_DONE(LH_EINPUT, "'%s': a regular expression of %zu bytes, at most %d are sensible", name, strlen(regex),
                     PATTERN_BYTES);
    LH_TRY_DONE(lh_calloc(&p, 1, sizeof *p));
    LH_TRY_DONE(lh_strdup(&p->name, name));
    LH_TRY_DONE(lh_buf_puts(&text, ""));
    LH_TRY_DONE(translate(&text, regex));
    p->code = pcre2_compile((PCRE2_SPTR)text.data, (PCRE2_SIZE)text.bytes,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, NULL);
    if (!p->code) {
        char why[160];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
        LH_FAIL_DONE(LH_EINPUT, "'%s': the regular expression '%.200s' is not understood: %s", name, regex, why);
    }
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it matching is slower, not different */
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
    p->literal_bytes = (int64_t)json_string_length(literal);
    LH_TRY_DONE(lh_strndup(&p->literal, json_string_value(literal), p->literal_bytes));
    *out = p;
    p = NULL;
done:
    lh_pattern_free(p);
    return st;
}

void lh_pattern_free(lh_pattern *pattern)
{
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    lh_free(pattern->literal);
    lh_free(pattern->name);
    lh_free(pattern);
}

lh_status lh_matcher_open(lh_matcher **out)
{
    return lh_calloc(out, 1, sizeof **out);
}

/* Workspace of regular expressions, made for the first one: most tokenizers decode without any. */
static lh_status prepare(lh_matcher *m)
{
    if (m->data) return LH_OK;
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(1 << 15, STACK_BYTES, NULL);
    m->data = pcre2_match_data_create(1, NULL);
    if (!m->data || !m->context) LH_FAIL(LH_ENOMEM, "cannot allocate what a regular expression needs to match");
    pcre2_jit_stack_assign(m->context, NULL, m->stack); /* NULL without JIT: no effect */
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
    if (p->literal_bytes && match->end < subject.bytes)
        at = memmem(from, (size_t)(subject.bytes - match->end), p->literal, (size_t)p->literal_bytes);
    match->found = at != NULL;
    if (at) match->start = at - subject.text, match->end = match->start + p->literal_bytes;
}

lh_status lh_pattern_next(const lh_pattern *pattern, lh_matcher *matcher, lh_subject subject, lh_match *match)
{
    int64_t before = match->found ? match->end : -1, from = match->end;
    if (!pattern->code) {
        next_literal(pattern, subject, match);
        return LH_OK;
    }
    LH_TRY(prepare(matcher));
    /* The limit of one search: a reasonable pattern needs a few steps per byte (it walks back over white space once).
     */
    int64_t steps = 10000000 + 16 * subject.bytes;
    pcre2_set_match_limit(matcher->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    match->found = 0;
    while (from <= subject.bytes) {
        int rc = pcre2_match(pattern->code, (PCRE2_SPTR)subject.text, (PCRE2_SIZE)subject.bytes, (PCRE2_SIZE)from,
                             PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
        if (rc == PCRE2_ERROR_NOMATCH) return LH_OK;
        if (rc < 0) {
            char why[160];
            pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
            LH_FAIL(LH_EINPUT, "'%s': a regular expression of the tokenizer fails on this text: %s", pattern->name,
                    why);
        }
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
