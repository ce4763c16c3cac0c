/* tokenizer_impl.h - the stages of a tokenizer. For tokenizer*.c only. */
#ifndef LH_TEXT_TOKENIZER_IMPL_H
#define LH_TEXT_TOKENIZER_IMPL_H

#include <jansson.h>
#include <stdint.h>

#include "base/mem.h"
#include "text/bpe.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

/* ---- normalizers, the first step of encoding. Known: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents,
 * Replace, Prepend. ---- */
typedef struct lh_norm lh_norm; /* read-only once parsed */

/* `json`: the member normalizer, NULL or null for none. LH_EINPUT for an unknown type. */
lh_status lh_norm_parse(lh_norm **out, const char *name, const json_t *json);
void lh_norm_free(lh_norm *norm);

/* *text, valid UTF-8, is normalised in place; `spare` is working memory. */
lh_status lh_norm_run(const lh_norm *norm, lh_matcher *matcher, lh_place place, lh_buf *text, lh_buf *spare);

/* ---- added tokens: found in the text before (or, if `normalized`, after) it is normalised, the longest at the
 * leftmost position, and never passed to bpe.c. Special tokens are recognised only where the caller trusts the text.
 * ---- */
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

/* Untrusted ranges, ascending: a special token that touches a range is not recognised. */
typedef struct lh_added_mask {
    const lh_match *ranges;
    int64_t n;
} lh_added_mask;

/* Next token in `text` (raw or normalised) after *hit, which is all zero at first; found becomes 0 after the last.
 * [start, end) is the text that the token replaces, with the spaces that it strips. */
typedef struct lh_added_hit {
    int64_t start, end;
    int64_t next; /* minimum start of the next token: it may lie in spaces that this token strips */
    int32_t id;
    int found;
} lh_added_hit;

typedef enum lh_added_pass { LH_ADDED_RAW, LH_ADDED_NORMALIZED } lh_added_pass;

void lh_added_next(const lh_added *added, lh_added_pass pass, lh_subject text, lh_added_mask mask, lh_added_hit *hit);

/* ---- decoders: pieces back to text. Known: Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace. ----
 */
typedef struct lh_decoder lh_decoder; /* read-only once parsed */

/* `json`: the member decoder; NULL or null: pieces are joined by spaces. LH_EINPUT for an unknown type. */
lh_status lh_decoder_parse(lh_decoder **out, const char *name, const json_t *json);
void lh_decoder_free(lh_decoder *decoder);

/* Flags. CONTINUES: the pieces follow other text, so nothing is stripped at their start. BYTES: give the bytes that the
 * pieces add to a text, which need not be UTF-8, not text with U+FFFD. */
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

/* ---- all stages ---- */

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

#endif
