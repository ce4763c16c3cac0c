/* resume.h - what an output that exists leaves to be done: its records beside the lines of the input, by custom_id and
 * hash. Lines without a custom_id that can be used are known by their number. */
#ifndef LH_BATCH_RESUME_H
#define LH_BATCH_RESUME_H

#include <jansson.h>

#include "batch/input.h"
#include "batch/records.h"

/* What goes on, borrowed. */
typedef struct lh_batch_resumed {
    const lh_batch_input *input;
    const json_t *run;        /* of answer.h */
    const char *context_root; /* the folder of context files; NULL: they are not looked at */
} lh_batch_resumed;

/* Sets done[i] to 1 for the lines of the input that the records answer. done: [count of the input], zeroed. LH_EUSAGE,
 * naming lines: they changed after they were answered, or are no longer there, or the text of their context_file
 * changed; or the records were made by another run, naming the member. LH_EFILE: a request is answered twice. */
lh_status lh_batch_resume(const lh_batch_resumed *resumed, const lh_batch_records *records, unsigned char *done);

/* The line of the input that a record answers; -1: it changed, or is not there. */
int64_t lh_batch_resume_find(const lh_batch_input *input, const lh_batch_record *record);

#endif
