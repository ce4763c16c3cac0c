/* candidates.cuh - logits that may be among the largest of their row: a key, and below it the column turned round. The
 * larger one comes first, and no two are equal. */
#ifndef LH_KERNELS_CUDA_CANDIDATES_CUH
#define LH_KERNELS_CUDA_CANDIDATES_CUH

#include "kernels/cuda/warp.cuh"

typedef unsigned long long lh_candidate;

static __device__ __forceinline__ lh_candidate lh_candidate_of(float x, int64_t column)
{
    return (lh_candidate)lh_score_key(x) << 32 | (uint32_t) ~(uint32_t)column;
}
static __device__ __forceinline__ uint32_t lh_candidate_key(lh_candidate c)
{
    return (uint32_t)(c >> 32);
}
static __device__ __forceinline__ int64_t lh_candidate_column(lh_candidate c)
{
    return (int64_t)(uint32_t) ~(uint32_t)c;
}

/* Bitonic sort, descending: the steps `from`, from / 2, … 1 of the round that makes sorted runs of `run`, for c[0 ..
 * n - 1], which lie at `first` of the whole. All threads of the block call it; others see the result. */
static __device__ inline void lh_sort_steps(lh_candidate *c, int n, int64_t first, int64_t run, int from)
{
    for (int step = from; step > 0; step /= 2) {
        for (int i = (int)threadIdx.x; i < n / 2; i += (int)blockDim.x) {
            int low = i / step * 2 * step + i % step, high = low + step;
            int is_falling = ((first + low) & run) == 0;
            lh_candidate a = c[low], b = c[high];
            if ((a < b) == is_falling) {
                c[low] = b;
                c[high] = a;
            }
        }
        __syncthreads();
    }
}

/* The k best of row r, which are sorted in c, by the threads of all blocks along x. */
static __device__ inline void lh_put_best(const lh_top_logits_args &a, int64_t r, const lh_candidate *c)
{
    for (int64_t i = lh_grid_first(); i < a.k; i += lh_grid_step()) {
        int64_t column = lh_candidate_column(c[i]);
        a.values[r * a.k + i] = a.x[r * a.ld + column];
        a.indices[r * a.k + i] = (int32_t)column;
    }
}

/* Sorts rows of n candidates, a power of two, the largest first; fillers are 0. lh_sorted_columns: the n for as many
 * columns; lh_sorted_shape: threads for kernels beside it, with rows along y and columns along x, both with strides. */
int64_t lh_sorted_columns(int64_t cols);
lh_shape lh_sorted_shape(int64_t rows, int64_t cols);
lh_status lh_sort_rows(lh_stream *stream, const char *name, lh_candidate *c, int64_t rows, int64_t n);

/* Any k, by sorting whole rows: top_by_sorting.cu. */
lh_status lh_top_by_sorting(lh_stream *stream, const lh_top_logits_args *a);

#endif
