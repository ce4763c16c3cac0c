/* pretok_pattern.c - searches literals and regular expressions. Hugging Face compiles with Oniguruma, we with PCRE2,
 * for which expressions are translated (pretok_syntax.c). JIT is used where PCRE2 has it.
 *
 * A foreign expression must not take hours or gigabytes. PCRE2's own limits bound one search, not a text, and do not
 * count the characters that a repetition walks over. So an expression is compiled twice. Nearly every search ends
 * within a few bytes and steps: the quick code sees a window of the text and has a low limit. If the window or the
 * limit does not suffice, the counted code searches again: PCRE2 calls back at every item, which adds the distance
 * walked to what the text has used of its budget. Both give the same matches. */
#include "text/pretok_pattern.h"

#include <string.h>

#include "base/mem.h"
#include "base/unicode.h"
#include "text/pretok_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { PATTERN_BYTES = 1 << 16, STACK_MIB = 4, HEAP_MIB = 64 };

/* Of a quick search: bytes it sees, and PCRE2's match limit. */
enum { WINDOW_BYTES = 128, WINDOW_STEPS = 256 };

/* Of a text. Published tokenizers need up to 5 steps a byte, on a megabyte of white space. */
enum { STEPS_PER_BYTE = 64, STEPS_AT_LEAST = 1 << 24 };

struct lh_pattern {
    pcre2_code *quick, *counted; /* NULL: literal */
    int64_t item_steps;          /* of one item: 1, and the most repetitions that it can fail after */
    char *text;                  /* the literal, or the expression as written */
    int64_t bytes;
    char *name; /* of the file */
};

struct lh_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int64_t steps, limit; /* used by the text so far, and its budget */
    int64_t item_steps;   /* of the expression that is searched for */
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
    LH_TRY_DONE(lh_pretok_translate(name, regex, &text, &p->item_steps));
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

/* Called by the counted code before every item of an expression; not 0 ends the search. */
static int count_steps(pcre2_callout_block *at, void *self)
{
    lh_matcher *m = self;
    PCRE2_SIZE here = at->current_position;
    m->steps += m->item_steps + (int64_t)(here > m->last ? here - m->last : m->last - here);
    m->last = here;
    return m->steps > m->limit ? PCRE2_ERROR_CALLOUT : 0;
}

/* Workspace of regular expressions, made for the first one: most tokenizers decode without any. */
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

/* What pcre2_match returns for the first match at or after `from`. */
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

static lh_status refuse(const lh_pattern *p, const lh_matcher *m, int rc)
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
        if (rc < 0) LH_TRY(refuse(pattern, matcher, rc));
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
