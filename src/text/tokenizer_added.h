/* tokenizer_added.h - the added tokens of a tokenizer.json: found in the text before (or, if `normalized`, after) it is
 * normalised, the longest at the leftmost position, and never passed to bpe.c. Special ones are recognised only where
 * the caller trusts the text. */
#ifndef LH_TEXT_TOKENIZER_ADDED_H
#define LH_TEXT_TOKENIZER_ADDED_H

#include <jansson.h>
#include <stdint.h>

#include "text/bpe.h"
#include "text/tokenizer_norm.h"

typedef struct lh_added lh_added; /* read-only once parsed */

typedef struct lh_added_source {
    const char *name; /* of the file */
    const json_t *list;
    const lh_bpe *bpe; /* gives the ids of tokens that are also in its vocabulary */
    const lh_norm *norm;
    int64_t limit; /* ids are below it */
} lh_added_source;

lh_status lh_added_parse(lh_added **out, const lh_added_source *source);
void lh_added_free(lh_added *added);

int64_t lh_added_vocab(const lh_added *added);                                 /* largest id + 1 */
int32_t lh_added_find(const lh_added *added, const char *text, int64_t bytes); /* id, -1: none */
const char *lh_added_text(const lh_added *added, int32_t id, int64_t *bytes);  /* NULL: none; NUL-terminated */
int lh_added_is_special(const lh_added *added, int32_t id);

/* Untrusted ranges, ascending: no special token is recognised that touches one of them. */
typedef struct lh_added_mask {
    const lh_match *ranges;
    int64_t n;
} lh_added_mask;

/* Next token in `text` (raw or normalised) after *hit, which is all zero at first; found becomes 0 after the last.
 * [start, end) is the text that the token replaces, with the spaces that it strips. */
typedef struct lh_added_hit {
    int64_t start, end;
    int64_t next; /* where the next token can begin: in spaces that this one strips, too */
    int32_t id;
    int found;
} lh_added_hit;

typedef enum lh_added_pass { LH_ADDED_RAW, LH_ADDED_NORMALIZED } lh_added_pass;

void lh_added_next(const lh_added *added, lh_added_pass pass, lh_subject text, lh_added_mask mask, lh_added_hit *hit);

#endif
