/* Lengths of heads, which evictions while decoding change on the device without waiting for the host. */
#include <string.h>

#include "kv/kv_impl.h"

lh_status lh_kv_ask_lens(lh_kv *kv)
{
    kv->lens.stale = 1;
    return lh_stream_copy(kv->exec.stream, kv->lens.host, kv->lens.device, kv->lens.bytes, LH_COPY_TO_HOST);
}

lh_status lh_kv_fetch_lens(lh_kv *kv)
{
    int64_t heads = kv->shape.heads.kv_count;
    if (!kv->lens.stale) return LH_OK;
    LH_TRY(lh_stream_sync(kv->exec.stream));
    for (int64_t l = 0; l < kv->shape.layers && heads > 0; l++)
        memcpy(kv->layers[l].arena.len, kv->lens.host + (2 * l + 1) * heads, (size_t)heads * sizeof *kv->lens.host);
    kv->lens.stale = 0;
    return LH_OK;
}
