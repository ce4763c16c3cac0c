/* Attention of blocks of rows and decode attention: row by row, head by head. */
#include "kernels/ref/attend.h"

lh_status lh_ref_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    double *work = NULL;
    float *query = NULL;
    if (a->tokens == 0 || a->map.heads == 0) return LH_OK;
    LH_TRY(ref_attend_work(stream, &work, &query, a->kv));
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->map.heads; i++) {
            int64_t head = (a->map.first + i) / a->map.group, slots = a->kv->len[head] - a->tokens + t + 1;
            lh_ref_row row = {.q = ref_query(a->kv, a->q + t * a->q_ld + i * a->kv->head_dim, query),
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

lh_status lh_ref_attend_decode(lh_stream *stream, const lh_attend_decode_args *a)
{
    double *work = NULL;
    float *query = NULL;
    lh_count_fresh(a);
    if (a->map.heads == 0) return LH_OK;
    for (int64_t b = 0; b < a->batch; b++) {
        const lh_ragged *kv = &a->seqs[b];
        lh_row_logits logits = a->logits ? a->logits[b] : (lh_row_logits){0};
        LH_TRY(ref_attend_work(stream, &work, &query, kv));
        for (int64_t i = 0; i < a->map.heads; i++) {
            int64_t head = (a->map.first + i) / a->map.group;
            lh_ref_row row = {.q = ref_query(kv, a->q + b * a->q_ld + i * kv->head_dim, query),
                              .kv = kv,
                              .logit = a->logit,
                              .head = head,
                              .slots = kv->len[head],
                              .position = a->positions[b]};
            for (int64_t s = 0; s < row.slots && logits.at; s++)
                logits.at[i * logits.ld + s] = (float)ref_logit(&row, s);
            ref_attend(&row, ref_sees, work, a->o + b * a->o_ld + i * kv->head_dim,
                       a->lse ? a->lse + b * a->map.heads + i : NULL);
            ref_round(a->o_bf16, a->o, b * a->o_ld + i * kv->head_dim, kv->head_dim);
        }
    }
    return LH_OK;
}
