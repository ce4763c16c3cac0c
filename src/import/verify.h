/* verify.h - checks that a file of ours is intact, and describes its contents, for `longhaul verify` and `info`. Both
 * first look at the file in a child process with limits: call them before MPI and before any parallel region. */
#ifndef LH_IMPORT_VERIFY_H
#define LH_IMPORT_VERIFY_H

#include <jansson.h>
#include <stdint.h>

#include "import/import_options.h"

typedef struct lh_verify_report {
    char kind[32];         /* "checkpoint", "cache", … */
    int64_t arrays, bytes; /* read */
    int64_t hashes;        /* of arrays and texts, compared */
} lh_verify_report;

/* Reads everything: structure, attributes, shapes against the configuration, hashes, finite values, ascending offsets,
 * the tokenizer. LH_EFILE names the dataset, and the first row and column or the two hashes. The progress is called in
 * the child: it can write to the terminal, but its changes to memory are lost. */
lh_status lh_verify(const char *path, const lh_import_progress *progress, lh_verify_report *report);

/* The contents of a file as JSON (json_decref): of a checkpoint family, sizes, dtype, parameters, tokenizer and chat
 * format; of any other file its attributes and arrays. */
lh_status lh_info_json(const char *path, json_t **out);

#endif
