/* The table of the CUDA backend. */
#include "kernels/cuda/attend_cudnn.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/cuda.h"

static lh_status open_libraries(lh_stream *stream)
{
    LH_TRY(lh_blas_open(stream));
    LH_TRY(lh_sdpa_open(stream));
    return LH_OK;
}

const lh_ops lh_ops_cuda = {.name = "cuda",
                            .device = LH_DEVICE_CUDA,
                            .open_libraries = open_libraries,
                            .prepare_attend = lh_cuda_prepare_attend,
#define LH_OP(op, summary) .op = lh_cuda_##op,
                            LH_OPS(LH_OP)
#undef LH_OP
};
