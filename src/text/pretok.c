/* pretok.c - runs the pre-tokenizers of a tokenizer.json. Each known type is parsed into steps of four kinds: split at
 * a pattern, put a prefix before words, replace spaces, map bytes to the byte-level alphabet. Steps run in order over a
 * list of words, as Hugging Face's tokenizers does. */
#include "text/pretok.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "base/unicode.h"
#include "text/tokenizer_spec.h"

/* SplitDelimiterBehavior of Hugging Face: handling of the matches of a Split. */
typedef enum behaviour { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS, BEHAVIOURS } behaviour;

static const char *const behaviour_names[BEHAVIOURS] = {
    [REMOVED] = "Removed",
    [ISOLATED] = "Isolated",
    [MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
    [MERGED_WITH_NEXT] = "MergedWithNext",
    [CONTIGUOUS] = "Contiguous",
};

typedef enum prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } prepend;

typedef struct step step;
struct step {
    lh_status (*run)(const step *s, lh_matcher *matcher, lh_place place, const lh_words *in, lh_words *out);
    lh_pattern *pattern; /* split */
    behaviour behaviour;
    int invert;
    prepend prepend; /* prefix: a space, or its replacement, before a word that does not begin with it */
    char text[8];    /* the prefix. Metaspace: the replacement */
};

/* A part makes at most three steps. */
enum { STEPS = 3 * LH_SPEC_PARTS };

struct lh_pretok {
    step steps[STEPS];
    int n;
};

/* ---- the byte-level alphabet (openai/gpt-2, encoder.py, bytes_to_unicode): printable bytes stay, other bytes are
 * mapped to U+0100 onwards in order ---- */

static int printable(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

uint32_t lh_byte_to_char(uint8_t byte)
{
    if (printable(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x121u + (byte - 0x7Fu);
}

int lh_char_to_byte(uint32_t cp)
{
    if (cp < 0x100) return printable(cp) ? (int)cp : -1;
    if (cp <= 0x120) return (int)(cp - 0x100);
    if (cp <= 0x142) return (int)(cp - 0x121 + 0x7F);
    return cp == 0x143 ? 0xAD : -1;
}

/* ---- words ---- */

lh_status lh_words_extend(lh_words *words, const char *text, int64_t bytes)
{
    LH_TRY(lh_buf_append(&words->text, text, bytes));
    words->ends[words->n - 1] = words->text.bytes;
    return LH_OK;
}

lh_status lh_words_add(lh_words *words, const char *text, int64_t bytes)
{
    if (words->n == words->cap) {
        int64_t cap = words->cap ? 2 * words->cap : 64;
        LH_TRY(lh_realloc(&words->ends, cap, sizeof *words->ends));
        words->cap = cap;
    }
    words->ends[words->n++] = words->text.bytes;
    LH_TRY(lh_words_extend(words, text, bytes));
    return LH_OK;
}

void lh_words_empty(lh_words *words)
{
    words->text.bytes = 0;
    words->n = 0;
}

void lh_words_clear(lh_words *words)
{
    lh_buf_clear(&words->text);
    lh_free(words->ends);
    *words = (lh_words){0};
}

lh_subject lh_words_at(const lh_words *words, int64_t i)
{
    int64_t start = i ? words->ends[i - 1] : 0;
    return (lh_subject){words->text.data + start, words->ends[i] - start};
}

/* ---- steps ---- */

/* Folding the parts of a split word, as NormalizedString::split of Hugging Face does. */
typedef struct parts {
    lh_words *out;
    int64_t first;      /* words of `out` before this word's */
    int before_matches; /* the previous part was a match */
} parts;

static lh_status add_part(parts *p, const step *s, lh_subject part, int matches)
{
    int extend = 0, have = p->out->n > p->first;
    matches ^= s->invert;
    switch (s->behaviour) {
    case MERGED_WITH_PREVIOUS: extend = have && matches && !p->before_matches; break;
    case MERGED_WITH_NEXT: extend = have && !matches && p->before_matches; break;
    case CONTIGUOUS: extend = have && matches == p->before_matches; break;
    default: break;
    }
    p->before_matches = matches;
    if (part.bytes == 0 || (s->behaviour == REMOVED && matches)) return LH_OK;
    LH_TRY(extend ? lh_words_extend(p->out, part.text, part.bytes) : lh_words_add(p->out, part.text, part.bytes));
    return LH_OK;
}

static lh_status split(const step *s, lh_matcher *matcher, lh_place place, const lh_words *in, lh_words *out)
{
    (void)place;
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject word = lh_words_at(in, i);
        parts p = {out, out->n, 0};
        lh_match match = {0};
        for (;;) {
            int64_t from = match.end;
            LH_TRY(lh_pattern_next(s->pattern, matcher, word, &match));
            int64_t until = match.found ? match.start : word.bytes;
            if (until > from) LH_TRY(add_part(&p, s, (lh_subject){word.text + from, until - from}, 0));
            if (!match.found) break;
            LH_TRY(add_part(&p, s, (lh_subject){word.text + match.start, match.end - match.start}, 1));
        }
    }
    return LH_OK;
}

static int prepends(const step *s, lh_place place, int64_t i)
{
    if (i == 0 && place == LH_PLACE_CONTINUES) return 0;
    return s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && i == 0 && place == LH_PLACE_START);
}

static lh_status prefix(const step *s, lh_matcher *matcher, lh_place place, const lh_words *in, lh_words *out)
{
    (void)matcher;
    int64_t bytes = (int64_t)strlen(s->text);
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject word = lh_words_at(in, i);
        int begins = word.bytes >= bytes && memcmp(word.text, s->text, (size_t)bytes) == 0;
        LH_TRY(lh_words_add(out, s->text, prepends(s, place, i) && !begins ? bytes : 0));
        LH_TRY(lh_words_extend(out, word.text, word.bytes));
    }
    return LH_OK;
}

