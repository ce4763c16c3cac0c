/* pretok.h - pre-tokenizers of a tokenizer.json: they cut text into words, and bpe.c merges each word by itself. Also
 * the patterns and the byte-level alphabet, which normalizers and decoders use, too. Known: Sequence, Split, ByteLevel,
 * Digits, Whitespace, WhitespaceSplit, Punctuation, CharDelimiterSplit, Metaspace. All become a list of four kinds of
 * steps. */
#ifndef LH_TEXT_PRETOK_H
#define LH_TEXT_PRETOK_H

#include <jansson.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* ---- patterns: {"String": text} or {"Regex": text}. Regular expressions are read as Hugging Face's engine reads them;
 * elements that are not understood are refused by name (pretok_pattern.c). ---- */
typedef struct lh_pattern lh_pattern; /* read-only once compiled */
typedef struct lh_matcher lh_matcher; /* workspace and budget of the searches in one text, by one thread */

/* Compile a JSON pattern, or a regular expression given as text. `name` is the file, for messages. LH_EINPUT. */
lh_status lh_pattern_parse(lh_pattern **out, const char *name, const json_t *spec);
lh_status lh_pattern_regex(lh_pattern **out, const char *name, const char *regex);
void lh_pattern_free(lh_pattern *pattern);

/* For a text of so many bytes: all regular expressions together may take 64 steps a byte and 16 Mi. A step is an item
 * of an expression that is tried, or a character that it walks over. */
lh_status lh_matcher_open(lh_matcher **out, int64_t text_bytes);
void lh_matcher_close(lh_matcher *matcher);

/* Next match in valid UTF-8 text. *match holds the previous match, all zero at first; found becomes 0 after the last.
 * A match can be empty (a look-ahead), but not directly after the previous one. Fails with LH_EINPUT if the text
 * exceeds its budget of steps, or a search 64 MiB. */
typedef struct lh_match {
    int64_t start, end;
    int found;
} lh_match;

typedef struct lh_subject {
    const char *text;
    int64_t bytes;
} lh_subject;

lh_status lh_pattern_next(const lh_pattern *pattern, lh_matcher *matcher, lh_subject subject, lh_match *match);

/* ---- the alphabet of byte-level BPE (GPT-2's): each byte is a printable character below U+0180, so that vocabularies
 * are text ---- */
uint32_t lh_byte_to_char(uint8_t byte);
int lh_char_to_byte(uint32_t cp); /* -1: not in the alphabet */

/* ---- words ---- */

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

/* ---- pre-tokenizers ---- */

/* Position of a piece of text: some steps put a space before the first piece or before each. */
typedef enum lh_place {
    LH_PLACE_START,     /* at the start of the text */
    LH_PLACE_LATER,     /* after a special token */
    LH_PLACE_CONTINUES, /* at the start, but continuing another text: no space is added */
} lh_place;

typedef struct lh_pretok lh_pretok; /* read-only once parsed */

/* `json`: the member pre_tokenizer, NULL or null for none. LH_EINPUT for an unknown type. */
lh_status lh_pretok_parse(lh_pretok **out, const char *name, const json_t *json);
void lh_pretok_free(lh_pretok *pretok);

/* In place: splits one word into the words of the text. `spare` is working memory. */
lh_status lh_pretok_run(const lh_pretok *pretok, lh_matcher *matcher, lh_place place, lh_words *words, lh_words *spare);

#endif
