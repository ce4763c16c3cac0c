/* tokenizer_norm.c - runs the normalizers of a tokenizer.json over a text: Unicode normalisation by utf8proc, other
 * steps by hand, in the order of the file. */
#include "text/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/json.h"
#include "base/unicode.h"
#include "text/tokenizer_spec.h"

typedef struct work {
    lh_matcher *matcher;
    int64_t limit_bytes; /* of the text: repeated replacements could grow without bound */
} work;

typedef struct step step;
struct step {
    lh_status (*run)(const step *s, const work *w, const lh_buf *in, lh_buf *out);
    int options; /* utf8proc's */
    int left, right;
    lh_pattern *pattern;
    char *text; /* replacement, or the text to prepend */
    int64_t bytes;
};

struct lh_norm {
    step steps[LH_SPEC_PARTS];
    int n;
};

/* ---- steps ---- */

static lh_status compose(const step *s, const work *w, const lh_buf *in, lh_buf *out)
{
    lh_status st = LH_OK;
    utf8proc_uint8_t *mapped = NULL;
    (void)w;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)in->data, (utf8proc_ssize_t)in->bytes, &mapped,
                                      (utf8proc_option_t)s->options);
    if (n < 0) LH_FAIL_DONE(LH_EINPUT, "cannot normalise the text: %s", utf8proc_errmsg(n));
    LH_TRY_DONE(lh_buf_append(out, mapped, n));
done:
    free(mapped);
    return st;
}

static lh_status lowercase(const step *s, const work *w, const lh_buf *in, lh_buf *out)
{
    (void)s, (void)w;
    for (int64_t at = 0; at < in->bytes;) {
        uint32_t cp;
        int skip;
        char c[4];
        lh_utf8_read(in->data + at, in->bytes - at, &cp, &skip);
        at += skip;
        if (cp == 0x130) { /* the only character with a lower case of two characters */
            LH_TRY(lh_buf_append(out, "i\xCC\x87", 3));
            continue;
        }
        LH_TRY(lh_buf_append(out, c, lh_utf8_write(c, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp))));
    }
    return LH_OK;
}

static lh_status strip_accents(const step *s, const work *w, const lh_buf *in, lh_buf *out)
{
    (void)s, (void)w;
    for (int64_t at = 0; at < in->bytes;) {
        uint32_t cp;
        int skip;
        lh_utf8_read(in->data + at, in->bytes - at, &cp, &skip);
        utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);
        if (category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC && category != UTF8PROC_CATEGORY_ME)
            LH_TRY(lh_buf_append(out, in->data + at, skip));
        at += skip;
    }
    return LH_OK;
}

static lh_status strip(const step *s, const work *w, const lh_buf *in, lh_buf *out)
{
    int64_t start = 0, end = in->bytes;
    uint32_t cp;
    int skip;
    (void)w;
    while (s->left && start < end) {
        lh_utf8_read(in->data + start, end - start, &cp, &skip);
        if (!lh_char_is_space(cp)) break;
        start += skip;
    }
    while (s->right && start < end) {
        int64_t last = end - 1;
        while (last > start && ((unsigned char)in->data[last] & 0xC0) == 0x80) last--;
        lh_utf8_read(in->data + last, end - last, &cp, &skip);
        if (!lh_char_is_space(cp)) break;
        end = last;
    }
    return lh_buf_append(out, in->data + start, end - start);
}

static lh_status replace(const step *s, const work *w, const lh_buf *in, lh_buf *out)
{
    lh_match match = {0};
    for (;;) {
        int64_t from = match.end;
        LH_TRY(lh_pattern_next(s->pattern, w->matcher, (lh_subject){in->data, in->bytes}, &match));
        LH_TRY(lh_buf_append(out, in->data + from, (match.found ? match.start : in->bytes) - from));
        if (!match.found) break;
        LH_TRY(lh_buf_append(out, s->text, s->bytes));
        if (out->bytes > w->limit_bytes)
            LH_FAIL(LH_EINPUT, "the tokenizer's 'normalizer' makes more than %lld bytes of the text",
                    (long long)w->limit_bytes);
    }
    return LH_OK;
}

