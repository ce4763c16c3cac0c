/* run.h - the run of `batch`: the requests of an input that its output does not answer yet, many at a time, by one or
 * several replicas of an engine. Rank 0 has the input and the output, and shares out what comes next (dispatch.h). */
#ifndef LH_BATCH_RUN_H
#define LH_BATCH_RUN_H

#include "batch/output.h"
#include "batch/work.h"

typedef struct lh_batch_run_options {
    lh_batch_common common;      /* its engine is that of this rank's replica */
    lh_comm *world;              /* the ranks of all replicas */
    lh_comm *leaders;            /* the first rank of each replica; of other ranks anything */
    const lh_batch_input *input; /* rank 0 of the world, as the output; NULL elsewhere */
    lh_batch_output *output;
    int in_order;         /* 1: in the order of the input; 0: the longest first, so that none is left at the end */
    int64_t most;         /* sequences at work together */
    double prefill_share; /* of scheduler.h, as the two that follow: of prefills that are kept (lh_batch_common) */
    double checkpoint_s;
    const char *record;
    int64_t max_errors; /* the run ends when more requests have failed; negative: it never does */
} lh_batch_run_options;

/* Collective over the world. LH_OK also where requests have failed: their lines say why. LH_EPARTIAL: more than
 * max_errors have, and the run ended. LH_EINTERRUPTED: a rank was asked to (base/interrupt.h). LH_EWRITE: the output
 * cannot be written. What is finished is in the output whatever it ends with. */
lh_status lh_batch_run(const lh_batch_run_options *options, lh_scheduler_figures *figures);

#endif
