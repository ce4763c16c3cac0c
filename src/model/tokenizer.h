/* tokenizer.h - text to token ids and back. Byte-level BPE and SentencePiece-style BPE, as a tokenizer.json
 * (Hugging Face's format) describes them; a GGUF's vocabulary is first turned into an equivalent tokenizer.json.
 * A tokenizer is read-only once open. Bad input fails with LH_EINPUT and names the file and member. */
#ifndef LH_MODEL_TOKENIZER_H
#define LH_MODEL_TOKENIZER_H

#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct lh_tokenizer lh_tokenizer;

/* json: the bytes of a tokenizer.json. meta: the companion object that a checkpoint stores beside it, or NULL:
 * {"bos": id|null, "eos": [ids], "add_bos": bool, "chat_template": text|null, "chat_format": name|null}. */
lh_status lh_tokenizer_parse(lh_tokenizer **out, const char *name, const char *json, int64_t json_bytes,
                             const char *meta, int64_t meta_bytes);

/* From what a user names: a tokenizer.json, a Hugging Face folder, a GGUF file or a checkpoint. */
lh_status lh_tokenizer_open(lh_tokenizer **out, const char *src);

/* What import stores: tokenizer.json bytes and the companion object of a folder or GGUF file. Both empty, and
 * LH_OK, where the source has no tokenizer. */
lh_status lh_tokenizer_source(const char *src, lh_buf *json, lh_buf *meta);

void lh_tokenizer_close(lh_tokenizer *tok);

int64_t lh_tokenizer_vocab(const lh_tokenizer *tok); /* largest id + 1 */
int32_t lh_tokenizer_bos(const lh_tokenizer *tok);   /* -1: none */
int lh_tokenizer_adds_bos(const lh_tokenizer *tok);
int32_t lh_tokenizer_eos(const lh_tokenizer *tok); /* the first of the end tokens, -1: none */
int lh_tokenizer_is_eos(const lh_tokenizer *tok, int32_t id);
int32_t lh_tokenizer_find(const lh_tokenizer *tok, const char *token); /* id of an exact token, -1: none */
const char *lh_tokenizer_chat_format(const lh_tokenizer *tok);         /* name in chat.h's table, or NULL */

typedef struct lh_tokens {
    int32_t *ids;
    int64_t n, cap;
} lh_tokens;

lh_status lh_tokens_push(lh_tokens *tokens, int32_t id);
void lh_tokens_clear(lh_tokens *tokens); /* frees */

typedef enum lh_encode { LH_ENCODE_PLAIN, LH_ENCODE_SPECIAL } lh_encode;

/* Append the ids of `bytes` bytes of UTF-8 text (invalid bytes count as U+FFFD). LH_ENCODE_SPECIAL recognises
 * special tokens in the text, LH_ENCODE_PLAIN treats them as text. No first token is added. */
lh_status lh_tokenizer_encode(const lh_tokenizer *tok, const char *text, int64_t bytes, lh_encode how, lh_tokens *out);

/* Append the text of n ids, special tokens included (what tokenizers' decode(skip_special_tokens=False) gives). */
lh_status lh_tokenizer_decode(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out);

/* Streaming decode: push gives the text that is certain so far and never a torn UTF-8 character; finish gives the
 * rest. Special tokens are left out. What all pushes and finish gave equals decoding all ids at once. */
typedef struct lh_detokenizer {
    const lh_tokenizer *tok;
    lh_tokens ids;       /* all so far */
    int64_t given_bytes; /* of the text */
    int64_t settled;     /* implementation's */
} lh_detokenizer;

lh_status lh_detokenizer_push(lh_detokenizer *d, int32_t id, lh_buf *out);
lh_status lh_detokenizer_finish(lh_detokenizer *d, lh_buf *out);
void lh_detokenizer_clear(lh_detokenizer *d);

#endif
