/* tokenizer_impl.h - the parts of a tokenizer. For tokenizer*.c only. */
#ifndef LH_MODEL_TOKENIZER_IMPL_H
#define LH_MODEL_TOKENIZER_IMPL_H

#include "model/bpe.h"
#include "model/chat.h"
#include "model/pretok.h"
#include "model/tokenizer.h"
#include "model/tokenizer_added.h"
#include "model/tokenizer_decode.h"
#include "model/tokenizer_norm.h"

struct lh_tokenizer {
    lh_norm *norm;
    lh_pretok *pretok;
    lh_bpe *bpe;
    lh_added *added;
    lh_decoder *decoder;
    int32_t bos, *eos; /* -1: none; [eos_n] */
    int64_t eos_n;
    int adds_bos;
    char *chat_format; /* NULL: none */
};

/* {"bos": …} as text, and into a tokenizer in place of what it held. */
typedef struct lh_tokenizer_meta {
    int32_t bos; /* -1: none */
    lh_tokens eos;
    int add_bos;
    lh_buf chat_template; /* empty: none */
    const lh_chat_format *format;
} lh_tokenizer_meta;

lh_status lh_tokenizer_meta_write(const lh_tokenizer_meta *meta, const char *name, lh_buf *out);
lh_status lh_tokenizer_meta_apply(lh_tokenizer *tok, const char *name, const char *meta, int64_t bytes);
void lh_tokenizer_meta_clear(lh_tokenizer_meta *meta);

/* Add an end token; one that is negative or there already is passed over. */
lh_status lh_tokenizer_meta_ends(lh_tokenizer_meta *meta, int64_t id);

/* The companion object of a folder with this tokenizer in it, from tokenizer_config.json, special_tokens_map.json,
 * generation_config.json, config.json, chat_template.jinja, as far as they are there. */
lh_status lh_tokenizer_meta_folder(const lh_tokenizer *tok, const char *folder, lh_buf *out);

#endif