/* Metaspace's first half: every space becomes the replacement. */
static lh_status replace_spaces(const step *s, lh_matcher *matcher, lh_place place, const lh_words *in, lh_words *out)
{
    (void)matcher, (void)place;
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject word = lh_words_at(in, i);
        LH_TRY(lh_words_add(out, NULL, 0));
        for (int64_t from = 0; from < word.bytes;) {
            const char *space = memchr(word.text + from, ' ', (size_t)(word.bytes - from));
            int64_t until = space ? space - word.text : word.bytes;
            LH_TRY(lh_words_extend(out, word.text + from, until - from));
            if (space) LH_TRY(lh_words_extend(out, s->text, (int64_t)strlen(s->text)));
            from = until + 1;
        }
    }
    return LH_OK;
}

static lh_status map_bytes(const step *s, lh_matcher *matcher, lh_place place, const lh_words *in, lh_words *out)
{
    char chars[256][4], mapped[512];
    int lengths[256];
    (void)s, (void)matcher, (void)place;
    for (int b = 0; b < 256; b++) lengths[b] = lh_utf8_write(chars[b], lh_byte_to_char((uint8_t)b));
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject word = lh_words_at(in, i);
        int64_t n = 0;
        LH_TRY(lh_words_add(out, NULL, 0));
        for (int64_t k = 0; k < word.bytes; k++) {
            unsigned char b = (unsigned char)word.text[k];
            if (n > (int64_t)sizeof mapped - 4) {
                LH_TRY(lh_words_extend(out, mapped, n));
                n = 0;
            }
            memcpy(mapped + n, chars[b], (size_t)lengths[b]);
            n += lengths[b];
        }
        LH_TRY(lh_words_extend(out, mapped, n));
    }
    return LH_OK;
}

