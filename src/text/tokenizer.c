/* tokenizer.c - assembles a tokenizer from the members of a tokenizer.json and encodes text: special tokens are cut
 * out of the raw text, the rest is normalised, other added tokens are cut out, and what remains is pre-tokenized into
 * words that bpe.c merges. Decodes lists and streams of ids. */
#include "text/tokenizer.h"

#include <string.h>

#include "base/json.h"
#include "base/unicode.h"
#include "text/tokenizer_impl.h"

/* ---- parsing ---- */

/* Id of the token that the post_processor prepends to a text, or -1. */
static lh_status first_token(const char *name, const json_t *root, int64_t limit, int32_t *id)
{
    const json_t *processor = json_object_get(root, "post_processor"), *list = json_object_get(processor, "processors");
    *id = -1;
    for (size_t i = 0; i < (list ? json_array_size(list) : 1); i++) {
        const json_t *p = list ? json_array_get(list, i) : processor;
        const json_t *first = json_array_get(json_object_get(p, "single"), 0);
        const char *token = json_string_value(json_object_get(json_object_get(first, "SpecialToken"), "id"));
        if (!token) continue;
        const json_t *known = json_object_get(json_object_get(p, "special_tokens"), token);
        const json_t *value = json_array_get(json_object_get(known, "ids"), 0);
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= limit)
            LH_FAIL(LH_EINPUT, "'%s': 'post_processor' names '%.60s', but gives no id of the vocabulary for it", name,
                    token);
        *id = (int32_t)json_integer_value(value);
        break;
    }
    return LH_OK;
}

static lh_status build(lh_tokenizer *tok, const char *name, const json_t *root, int64_t limit)
{
    if (!json_is_object(root)) LH_FAIL(LH_EINPUT, "'%s' is not a tokenizer.json: it must be an object", name);
    LH_TRY(lh_bpe_parse(&tok->bpe, name, json_object_get(root, "model"), limit));
    LH_TRY(lh_norm_parse(&tok->norm, name, json_object_get(root, "normalizer")));
    LH_TRY(lh_pretok_parse(&tok->pretok, name, json_object_get(root, "pre_tokenizer")));
    LH_TRY(lh_decoder_parse(&tok->decoder, name, json_object_get(root, "decoder")));
    lh_added_source source = {name, json_object_get(root, "added_tokens"), tok->bpe, tok->norm, limit};
    LH_TRY(lh_added_parse(&tok->added, &source));
    return LH_OK;
}

