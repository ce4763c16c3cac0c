#include "text/thoughts.h"

#include <string.h>

#include "base/unicode.h"

static const char begin[] = "<think>", end[] = "</think>";
enum { BEGIN_BYTES = sizeof begin - 1, END_BYTES = sizeof end - 1 };

/* Bytes at the end of the text that the tag may begin with. */
static int64_t begun(const char *text, int64_t bytes, const char *tag, int64_t tag_bytes)
{
    for (int64_t k = bytes < tag_bytes ? bytes : tag_bytes - 1; k > 0; k--)
        if (memcmp(text + bytes - k, tag, (size_t)k) == 0) return k;
    return 0;
}

lh_thoughts lh_thoughts_split(const char *text, int64_t bytes, int opened, lh_text_stage stage)
{
    lh_thoughts out = {.thinks = opened, .thoughts = text, .content = text};
    const char *last = text + bytes, *at = text;
    while (at < last && lh_is_ascii_space(*at)) at++;
    const int64_t left = last - at;
    if (left >= BEGIN_BYTES && memcmp(at, begin, BEGIN_BYTES) == 0) {
        out.thinks = 1;
        out.thoughts = at + BEGIN_BYTES;
    } else if (stage == LH_TEXT_GROWS && left < BEGIN_BYTES && memcmp(at, begin, (size_t)left) == 0) {
        return out; /* it may become the tag */
    }
    if (!out.thinks) {
        out.content_bytes = bytes;
        return out;
    }
    out.thoughts_bytes = last - out.thoughts;
    const char *tag = memmem(out.thoughts, (size_t)out.thoughts_bytes, end, END_BYTES);
    if (!tag) {
        if (stage == LH_TEXT_GROWS) out.thoughts_bytes -= begun(out.thoughts, out.thoughts_bytes, end, END_BYTES);
        return out;
    }
    out.closed = 1;
    out.thoughts_bytes = tag - out.thoughts;
    out.content = tag + END_BYTES;
    out.content_bytes = last - out.content;
    return out;
}

lh_status lh_thoughts_opened(const lh_tokenizer *tok, const lh_tokens *ids, int *opened)
{
    enum { TAIL = 16 }; /* tokens: the tag in single bytes, and white space */
    lh_buf text = {0};
    const int64_t n = ids->n < TAIL ? ids->n : TAIL;
    *opened = 0;
    if (!tok || n == 0) return LH_OK;
    const lh_status st = lh_tokenizer_decode(tok, ids->ids + ids->n - n, n, &text);
    while (text.bytes && lh_is_ascii_space(text.data[text.bytes - 1])) text.bytes--;
    *opened = text.bytes >= BEGIN_BYTES && memcmp(text.data + text.bytes - BEGIN_BYTES, begin, BEGIN_BYTES) == 0;
    lh_buf_clear(&text);
    return st;
}

int lh_thoughts_begun(const char *text)
{
    const lh_thoughts parts = lh_thoughts_split(text, (int64_t)strlen(text), 0, LH_TEXT_WHOLE);
    return parts.thinks && !parts.closed;
}

static lh_status split_message(lh_message *message, const char **thoughts)
{
    lh_status st = LH_OK;
    char *own = NULL, *content = NULL;
    const lh_thoughts parts = lh_thoughts_split(message->content, (int64_t)strlen(message->content), 0, LH_TEXT_WHOLE);
    if (!parts.closed) return LH_OK;
    LH_TRY_DONE(lh_strndup(&own, parts.thoughts, parts.thoughts_bytes));
    LH_TRY_DONE(lh_strndup(&content, parts.content, parts.content_bytes));
    lh_free((char *)(uintptr_t)message->content);
    message->content = content;
    *thoughts = own;
    own = content = NULL;
done:
    lh_free(own);
    lh_free(content);
    return st;
}

lh_status lh_messages_split(lh_messages *messages, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        lh_message *message = &messages->at[i];
        const char **thoughts = &message->members[LH_MESSAGE_THOUGHTS];
        if (strcmp(message->role, "assistant") == 0 && !*thoughts) LH_TRY(split_message(message, thoughts));
    }
    return LH_OK;
}
