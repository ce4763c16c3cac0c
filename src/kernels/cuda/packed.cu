/* Weights of few bits: packed on the host in its layout, unpacked by a thread for each number. */
#include "kernels/cuda/vector.cuh"

extern "C" {
#include "kernels/packed.h"
}

lh_status lh_cuda_pack_weights(lh_stream *stream, const lh_pack_weights_args *a)
{
    const int64_t bytes = lh_packed_bytes(a->format, a->rows, a->skip, a->cols);
    lh_pack_weights_args on_host = *a;
    LH_TRY(lh_stream_staging(stream, &on_host.dst, bytes));
    LH_TRY(lh_stream_sync(stream)); /* the copy before this one */
    lh_pack_weights(&on_host);
    return lh_stream_copy(stream, a->dst, on_host.dst, bytes, LH_COPY_TO_DEVICE);
}

template <typename Y>
static __global__ void unpack_kernel(lh_unpack_args a, lh_format format)
{
    a.w.format = &format;
    for (int64_t r = blockIdx.y; r < a.rows; r += gridDim.y)
        for (int64_t i = lh_grid_first(); i < a.cols; i += lh_grid_step())
            lh_put((Y *)a.dst + r * a.dst_ld + i, lh_packed_value(&a.w, r, a.w.first + i));
}

lh_status lh_cuda_unpack(lh_stream *stream, const lh_unpack_args *a)
{
    auto *kernel = a->dst_type == LH_F32 ? unpack_kernel<float> : unpack_kernel<__nv_bfloat16>;
    return lh_launch(stream, "unpack", lh_fours_shape(a->rows, a->cols), kernel, *a, *a->w.format);
}
