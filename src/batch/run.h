/* run.h - the run of `batch`: one or several replicas of an engine answer the requests of an input that have no line in
 * its output, many at a time. Rank 0 of the world has the input and the output, and distributes the requests
 * (dispatch.h). */
#ifndef LH_BATCH_RUN_H
#define LH_BATCH_RUN_H

#include "batch/output.h"
#include "batch/work.h"

typedef struct lh_batch_run_options {
    lh_batch_common common;      /* with the engine of this rank's replica */
    lh_comm *world;              /* the ranks of all replicas */
    lh_comm *roots;              /* the first rank of each replica; not used on other ranks */
    const lh_batch_input *input; /* this and the output: on rank 0 of the world, else NULL */
    lh_batch_output *output;
    int in_order;         /* true: in the order of the input; false: the longest requests first, so that none runs alone
                             at the end */
    int64_t most;         /* maximum number of sequences at work together */
    double prefill_share; /* this, checkpoint_s, store and record: as in lh_scheduler_options */
    double checkpoint_s;
    lh_context_store *store;
    const char *record;
    int64_t max_errors; /* failed requests after which the run ends; negative: no limit */
} lh_batch_run_options;

/* Collective over the world. LH_OK also where requests have failed: their lines say why. LH_EPARTIAL: more than
 * max_errors requests have failed, and the run ended. LH_EINTERRUPTED: a rank was asked to end the run
 * (base/interrupt.h). LH_EWRITE: the output cannot be written. Finished requests have their lines in the output in
 * every case. */
lh_status lh_batch_run(const lh_batch_run_options *options, lh_scheduler_figures *figures);

#endif
