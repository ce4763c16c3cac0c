/* Attention of a block of rows: row by row, head by head. */
#include "kernels/ref/attend.h"

lh_status lh_ref_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    double *work = NULL;
    if (a->tokens == 0 || a->map.heads == 0) return LH_OK;
    LH_TRY(ref_attend_work(stream, &work, a->kv));
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->map.heads; i++) {
            int64_t head = (a->map.first + i) / a->map.group, slots = a->kv->len[head] - a->tokens + t + 1;
            lh_ref_row row = {.q = a->q + t * a->q_ld + i * a->kv->head_dim,
                              .kv = a->kv,
                              .logit = a->logit,
                              .head = head,
                              .slots = slots > 0 ? slots : 0,
                              .position = a->positions[t]};
            ref_attend(&row, ref_in_window, work, a->o + t * a->o_ld + i * a->kv->head_dim,
                       a->lse ? a->lse + t * a->map.heads + i : NULL);
            ref_round(a->o_bf16, a->o, t * a->o_ld + i * a->kv->head_dim, a->kv->head_dim);
        }
    }
    return LH_OK;
}
