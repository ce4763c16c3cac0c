/* tokenizer_norm.h - normalizers of a tokenizer.json, the first step of encoding.
 * Known: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend. */
#ifndef LH_TEXT_TOKENIZER_NORM_H
#define LH_TEXT_TOKENIZER_NORM_H

#include <jansson.h>

#include "base/mem.h"
#include "text/pretok.h"

typedef struct lh_norm lh_norm; /* read-only once parsed */

/* `json`: the member normalizer, NULL or null for none. LH_EINPUT if it is not one of these. */
lh_status lh_norm_parse(lh_norm **out, const char *name, const json_t *json);
void lh_norm_free(lh_norm *norm);

/* *text, valid UTF-8, is normalised in place; `spare` is working memory. */
lh_status lh_norm_run(const lh_norm *norm, lh_matcher *matcher, lh_place place, lh_buf *text, lh_buf *spare);

#endif
