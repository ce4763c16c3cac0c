#include <math.h>

#include "kernels/ref/ref.h"

/* A query row of one head, and the entries of its KV head from which the mask chooses. */
typedef struct lh_ref_row {
    const float *q;
    const lh_ragged *kv;
    lh_logit logit;
    int64_t head, slots, position; /* KV head; its first `slots` slots; position of the row */
} lh_ref_row;

static double logit_of(const lh_ref_row *row, int64_t slot)
{
    const lh_ragged *kv = row->kv;
    int64_t at = (kv->offset[row->head] + slot) * kv->head_dim;
    double dot = 0.0;
    for (int64_t i = 0; i < kv->head_dim; i++) dot += row->q[i] * ref_load(kv->k, kv->type, at + i);
    double s = row->logit.scale * dot;
    return row->logit.softcap > 0 ? row->logit.softcap * tanh(s / row->logit.softcap) : s;
}

/* Whether the window leaves the slot. */
static int in_window(const lh_ref_row *row, int64_t slot)
{
    return row->logit.window <= 0 || ref_position(row->kv, row->head, slot) > row->position - row->logit.window;
}

static int sees(const lh_ref_row *row, int64_t slot)
{
    return ref_position(row->kv, row->head, slot) <= row->position && in_window(row, slot);
}

/* Softmax over the slots that `visible` lets through. work: slots + head_dim numbers. */
static void attend(const lh_ref_row *row, int (*visible)(const lh_ref_row *, int64_t), double *work, float *o,
                   float *lse)
{
    const lh_ragged *kv = row->kv;
    double *s = work, *sum = work + row->slots, top = -INFINITY, mass = 0.0;
    for (int64_t j = 0; j < row->slots; j++) {
        s[j] = visible(row, j) ? logit_of(row, j) : -INFINITY;
        top = fmax(top, s[j]);
    }
    for (int64_t i = 0; i < kv->head_dim; i++) sum[i] = 0.0;
    for (int64_t j = 0; j < row->slots; j++) {
        if (s[j] == -INFINITY) continue;
        double weight = exp(s[j] - top);
        int64_t at = (kv->offset[row->head] + j) * kv->head_dim;
        for (int64_t i = 0; i < kv->head_dim; i++) sum[i] += weight * ref_load(kv->v, kv->type, at + i);
        mass += weight;
    }
    for (int64_t i = 0; i < kv->head_dim; i++) o[i] = mass != 0 ? (float)(sum[i] / mass) : 0.0f;
    if (lse) *lse = mass != 0 ? (float)(top + log(mass)) : -INFINITY;
}

/* Workspace for rows of any head of kv. */
static lh_status open_work(lh_stream *stream, double **work, const lh_ragged *kv)
{
    int64_t most = 0;
    for (int64_t h = 0; h < kv->heads; h++) most = kv->len[h] > most ? kv->len[h] : most;
    return lh_stream_scratch(stream, work, (most + kv->head_dim) * (int64_t)sizeof **work);
}

lh_status lh_ref_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    lh_status st = LH_OK;
    double *work = NULL;
    if (a->tokens == 0 || a->map.heads == 0) return LH_OK;
    LH_TRY(open_work(stream, &work, a->kv));
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->map.heads; i++) {
            int64_t head = (a->map.first + i) / a->map.group, slots = a->kv->len[head] - a->tokens + t + 1;
            lh_ref_row row = {.q = a->q + t * a->q_ld + i * a->kv->head_dim,
                              .kv = a->kv,
                              .logit = a->logit,
                              .head = head,
                              .slots = slots > 0 ? slots : 0,
                              .position = a->positions[t]};
            attend(&row, in_window, work, a->o + t * a->o_ld + i * a->kv->head_dim,
                   a->lse ? a->lse + t * a->map.heads + i : NULL);
        }
    }
done:
    return st;
}

lh_status lh_ref_attend_decode(lh_stream *stream, const lh_attend_decode_args *a)
{
    lh_status st = LH_OK;
    double *work = NULL;
    if (a->map.heads == 0) return LH_OK;
    for (int64_t b = 0; b < a->batch; b++) {
        const lh_ragged *kv = &a->seqs[b];
        LH_TRY(open_work(stream, &work, kv));
        for (int64_t i = 0; i < a->map.heads; i++) {
            int64_t head = (a->map.first + i) / a->map.group;
            lh_ref_row row = {.q = a->q + b * a->q_ld + i * kv->head_dim,
                              .kv = kv,
                              .logit = a->logit,
                              .head = head,
                              .slots = kv->len[head],
                              .position = a->positions[b]};
            attend(&row, sees, work, a->o + b * a->o_ld + i * kv->head_dim,
                   a->lse ? a->lse + b * a->map.heads + i : NULL);
        }
    }
done:
    return st;
}

lh_status lh_ref_column_sums(lh_stream *stream, const lh_column_sums_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->map.heads; i++) {
        int64_t head = (a->map.first + i) / a->map.group;
        for (int64_t j = a->first; j < a->first + a->cols; j++) {
            double sum = 0.0;
            for (int64_t r = 0; r < a->rows && j < a->kv->len[head]; r++) {
                lh_ref_row row = {.q = a->q + r * a->q_ld + i * a->kv->head_dim,
                                  .kv = a->kv,
                                  .logit = a->logit,
                                  .head = head,
                                  .position = a->positions[r]};
                if (sees(&row, j)) sum += exp(logit_of(&row, j) - a->lse[r * a->map.heads + i]);
            }
            a->sums[i * a->ld + j - a->first] = (float)sum;
        }
    }
    return LH_OK;
}
