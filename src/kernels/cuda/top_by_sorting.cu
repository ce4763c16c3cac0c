/* The largest logits of a row where many are wanted: bitonic sort of all of it, with columns up to a power of two.
 * Steps within a segment are made in shared memory, the others in device memory, a pair a thread: 256k columns take 28
 * launches that read and write 16 bytes a column each. */
#include "kernels/cuda/candidates.cuh"

enum { THREADS = 512, SEGMENT = 4096 };

typedef struct top_sort {
    lh_top_logits_args a;
    lh_candidate *c; /* [rows, n] */
    int64_t n;       /* a power of two */
} top_sort;

static __global__ void __launch_bounds__(THREADS) fill_kernel(top_sort s)
{
    for (int64_t r = blockIdx.y; r < s.a.rows; r += gridDim.y) {
        for (int64_t i = lh_grid_first(); i < s.n; i += lh_grid_step())
            s.c[r * s.n + i] = i < s.a.cols ? lh_candidate_of(s.a.x[r * s.a.ld + i], i) : 0;
    }
}

/* Rounds from_run .. to_run of a segment, as far as they lie in it. */
static __global__ void __launch_bounds__(THREADS) segment_kernel(top_sort s, int64_t from_run, int64_t to_run)
{
    __shared__ lh_candidate c[SEGMENT];
    int n = (int)(s.n < SEGMENT ? s.n : (int64_t)SEGMENT);
    int64_t first = (int64_t)blockIdx.x * n;
    for (int64_t r = blockIdx.y; r < s.a.rows; r += gridDim.y) {
        lh_candidate *own = s.c + r * s.n + first;
        for (int i = (int)threadIdx.x; i < n; i += THREADS) c[i] = own[i];
        __syncthreads();
        for (int64_t run = from_run; run <= to_run; run *= 2)
            lh_sort_steps(c, n, first, run, (int)(run < n ? run / 2 : n / 2));
        for (int i = (int)threadIdx.x; i < n; i += THREADS) own[i] = c[i];
        __syncthreads();
    }
}

/* One step of a round, of pairs that lie in different segments. */
static __global__ void __launch_bounds__(THREADS) step_kernel(top_sort s, int64_t run, int64_t step)
{
    for (int64_t r = blockIdx.y; r < s.a.rows; r += gridDim.y) {
        for (int64_t i = lh_grid_first(); i < s.n / 2; i += lh_grid_step()) {
            int64_t low = i / step * 2 * step + i % step;
            lh_candidate *one = s.c + r * s.n + low, *other = one + step, a = *one, b = *other;
            if ((a < b) != ((low & run) == 0)) continue;
            *one = b;
            *other = a;
        }
    }
}

static __global__ void __launch_bounds__(THREADS) best_kernel(top_sort s)
{
    for (int64_t r = blockIdx.y; r < s.a.rows; r += gridDim.y) lh_put_best(s.a, r, s.c + r * s.n);
}

lh_status lh_top_by_sorting(lh_stream *stream, const lh_top_logits_args *a)
{
    const int64_t most_rows = 65535;
    unsigned rows = (unsigned)(a->rows < most_rows ? a->rows : most_rows);
    top_sort s = {*a, NULL, 1};
    while (s.n < a->cols) s.n *= 2;
    int64_t segment = s.n < SEGMENT ? s.n : (int64_t)SEGMENT;
    lh_shape each = {dim3(lh_blocks(s.n, THREADS), rows), THREADS, 0};
    lh_shape pairs = {dim3(lh_blocks(s.n / 2, THREADS), rows), THREADS, 0};
    lh_shape segments = {dim3((unsigned)(s.n / segment), rows), THREADS, 0};
    LH_TRY(lh_stream_scratch(stream, &s.c, a->rows * s.n * (int64_t)sizeof(lh_candidate)));
    LH_TRY(lh_launch(stream, "top_logits", each, fill_kernel, s));
    LH_TRY(lh_launch(stream, "top_logits", segments, segment_kernel, s, (int64_t)2, segment));
    for (int64_t run = 2 * segment; run <= s.n; run *= 2) {
        for (int64_t step = run / 2; step >= segment; step /= 2)
            LH_TRY(lh_launch(stream, "top_logits", pairs, step_kernel, s, run, step));
        LH_TRY(lh_launch(stream, "top_logits", segments, segment_kernel, s, run, run));
    }
    LH_TRY(lh_launch(stream, "top_logits", each, best_kernel, s));
    return LH_OK;
}
