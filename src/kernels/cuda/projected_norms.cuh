/* projected_norms.cuh - the two ways of projected_norms: in f32, and on the tensor cores. */
#ifndef LH_KERNELS_CUDA_PROJECTED_NORMS_CUH
#define LH_KERNELS_CUDA_PROJECTED_NORMS_CUH

#include "kernels/cuda/launch.cuh"

typedef struct lh_projected {
    lh_projected_norms_args args;
    lh_ragged kv;
} lh_projected;

/* The values of the last entries of KV head h that are wanted, [*count, head_dim]. */
template <typename V>
static __device__ __forceinline__ const V *lh_projected_values(const lh_projected &p, int64_t h, int64_t *count)
{
    int64_t len = p.kv.len[h], first = lh_slot_of_last(len, p.args.last);
    *count = len - first;
    return (const V *)p.kv.v + (p.kv.offset[h] + first) * p.kv.head_dim;
}

/* On the tensor cores: values and weights of bf16 in rows that are read 16 bytes at a time, a head_dim of 256 at most.
 * Which of the two it is follows from the types and the head_dim where these lie as they do in a model.
 * projected_norms_mma.cu */
int lh_projects_on_tensor_cores(const lh_projected_norms_args *a);
lh_status lh_project_on_tensor_cores(lh_stream *stream, const lh_projected *p);

/* Blocks of a query head that has `each` entries a block; they go on with a stride where more is wanted. */
unsigned lh_projected_blocks(const lh_stream *stream, const lh_projected_norms_args *a, int64_t each);

#endif
