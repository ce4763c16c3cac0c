/* tokenizer_meta.h - the companion object that a checkpoint stores beside a tokenizer.json (its members: tokenizer.h):
 * made from the files of a Hugging Face folder, or member by member by a reader of another format. */
#ifndef LH_TEXT_TOKENIZER_META_H
#define LH_TEXT_TOKENIZER_META_H

#include "text/chat.h"

/* What the companion object holds. */
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

/* Append what the template writes after an answer, whose first token ends a turn: "" without a template, or with one
 * that cannot be read, which is reported where it is used. eos: text of the end token. */
lh_status lh_tokenizer_meta_after_answer(const lh_tokenizer_meta *meta, const char *eos, lh_buf *out);

/* What the template writes after an answer of the model `name` begins with no added token: a warning where it looks
 * like one, <…> or […], as in a folder whose tokenizer lacks it. */
void lh_tokenizer_meta_warn_end(const char *name, const char *after_answer);

/* The companion object of a folder with this tokenizer in it, from tokenizer_config.json, special_tokens_map.json,
 * generation_config.json, config.json and chat_template.jinja (or .json), as far as they exist. Appended. */
lh_status lh_tokenizer_meta_folder(const lh_tokenizer *tok, const char *folder, lh_buf *out);

/* Adds the tokens that tokenizer_config.json ('added_tokens_decoder', tokens with a role), added_tokens.json and
 * special_tokens_map.json of a folder name to its tokenizer.json, whose bytes are *json from `start` on and whose
 * tokenizer is `tok`, where it lacks them. *n: their number; 0: the bytes are unchanged. */
lh_status lh_tokenizer_add_missing(const lh_tokenizer *tok, const char *folder, lh_buf *json, int64_t start,
                                   int64_t *n);

#endif
