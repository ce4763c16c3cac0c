/* The largest logits of a row where many are wanted: all of it is sorted, with columns up to a power of two. */
#include "kernels/cuda/candidates.cuh"

typedef struct top_sort {
    lh_top_logits_args a;
    lh_candidate *c; /* [rows, n] */
    int64_t n;
} top_sort;

static __global__ void fill_kernel(top_sort s)
{
    for (int64_t r = blockIdx.y; r < s.a.rows; r += gridDim.y) {
        for (int64_t i = lh_grid_first(); i < s.n; i += lh_grid_step())
            s.c[r * s.n + i] = i < s.a.cols ? lh_candidate_of(s.a.x[r * s.a.ld + i], i) : 0;
    }
}

static __global__ void best_kernel(top_sort s)
{
    for (int64_t r = blockIdx.y; r < s.a.rows; r += gridDim.y) lh_put_best(s.a, r, s.c + r * s.n);
}

lh_status lh_top_by_sorting(lh_stream *stream, const lh_top_logits_args *a)
{
    top_sort s = {*a, NULL, lh_sorted_columns(a->cols)};
    lh_shape each = lh_sorted_shape(a->rows, s.n);
    LH_TRY(lh_stream_scratch(stream, &s.c, a->rows * s.n * (int64_t)sizeof(lh_candidate)));
    LH_TRY(lh_launch(stream, "top_logits", each, fill_kernel, s));
    LH_TRY(lh_sort_rows(stream, "top_logits", s.c, a->rows, s.n));
    LH_TRY(lh_launch(stream, "top_logits", each, best_kernel, s));
    return LH_OK;
}
