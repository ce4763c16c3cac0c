/* pretok.h - pre-tokenizers of a tokenizer.json: they cut text into words, each of which bpe.c merges by itself.
 * Known: Sequence, Split, ByteLevel, Digits, Whitespace, WhitespaceSplit, Punctuation, CharDelimiterSplit, Metaspace.
 * All become a list of four kinds of steps. */
#ifndef LH_TEXT_PRETOK_H
#define LH_TEXT_PRETOK_H

#include <jansson.h>
#include <stdint.h>

#include "base/mem.h"
#include "text/pretok_pattern.h"

/* Consecutive words: word i is text[ends[i - 1], ends[i]). All zero is empty. */
typedef struct lh_words {
    lh_buf text;
    int64_t *ends;
    int64_t n, cap;
} lh_words;

/* Append bytes as a new word, or to the last word. */
lh_status lh_words_add(lh_words *words, const char *text, int64_t bytes);
lh_status lh_words_extend(lh_words *words, const char *text, int64_t bytes);
lh_subject lh_words_at(const lh_words *words, int64_t i); /* borrowed until words are added */
void lh_words_empty(lh_words *words);                     /* keeps the memory */
void lh_words_clear(lh_words *words);                     /* frees it */

/* Position of a piece of text: some steps put a space before the first piece or before each. */
typedef enum lh_place {
    LH_PLACE_START,     /* at the start of the text */
    LH_PLACE_LATER,     /* after a special token */
    LH_PLACE_CONTINUES, /* at the start, but continuing another text: no space is added */
} lh_place;

typedef struct lh_pretok lh_pretok; /* read-only once parsed */

/* `json`: the member pre_tokenizer, NULL or null for none. LH_EINPUT if it is not one of these. */
lh_status lh_pretok_parse(lh_pretok **out, const char *name, const json_t *json);
void lh_pretok_free(lh_pretok *pretok);

/* In place: splits one word into the words of the text. `spare` is working memory. */
lh_status lh_pretok_run(const lh_pretok *pretok, lh_matcher *matcher, lh_place place, lh_words *words, lh_words *spare);

#endif
