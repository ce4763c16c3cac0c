/* merge.h - the outputs of an array of jobs as one, in the order of the input. */
#ifndef LH_BATCH_MERGE_H
#define LH_BATCH_MERGE_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_batch_merged {
    int64_t requests, failed;
    int64_t repeated; /* lines that several outputs have, and that were written once */
    int by_file;      /* 1: outputs of several inputs, whose lines follow each other in the order of `paths` */
} lh_batch_merged;

/* Writes every line of the outputs to `out` ("-": standard output) once, byte for byte. In the order of the lines of
 * the input, if the jobs shared one: no two requests have the same number there; else one output after the other. An
 * output that is there is replaced when the new one is whole. LH_EINPUT: an output is missing, ends in a torn line, or
 * is being written; LH_EFILE: it is damaged; or a custom_id has two answers that differ, naming both. */
lh_status lh_batch_merge(const char *const *paths, int64_t n, const char *out, lh_batch_merged *merged);

#endif
