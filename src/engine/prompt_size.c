/* prompt_size.c - a lower bound of the tokens of a text: its bytes divided by the bytes of the longest token. White
 * space does not count, because tokenizers may drop it; others may shrink a character from three bytes to one
 * (NFKC). */
#include "engine/prompt_size.h"

#include "base/minmax.h"
#include "base/unicode.h"

/* SHRINKS: the most that normalization takes, rounded up. NEAR: bytes a position below which a text is not looked at.
 */
enum { SHRINKS = 4, NEAR = 64 };

static lh_status longest_token(const lh_tokenizer *tok, int64_t *bytes)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    *bytes = 1;
    for (int32_t id = 0; id < lh_tokenizer_vocab(tok); id++) {
        text.bytes = 0;
        LH_TRY_DONE(lh_tokenizer_decode(tok, &id, 1, &text));
        *bytes = lh_max_i64(*bytes, text.bytes);
    }
done:
    lh_buf_clear(&text);
    return st;
}

lh_status lh_prompt_check_size(const lh_tokenizer *tok, int64_t positions, const char *name, const lh_buf *text)
{
    int64_t longest = 0, counted = 0;
    if (text->bytes / NEAR <= positions) return LH_OK;
    LH_TRY(longest_token(tok, &longest));
    for (int64_t i = 0; i < text->bytes; i++) counted += !lh_is_ascii_space(text->data[i]);
    const int64_t least = counted / (SHRINKS * longest);
    if (least > positions)
        LH_FAIL(LH_EUSAGE, "%s has %.1f MiB, at least %lld tokens, and the model has %lld positions: shorten it", name,
                (double)text->bytes / (1 << 20), (long long)least, (long long)positions);
    return LH_OK;
}
