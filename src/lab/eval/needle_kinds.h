/* needle_kinds.h - kinds of facts of `needle`: templates of a fact, of the question for it and of its answer, from a
 * JSON file with lists of words (examples/facts.json), or from '--needle' and '--question'. In braces a template has
 * {name}, one of 16 names, {secret}, an adjective, an animal and a number, or a list of the file. */
#ifndef LH_LAB_EVAL_NEEDLE_KINDS_H
#define LH_LAB_EVAL_NEEDLE_KINDS_H

#include <jansson.h>

#include "base/mem.h"
#include "base/status.h"

enum { LH_NEEDLE_KEYS = 16 }; /* number of names: maximum facts of a prompt */
enum { LH_NEEDLE_KIND_BYTES = 32 };

typedef struct lh_needle_kind {
    char name[LH_NEEDLE_KIND_BYTES];
    const char *fact, *question, *answer;
} lh_needle_kind;

typedef struct lh_needle_kinds {
    lh_needle_kind *at;
    int64_t n;
    json_t *file;        /* has the texts; NULL: none */
    const json_t *lists; /* of the file; NULL: none */
} lh_needle_kinds;

/* The kind of '--needle' and '--question', named "needle". LH_EUSAGE if the needle has no {secret}. */
lh_status lh_needle_kinds_plain(lh_needle_kinds *out, const char *needle, const char *question);

/* The kind of `quote`: a question whose {name} becomes the first words of a sentence of the text. LH_EUSAGE if it has
 * no {name}. */
lh_status lh_needle_kinds_of_quotes(lh_needle_kinds *out, const char *question);

/* Kinds of a file ('--templates'). wanted: names of kinds, or words that they have as "for", with commas; NULL: all.
 * LH_EINPUT naming the kind and the member if the file is not as in examples/facts.json, LH_EUSAGE if a wanted one is
 * not there. *hash: of the file. */
lh_status lh_needle_kinds_read(lh_needle_kinds *out, const char *path, const char *wanted, uint64_t *hash);
void lh_needle_kinds_clear(lh_needle_kinds *kinds);

/* LH_EUSAGE if `keys` facts of a prompt could not be told from each other by their questions. */
lh_status lh_needle_kinds_check(const lh_needle_kinds *kinds, int64_t keys);

/* Values of a fact. */
typedef struct lh_needle_values {
    const char *name, *secret;
    /* An item of a list: number (draw + key) modulo its length, so that facts of a prompt share none of a list with
     * as many items; `draw` is called with the list's index in the file. */
    uint32_t (*draw)(const void *self, uint32_t list);
    const void *self;
    uint32_t key;
} lh_needle_values;

/* Appends a template with its values. Braces that name nothing stay unchanged. */
lh_status lh_needle_fill(lh_buf *out, const lh_needle_kinds *kinds, const char *text, const lh_needle_values *values);

#endif
