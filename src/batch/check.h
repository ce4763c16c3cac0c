/* check.h - what an input asks for, before anything is answered: the requests that cannot be, and the tokens of all
 * others. */
#ifndef LH_BATCH_CHECK_H
#define LH_BATCH_CHECK_H

#include "batch/common.h"

typedef struct lh_batch_check {
    int64_t requests, refused;
    int64_t contexts, questions; /* that requests share, and the requests about them */
    int64_t *reads;              /* [read_count] tokens of what is read at once: a prompt, a context, a question */
    int64_t read_count, read_tokens;
    int64_t new_tokens; /* that answers have at most */
    /* Of the longest request: its line, tokens of its prompt with the context, its answer at most. */
    int64_t longest_line, longest, longest_new;
    lh_buf refusals; /* of the first lines: "line 3 ('a'): …", each with a line feed */
} lh_batch_check;

/* Not collective. common->engine is not used. LH_EINTERRUPTED. */
lh_status lh_batch_check_make(lh_batch_check *out, const lh_batch_common *common, const lh_batch_input *input);
void lh_batch_check_clear(lh_batch_check *check); /* also after a failure */

#endif
