/* ledger.c - counts what is written. */
#include "batch/ledger.h"

void lh_batch_ledger_open(lh_batch_ledger *l, lh_batch_output *output, int64_t requests, int64_t max_errors)
{
    *l = (lh_batch_ledger){.output = output, .max_errors = max_errors};
    lh_progress_init(&l->progress, "answering", "requests", requests);
    l->progress.before = lh_batch_output_done(output);
}

void lh_batch_ledger_close(lh_batch_ledger *l)
{
    lh_progress_clear(&l->progress);
}

lh_status lh_batch_ledger_put(lh_batch_ledger *l, const lh_batch_put *put)
{
    LH_TRY(lh_batch_output_put(l->output, put));
    lh_progress_update(&l->progress, lh_batch_output_done(l->output));
    l->failed += put->failed;
    if (l->max_errors >= 0 && l->failed > l->max_errors)
        LH_FAIL(LH_EPARTIAL, "%lld requests have failed, and '--max-errors' is %lld: the run ends; their lines say why",
                (long long)l->failed, (long long)l->max_errors);
    return LH_OK;
}