lh_status lh_pretok_run(const lh_pretok *pretok, lh_matcher *matcher, lh_place place, lh_words *words, lh_words *spare)
{
    int64_t limit_bytes = 64 * words->text.bytes + (1 << 24); /* steps can double the text, and there are many */
    for (int i = 0; i < pretok->n; i++) {
        if (words->text.bytes > limit_bytes)
            LH_FAIL(LH_EINPUT, "the tokenizer's 'pre_tokenizer' makes more than %lld bytes of the text",
                    (long long)limit_bytes);
        lh_words_empty(spare);
        LH_TRY(pretok->steps[i].run(&pretok->steps[i], matcher, place, words, spare));
        lh_words swap = *words;
        *words = *spare;
        *spare = swap;
    }
    return LH_OK;
}

/* ---- parsing ---- */

typedef struct parser {
    lh_pretok *pretok;
    const lh_spec *spec;
} parser;

static step *add_step(parser *p, step s)
{
    assert(p->pretok->n < STEPS);
    p->pretok->steps[p->pretok->n] = s;
    return &p->pretok->steps[p->pretok->n++];
}

static lh_status add_split(parser *p, const char *regex, behaviour how)
{
    step *s = add_step(p, (step){.run = split, .behaviour = how});
    return lh_pattern_regex(&s->pattern, p->spec->name, regex);
}

static void add_prefix(parser *p, prepend when, const char *text)
{
    if (when == PREPEND_NEVER) return;
    step *s = add_step(p, (step){.run = prefix, .prepend = when});
    memcpy(s->text, text, strlen(text));
}

static lh_status parse_behaviour(parser *p, const json_t *spec, behaviour *out)
{
    const char *name = behaviour_names[*out];
    LH_TRY(lh_json_string(spec, p->spec->name, "behavior", &name));
    for (int b = 0; b < BEHAVIOURS; b++)
        if (strcmp(name, behaviour_names[b]) == 0) {
            *out = (behaviour)b;
            return LH_OK;
        }
    LH_FAIL(LH_EINPUT,
            "'%s': behaviour '%s' of a pre-tokenizer is not known, known are Removed, Isolated, MergedWithPrevious, "
            "MergedWithNext, Contiguous",
            p->spec->name, name);
}

static lh_status parse_split(parser *p, const json_t *spec)
{
    step *s = add_step(p, (step){.run = split, .behaviour = ISOLATED});
    LH_TRY(parse_behaviour(p, spec, &s->behaviour));
    LH_TRY(lh_json_bool(spec, p->spec->name, "invert", &s->invert));
    LH_TRY(lh_pattern_parse(&s->pattern, p->spec->name, json_object_get(spec, "pattern")));
    return LH_OK;
}

static lh_status parse_byte_level(parser *p, const json_t *spec)
{
    int space = 1, regex = 1;
    LH_TRY(lh_json_bool(spec, p->spec->name, "add_prefix_space", &space));
    LH_TRY(lh_json_bool(spec, p->spec->name, "use_regex", &regex));
    add_prefix(p, space ? PREPEND_ALWAYS : PREPEND_NEVER, " ");
    if (regex) /* GPT-2's */
        LH_TRY(add_split(p, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                         ISOLATED));
    add_step(p, (step){.run = map_bytes});
    return LH_OK;
}

static lh_status parse_digits(parser *p, const json_t *spec)
{
    int individual = 0;
    LH_TRY(lh_json_bool(spec, p->spec->name, "individual_digits", &individual));
    LH_TRY(add_split(p, "\\p{N}", individual ? ISOLATED : CONTIGUOUS));
    return LH_OK;
}

static lh_status parse_whitespace(parser *p, const json_t *spec)
{
#define RUST_WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}" /* \w of Rust's regular expressions */
    (void)spec;
    LH_TRY(add_split(p, "[" RUST_WORDS "]+|[^" RUST_WORDS "\\s]+", REMOVED));
    p->pretok->steps[p->pretok->n - 1].invert = 1;
    return LH_OK;
}

static lh_status parse_whitespace_split(parser *p, const json_t *spec)
{
    (void)spec;
    return add_split(p, "\\s", REMOVED);
}

