/* Storing new entries in caches, and query rows in a ring. */
#include "kernels/cpu/common.h"

static void append_head(const lh_append_args *a, int64_t b, int64_t h)
{
    lh_ragged *kv = &a->seqs[b];
    int64_t d = kv->head_dim, slot = kv->offset[h] + kv->len[h];
    if (kv->bias) memset(kv->bias + slot, 0, (size_t)a->tokens * sizeof *kv->bias);
    if (kv->stats)
        memset(kv->stats + slot * kv->stat_count, 0, (size_t)(a->tokens * kv->stat_count) * sizeof *kv->stats);
    for (int64_t t = 0; t < a->tokens; t++, slot++) {
        int64_t row = b * a->tokens + t, at = row * a->ld + h * d;
        for (int64_t i = 0; i < d; i += VL) {
            vf_store_any_first(kv->k, kv->type, slot * d + i, vf_load_first(a->k + at + i, d - i), d - i);
            vf_store_any_first(kv->v, kv->type, slot * d + i, vf_load_first(a->v + at + i, d - i), d - i);
        }
        if (kv->positions) kv->positions[slot] = a->positions[row];
    }
    kv->len[h] += a->tokens;
}

static lh_status op_append(lh_stream *stream, const lh_append_args *a)
{
    (void)stream;
    for (int64_t b = 0; b < a->batch; b++) {
        lh_ragged *kv = &a->seqs[b];
#pragma omp parallel for if (a->tokens * kv->heads * kv->head_dim >= PARALLEL_FROM)
        for (int64_t h = 0; h < kv->heads; h++) append_head(a, b, h);
    }
    return LH_OK;
}

static lh_status op_put_rows(lh_stream *stream, const lh_put_rows_args *a)
{
    return lh_ref_put_rows(stream, a); /* copies of rows */
}
