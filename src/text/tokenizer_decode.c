/* tokenizer_decode.c - runs the decoders of a tokenizer.json: steps in order over a list of pieces, ending in one text.
 * Also classifies decoders by how much of a stream's text is final before the next token is known. */
#include "text/tokenizer_impl.h"

#include <string.h>

#include "base/json.h"
#include "base/unicode.h"
#include "text/pretok.h"
#include "text/tokenizer_spec.h"

typedef lh_decoder_work work;

typedef struct step step;
struct step {
    lh_status (*run)(const step *s, const work *w, const lh_words *in, lh_words *out);
    lh_pattern *pattern;
    char *text; /* replacement; the character that Strip and Metaspace look for */
    int64_t bytes;
    int64_t start, stop; /* Strip: maximum numbers */
    int first;           /* Metaspace: removed in the first piece */
    int fused;           /* an earlier step joined the pieces */
};

struct lh_decoder {
    step steps[LH_SPEC_PARTS];
    int n;
    int joins; /* no decoder: pieces are joined by spaces */
    lh_settles settles;
};

int lh_piece_is_byte(const char *piece, int64_t bytes)
{
    int value = 0;
    if (bytes != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') return -1;
    for (int i = 3; i < 5; i++) {
        char c = piece[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* ---- steps ---- */

/* The bytes of all pieces, decoded together; a piece outside the byte-level alphabet stands for its own bytes. */
static lh_status from_bytes(const step *s, const work *w, const lh_words *in, lh_words *out)
{
    lh_status st = LH_OK;
    lh_buf bytes = {0}, text = {0};
    (void)s;
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject piece = lh_words_at(in, i);
        int64_t before = bytes.bytes;
        for (int64_t at = 0; at < piece.bytes;) {
            uint32_t cp;
            int skip, byte;
            lh_utf8_read(piece.text + at, piece.bytes - at, &cp, &skip);
            byte = lh_char_to_byte(cp);
            at += skip;
            if (byte < 0) {
                bytes.bytes = before;
                LH_TRY_DONE(lh_buf_append(&bytes, piece.text, piece.bytes));
                break;
            }
            char c = (char)byte;
            LH_TRY_DONE(lh_buf_append(&bytes, &c, 1));
        }
    }
    LH_TRY_DONE(lh_buf_append(&bytes, NULL, 0));
    if (!(w->how & LH_DECODING_BYTES)) LH_TRY_DONE(lh_utf8_append(&text, bytes.data, bytes.bytes));
    const lh_buf *whole = w->how & LH_DECODING_BYTES ? &bytes : &text;
    LH_TRY_DONE(lh_words_add(out, whole->data, whole->bytes));
done:
    lh_buf_clear(&bytes);
    lh_buf_clear(&text);
    return st;
}

static lh_status replace(const step *s, const work *w, const lh_words *in, lh_words *out)
{
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject piece = lh_words_at(in, i);
        lh_match match = {0};
        LH_TRY(lh_words_add(out, NULL, 0));
        for (;;) {
            int64_t from = match.end;
            LH_TRY(lh_pattern_next(s->pattern, w->matcher, piece, &match));
            LH_TRY(lh_words_extend(out, piece.text + from, (match.found ? match.start : piece.bytes) - from));
            if (!match.found) break;
            LH_TRY(lh_words_extend(out, s->text, s->bytes));
        }
    }
    return LH_OK;
}

/* A run of byte pieces is text if it is valid UTF-8 as a whole, else each byte becomes U+FFFD, as in Hugging Face. */
static lh_status add_run(const work *w, lh_buf *run, lh_words *out)
{
    if (run->bytes && (w->how & LH_DECODING_BYTES || lh_utf8_valid(run->data, run->bytes))) {
        LH_TRY(lh_words_add(out, run->data, run->bytes));
    } else {
        for (int64_t i = 0; i < run->bytes; i++) LH_TRY(lh_words_add(out, "\xEF\xBF\xBD", 3));
    }
    run->bytes = 0;
    return LH_OK;
}

static lh_status byte_fallback(const step *s, const work *w, const lh_words *in, lh_words *out)
{
    lh_status st = LH_OK;
    lh_buf run = {0};
    (void)s;
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject piece = lh_words_at(in, i);
        int byte = lh_piece_is_byte(piece.text, piece.bytes);
        char c = (char)byte;
        if (byte >= 0) {
            LH_TRY_DONE(lh_buf_append(&run, &c, 1));
            continue;
        }
        LH_TRY_DONE(add_run(w, &run, out));
        LH_TRY_DONE(lh_words_add(out, piece.text, piece.bytes));
    }
    LH_TRY_DONE(add_run(w, &run, out));
done:
    lh_buf_clear(&run);
    return st;
}

static lh_status fuse(const step *s, const work *w, const lh_words *in, lh_words *out)
{
    (void)s, (void)w;
    LH_TRY(lh_words_add(out, in->text.data, in->text.bytes));
    return LH_OK;
}

static int begins_with(const step *s, lh_subject text)
{
    return text.bytes >= s->bytes && memcmp(text.text, s->text, (size_t)s->bytes) == 0;
}

static int ends_with(const step *s, lh_subject text)
{
    return text.bytes >= s->bytes && memcmp(text.text + text.bytes - s->bytes, s->text, (size_t)s->bytes) == 0;
}

/* Once the pieces are joined: at the start and at the end of the text alone. */
static lh_status strip(const step *s, const work *w, const lh_words *in, lh_words *out)
{
    const int64_t start = s->fused && w->how & LH_DECODING_CONTINUES ? 0 : s->start;
    const int64_t stop = s->fused && w->how & LH_DECODING_BYTES ? 0 : s->stop;
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject piece = lh_words_at(in, i);
        for (int64_t n = 0; n < start && begins_with(s, piece); n++) piece.text += s->bytes, piece.bytes -= s->bytes;
        for (int64_t n = 0; n < stop && ends_with(s, piece); n++) piece.bytes -= s->bytes;
        LH_TRY(lh_words_add(out, piece.text, piece.bytes));
    }
    return LH_OK;
}

