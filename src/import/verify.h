/* verify.h - checks that a file of longhaul is intact, and describes its contents, for `longhaul verify` and `info`.
 * Both first examine the file in a child process with limits: call them before MPI and before any parallel region. */
#ifndef LH_IMPORT_VERIFY_H
#define LH_IMPORT_VERIFY_H

#include <jansson.h>
#include <stdint.h>

#include "base/h5.h"
#include "import/import.h"

/* A kind of file. The room that writes the kind defines it, and the program has the list of all, ended by NULL. */
typedef struct lh_file_kind {
    const char *name;       /* root attribute `longhaul`: "checkpoint", "cache", … */
    int64_t schema;         /* the newest that is read */
    const char *objects[6]; /* that every file of the kind has, ended by NULL */
    int all_hashed;         /* true: every array and text must have its xxh64 */
    int holds_nan;          /* true: floats may be NaN, for undefined values */

    /* Numbers that belong together. LH_EFILE; NULL: none. Arrays are compared with their hashes afterwards. */
    lh_status (*check)(lh_h5 *h5);

    /* Add members to the description, which replace the list of all arrays; NULL: keep the list. */
    lh_status (*describe)(json_t *object, lh_h5 *h5, const json_t *arrays);
} lh_file_kind;

extern const lh_file_kind lh_checkpoint_kind;

const lh_file_kind *lh_file_kind_find(const lh_file_kind *const *kinds, const char *name); /* NULL: unknown */

/* For checks: LH_EFILE unless the file has the object. */
static inline lh_status lh_verify_has(lh_h5 *h5, const char *object)
{
    if (lh_h5_has(h5, object)) return LH_OK;
    LH_FAIL(LH_EFILE, "'%s' has no '%s', which every file of the kind '%s' has", lh_h5_path(h5), object,
            lh_h5_kind(h5));
}

typedef struct lh_verify_report {
    char kind[32];
    int64_t arrays, bytes; /* read */
    int64_t hashes;        /* of arrays and texts, compared */
} lh_verify_report;

/* Reads everything: structure, attributes, shapes against the configuration, hashes, finite values, ascending offsets,
 * the tokenizer. LH_EFILE names the dataset, and the first row and column or the two hashes. The child calls the
 * progress, which can write to the terminal, but its changes to memory are lost. */
lh_status lh_verify(const char *path, const lh_file_kind *const *kinds, const lh_import_progress *progress,
                    lh_verify_report *report);

/* The contents of a file as JSON (json_decref): of a checkpoint family, sizes, dtype, parameters, tokenizer and chat
 * format; of any other file its attributes and arrays, or the description of its kind. */
lh_status lh_info_json(const char *path, const lh_file_kind *const *kinds, json_t **out);
lh_status lh_checkpoint_describe(json_t *object, lh_h5 *h5, const json_t *arrays); /* of lh_checkpoint_kind */

#endif
