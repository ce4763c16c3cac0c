/* bpe_tables.h - hash tables of a vocabulary: pieces by text and id, merges by their two ids, pairs of characters. Open
 * addressing, sizes fixed when opened, keys never removed. Used by bpe.c, by the search for added tokens, and by import
 * to rebuild the merges of a SentencePiece vocabulary. */
#ifndef LH_TEXT_BPE_TABLES_H
#define LH_TEXT_BPE_TABLES_H

#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* Pieces by text and by id. Open for n pieces, add n, then index. A text that is already present gets the new id. */
typedef struct lh_piece {
    int64_t start; /* in texts */
    int32_t bytes, id;
} lh_piece;

typedef struct lh_pieces {
    lh_buf texts; /* each followed by a NUL */
    lh_piece *list;
    int64_t n;
    int32_t *slots; /* piece of a hash, -1: free */
    uint64_t mask;
    int32_t *by_id; /* [ids] piece, -1: none */
    int64_t ids;    /* largest id + 1 */
} lh_pieces;

lh_status lh_pieces_open(lh_pieces *pieces, int64_t n);
lh_status lh_pieces_add(lh_pieces *pieces, const char *text, int64_t bytes, int32_t id);
lh_status lh_pieces_index(lh_pieces *pieces);
void lh_pieces_close(lh_pieces *pieces);

int32_t lh_pieces_find(const lh_pieces *pieces, const char *text, int64_t bytes); /* id, -1: none */
const char *lh_pieces_text(const lh_pieces *pieces, int32_t id, int64_t *bytes);  /* NULL: none */

/* Merges by their two ids; a later one replaces an earlier one. */
typedef struct lh_merge {
    int32_t left, right, rank, id; /* left -1: free */
} lh_merge;

typedef struct lh_merges {
    lh_merge *slots;
    uint64_t mask;
} lh_merges;

lh_status lh_merges_open(lh_merges *merges, int64_t n);
void lh_merges_put(lh_merges *merges, lh_merge merge);
const lh_merge *lh_merges_find(const lh_merges *merges, int32_t left, int32_t right); /* NULL: none */
void lh_merges_close(lh_merges *merges);

/* A set of pairs of characters. */
typedef struct lh_pairs {
    uint64_t *slots; /* left << 32 | right; all ones: free */
    uint64_t mask;
} lh_pairs;

lh_status lh_pairs_open(lh_pairs *pairs, int64_t n);
void lh_pairs_put(lh_pairs *pairs, uint32_t left, uint32_t right);
int lh_pairs_has(const lh_pairs *pairs, uint32_t left, uint32_t right);
void lh_pairs_close(lh_pairs *pairs);

#endif
