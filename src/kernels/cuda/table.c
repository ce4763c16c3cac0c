/* The table of the CUDA backend. */
#include "kernels/cuda/cuda.h"

const lh_ops lh_ops_cuda = {
    .name = "cuda",
    .device = LH_DEVICE_CUDA,
    .prepare_attend = lh_cuda_prepare_attend,
#define LH_OP(op, summary) .op = lh_cuda_##op,
#include "kernels/ops_list.h"
#undef LH_OP
};
