/* Weights of random models. */
#include "base/rng.h"
#include "kernels/cpu/common.h"

static lh_status op_random_weights(lh_stream *stream, const lh_random_weights_args *a)
{
    enum { AT_ONCE = 256 };
    (void)stream;
#pragma omp parallel for if (a->rows * a->cols >= PARALLEL_FROM / 4)
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->cols; i += AT_ONCE) {
            const int64_t n = a->cols - i < AT_ONCE ? a->cols - i : AT_ONCE;
            float x[AT_ONCE];
            lh_normals(x, a->seed, a->stream, a->first + r * a->step + i, n);
            for (int64_t j = 0; j < n; j++) x[j] = a->mean + a->scale * x[j];
            for (int64_t j = 0; j < n && a->stored == LH_BF16; j++) x[j] = lh_bf16_to_f32(lh_f32_to_bf16(x[j]));
            for (int64_t j = 0; j < n; j += VL)
                vf_store_any_first(a->y, a->y_type, r * a->cols + i + j, vf_load_first(x + j, n - j), n - j);
        }
    }
    return LH_OK;
}