static lh_status put_in_front(const step *s, const work *w, const lh_buf *in, lh_buf *out)
{
    (void)w;
    if (in->bytes) LH_TRY(lh_buf_append(out, s->text, s->bytes));
    LH_TRY(lh_buf_append(out, in->data, in->bytes));
    return LH_OK;
}

static int is_ascii(const lh_buf *text)
{
    unsigned char all = 0;
    for (int64_t i = 0; i < text->bytes; i++) all |= (unsigned char)text->data[i];
    return all < 0x80;
}

lh_status lh_norm_run(const lh_norm *norm, lh_matcher *matcher, lh_place place, lh_buf *text, lh_buf *spare)
{
    work w = {matcher, 64 * text->bytes + (1 << 24)};
    LH_TRY(lh_buf_append(text, NULL, 0)); /* so that data is never NULL */
    for (int i = 0; i < norm->n; i++) {
        const step *s = &norm->steps[i];
        if (s->run == compose && is_ascii(text)) continue;
        if (s->run == put_in_front && place == LH_PLACE_CONTINUES) continue;
        spare->bytes = 0;
        LH_TRY(lh_buf_append(spare, NULL, 0));
        LH_TRY(s->run(s, &w, text, spare));
        lh_buf swap = *text;
        *text = *spare;
        *spare = swap;
    }
    return LH_OK;
}

/* ---- parsing ---- */

typedef struct parser {
    lh_norm *norm;
    const lh_spec *spec;
} parser;

static lh_status parse_strip(parser *p, step *s, const json_t *spec)
{
    s->left = s->right = 1;
    LH_TRY(lh_json_bool(spec, p->spec->name, "strip_left", &s->left));
    LH_TRY(lh_json_bool(spec, p->spec->name, "strip_right", &s->right));
    return LH_OK;
}

static lh_status parse_replace(parser *p, step *s, const json_t *spec)
{
    LH_TRY(lh_pattern_parse(&s->pattern, p->spec->name, json_object_get(spec, "pattern")));
    LH_TRY(lh_spec_text(p->spec, "content", json_object_get(spec, "content"), &s->text, &s->bytes));
    return LH_OK;
}

static lh_status parse_prepend(parser *p, step *s, const json_t *spec)
{
    return lh_spec_text(p->spec, "prepend", json_object_get(spec, "prepend"), &s->text, &s->bytes);
}

static const struct {
    const char *type;
    lh_status (*run)(const step *s, const work *w, const lh_buf *in, lh_buf *out);
    lh_status (*parse)(parser *p, step *s, const json_t *spec); /* NULL: no members */
    int options;
} kinds[] = {
    {"NFC", compose, NULL, UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    {"NFD", compose, NULL, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    {"NFKC", compose, NULL, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {"NFKD", compose, NULL, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
    {"Lowercase", lowercase, NULL, 0},
    {"Strip", strip, parse_strip, 0},
    {"StripAccents", strip_accents, NULL, 0},
    {"Replace", replace, parse_replace, 0},
    {"Prepend", put_in_front, parse_prepend, 0},
};

static const char *type_at(int i)
{
    return i < (int)(sizeof kinds / sizeof *kinds) ? kinds[i].type : NULL;
}

static lh_status read_step(void *self, int type, const json_t *spec)
{
    parser *p = self;
    step *s = &p->norm->steps[p->norm->n++];
    *s = (step){.run = kinds[type].run, .options = kinds[type].options};
    return kinds[type].parse ? kinds[type].parse(p, s, spec) : LH_OK;
}

lh_status lh_norm_parse(lh_norm **out, const char *name, const json_t *json)
{
    lh_status st = LH_OK;
    parser p = {0};
    const lh_spec spec = {name, "normalizer", "normalizers", type_at, &p, read_step};
    LH_TRY_DONE(lh_calloc(&p.norm, 1, sizeof *p.norm));
    p.spec = &spec;
    LH_TRY_DONE(lh_spec_read(&spec, json));
    *out = p.norm;
    p.norm = NULL;
done:
    lh_norm_free(p.norm);
    return st;
}

void lh_norm_free(lh_norm *norm)
{
    if (!norm) return;
    for (int i = 0; i < norm->n; i++) {
        lh_pattern_free(norm->steps[i].pattern);
        lh_free(norm->steps[i].text);
    }
    lh_free(norm);
}
