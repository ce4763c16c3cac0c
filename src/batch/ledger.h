/* ledger.h - the lines of a run on their way to the output, on the rank that writes it: failures are counted, progress
 * is shown. */
#ifndef LH_BATCH_LEDGER_H
#define LH_BATCH_LEDGER_H

#include "base/progress.h"
#include "batch/output.h"
#include "batch/queue.h"

typedef struct lh_batch_ledger {
    lh_batch_output *output; /* borrowed */
    int64_t max_errors;      /* negative: any number */
    int64_t failed;          /* in this run */
    lh_progress progress;
    char more[96]; /* of it */
    lh_buf line;
} lh_batch_ledger;

void lh_batch_ledger_open(lh_batch_ledger *ledger, lh_batch_output *output, int64_t requests, int64_t max_errors);
void lh_batch_ledger_close(lh_batch_ledger *ledger);

/* Of a queue: lines that cannot be answered fail. */
lh_batch_queue_owner lh_batch_ledger_owner(lh_batch_ledger *ledger);

/* LH_EPARTIAL: more than max_errors have failed, and the line is written. LH_EWRITE. */
lh_status lh_batch_ledger_put(lh_batch_ledger *ledger, const lh_batch_put *put);

#endif
