/* attend.h - shared by the reference's attention operations: logits, visibility, softmax of a row, and observed
 * rows. */
#ifndef LH_KERNELS_REF_ATTEND_H
#define LH_KERNELS_REF_ATTEND_H

#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

/* A query row of one head, and the entries of its KV head before masking. */
typedef struct lh_ref_row {
    const float *q; /* of ref_query */
    const lh_ragged *kv;
    lh_logit logit;
    int64_t head, slots, position; /* KV head; its first `slots` slots; position of the row */
} lh_ref_row;

static inline double ref_logit(const lh_ref_row *row, int64_t slot)
{
    const lh_ragged kv = lh_segment_at(row->kv, row->head, slot);
    const lh_ref_rows keys = ref_keys(&kv);
    double dot = 0.0;
    for (int64_t i = 0; i < kv.head_dim; i++) dot += row->q[i] * ref_row_load(&keys, kv.offset[row->head] + slot, i);
    double s = row->logit.scale * dot;
    return row->logit.softcap > 0 ? row->logit.softcap * tanh(s / row->logit.softcap) : s;
}

/* The bias of an entry, which is added to its logit. */
static inline double ref_bias(const lh_ragged *kv, int64_t head, int64_t slot)
{
    const lh_ragged at = lh_segment_at(kv, head, slot);
    return at.bias ? at.bias[at.offset[head] + slot] : 0.0;
}

static inline int64_t ref_position(const lh_ref_row *row, int64_t slot)
{
    const lh_ragged at = lh_segment_at(row->kv, row->head, slot);
    return lh_position(&at, row->head, slot);
}

/* Returns 1 if the window includes the slot. */
static inline int ref_in_window(const lh_ref_row *row, int64_t slot)
{
    return row->logit.window <= 0 || ref_position(row, slot) > row->position - row->logit.window;
}

static inline int ref_sees(const lh_ref_row *row, int64_t slot)
{
    return ref_position(row, slot) <= row->position && ref_in_window(row, slot);
}

/* The query that is multiplied with the numbers of keys. work: [head_dim]. */
static inline const float *ref_query(const lh_ragged *kv, const float *q, float *work)
{
    if (kv->type != LH_Q8) return q;
    memcpy(work, q, (size_t)kv->head_dim * sizeof *work);
    lh_q8_hadamard_inverse(work, kv->head_dim);
    return work;
}

/* Softmax over the slots for which `visible` returns 1. work: slots + head_dim numbers. */
static inline void ref_attend(const lh_ref_row *row, int (*visible)(const lh_ref_row *, int64_t), double *work,
                              float *o, float *lse)
{
    const lh_ragged *kv = row->kv;
    double *s = work, *sum = work + row->slots, row_max = -INFINITY, denominator = 0.0;
    for (int64_t j = 0; j < row->slots; j++) {
        s[j] = visible(row, j) ? ref_logit(row, j) + ref_bias(kv, row->head, j) : -INFINITY;
        row_max = fmax(row_max, s[j]);
    }
    for (int64_t i = 0; i < kv->head_dim; i++) sum[i] = 0.0;
    for (int64_t j = 0; j < row->slots; j++) {
        if (s[j] == -INFINITY) continue;
        double weight = exp(s[j] - row_max);
        const lh_ragged lies = lh_segment_at(kv, row->head, j);
        const lh_ref_rows values = ref_values(&lies);
        for (int64_t i = 0; i < kv->head_dim; i++)
            sum[i] += weight * ref_row_load(&values, lies.offset[row->head] + j, i);
        denominator += weight;
    }
    for (int64_t i = 0; i < kv->head_dim; i++) o[i] = denominator != 0 ? (float)(sum[i] / denominator) : 0.0f;
    if (lse) *lse = denominator != 0 ? (float)(row_max + log(denominator)) : -INFINITY;
}

/* Workspace for rows of any head of kv, and for their query. */
static inline lh_status ref_attend_work(lh_stream *stream, double **work, float **query, const lh_ragged *kv)
{
    int64_t most = 0;
    for (int64_t h = 0; h < kv->heads; h++) most = kv->len[h] > most ? kv->len[h] : most;
    const int64_t numbers = most + kv->head_dim;
    LH_TRY(lh_stream_scratch(stream, work, numbers * (int64_t)sizeof **work + kv->head_dim * (int64_t)sizeof **query));
    *query = (float *)(*work + numbers);
    return LH_OK;
}

/* Returns 1 if row r sees the entry in a slot. */
static inline int ref_observes(const lh_observed *o, int64_t r, int64_t head, int64_t slot)
{
    return lh_sees(lh_visible_range_of(o->positions, o->until, o->logit.window, r),
                   (int32_t)lh_position(o->kv, head, slot));
}

/* The logit of row r of query head i and an entry of its KV head. */
static inline double ref_observed_logit(const lh_observed *o, int64_t r, int64_t i, int64_t slot)
{
    lh_ref_row row = {.q = o->q + r * o->q_ld + i * o->kv->head_dim,
                      .kv = o->kv,
                      .logit = o->logit,
                      .head = (o->map.first + i) / o->map.group};
    double plain = o->logits.at ? o->logits.at[i * o->logits.ld + slot] : ref_logit(&row, slot);
    return (o->gains ? o->gains[r] : 1.0) * plain + ref_bias(o->kv, row.head, slot);
}

static inline double ref_observed_lse(const lh_observed *o, int64_t r, int64_t i)
{
    int64_t head = (o->map.first + i) / o->map.group;
    double row_max = -INFINITY, denominator = 0.0;
    for (int64_t j = 0; j < o->kv->len[head]; j++)
        if (ref_observes(o, r, head, j)) row_max = fmax(row_max, ref_observed_logit(o, r, i, j));
    for (int64_t j = 0; j < o->kv->len[head]; j++)
        if (ref_observes(o, r, head, j)) denominator += exp(ref_observed_logit(o, r, i, j) - row_max);
    return denominator != 0 ? row_max + log(denominator) : -INFINITY;
}

/* o_bf16[at ..] = the n numbers of o there, rounded, unless o_bf16 is NULL. */
static inline void ref_round(void *o_bf16, const float *o, int64_t at, int64_t n)
{
    for (int64_t x = at; x < at + n && o_bf16; x++) ref_store(o_bf16, LH_BF16, x, o[x]);
}

#endif
