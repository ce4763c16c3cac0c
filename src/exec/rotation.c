#include "exec/rotation.h"

#include "base/mem.h"

lh_status lh_rotation_fetch(const lh_rotation *r, const lh_exec *x, float **out)
{
    int64_t bytes = r->rotary / 2 * (int64_t)sizeof **out;
    LH_TRY(lh_calloc(out, r->rotary / 2, sizeof **out));
    LH_TRY(lh_stream_copy(x->stream, *out, r->inv_freq, bytes, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(x->stream));
    return LH_OK;
}

lh_status lh_rotation_put_inverse(const lh_rotation *r, const lh_exec *x, float *device)
{
    lh_status st = LH_OK;
    int64_t half = r->rotary / 2;
    float *frequencies = NULL;
    LH_TRY_DONE(lh_rotation_fetch(r, x, &frequencies));
    for (int64_t i = 0; i < half; i++) frequencies[i] = -frequencies[i];
    LH_TRY_DONE(lh_stream_put(x->stream, device, frequencies, half * (int64_t)sizeof *device));
done:
    lh_free(frequencies);
    return st;
}

lh_query_scaling lh_rotation_unscaled(const lh_rotation *r)
{
    lh_query_scaling inverse = r->queries;
    inverse.inverse = !inverse.inverse;
    return inverse;
}
