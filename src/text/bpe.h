/* bpe.h - the model of a tokenizer.json: a vocabulary of pieces and the merges that build them, byte-level or
 * SentencePiece's. Merging takes n log n steps in the length of a word, and words are cut where no merge can ever
 * cross, so a text without any white space is as fast as another. */
#ifndef LH_TEXT_BPE_H
#define LH_TEXT_BPE_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"
#include "text/tokens.h"

typedef struct lh_bpe lh_bpe;           /* read-only once parsed */
typedef struct lh_bpe_work lh_bpe_work; /* what encoding needs to write to, with a cache of words: one a thread */

/* `model`: the member of that name. Ids must be below `limit`, which the size of the file gives. One member more
 * than Hugging Face knows is read: merges_per_rank, a list of counts, gives that many merges after another the
 * same rank (SentencePiece ranks by the merged piece alone, and takes the leftmost first). LH_EINPUT. */
lh_status lh_bpe_parse(lh_bpe **out, const char *name, const json_t *model, int64_t limit);
void lh_bpe_free(lh_bpe *bpe);

int64_t lh_bpe_vocab(const lh_bpe *bpe);                                  /* largest id + 1 */
int32_t lh_bpe_find(const lh_bpe *bpe, const char *piece, int64_t bytes); /* -1: none */

/* Text of an id, *bytes long, NUL-terminated; NULL where the vocabulary has no such id. */
const char *lh_bpe_piece(const lh_bpe *bpe, int32_t id, int64_t *bytes);

/* Append the ids of one word of valid UTF-8. text_bytes: about what will be encoded, the size of the cache. */
lh_status lh_bpe_work_open(lh_bpe_work **out, int64_t text_bytes);
void lh_bpe_work_close(lh_bpe_work *work);
lh_status lh_bpe_encode(const lh_bpe *bpe, lh_bpe_work *work, const char *word, int64_t bytes, lh_tokens *out);

#endif
