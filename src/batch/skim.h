/* skim.h - a few members of a JSON object on one line, found without building a tree: how a hundred thousand lines are
 * looked through in the time that their bytes take to read. What it finds is what a parser finds in every valid line;
 * it checks brackets and quotation marks, not numbers and escapes, so whoever needs the whole line parses it. */
#ifndef LH_BATCH_SKIM_H
#define LH_BATCH_SKIM_H

#include <stdint.h>

#include "base/mem.h"

/* The JSON text of a value, borrowed from the line; NULL: the object has no such member. */
typedef struct lh_skimmed {
    const char *text;
    int64_t bytes;
} lh_skimmed;

/* out[i]: the value of names[i] (ends with NULL), the last one if there are several. 0 if the line is not one object
 * from its first byte to its last, with all strings and brackets closed and no control character. */
int lh_skim(const char *line, int64_t bytes, const char *const *names, lh_skimmed *out);

/* *out = the string of a value, NUL-terminated. 0 if it is none, not UTF-8 or holds a zero byte; LH_ENOMEM is 0, too.
 */
int lh_skimmed_text(const lh_skimmed *value, lh_buf *out);

/* The integer of a value; 0 if it is none. */
int lh_skimmed_i64(const lh_skimmed *value, int64_t *out);

#endif
