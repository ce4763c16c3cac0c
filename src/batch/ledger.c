/* ledger.c - counts what is written. */
#include "batch/ledger.h"

#include <stdio.h>
#include <string.h>

#include "base/size_text.h"

void lh_batch_ledger_open(lh_batch_ledger *l, lh_batch_output *output, int64_t requests, int64_t max_errors)
{
    *l = (lh_batch_ledger){.output = output, .max_errors = max_errors};
    lh_progress_init(&l->progress, "answering", "requests", requests);
    l->progress.more = l->more;
    l->progress.before = lh_batch_output_state(output)->done;
}

void lh_batch_ledger_close(lh_batch_ledger *l)
{
    lh_progress_clear(&l->progress);
    lh_buf_clear(&l->line);
}

/* Rates and failures so far, behind the time that is left. */
static void show_progress(lh_batch_ledger *l)
{
    const lh_batch_state *s = lh_batch_output_state(l->output);
    char memory[LH_SIZE_TEXT];
    snprintf(l->more, sizeof l->more, ", %.0f tokens/s, %s", lh_batch_state_tokens_rate(s),
             lh_size_text(memory, s->memory_peak));
    if (s->failed)
        snprintf(l->more + strlen(l->more), sizeof l->more - strlen(l->more), ", %lld failed", (long long)s->failed);
    lh_progress_estimate(&l->progress, s->done, lh_batch_state_left(s));
}

lh_status lh_batch_ledger_put(lh_batch_ledger *l, const lh_batch_put *put)
{
    LH_TRY(lh_batch_output_put(l->output, put));
    show_progress(l);
    l->failed += put->failed;
    if (l->max_errors >= 0 && l->failed > l->max_errors)
        LH_FAIL(LH_EPARTIAL, "%lld requests have failed, and '--max-errors' is %lld: the run ends; their lines say why",
                (long long)l->failed, (long long)l->max_errors);
    return LH_OK;
}

static int has_line(void *self, int64_t i)
{
    return lh_batch_output_has(((const lh_batch_ledger *)self)->output, i);
}

static lh_status put_failure(void *self, const lh_batch_work *w, lh_status why)
{
    lh_batch_ledger *l = self;
    json_t *timing = NULL;
    l->line.bytes = 0;
    LH_TRY(lh_batch_work_write(w, LH_FINISH_STOP, why, &l->line, &timing));
    lh_error_clear();
    return lh_batch_ledger_put(l,
                               &(lh_batch_put){.i = w->i, .line = l->line.data, .bytes = l->line.bytes, .failed = 1});
}

static lh_status tick(void *self)
{
    return lh_batch_output_tick(((lh_batch_ledger *)self)->output);
}

lh_batch_queue_owner lh_batch_ledger_owner(lh_batch_ledger *l)
{
    return (lh_batch_queue_owner){.self = l, .has = has_line, .refuse = put_failure, .tick = tick};
}
