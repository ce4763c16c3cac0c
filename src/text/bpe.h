/* bpe.h - the model of a tokenizer.json: a vocabulary of pieces and the merges that build them, byte-level or
 * SentencePiece's. Merging takes n log n steps in the length of a word, and words are cut where no merge can ever
 * cross, so a text without white space is as fast as other texts. */
#ifndef LH_TEXT_BPE_H
#define LH_TEXT_BPE_H

#include <jansson.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct lh_bpe lh_bpe;           /* read-only once parsed */
typedef struct lh_bpe_work lh_bpe_work; /* workspace of encoding with a cache of words: one per thread */

/* `model`: the member `model`. Ids must be below `limit`, which follows from the size of the file. One member is ours:
 * merges_per_rank, a list of counts, gives that many consecutive merges the same rank (SentencePiece ranks by the
 * merged piece alone, and takes the leftmost first). LH_EINPUT. */
lh_status lh_bpe_parse(lh_bpe **out, const char *name, const json_t *model, int64_t limit);
void lh_bpe_free(lh_bpe *bpe);

int64_t lh_bpe_vocab(const lh_bpe *bpe);                                  /* largest id + 1 */
int32_t lh_bpe_find(const lh_bpe *bpe, const char *piece, int64_t bytes); /* -1: none */

/* Text of an id, *bytes long, NUL-terminated; NULL if the vocabulary has no such id. */
const char *lh_bpe_piece(const lh_bpe *bpe, int32_t id, int64_t *bytes);

/* Append the ids of a word of valid UTF-8. text_bytes: expected size of all text, for the size of the cache. */
lh_status lh_bpe_work_open(lh_bpe_work **out, int64_t text_bytes);
void lh_bpe_work_close(lh_bpe_work *work);
lh_status lh_bpe_encode(const lh_bpe *bpe, lh_bpe_work *work, const char *word, int64_t bytes, lh_tokens *out);

#endif