static lh_status metaspace(const step *s, const work *w, const lh_words *in, lh_words *out)
{
    const int first = s->first && (s->fused || !(w->how & LH_DECODING_CONTINUES));
    for (int64_t i = 0; i < in->n; i++) {
        lh_subject piece = lh_words_at(in, i);
        LH_TRY(lh_words_add(out, NULL, 0));
        while (piece.bytes) {
            int found = begins_with(s, piece), n = found ? (int)s->bytes : lh_utf8_length(piece.text);
            if (!found) LH_TRY(lh_words_extend(out, piece.text, n));
            if (found && !(i == 0 && first)) LH_TRY(lh_words_extend(out, " ", 1));
            piece.text += n, piece.bytes -= n;
        }
    }
    return LH_OK;
}

lh_status lh_decoder_run(const lh_decoder *decoder, const work *w, lh_words *pieces, lh_words *spare)
{
    int64_t limit_bytes = 64 * pieces->text.bytes + (1 << 24); /* repeated replacements could grow without bound */
    if (decoder->joins) {
        lh_words_empty(spare);
        LH_TRY(lh_words_add(spare, NULL, 0));
        for (int64_t i = 0; i < pieces->n; i++) {
            lh_subject piece = lh_words_at(pieces, i);
            if (i || w->how & LH_DECODING_CONTINUES) LH_TRY(lh_words_extend(spare, " ", 1));
            LH_TRY(lh_words_extend(spare, piece.text, piece.bytes));
        }
        lh_words swap = *pieces;
        *pieces = *spare;
        *spare = swap;
    }
    for (int i = 0; i < decoder->n; i++) {
        if (w->how & LH_DECODING_BYTES && !lh_utf8_valid(pieces->text.data, pieces->text.bytes)) break; /* no text */
        lh_words_empty(spare);
        LH_TRY(decoder->steps[i].run(&decoder->steps[i], w, pieces, spare));
        if (spare->text.bytes > limit_bytes)
            LH_FAIL(LH_EINPUT, "the tokenizer's 'decoder' makes more than %lld bytes of the ids",
                    (long long)limit_bytes);
        lh_words swap = *pieces;
        *pieces = *spare;
        *spare = swap;
    }
    return LH_OK;
}

lh_settles lh_decoder_settles(const lh_decoder *decoder)
{
    return decoder->settles;
}

/* ---- parsing ---- */

typedef struct parser {
    lh_decoder *decoder;
    const lh_spec *spec;
    int fused; /* an earlier step joined the pieces */
} parser;

static lh_status set_char(parser *p, step *s, const json_t *text, const char *what)
{
    LH_TRY(lh_spec_text(p->spec, what, text, &s->text, &s->bytes));
    if (s->bytes == 0 || s->bytes != lh_utf8_length(s->text))
        LH_FAIL(LH_EINPUT, "'%s': '%s' of a decoder must be one character", p->spec->name, what);
    return LH_OK;
}

