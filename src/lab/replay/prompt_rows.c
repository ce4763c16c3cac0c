/* prompt_rows.c - for analyses: what recorded rows of the prompt give to the entries of the layer in work, by the same
 * operations as when a policy observes them. */
#include "evict/evict.h"
#include "lab/replay/replay_impl.h"

int64_t lh_layer_observable(const lh_layer_facts *l)
{
    return l->replay->trace.window;
}

static lh_status observe(const lh_replay *r, const lh_observed *rows, const float *lse, float *sums)
{
    const int64_t heads = r->trace.shape.heads.heads;
    LH_RUN(&r->exec, column_stats, .sums = {.at = sums, .ld = r->trace.prompt, .step = 1}, .rows = *rows, .lse = lse,
           .lse_ld = heads, .parts = 1, .cols = r->trace.prompt);
    return lh_exec_take(&r->exec);
}

/* Rows with a gain have a denominator of their own. */
static lh_status observe_with_gain(const lh_replay *r, lh_observed *rows, int64_t kept, float *sums)
{
    lh_status st = LH_OK;
    float *gains = NULL, *lse = NULL;
    LH_TRY_DONE(lh_calloc(&gains, rows->rows, sizeof *gains));
    LH_TRY_DONE(lh_calloc(&lse, rows->rows * rows->map.heads, sizeof *lse));
    for (int64_t i = 0; i < rows->rows; i++) gains[i] = lh_step_gain(rows->positions[i] + 1, kept);
    rows->gains = gains;
    LH_RUN(&r->exec, row_lse, .lse = lse, .rows = *rows);
    LH_TRY_DONE(observe(r, rows, lse, sums));
done:
    lh_free(gains);
    lh_free(lse);
    return st;
}

lh_status lh_layer_observe(const lh_layer_facts *l, const lh_observed_rows *of, float *sums)
{
    const lh_replay *r = l->replay;
    const lh_kv_shape *s = &r->trace.shape;
    const int64_t heads = s->heads.heads, width = heads * s->head_dim,
                  first = r->trace.row_count - (r->trace.prompt - of->first);
    lh_observed rows = {.q = l->recorded->rows.queries + first * width,
                        .positions = r->trace.rows + first,
                        .kv = &r->layer.view,
                        .map = {.heads = heads, .group = s->heads.group},
                        .logit = {.scale = s->scale, .softcap = s->softcap, .window = l->window},
                        .rows = of->end - of->first,
                        .q_ld = width};
    return of->kept ? observe_with_gain(r, &rows, of->kept, sums)
                    : observe(r, &rows, l->recorded->rows.lse + first * heads, sums);
}
