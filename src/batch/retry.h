/* retry.h - takes the lines of requests that failed out of an output, so that a run which goes on tries them again. */
#ifndef LH_BATCH_RETRY_H
#define LH_BATCH_RETRY_H

#include "batch/resume.h"

typedef struct lh_batch_retry {
    const lh_batch_resumed *resumed;
    const char *path, *held_path; /* of the output, whose lock the caller has, and of its held lines (output.h) */
    int ordered;                  /* 1: answers behind a line that is taken out become held lines */
} lh_batch_retry;

/* Replaces both files by files without lines of errors. *changed: 1 if there were some: another file has the name of
 * the output then, which the caller locks anew. Failures as of lh_batch_resume, for the lines that stay, before
 * anything is changed; LH_EWRITE. */
lh_status lh_batch_retry_failed(const lh_batch_retry *retry, int *changed);

#endif
