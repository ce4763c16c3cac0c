/* How keys and queries of a layer are rotated, and the same rotation backwards. */
#include "kv/kv_impl.h"

const lh_kv_rotation *lh_kv_rotation_of(const lh_kv *kv, int64_t layer)
{
    return &kv->shape.rotations[lh_kv_slides(&kv->shape, layer)];
}

lh_status lh_kv_fetch_frequencies(lh_kv *kv, int64_t layer, float **out)
{
    const lh_kv_rotation *r = lh_kv_rotation_of(kv, layer);
    LH_TRY(lh_calloc(out, r->rotary / 2, sizeof **out));
    LH_TRY(lh_stream_copy(kv->place.stream, *out, r->inv_freq, r->rotary / 2 * (int64_t)sizeof **out, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(kv->place.stream));
    return LH_OK;
}

lh_status lh_kv_put_backwards(lh_kv *kv, int64_t layer, float *device)
{
    lh_status st = LH_OK;
    int64_t half = lh_kv_rotation_of(kv, layer)->rotary / 2;
    float *frequencies = NULL;
    LH_TRY_DONE(lh_kv_fetch_frequencies(kv, layer, &frequencies));
    for (int64_t i = 0; i < half; i++) frequencies[i] = -frequencies[i];
    LH_TRY_DONE(lh_stream_put(kv->place.stream, device, frequencies, half * (int64_t)sizeof *device));
done:
    lh_free(frequencies);
    return st;
}