lh_status lh_tokenizer_apply_meta(lh_tokenizer *tok, const char *name, const char *meta, int64_t bytes)
{
    lh_status st = LH_OK;
    json_t *root = NULL;
    const char *format = NULL, *jinja = NULL;
    int64_t bos = -1;
    LH_TRY_DONE(lh_json_parse(&root, name, meta, bytes));
    if (!json_is_object(root)) LH_FAIL_DONE(LH_EINPUT, "'%s': the companion of the tokenizer is not an object", name);
    const json_t *eos = json_object_get(root, "eos");
    LH_TRY_DONE(lh_json_i64(root, name, "bos", 0, INT32_MAX, &bos));
    LH_TRY_DONE(lh_json_bool(root, name, "add_bos", &tok->adds_bos));
    LH_TRY_DONE(lh_json_string(root, name, "chat_format", &format));
    LH_TRY_DONE(lh_json_string(root, name, "chat_template", &jinja));
    lh_free(tok->chat_format);
    lh_free(tok->chat_template);
    tok->chat_format = tok->chat_template = NULL;
    if (format) LH_TRY_DONE(lh_strdup(&tok->chat_format, format));
    if (jinja) LH_TRY_DONE(lh_strdup(&tok->chat_template, jinja));
    lh_free(tok->eos);
    tok->eos = NULL;
    tok->eos_n = 0;
    LH_TRY_DONE(lh_calloc(&tok->eos, (int64_t)json_array_size(eos), sizeof *tok->eos));
    for (size_t i = 0; i < json_array_size(eos); i++) {
        const json_t *id = json_array_get(eos, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            LH_FAIL_DONE(LH_EINPUT, "'%s': 'eos' must be a list of token ids", name);
        tok->eos[tok->eos_n++] = (int32_t)json_integer_value(id);
    }
    tok->bos = bos < lh_tokenizer_vocab(tok) ? (int32_t)bos : -1;
done:
    json_decref(root);
    return st;
}

lh_status lh_tokenizer_parse(lh_tokenizer **out, const char *name, const char *json, int64_t json_bytes,
                             const char *meta, int64_t meta_bytes)
{
    lh_status st = LH_OK;
    lh_tokenizer *tok = NULL;
    json_t *root = NULL;
    /* Every id takes bytes in the file, so no id is larger than the file: this bounds all tables of ids. */
    int64_t limit = json_bytes < INT32_MAX ? json_bytes : INT32_MAX;
    LH_TRY_DONE(lh_calloc(&tok, 1, sizeof *tok));
    LH_TRY_DONE(lh_json_parse(&root, name, json, json_bytes));
    LH_TRY_DONE(build(tok, name, root, limit));
    LH_TRY_DONE(first_token(name, root, lh_tokenizer_vocab(tok), &tok->bos));
    tok->adds_bos = tok->bos >= 0;
    if (meta && meta_bytes) LH_TRY_DONE(lh_tokenizer_apply_meta(tok, name, meta, meta_bytes));
    *out = tok;
    tok = NULL;
done:
    json_decref(root);
    lh_tokenizer_close(tok);
    return st;
}

void lh_tokenizer_close(lh_tokenizer *tok)
{
    if (!tok) return;
    lh_norm_free(tok->norm);
    lh_pretok_free(tok->pretok);
    lh_bpe_free(tok->bpe);
    lh_added_free(tok->added);
    lh_decoder_free(tok->decoder);
    lh_free(tok->eos);
    lh_free(tok->chat_format);
    lh_free(tok->chat_template);
    lh_free(tok);
}

/* ---- lookup ---- */

int64_t lh_tokenizer_vocab(const lh_tokenizer *tok)
{
    if (!tok) return 0;
    int64_t pieces = lh_bpe_vocab(tok->bpe), added = lh_added_vocab(tok->added);
    return pieces > added ? pieces : added;
}

int32_t lh_tokenizer_bos(const lh_tokenizer *tok)
{
    return tok ? tok->bos : -1;
}

int32_t lh_tokenizer_eos(const lh_tokenizer *tok)
{
    return tok->eos_n ? tok->eos[0] : -1;
}

int lh_tokenizer_adds_bos(const lh_tokenizer *tok)
{
    return tok && tok->adds_bos && tok->bos >= 0;
}

int lh_tokenizer_is_eos(const lh_tokenizer *tok, int32_t id)
{
    for (int64_t i = 0; tok && i < tok->eos_n; i++)
        if (tok->eos[i] == id) return 1;
    return 0;
}

int32_t lh_tokenizer_find(const lh_tokenizer *tok, const char *token)
{
    int64_t bytes = (int64_t)strlen(token);
    int32_t id = lh_added_find(tok->added, token, bytes);
    return id >= 0 ? id : lh_bpe_find(tok->bpe, token, bytes);
}

const char *lh_tokenizer_chat_format(const lh_tokenizer *tok)
{
    return tok->chat_template ? "template" : tok->chat_format;
}

const char *lh_tokenizer_chat_template(const lh_tokenizer *tok)
{
    return tok->chat_template;
}

int lh_tokenizer_is_special(const lh_tokenizer *tok, int32_t id)
{
    return lh_added_is_special(tok->added, id);
}

/* ---- encoding ---- */

typedef struct encoder {
    const lh_tokenizer *tok;
    lh_matcher *matcher;
    lh_bpe_work *work;
    lh_buf normalized, spare;
    lh_words words, spare_words;
    lh_added_mask mask;
    lh_tokens *out;
} encoder;

/* Normalised text without added tokens. */
static lh_status encode_words(encoder *e, const char *text, int64_t bytes, lh_place place)
{
    if (bytes == 0) return LH_OK;
    lh_words_empty(&e->words);
    LH_TRY(lh_words_add(&e->words, text, bytes));
    LH_TRY(lh_pretok_run(e->tok->pretok, e->matcher, place, &e->words, &e->spare_words));
    int64_t start = 0;
    for (int64_t i = 0; i < e->words.n; start = e->words.ends[i++])
        LH_TRY(lh_bpe_encode(e->tok->bpe, e->work, e->words.text.data + start, e->words.ends[i] - start, e->out));
    return LH_OK;
}

/* Text between two added tokens that were found in the raw text. */
static lh_status encode_between(encoder *e, const char *text, int64_t bytes, lh_place place)
{
    lh_added_hit hit = {0};
    if (bytes == 0) return LH_OK;
    e->normalized.bytes = 0;
    LH_TRY(lh_buf_append(&e->normalized, text, bytes));
    LH_TRY(lh_norm_run(e->tok->norm, e->matcher, place, &e->normalized, &e->spare));
    lh_subject subject = {e->normalized.data, e->normalized.bytes};
    for (;;) {
        int64_t from = hit.end;
        lh_added_next(e->tok->added, LH_ADDED_NORMALIZED, subject, e->mask, &hit);
        LH_TRY(encode_words(e, subject.text + from, (hit.found ? hit.start : subject.bytes) - from,
                            from ? LH_PLACE_LATER : place));
        if (!hit.found) break;
        LH_TRY(lh_tokens_push(e->out, hit.id));
    }
    return LH_OK;
}

static lh_status encode_all(encoder *e, lh_subject text, lh_place place)
{
    lh_added_hit hit = {0};
    for (;;) {
        int64_t from = hit.end;
        lh_added_next(e->tok->added, LH_ADDED_RAW, text, e->mask, &hit);
        LH_TRY(encode_between(e, text.text + from, (hit.found ? hit.start : text.bytes) - from,
                              from ? LH_PLACE_LATER : place));
        if (!hit.found) break;
        LH_TRY(lh_tokens_push(e->out, hit.id));
    }
    return LH_OK;
}

lh_status lh_tokenizer_encode_slices(const lh_tokenizer *tok, const lh_text_slice *slices, int64_t n, lh_tokens *out)
{
    lh_status st = LH_OK;
    encoder e = {.tok = tok, .out = out};
    lh_buf text = {0};
    lh_match *plain = NULL;
    int64_t ranges = 0;
    LH_TRY_DONE(lh_calloc(&plain, n, sizeof *plain));
    LH_TRY_DONE(lh_buf_append(&text, NULL, 0));
    for (int64_t i = 0; i < n; i++) {
        int64_t start = text.bytes;
        LH_TRY_DONE(lh_utf8_append(&text, slices[i].text, slices[i].bytes));
        if (!(slices[i].how & LH_ENCODE_SPECIAL) && text.bytes > start)
            plain[ranges++] = (lh_match){start, text.bytes, 1};
    }
    e.mask = (lh_added_mask){plain, ranges};
    LH_TRY_DONE(lh_matcher_open(&e.matcher, text.bytes));
    LH_TRY_DONE(lh_bpe_work_open(&e.work, text.bytes));
    int continues = n > 0 && (slices[0].how & LH_ENCODE_CONTINUES);
    LH_TRY_DONE(encode_all(&e, (lh_subject){text.data, text.bytes}, continues ? LH_PLACE_CONTINUES : LH_PLACE_START));
done:
    lh_matcher_close(e.matcher);
    lh_bpe_work_close(e.work);
    lh_buf_clear(&e.normalized);
    lh_buf_clear(&e.spare);
    lh_words_clear(&e.words);
    lh_words_clear(&e.spare_words);
    lh_buf_clear(&text);
    lh_free(plain);
    return st;
}

lh_status lh_tokenizer_encode(const lh_tokenizer *tok, const char *text, int64_t bytes, lh_encode how, lh_tokens *out)
{
    LH_TRY(lh_check_given(tok, "tokenizer"));
    LH_TRY(lh_check_given(out, "tokens"));
    if (bytes < 0) LH_FAIL(LH_EUSAGE, "bytes is %lld, it must be 0 or more", (long long)bytes);
    if (bytes) LH_TRY(lh_check_given(text, "text"));
    return lh_tokenizer_encode_slices(tok, &(lh_text_slice){text, bytes, how}, 1, out);
}

/* ---- decoding ---- */

static const char *piece_of(const lh_tokenizer *tok, int32_t id, int64_t *bytes)
{
    const char *text = lh_added_text(tok->added, id, bytes);
    return text ? text : lh_bpe_piece(tok->bpe, id, bytes);
}

static lh_status decode(const lh_tokenizer *tok, lh_decoding how, const int32_t *ids, int64_t n, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_words pieces = {0}, spare = {0};
    lh_decoder_work work = {.how = how};
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes;
        const char *piece = piece_of(tok, ids[i], &bytes);
        if (piece) LH_TRY_DONE(lh_words_add(&pieces, piece, bytes));
    }
    LH_TRY_DONE(lh_buf_append(&pieces.text, NULL, 0));
    LH_TRY_DONE(lh_matcher_open(&work.matcher, pieces.text.bytes));
    LH_TRY_DONE(lh_decoder_run(tok->decoder, &work, &pieces, &spare));
    LH_TRY_DONE(lh_buf_append(out, pieces.text.data, pieces.text.bytes));
done:
    lh_words_clear(&pieces);
    lh_words_clear(&spare);
    lh_matcher_close(work.matcher);
    return st;
}

