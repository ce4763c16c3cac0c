/* Lengths of heads. Evictions while decoding change them on the device without waiting for the host. In a prefill the
 * host knows them before the device does, and compares at the layer's one wait. */
#include <assert.h>
#include <string.h>

#include "kv/kv_impl.h"

lh_status lh_kv_start_lens_copy(lh_kv *kv)
{
    kv->lens.copying = 1;
    return lh_stream_copy(kv->exec.stream, kv->lens.host, kv->lens.device, kv->lens.bytes, LH_COPY_TO_HOST);
}

lh_status lh_kv_wait_lens(lh_kv *kv)
{
    int64_t heads = kv->shape.heads.kv_count;
    if (!kv->lens.copying) return LH_OK;
    LH_TRY(lh_stream_sync(kv->exec.stream));
    for (int64_t l = 0; l < kv->shape.layers && heads > 0; l++)
        memcpy(kv->layers[l].arena.len, kv->lens.host + (2 * l + 1) * heads, (size_t)heads * sizeof *kv->lens.host);
    kv->lens.copying = 0;
    return LH_OK;
}

void lh_kv_expect_lens(lh_kv *kv, const lh_arena *arena, int64_t layer)
{
    const int64_t heads = kv->shape.heads.kv_count, bytes = heads * (int64_t)sizeof *arena->len;
    if (!lh_exec_ok(&kv->exec)) return; /* the wait that compares has failed, or is not reached */
    assert(kv->lens.expected_count < LH_EXPECTED_LENS);
    const int i = kv->lens.expected_count++;
    int64_t *expected = kv->lens.expected + 2 * i * heads, *found = expected + heads;
    kv->lens.layers[i] = layer;
    memcpy(expected, arena->len, (size_t)bytes);
    memcpy(found, arena->len, (size_t)bytes); /* a device that only counts copies nothing */
    lh_exec_copy(&kv->exec, found, arena->view.len, bytes, LH_COPY_TO_HOST);
}

/* LH_EINTERNAL if any of the lengths that were copied are not as expected. */
static lh_status check_lens(lh_kv *kv)
{
    const int64_t heads = kv->shape.heads.kv_count;
    while (kv->lens.expected_count) {
        const int i = --kv->lens.expected_count;
        const int64_t *expected = kv->lens.expected + 2 * i * heads, *found = expected + heads;
        for (int64_t h = 0; h < heads; h++)
            if (found[h] != expected[h])
                LH_FAIL(LH_EINTERNAL, "layer %lld: a head holds %lld entries where %lld were expected",
                        (long long)kv->lens.layers[i], (long long)found[h], (long long)expected[h]);
    }
    return LH_OK;
}

lh_status lh_kv_wait_for_layer(lh_kv *kv, int64_t layer)
{
    LH_TRY(lh_stream_sync(kv->exec.stream));
    LH_TRY(lh_evict_check_rows(kv->evictor, layer));
    return check_lens(kv);
}
