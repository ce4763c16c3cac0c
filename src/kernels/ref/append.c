/* Storing new entries in caches, and query rows in a ring. */
#include <string.h>

#include "kernels/ref/ref.h"

static void append_token(lh_ragged *kv, const lh_append_args *a, int64_t h, int64_t row)
{
    int64_t slot = kv->offset[h] + kv->len[h];
    for (int64_t i = 0; i < kv->head_dim; i++) {
        ref_store(kv->k, kv->type, slot * kv->head_dim + i, a->k[row * a->ld + h * kv->head_dim + i]);
        ref_store(kv->v, kv->type, slot * kv->head_dim + i, a->v[row * a->ld + h * kv->head_dim + i]);
    }
    if (kv->positions) kv->positions[slot] = a->positions[row];
    if (kv->bias) kv->bias[slot] = 0.0f;
    for (int64_t c = 0; kv->stats && c < kv->stat_count; c++) kv->stats[slot * kv->stat_count + c] = 0.0f;
    kv->len[h]++;
}

lh_status lh_ref_append(lh_stream *stream, const lh_append_args *a)
{
    (void)stream;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->seqs[b].heads; h++) {
            for (int64_t t = 0; t < a->tokens; t++) append_token(&a->seqs[b], a, h, b * a->tokens + t);
        }
    }
    return LH_OK;
}

lh_status lh_ref_put_rows(lh_stream *stream, const lh_put_rows_args *a)
{
    (void)stream;
    for (int64_t t = 0; t < a->tokens; t++)
        memcpy(a->ring + lh_ring_place(a->positions[t], a->rows, a->head) * a->width, a->x + t * a->x_ld,
               (size_t)a->width * sizeof *a->ring);
    return LH_OK;
}
