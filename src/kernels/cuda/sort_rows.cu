/* Bitonic sort of rows, the largest first. Steps within a segment are made in shared memory, the others in device
 * memory, a pair a thread: 256k columns take 28 launches that read and write 16 bytes a column each. */
#include "kernels/cuda/candidates.cuh"

enum { THREADS = 512, SEGMENT = 4096 };

/* c: [rows, n], n a power of two. */
typedef struct sort_plan {
    lh_candidate *c;
    int64_t rows, n;
} sort_plan;

/* Rounds from_run .. to_run of a segment, as far as they lie in it. */
static __global__ void __launch_bounds__(THREADS) segment_kernel(sort_plan s, int64_t from_run, int64_t to_run)
{
    __shared__ lh_candidate c[SEGMENT];
    int n = (int)(s.n < SEGMENT ? s.n : (int64_t)SEGMENT);
    int64_t first = (int64_t)blockIdx.x * n;
    for (int64_t r = blockIdx.y; r < s.rows; r += gridDim.y) {
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
static __global__ void __launch_bounds__(THREADS) step_kernel(sort_plan s, int64_t run, int64_t step)
{
    for (int64_t r = blockIdx.y; r < s.rows; r += gridDim.y) {
        for (int64_t i = lh_grid_first(); i < s.n / 2; i += lh_grid_step()) {
            int64_t low = i / step * 2 * step + i % step;
            lh_candidate *one = s.c + r * s.n + low, *other = one + step, a = *one, b = *other;
            if ((a < b) != ((low & run) == 0)) continue;
            *one = b;
            *other = a;
        }
    }
}

int64_t lh_sorted_columns(int64_t cols)
{
    int64_t n = 1;
    while (n < cols) n *= 2;
    return n;
}

lh_shape lh_sorted_shape(int64_t rows, int64_t cols)
{
    const int64_t most_rows = 65535;
    return lh_shape{dim3(lh_blocks(cols, THREADS), (unsigned)(rows < most_rows ? rows : most_rows)), THREADS, 0};
}

lh_status lh_sort_rows(lh_stream *stream, const char *name, lh_candidate *c, int64_t rows, int64_t n)
{
    sort_plan s = {c, rows, n};
    int64_t segment = n < SEGMENT ? n : (int64_t)SEGMENT;
    lh_shape pairs = lh_sorted_shape(rows, n / 2), segments = pairs;
    segments.blocks.x = (unsigned)(n / segment);
    LH_TRY(lh_launch(stream, name, segments, segment_kernel, s, (int64_t)2, segment));
    for (int64_t run = 2 * segment; run <= n; run *= 2) {
        for (int64_t step = run / 2; step >= segment; step /= 2)
            LH_TRY(lh_launch(stream, name, pairs, step_kernel, s, run, step));
        LH_TRY(lh_launch(stream, name, segments, segment_kernel, s, run, run));
    }
    return LH_OK;
}