lh_status lh_tokenizer_decode(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out)
{
    return decode(tok, LH_DECODING_TEXT, ids, n, out);
}

lh_status lh_tokenizer_bytes(const lh_tokenizer *tok, int32_t id, lh_buf *out)
{
    return decode(tok, LH_DECODING_CONTINUES | LH_DECODING_BYTES, &id, 1, out);
}

lh_status lh_tokenizer_first_bytes(const lh_tokenizer *tok, int32_t id, lh_buf *out)
{
    return decode(tok, LH_DECODING_BYTES, &id, 1, out);
}

int lh_tokenizer_has_text(const lh_tokenizer *tok, const lh_tokens *ids)
{
    for (int64_t i = 0; i < ids->n; i++)
        if (!lh_added_is_special(tok->added, ids->ids[i])) return 1;
    return 0;
}

/* ---- streams: the ids since the last point at which nothing was pending are decoded as text that continues, and the
 * part that the decoder guarantees to be final is appended, so that no character is torn ---- */

static lh_decoding place_of(const lh_detokenizer *d)
{
    return d->continues || d->settled ? LH_DECODING_CONTINUES : LH_DECODING_TEXT;
}

/* The text of the ids that are not settled. */
static lh_status window(const lh_detokenizer *d, lh_buf *text)
{
    return decode(d->tok, place_of(d), d->ids.ids + d->settled, d->ids.n - d->settled, text);
}

