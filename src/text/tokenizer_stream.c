/* tokenizer_stream.c - token ids to text, at once or token by token, and to the bytes of single tokens. The stream
 * decodes the ids since the last point at which nothing was pending, as text that continues, and hands out what the
 * decoder guarantees to be final, so that no character is torn. */
#include <string.h>

#include "base/unicode.h"

#include "text/tokenizer.h"
#include "text/tokenizer_impl.h"

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

/* ---- streams ---- */

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

lh_status lh_detokenizer_push(lh_detokenizer *d, int32_t id, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    int64_t bytes = 0;
    const char *piece = piece_of(d->tok, id, &bytes);
    lh_settles settles = lh_decoder_settles(d->tok->decoder);
    LH_TRY_DONE(lh_buf_append(out, NULL, 0));
    if (!piece || lh_added_is_special(d->tok->added, id)) goto done;
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

/* The bytes of a text by its tokens: those of token i begin at starts[i], [n + 1]. */
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
        const int is_text = piece && !lh_added_is_special(d->tok->added, ids[i]);
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
