/* tokenizer_decode.h - decoders of a tokenizer.json: pieces back to text.
 * Known: Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace. */
#ifndef LH_TEXT_TOKENIZER_DECODE_H
#define LH_TEXT_TOKENIZER_DECODE_H

#include <jansson.h>

#include "text/pretok.h"

typedef struct lh_decoder lh_decoder; /* read-only once parsed */

/* `json`: the member decoder; NULL or null: pieces are joined by spaces. LH_EINPUT if it is not one of these. */
lh_status lh_decoder_parse(lh_decoder **out, const char *name, const json_t *json);
void lh_decoder_free(lh_decoder *decoder);

/* Flags. CONTINUES: the pieces follow other text, so nothing is stripped at their start. BYTES: the bytes that the
 * pieces add to a text, which need not be UTF-8, in place of text with U+FFFD. */
typedef enum lh_decoding {
    LH_DECODING_TEXT = 0,
    LH_DECODING_CONTINUES = 1,
    LH_DECODING_BYTES = 2,
} lh_decoding;

typedef struct lh_decoder_work {
    lh_matcher *matcher;
    lh_decoding how;
} lh_decoder_work;

/* pieces: words in, one word out. `spare` is working memory. */
lh_status lh_decoder_run(const lh_decoder *decoder, const lh_decoder_work *work, lh_words *pieces, lh_words *spare);

/* For streaming: how long later pieces can change the text so far. LH_SETTLES_CHARACTER: not at all, except for a last
 * U+FFFD, which may be half a character; LH_SETTLES_BYTES: until a piece other than a byte piece such as <0x0A>;
 * LH_SETTLES_END: until the end. */
typedef enum lh_settles { LH_SETTLES_CHARACTER, LH_SETTLES_BYTES, LH_SETTLES_END } lh_settles;

lh_settles lh_decoder_settles(const lh_decoder *decoder);
int lh_piece_is_byte(const char *piece, int64_t bytes); /* the byte of a piece such as <0x0A>, -1: another piece */

#endif
