/* The table of the CUDA backend. */
#include "kernels/cuda/blas.h"
#include "kernels/cuda/cuda.h"

const lh_ops lh_ops_cuda = {.name = "cuda",
                            .device = LH_DEVICE_CUDA,
                            .open_libraries = lh_blas_open,
#define LH_OP(op, summary) .op = lh_cuda_##op,
                            LH_OPS(LH_OP)
#undef LH_OP
};
