/* tokenizer_meta.h - the companion object of a tokenizer.json in a checkpoint (members: tokenizer.h): made from the
 * files of a Hugging Face folder, or member by member by a reader of another format. */
#ifndef LH_TEXT_TOKENIZER_META_H
#define LH_TEXT_TOKENIZER_META_H

#include "text/chat.h"

/* Contents of the companion object. */
typedef struct lh_tokenizer_meta {
    int32_t bos; /* -1: none */
    lh_tokens eos;
    int add_bos;
    lh_buf chat_template; /* empty: none */
} lh_tokenizer_meta;

/* As JSON, appended. */
lh_status lh_tokenizer_meta_write(const lh_tokenizer_meta *meta, const char *name, lh_buf *out);
void lh_tokenizer_meta_clear(lh_tokenizer_meta *meta);

/* Add an end token; negative ids and those already present are ignored. */
lh_status lh_tokenizer_meta_ends(lh_tokenizer_meta *meta, int64_t id);

/* Append the template's text after an answer, which begins with the token that ends a turn: "" without a template that
 * can be read (its use reports the cause). eos: text of the end token. */
lh_status lh_tokenizer_meta_after_answer(const lh_tokenizer_meta *meta, const char *eos, lh_buf *out);

/* The template's text after an answer of the model `name` begins with no added token: warn if it looks like one, <…>
 * or […], which the tokenizer lacks. */
void lh_tokenizer_meta_warn_end(const char *name, const char *after_answer);

/* The companion object of a folder with this tokenizer in it, from tokenizer_config.json, special_tokens_map.json,
 * generation_config.json, config.json and chat_template.jinja (or .json), as far as they exist. Appended. */
lh_status lh_tokenizer_meta_folder(const lh_tokenizer *tok, const char *folder, lh_buf *out);

/* Add to a folder's tokenizer.json, the bytes of *json from `start` on, which `tok` was parsed from, the missing
 * tokens of tokenizer_config.json ('added_tokens_decoder', tokens with a role), added_tokens.json and
 * special_tokens_map.json. *n: their number; 0: the bytes are unchanged. */
lh_status lh_tokenizer_add_missing(const lh_tokenizer *tok, const char *folder, lh_buf *json, int64_t start,
                                   int64_t *n);

#endif
