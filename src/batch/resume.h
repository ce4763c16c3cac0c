/* resume.h - what an output that exists leaves to be done: its records beside the lines of the input, by custom_id and
 * hash. Lines without a custom_id that can be used are known by their number. */
#ifndef LH_BATCH_RESUME_H
#define LH_BATCH_RESUME_H

#include <jansson.h>

#include "batch/input.h"
#include "batch/records.h"

/* Sets done[i] to 1 for the lines of the input that the records answer. done: [count of the input], zeroed. LH_EUSAGE,
 * naming lines: they changed after they were answered, or are no longer there; or the records were made by a run that
 * differs from `run` (answer.h), naming the member. LH_EFILE: a request is answered twice. */
lh_status lh_batch_resume(const lh_batch_input *input, const lh_batch_records *records, const json_t *run,
                          unsigned char *done);

/* The line of the input that a record answers; -1: it changed, or is not there. */
int64_t lh_batch_resume_find(const lh_batch_input *input, const lh_batch_record *record);

#endif
