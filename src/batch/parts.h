/* parts.h - the outputs of an array of jobs: part I of N of OUTPUT is "OUTPUT.I-of-N" (jobs/array.sbatch), each with
 * its state; and the sum of several outputs. */
#ifndef LH_BATCH_PARTS_H
#define LH_BATCH_PARTS_H

#include "base/file.h"
#include "batch/state.h"

/* Appends the outputs that a name stands for: the parts that have a state, in their order, where the name has no own
 * state, else the name itself; none that is in the list. *missing: number of parts without a state. LH_EINPUT: there
 * are parts of arrays of different sizes. */
lh_status lh_batch_parts_find(lh_paths *out, int64_t *missing, const char *output);

typedef struct lh_batch_sum {
    int64_t stages[LH_BATCH_STAGES]; /* number of outputs in each stage */
    int64_t total, done, failed;     /* requests; total 0: not known */
    double tokens_per_s;             /* of the running outputs together */
    double left_s;                   /* of the running output that takes longest; negative: not known */
    double rank_hours;
} lh_batch_sum;

/* missing: parts of an array without a state; their requests are known by the size of the whole input. */
lh_batch_sum lh_batch_sum_of(const lh_batch_status *statuses, int64_t n, int64_t missing);

#endif
