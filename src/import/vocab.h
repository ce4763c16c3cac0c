/* vocab.h - a vocabulary of pieces with types and scores, in the words that SentencePiece and GGUF share, written as
 * a tokenizer.json that gives the same ids. The readers are vocab_gguf.c and vocab_sentencepiece.c. */
#ifndef LH_IMPORT_VOCAB_H
#define LH_IMPORT_VOCAB_H

#include <stdint.h>

#include "base/mem.h"

/* The numbers are those of SentencePiece's ModelProto.SentencePiece.Type and of tokenizer.ggml.token_type. */
typedef enum lh_vocab_type {
    LH_VOCAB_NORMAL = 1,
    LH_VOCAB_UNKNOWN,
    LH_VOCAB_CONTROL,
    LH_VOCAB_USER_DEFINED,
    LH_VOCAB_UNUSED,
    LH_VOCAB_BYTE
} lh_vocab_type;

typedef struct lh_vocab_piece {
    const char *text; /* UTF-8, not NUL-terminated, borrowed from the file */
    int64_t bytes;
    int64_t type; /* lh_vocab_type; other numbers are those of a newer file */
    double score; /* of SentencePiece */
} lh_vocab_piece;

typedef struct lh_vocab {
    lh_vocab_piece *pieces; /* [n], the index is the id */
    int64_t n;
    int64_t unk;          /* id of the piece for unknown characters, -1: none */
    int64_t bos;          /* id that a post-processor puts before a text, -1: none */
    int is_sentencepiece; /* true: spaces are written as U+2581 */
    int space_prefix;     /* true: a text begins with a space */
    int rstrip;           /* true: special tokens remove the white space after them */
} lh_vocab;

/* Append a JSON string, and a pair of pieces for "merges". comma: "," after the first one. */
lh_status lh_vocab_put_text(lh_buf *json, const char *text, int64_t bytes);
lh_status lh_vocab_put_merge(lh_buf *json, const char *comma, lh_vocab_piece left, lh_vocab_piece right);

/* Append the begin of a tokenizer.json: up to its post-processor, with its added tokens. */
lh_status lh_vocab_put_begin(const lh_vocab *v, lh_buf *json);

/* Append the member "vocab" of the model. */
lh_status lh_vocab_put_pieces(const lh_vocab *v, lh_buf *json);

/* Append normalizer, decoder and model of a SentencePiece BPE vocabulary. SentencePiece has scores instead of merges:
 * every split of a piece into two pieces becomes a merge, ranked by the score of the piece. */
lh_status lh_vocab_put_sentencepiece(const lh_vocab *v, lh_buf *json);

#endif