static lh_status parse_byte_level(parser *p, step *s, const json_t *spec)
{
    (void)s, (void)spec;
    p->fused = 1;
    return LH_OK;
}

static lh_status parse_replace(parser *p, step *s, const json_t *spec)
{
    const json_t *literal = json_object_get(json_object_get(spec, "pattern"), "String");
    const char *text = json_is_string(literal) ? json_string_value(literal) : "";
    LH_TRY(lh_pattern_parse(&s->pattern, p->spec->name, json_object_get(spec, "pattern")));
    LH_TRY(lh_spec_text(p->spec, "content", json_object_get(spec, "content"), &s->text, &s->bytes));
    /* Once pieces are joined, only matches of a single character do not depend on what follows. */
    if (p->fused && (!*text || (int64_t)strlen(text) != lh_utf8_length(text))) p->decoder->settles = LH_SETTLES_END;
    return LH_OK;
}

static lh_status parse_byte_fallback(parser *p, step *s, const json_t *spec)
{
    (void)s, (void)spec;
    if (p->decoder->settles == LH_SETTLES_CHARACTER) p->decoder->settles = LH_SETTLES_BYTES;
    return LH_OK;
}

static lh_status parse_fuse(parser *p, step *s, const json_t *spec)
{
    (void)s, (void)spec;
    p->fused = 1;
    return LH_OK;
}

static lh_status parse_strip(parser *p, step *s, const json_t *spec)
{
    LH_TRY(set_char(p, s, json_object_get(spec, "content"), "content"));
    LH_TRY(lh_json_i64(spec, p->spec->name, "start", 0, INT32_MAX, &s->start));
    LH_TRY(lh_json_i64(spec, p->spec->name, "stop", 0, INT32_MAX, &s->stop));
    /* The first piece may be shorter than what Strip takes off, and the last piece so far need not stay the last. */
    if (p->fused && (s->start > 1 || s->stop > 0)) p->decoder->settles = LH_SETTLES_END;
    return LH_OK;
}

static lh_status parse_metaspace(parser *p, step *s, const json_t *spec)
{
    lh_status st = LH_OK;
    const char *scheme = NULL;
    int space = 1;
    json_t *usual = NULL;
    const json_t *replacement = json_object_get(spec, "replacement");
    if (!replacement) replacement = usual = json_string("\xE2\x96\x81");
    LH_TRY_DONE(set_char(p, s, replacement, "replacement"));
    LH_TRY_DONE(lh_json_string(spec, p->spec->name, "prepend_scheme", &scheme));
    LH_TRY_DONE(lh_json_bool(spec, p->spec->name, "add_prefix_space", &space));
    s->first = scheme ? strcmp(scheme, "never") != 0 : space;
done:
    json_decref(usual);
    return st;
}

static const struct {
    const char *type;
    lh_status (*run)(const step *s, const work *w, const lh_words *in, lh_words *out);
    lh_status (*parse)(parser *p, step *s, const json_t *spec);
} kinds[] = {
    {"ByteLevel", from_bytes, parse_byte_level},
    {"Replace", replace, parse_replace},
    {"ByteFallback", byte_fallback, parse_byte_fallback},
    {"Fuse", fuse, parse_fuse},
    {"Strip", strip, parse_strip},
    {"Metaspace", metaspace, parse_metaspace},
};

static const char *type_at(int i)
{
    return i < (int)(sizeof kinds / sizeof *kinds) ? kinds[i].type : NULL;
}

static lh_status read_step(void *self, int type, const json_t *spec)
{
    parser *p = self;
    step *s = &p->decoder->steps[p->decoder->n++];
    *s = (step){.run = kinds[type].run, .fused = p->fused};
    return kinds[type].parse(p, s, spec);
}

lh_status lh_decoder_parse(lh_decoder **out, const char *name, const json_t *json)
{
    lh_status st = LH_OK;
    parser p = {0};
    const lh_spec spec = {name, "decoder", "decoders", type_at, &p, read_step};
    LH_TRY_DONE(lh_calloc(&p.decoder, 1, sizeof *p.decoder));
    p.spec = &spec;
    p.decoder->joins = !json || json_is_null(json);
    LH_TRY_DONE(lh_spec_read(&spec, json));
    *out = p.decoder;
    p.decoder = NULL;
done:
    lh_decoder_free(p.decoder);
    return st;
}

void lh_decoder_free(lh_decoder *decoder)
{
    if (!decoder) return;
    for (int i = 0; i < decoder->n; i++) {
        lh_pattern_free(decoder->steps[i].pattern);
        lh_free(decoder->steps[i].text);
    }
    lh_free(decoder);
}
