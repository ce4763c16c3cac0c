/* tokenizer_impl.h - the stages of a tokenizer. For tokenizer*.c only. */
#ifndef LH_TEXT_TOKENIZER_IMPL_H
#define LH_TEXT_TOKENIZER_IMPL_H

#include "text/bpe.h"
#include "text/pretok.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_decode.h"
#include "text/tokenizer_norm.h"

struct lh_tokenizer {
    lh_norm *norm;
    lh_pretok *pretok;
    lh_bpe *bpe;
    lh_added *added;
    lh_decoder *decoder;
    int32_t bos, *eos; /* -1: none; [eos_n] */
    int64_t eos_n;
    int adds_bos;
    char *chat_format, *chat_template; /* NULL: none */
};

/* *out: the object of a file beside a tokenizer.json, NULL if there is no such file; LH_EINPUT if it is not valid.
 * Numbers are read as floats: the lengths in some tokenizer_config.json (1e30, written out) fit in no integer. */
lh_status lh_tokenizer_companion(const char *folder, const char *file, json_t **out);

#endif
