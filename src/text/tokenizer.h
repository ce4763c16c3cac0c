/* tokenizer.h - text to token ids and back: byte-level BPE and SentencePiece BPE as described by a tokenizer.json
 * (Hugging Face's format). A GGUF vocabulary is first turned into an equivalent tokenizer.json.
 * A tokenizer is read-only once open: any number of threads may encode and decode with it. Bad input fails with
 * LH_EINPUT and names the file and member. */
#ifndef LH_TEXT_TOKENIZER_H
#define LH_TEXT_TOKENIZER_H

#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* json: the bytes of a tokenizer.json. meta: the companion object of a checkpoint, or NULL: {"bos": id|null, "eos":
 * [ids], "add_bos": bool, "chat_template": text|null, "chat_format": name|null}; the last is a built-in format, if
 * there is no template. Without a companion, the first token is the token that the post_processor prepends, if any,
 * and there are no end tokens. */
lh_status lh_tokenizer_parse(lh_tokenizer **out, const char *name, const char *json, int64_t json_bytes,
                             const char *meta, int64_t meta_bytes);

/* Replace first and end tokens and chat format with a companion object's. */
lh_status lh_tokenizer_apply_meta(lh_tokenizer *tok, const char *name, const char *meta, int64_t bytes);

void lh_tokenizer_close(lh_tokenizer *tok); /* NULL is fine */

int32_t lh_tokenizer_eos(const lh_tokenizer *tok); /* the first end token, which chat templates write; -1: none */
int32_t lh_tokenizer_find(const lh_tokenizer *tok, const char *token); /* id of an exact token, -1: none */
int lh_tokenizer_is_special(const lh_tokenizer *tok, int32_t id);

/* Name of the chat format: "template" for a Jinja template, else the name of a built-in format, NULL: none; the
 * template. lh_chat_of opens it. */
const char *lh_tokenizer_chat_format(const lh_tokenizer *tok);
const char *lh_tokenizer_chat_template(const lh_tokenizer *tok);

/* Append the ids of `bytes` bytes of UTF-8 text, as lh_tokenizer_ids. */
lh_status lh_tokenizer_encode(const lh_tokenizer *tok, const char *text, int64_t bytes, lh_encode how, lh_tokens *out);

/* lh_tokenizer_encode for text that is partly trusted: special tokens are recognised unless they touch a plain slice.
 * The slices are consecutive and tokenised as one text. */
typedef struct lh_text_slice {
    const char *text;
    int64_t bytes;
    lh_encode how; /* PLAIN or SPECIAL; CONTINUES counts in the first slice */
} lh_text_slice;

lh_status lh_tokenizer_encode_slices(const lh_tokenizer *tok, const lh_text_slice *slices, int64_t n, lh_tokens *out);

/* Append the text of n ids, special tokens included, as decode(skip_special_tokens=False) of tokenizers. Unknown ids
 * give nothing. */
lh_status lh_tokenizer_decode(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out);

/* Append the bytes that a token adds to a text, or to a text that begins with it: the text of a special token, the
 * bytes of a part of a character, which are not UTF-8. Unknown ids give nothing. */
lh_status lh_tokenizer_bytes(const lh_tokenizer *tok, int32_t id, lh_buf *out);
lh_status lh_tokenizer_first_bytes(const lh_tokenizer *tok, int32_t id, lh_buf *out);

int lh_tokenizer_has_text(const lh_tokenizer *tok, const lh_tokens *ids); /* true if an id is no special token */

/* Streaming decode: push appends the text that is final so far and never a torn UTF-8 character; finish appends the
 * rest. Special tokens are skipped unless they are kept. Together they give the text of all other ids decoded in one
 * call. Begin with {.tok = …} or {.tok = …, .continues = 1}, all else zero. */
typedef struct lh_detokenizer {
    const lh_tokenizer *tok;
    int keeps_special;   /* true: special tokens are text */
    int continues;       /* true: the ids follow other text, so that a blank at their start is text */
    lh_tokens ids;       /* ids so far that have text */
    int64_t given_bytes; /* of the text of ids[settled…] */
    int64_t settled;     /* ids before this one do not affect later text */
} lh_detokenizer;

lh_status lh_detokenizer_push(lh_detokenizer *d, int32_t id, lh_buf *out);
lh_status lh_detokenizer_finish(lh_detokenizer *d, lh_buf *out);
void lh_detokenizer_clear(lh_detokenizer *d);

/* offsets [n]: number of characters of the text that are complete before each of the n ids that were pushed. */
lh_status lh_detokenizer_offsets(const lh_detokenizer *d, const int32_t *ids, int64_t n, int64_t *offsets);

#endif