static lh_status parse_punctuation(parser *p, const json_t *spec)
{
    behaviour how = ISOLATED;
    LH_TRY(parse_behaviour(p, spec, &how));
    LH_TRY(add_split(p, "[\\p{P}$+<=>^`|~]", how));
    return LH_OK;
}

static lh_status parse_delimiter(parser *p, const json_t *spec)
{
    step *s = add_step(p, (step){.run = split, .behaviour = REMOVED});
    return lh_pattern_parse(&s->pattern, p->spec->name, json_object_get(spec, "delimiter"));
}

static lh_status parse_metaspace(parser *p, const json_t *spec)
{
    lh_status st = LH_OK;
    step *s = NULL;
    const char *replacement = "\xE2\x96\x81", *scheme = NULL;
    int space = 1, splits = 1;
    LH_TRY(lh_json_string(spec, p->spec->name, "replacement", &replacement));
    LH_TRY(lh_json_string(spec, p->spec->name, "prepend_scheme", &scheme));
    LH_TRY(lh_json_bool(spec, p->spec->name, "add_prefix_space", &space)); /* older files; prepend_scheme wins */
    LH_TRY(lh_json_bool(spec, p->spec->name, "split", &splits));
    if (!*replacement || (int64_t)strlen(replacement) != lh_utf8_length(replacement))
        LH_FAIL(LH_EINPUT, "'%s': 'replacement' of Metaspace must be one character", p->spec->name);
    prepend when = space ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (scheme) {
        if (strcmp(scheme, "always") != 0 && strcmp(scheme, "first") != 0 && strcmp(scheme, "never") != 0)
            LH_FAIL(LH_EINPUT, "'%s': 'prepend_scheme' is '%s', it must be 'always', 'first' or 'never'", p->spec->name,
                    scheme);
        when = *scheme == 'a' ? PREPEND_ALWAYS : *scheme == 'f' ? PREPEND_FIRST : PREPEND_NEVER;
    }
    s = add_step(p, (step){.run = replace_spaces});
    memcpy(s->text, replacement, strlen(replacement));
    add_prefix(p, when, replacement);
    if (!splits) return st;
    s = add_step(p, (step){.run = split, .behaviour = MERGED_WITH_NEXT});
    json_t *pattern = json_string(replacement);
    st = lh_pattern_parse(&s->pattern, p->spec->name, pattern);
    json_decref(pattern);
    return st;
}

static const struct {
    const char *type;
    lh_status (*parse)(parser *p, const json_t *spec);
} kinds[] = {
    {"Split", parse_split},
    {"ByteLevel", parse_byte_level},
    {"Digits", parse_digits},
    {"Whitespace", parse_whitespace},
    {"WhitespaceSplit", parse_whitespace_split},
    {"Punctuation", parse_punctuation},
    {"Metaspace", parse_metaspace},
    {"CharDelimiterSplit", parse_delimiter},
};

static const char *type_at(int i)
{
    return i < (int)(sizeof kinds / sizeof *kinds) ? kinds[i].type : NULL;
}

static lh_status read_steps(void *self, int type, const json_t *spec)
{
    return kinds[type].parse(self, spec);
}

lh_status lh_pretok_parse(lh_pretok **out, const char *name, const json_t *json)
{
    lh_status st = LH_OK;
    parser p = {0};
    const lh_spec spec = {name, "pre_tokenizer", "pretokenizers", type_at, &p, read_steps};
    LH_TRY_DONE(lh_calloc(&p.pretok, 1, sizeof *p.pretok));
    p.spec = &spec;
    LH_TRY_DONE(lh_spec_read(&spec, json));
    *out = p.pretok;
    p.pretok = NULL;
done:
    lh_pretok_free(p.pretok);
    return st;
}

void lh_pretok_free(lh_pretok *pretok)
{
    if (!pretok) return;
    for (int i = 0; i < pretok->n; i++) lh_pattern_free(pretok->steps[i].pattern);
    lh_free(pretok);
}
