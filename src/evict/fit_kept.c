/* The entries that stayed are fitted to the rows that scored, or, where scores need no rows, to rows kept for it. */
#include <string.h>

#include "evict/fit.h"
#include "evict/kept_rows.h"

/* At least `bytes` of a part. */
static void *reserve(lh_evictor *ev, lh_space_part part, int64_t bytes)
{
    lh_device *device = lh_exec_device(&ev->exec);
    if (ev->bytes[part] >= bytes || !lh_exec_ok(&ev->exec)) return ev->at[part];
    lh_device_free(device, ev->at[part]);
    ev->at[part] = NULL;
    ev->bytes[part] = 0;
    lh_exec_latch(&ev->exec, lh_device_alloc(device, &ev->at[part], bytes, LH_MEM_WORK));
    if (lh_exec_ok(&ev->exec)) ev->bytes[part] = bytes;
    return ev->at[part];
}

/* The fit of one layer to its rows; `cols`: entries of the longest head that stays. */
static lh_fit fit_of(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_evict_kept *kept)
{
    const lh_heads *h = &ev->shape.heads;
    const lh_policy_fitting *of = &ev->policy.fitting;
    lh_fit fit = {.rows = {.q = b->rows.q,
                           .positions = b->rows.positions,
                           .kv = job->entries,
                           .map = {.heads = h->kv_count * h->group, .group = h->group},
                           .logit = lh_logit_of(ev, job),
                           .rows = b->rows.tokens,
                           .q_ld = b->rows.q_ld},
                  .lse = b->rows.lse,
                  .lse_ld = b->lse_ld,
                  .offset = job->offset,
                  .len = kept->before,
                  .before = kept->before,
                  .keeps_bias = !lh_policy_fits_bias(&ev->policy),
                  .keeps_values = !lh_policy_fits_values(&ev->policy),
                  .order = ev->shape.order,
                  .of_bias = lh_fit_usual_bias,
                  .of_values = lh_fit_usual_values};
    fit.of_values.ridge = (float)lh_decimal_value(of->ridge);
    for (int64_t g = 0; g < h->kv_count; g++) fit.cols = lh_max_i64(fit.cols, kept->len[g]);
    fit.outputs = reserve(ev, LH_SPACE_OUTPUTS, lh_fit_output_bytes(&fit));
    fit.work = reserve(ev, LH_SPACE_FIT, lh_fit_bytes(&fit));
    return fit;
}

void lh_evict_fit(lh_evictor *ev, const lh_evict_job *job, const lh_evict_kept *kept)
{
    if (ev->policy.fitting.kind == LH_FIT_NONE || !job->scored) return;
    const lh_row_block b = lh_evict_uses_attention(&ev->policy) ? ev->scoring : lh_scoring_rows(ev, job);
    lh_fit fit = fit_of(ev, job, &b, kept);
    if (!lh_exec_ok(&ev->exec)) return;
    if (!fit.keeps_values) lh_fit_outputs(&ev->exec, &fit);
    fit.rows.kv = kept->entries;
    fit.offset = kept->offset;
    fit.len = kept->len;
    lh_fit_entries(&ev->exec, &fit);
}