/* Bytes at the end of the text that later ids may change: U+FFFD may be the start of a character. */
static int64_t uncertain(const lh_buf *text)
{
    return text->bytes >= 3 && memcmp(text->data + text->bytes - 3, "\xEF\xBF\xBD", 3) == 0 ? 3 : 0;
}

static int is_skipped(const lh_detokenizer *d, int32_t id)
{
    return !d->keeps_special && lh_added_is_special(d->tok->added, id);
}

lh_status lh_detokenizer_push(lh_detokenizer *d, int32_t id, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    int64_t bytes = 0;
    const char *piece = piece_of(d->tok, id, &bytes);
    lh_settles settles = lh_decoder_settles(d->tok->decoder);
    LH_TRY_DONE(lh_buf_append(out, NULL, 0));
    if (!piece || is_skipped(d, id)) goto done;
    LH_TRY_DONE(lh_tokens_push(&d->ids, id));
    if (settles == LH_SETTLES_END || (settles == LH_SETTLES_BYTES && lh_piece_is_byte(piece, bytes) >= 0)) goto done;
    LH_TRY_DONE(window(d, &text));
    int64_t certain = text.bytes - uncertain(&text);
    if (certain > d->given_bytes) {
        LH_TRY_DONE(lh_buf_append(out, text.data + d->given_bytes, certain - d->given_bytes));
        d->given_bytes = certain;
    }
    /* Nothing is pending. The start of a text lasts until there is some: a space may be stripped from it. */
    if (certain == text.bytes && (text.bytes || place_of(d) == LH_DECODING_CONTINUES))
        d->settled = d->ids.n, d->given_bytes = 0;
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_detokenizer_finish(lh_detokenizer *d, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_buf_append(out, NULL, 0));
    if (d->settled == d->ids.n) goto done;
    LH_TRY_DONE(window(d, &text));
    LH_TRY_DONE(lh_buf_append(out, text.data + d->given_bytes, text.bytes - d->given_bytes));
    d->settled = d->ids.n;
    d->given_bytes = 0;
done:
    lh_buf_clear(&text);
    return st;
}

