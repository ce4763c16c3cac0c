/* Entries of a head in any order. */
#include <string.h>

#include "kernels/ref/ref.h"

lh_status lh_ref_gather_entries(lh_stream *stream, const lh_gather_entries_args *a)
{
    const lh_ragged *dst = a->dst, *src = a->src;
    const int64_t bytes = src->head_dim * lh_dtype_bytes(src->type);
    (void)stream;
    for (int64_t i = 0; i < a->count; i++) {
        int64_t to = dst->offset[0] + i, from = src->offset[a->head] + a->order[i];
        memcpy((char *)dst->k + to * bytes, (const char *)src->k + from * bytes, (size_t)bytes);
        memcpy((char *)dst->v + to * bytes, (const char *)src->v + from * bytes, (size_t)bytes);
        dst->positions[to] = (int32_t)lh_position(src, a->head, a->order[i]);
        if (dst->bias) dst->bias[to] = src->bias ? src->bias[from] : 0.0f;
    }
    dst->len[0] = a->count;
    return LH_OK;
}
