/* projected.cuh - the two ways of projected_norms, after the slots that are wanted have been listed. */
#ifndef LH_KERNELS_CUDA_PROJECTED_CUH
#define LH_KERNELS_CUDA_PROJECTED_CUH

#include "kernels/cuda/list.cuh"

typedef struct lh_projected {
    lh_projected_norms_args args;
    lh_ragged kv;
    lh_list list;
} lh_projected;

/* On the tensor cores: bf16 weights in rows that are read 16 bytes at a time, a head_dim of 256 at most. Which of the
 * two it is follows from the head_dim where weights lie as they do in a model. projected_mma.cu */
int lh_projects_on_tensor_cores(const lh_projected_norms_args *a);
lh_status lh_project_on_tensor_cores(lh_stream *stream, const lh_projected *p);

/* Blocks of a query head that has `each` entries a block; they go on with a stride where more is wanted. */
unsigned lh_projected_blocks(const lh_stream *stream, const lh_projected_norms_args *a, int64_t each);

#endif
