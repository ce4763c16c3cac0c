/* tokenizer_stream.c - token ids to text, at once or token by token. The stream decodes the ids since the last point at
 * which nothing was pending and hands out what the decoder guarantees to be final, so that no character is torn. */
#include <string.h>

#include "text/tokenizer.h"
#include "text/tokenizer_impl.h"

static const char *piece_of(const lh_tokenizer *tok, int32_t id, int64_t *bytes)
{
    const char *text = lh_added_text(tok->added, id, bytes);
    return text ? text : lh_bpe_piece(tok->bpe, id, bytes);
}

lh_status lh_tokenizer_decode(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_words pieces = {0}, spare = {0};
    lh_matcher *matcher = NULL;
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes;
        const char *piece = piece_of(tok, ids[i], &bytes);
        if (piece) LH_TRY_DONE(lh_words_add(&pieces, piece, bytes));
    }
    LH_TRY_DONE(lh_buf_append(&pieces.text, NULL, 0));
    LH_TRY_DONE(lh_matcher_open(&matcher, pieces.text.bytes));
    LH_TRY_DONE(lh_decoder_run(tok->decoder, matcher, &pieces, &spare));
    LH_TRY_DONE(lh_buf_append(out, pieces.text.data, pieces.text.bytes));
done:
    lh_words_clear(&pieces);
    lh_words_clear(&spare);
    lh_matcher_close(matcher);
    return st;
}

/* The text of the ids from `from` on; the buffer is emptied first. */
static lh_status window(const lh_detokenizer *d, int64_t from, lh_buf *text)
{
    text->bytes = 0;
    return lh_tokenizer_decode(d->tok, d->ids.ids + from, d->ids.n - from, text);
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
    LH_TRY_DONE(window(d, d->settled, &text));
    int64_t certain = text.bytes - uncertain(&text);
    if (certain > d->given_bytes) {
        LH_TRY_DONE(lh_buf_append(out, text.data + d->given_bytes, certain - d->given_bytes));
        d->given_bytes = certain;
    }
    if (certain < text.bytes) goto done;
    /* Nothing is pending. The last id stays as context, since the first id of a text is decoded differently (a space
     * is stripped); an id that gives no text by itself cannot serve. */
    LH_TRY_DONE(window(d, d->ids.n - 1, &text));
    if (text.bytes) d->settled = d->ids.n - 1, d->given_bytes = text.bytes;
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
    LH_TRY_DONE(window(d, d->settled, &text));
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
