/* Weights of random models. */
#include "base/rng.h"
#include "kernels/ref/ref.h"

lh_status lh_ref_random_weights(lh_stream *stream, const lh_random_weights_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->cols; i++) {
            float z, x;
            lh_normals(&z, a->seed, a->stream, a->first + r * a->step + i, 1);
            x = a->mean + a->scale * z;
            if (a->stored == LH_BF16) x = lh_bf16_to_f32(lh_f32_to_bf16(x));
            ref_store(a->y, a->y_type, r * a->cols + i, x);
        }
    }
    return LH_OK;
}
