/* pretok_pattern.h - the patterns of a tokenizer.json: {"String": text} or {"Regex": text}. Regular expressions are
 * read as Hugging Face's engine reads them, or refused by the name of what is not understood (pretok_syntax.h). */
#ifndef LH_TEXT_PRETOK_PATTERN_H
#define LH_TEXT_PRETOK_PATTERN_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

typedef struct lh_pattern lh_pattern; /* read-only once compiled */
typedef struct lh_matcher lh_matcher; /* workspace and budget of the searches in one text, by one thread */

/* Compile a JSON pattern, or a regular expression given as text. `name` is the file, for messages. LH_EINPUT. */
lh_status lh_pattern_parse(lh_pattern **out, const char *name, const json_t *spec);
lh_status lh_pattern_regex(lh_pattern **out, const char *name, const char *regex);
void lh_pattern_free(lh_pattern *pattern);

/* For a text of so many bytes: all regular expressions together may take 64 steps a byte and 16 Mi, where a step is an
 * item of an expression that is tried, or a character that it walks over. */
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

#endif
