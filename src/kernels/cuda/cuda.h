/* cuda.h - the operations of the cuda backend, one function each: lh_cuda_<op>. Files: <family>.cu, with kernels above
 * the functions that launch them. A kernel is plain CUDA C++ that also runs on the host under tests/simt: warp
 * functions with all 32 lanes, barriers that every thread reaches, dynamic shared memory through lh_shared(), launches
 * through lh_launch(). */
#ifndef LH_KERNELS_CUDA_CUDA_H
#define LH_KERNELS_CUDA_CUDA_H

#include "kernels/ops.h"

#define LH_OP(op, summary) lh_status lh_cuda_##op(lh_stream *stream, const lh_##op##_args *a);
LH_OPS(LH_OP)
#undef LH_OP

#endif
