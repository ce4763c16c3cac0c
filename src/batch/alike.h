/* alike.h - lines of an input whose prompts begin with the same bytes. A matter of the input alone. */
#ifndef LH_BATCH_ALIKE_H
#define LH_BATCH_ALIKE_H

#include "batch/input.h"

/* contexts: [lines], zeroed; lines that are alike get a number that is never 0 and no other line has. following: 1
 * where only lines that follow each other count. */
lh_status lh_batch_alike_find(const lh_batch_input *input, int following, uint64_t *contexts);

#endif
