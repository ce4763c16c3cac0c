/* merge.h - the outputs of an array of jobs as one, in the order of the input. */
#ifndef LH_BATCH_MERGE_H
#define LH_BATCH_MERGE_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_batch_merged {
    int64_t requests, failed;
    int64_t repeated; /* lines that several outputs have, written once */
    int64_t retried;  /* errors replaced by an answer, or by the error of a later output */
    int by_file;      /* true for outputs of several inputs, written in the order of `paths` */
} lh_batch_merged;

typedef struct lh_batch_merge_options {
    const char *const *paths; /* [n] */
    int64_t n;
    const char *out; /* "-": standard output */
    int partial;     /* true: missing lines of requests are a warning */
} lh_batch_merge_options;

/* Writes every line of the outputs to `out` once, byte for byte. In the order of the lines of the input, if the jobs
 * shared one: no two requests have the same number there; else one output after the other. Where a request has an error
 * in one output and an answer in another, the answer is written. An existing file is replaced when the new one
 * is complete. LH_EINPUT: an output is missing, though its state does not say that its part is empty, ends in a torn
 * line, or is being written; or there are fewer lines than requests (lh_batch_state); LH_EFILE: it is damaged; or a
 * custom_id has two answers that differ, naming both. */
lh_status lh_batch_merge(const lh_batch_merge_options *options, lh_batch_merged *merged);

#endif
