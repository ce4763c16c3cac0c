/* Weights of random models: a thread draws four numbers at a time, and writes the ones in its row. */
#include "kernels/cuda/vector.cuh"

extern "C" {
#include "base/rng.h"
}

template <typename Y>
static __global__ void random_weights_kernel(lh_random_weights_args a)
{
    for (int64_t r = blockIdx.y; r < a.rows; r += gridDim.y) {
        const int64_t begin = a.first + r * a.step, end = begin + a.cols;
        for (int64_t four = begin / 4 + lh_grid_first(); 4 * four < end; four += lh_grid_step()) {
            float z[4];
            lh_four_normals(z, a.seed, a.stream, (uint64_t)four);
            for (int j = 0; j < 4; j++) {
                const int64_t i = 4 * four + j - begin;
                float x = a.mean + a.scale * z[j];
                if (a.stored == LH_BF16) x = __bfloat162float(__float2bfloat16_rn(x));
                if (i >= 0 && i < a.cols) lh_put((Y *)a.y + r * a.cols + i, x);
            }
        }
    }
}

lh_status lh_cuda_random_weights(lh_stream *stream, const lh_random_weights_args *a)
{
    auto *kernel = a->y_type == LH_F32 ? random_weights_kernel<float> : random_weights_kernel<__nv_bfloat16>;
    return lh_launch(stream, "random_weights", lh_fours_shape(a->rows, a->cols), kernel, *a);
}