void lh_detokenizer_clear(lh_detokenizer *d)
{
    lh_tokens_clear(&d->ids);
    d->given_bytes = d->settled = 0;
}

/* ---- offsets ---- */

/* The bytes of a text by its tokens: the bytes of token i begin at starts[i], [n + 1]. */
typedef struct layout {
    lh_buf text;
    int64_t *starts;
} layout;

/* Tokens [from, until) are a run of byte pieces and special tokens: if it is no UTF-8, each byte decodes to U+FFFD. */
static lh_status end_run(layout *l, int64_t from, int64_t until)
{
    const int64_t start = l->starts[from];
    int64_t before = start;
    if (lh_utf8_valid(l->text.data + start, l->text.bytes - start)) return LH_OK;
    l->text.bytes = start;
    for (int64_t i = from; i < until; i++) {
        const int64_t bytes = l->starts[i + 1] - before;
        before = l->starts[i + 1];
        if (bytes) LH_TRY(lh_buf_append(&l->text, "\xEF\xBF\xBD", 3));
        l->starts[i + 1] = l->text.bytes;
    }
    return LH_OK;
}

static lh_status lay_out(const lh_detokenizer *d, const int32_t *ids, int64_t n, layout *l)
{
    const int falls_back = lh_decoder_settles(d->tok->decoder) == LH_SETTLES_BYTES;
    lh_decoding place = d->continues ? LH_DECODING_CONTINUES : LH_DECODING_TEXT;
    int64_t run = 0;
    LH_TRY(lh_buf_append(&l->text, NULL, 0));
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes = 0;
        const char *piece = piece_of(d->tok, ids[i], &bytes);
        const int is_text = piece && !is_skipped(d, ids[i]);
        if (is_text && !(falls_back && lh_piece_is_byte(piece, bytes) >= 0)) {
            LH_TRY(end_run(l, run, i));
            run = i + 1;
        }
        if (is_text) {
            LH_TRY(decode(d->tok, place | LH_DECODING_BYTES, &ids[i], 1, &l->text));
            place = LH_DECODING_CONTINUES;
        }
        l->starts[i + 1] = l->text.bytes;
    }
    return end_run(l, run, n);
}

lh_status lh_detokenizer_offsets(const lh_detokenizer *d, const int32_t *ids, int64_t n, int64_t *offsets)
{
    lh_status st = LH_OK;
    layout l = {0};
    int64_t characters = 0, i = 0;
    LH_TRY_DONE(lh_calloc(&l.starts, n + 1, sizeof *l.starts));
    LH_TRY_DONE(lay_out(d, ids, n, &l));
    for (int64_t at = 0; at < l.text.bytes; characters++) {
        uint32_t cp;
        int skip;
        lh_utf8_read(l.text.data + at, l.text.bytes - at, &cp, &skip);
        at += skip;
        while (i < n && l.starts[i] < at) offsets[i++] = characters;
    }
    while (i < n) offsets[i++] = characters;
done:
    lh_buf_clear(&l.text);
    lh_free(l.starts);
    return st;
}
