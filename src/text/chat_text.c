/* chat_text.c - a rendered conversation: its cuts and its token ids. It is encoded as one text in which only pieces of
 * the template may hold special tokens: a message cannot forge a turn. */
#include "text/chat_text.h"

#include <string.h>

void lh_chat_text_clear(lh_chat_text *text)
{
    lh_buf_clear(&text->text);
    lh_free(text->pieces);
    *text = (lh_chat_text){0};
}

lh_status lh_chat_text_add(lh_chat_text *text, lh_chat_piece piece)
{
    if (text->n == text->cap) {
        int64_t cap = text->cap ? 2 * text->cap : 16;
        LH_TRY(lh_realloc(&text->pieces, cap, sizeof *text->pieces));
        text->cap = cap;
    }
    text->pieces[text->n++] = piece;
    return LH_OK;
}

lh_status lh_chat_begin_answer(lh_chat_text *text, const char *answer)
{
    const int64_t start = text->text.bytes;
    LH_TRY(lh_buf_puts(&text->text, answer));
    return lh_chat_text_add(text, (lh_chat_piece){start, text->text.bytes - start, 1, -1, 0});
}

lh_status lh_chat_tokens(const lh_tokenizer *tok, lh_buf *bos, lh_buf *eos)
{
    const int32_t first = lh_tokenizer_bos(tok), last = lh_tokenizer_eos(tok);
    LH_TRY(lh_buf_puts(bos, ""));
    LH_TRY(lh_buf_puts(eos, ""));
    if (first >= 0) LH_TRY(lh_tokenizer_decode(tok, &first, 1, bos));
    if (last >= 0) LH_TRY(lh_tokenizer_decode(tok, &last, 1, eos));
    return LH_OK;
}

int64_t lh_chat_cut(const lh_chat_text *text, int64_t message, int64_t content_at)
{
    int64_t cut = -1;
    for (int64_t i = 0; i < text->n; i++) {
        const lh_chat_piece *p = &text->pieces[i];
        if (!p->from_content || p->message != message) continue;
        int64_t in_piece = content_at - p->skipped;
        if (cut >= 0 && in_piece < 0) break;
        cut = p->start + (in_piece < 0 ? 0 : in_piece > p->bytes ? p->bytes : in_piece);
    }
    return cut;
}

lh_status lh_chat_encode(const lh_tokenizer *tok, const lh_chat_text *text, int64_t from, int64_t until, lh_tokens *out)
{
    lh_status st = LH_OK;
    lh_text_slice *slices = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_calloc(&slices, text->n, sizeof *slices));
    for (int64_t i = 0; i < text->n; i++) {
        const lh_chat_piece *p = &text->pieces[i];
        int64_t start = p->start > from ? p->start : from;
        int64_t end = p->start + p->bytes < until ? p->start + p->bytes : until;
        if (start >= end) continue;
        slices[n] = (lh_text_slice){text->text.data + start, end - start,
                                    p->from_content ? LH_ENCODE_PLAIN : LH_ENCODE_SPECIAL};
        if (n == 0 && from > 0) slices[n].how |= LH_ENCODE_CONTINUES;
        n++;
    }
    LH_TRY_DONE(lh_tokenizer_encode_slices(tok, slices, n, out));
done:
    lh_free(slices);
    return st;
}
