/* Penalties of logits, sums of probabilities, and the largest logits of a row. 256k logits are read, 4 bytes each: a
 * microsecond of an H200's memory. */
#include <assert.h>
#include <cub/block/block_radix_sort.cuh>

#include "kernels/cuda/vector.cuh"

/* The bits of four neighbours are in one word. */
static __global__ void penalise_kernel(lh_penalise_args a, int width)
{
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four x = lh_get4(a.x + i, a.count - i, width);
        uint32_t seen = a.seen[i / 32] >> i % 32;
        const lh_four none = {{0, 0, 0, 0}};
        const lh_four bias = a.bias ? lh_get4(a.bias + i, a.count - i, width) : none;
        const lh_four minus = a.minus ? lh_get4(a.minus + i, a.count - i, width) : none;
        for (int j = 0; j < 4; j++) {
            if (a.bias) x.at[j] += bias.at[j];
            if (seen >> j & 1) x.at[j] = lh_penalised(x.at[j], a.penalty);
            if (a.minus) x.at[j] -= minus.at[j];
        }
        lh_put4(a.y + i, x, a.count - i, width);
    }
}

lh_status lh_cuda_penalise(lh_stream *stream, const lh_penalise_args *a)
{
    int width = lh_width(a->x, 0, LH_F32) == 4 && lh_width(a->y, 0, LH_F32) == 4 ? 4 : 1;
    if (a->bias && lh_width(a->bias, 0, LH_F32) != 4) width = 1;
    if (a->minus && lh_width(a->minus, 0, LH_F32) != 4) width = 1;
    return lh_launch(stream, "penalise", lh_fours_shape(1, a->count), penalise_kernel, *a, width);
}

/* Integers: blocks may add in any order. */
static __global__ void sum_probabilities_kernel(lh_sum_probabilities_args a, int width)
{
    __shared__ int64_t room[LH_WARP];
    int64_t sum = 0;
    for (int64_t i = 4 * lh_grid_first(); i < a.count; i += 4 * lh_grid_step()) {
        lh_four x = lh_get4(a.x + i, a.count - i, width);
        for (int j = 0; j < 4; j++) sum += i + j < a.count ? lh_probability(&a.by, x.at[j]) : 0;
    }
    sum = lh_block_sum(sum, room);
    if (threadIdx.x == 0) atomicAdd((unsigned long long *)a.sum, (unsigned long long)sum);
}

lh_status lh_cuda_sum_probabilities(lh_stream *stream, const lh_sum_probabilities_args *a)
{
    LH_TRY(lh_stream_zero(stream, a->sum, (int64_t)sizeof *a->sum));
    LH_TRY(lh_launch(stream, "sum_probabilities", lh_fours_shape(1, a->count), sum_probabilities_kernel, *a,
                     lh_width(a->x, 0, LH_F32)));
    return LH_OK;
}

/* ---- the largest logits of a row, level by level ----
 *
 * A block takes TILE columns of a list and passes on the k best of them, by CUB's block sort, until one tile remains.
 * The first list is the row. 256k columns take two levels for k = 1, three for 256 and four for 1024. In every list the
 * columns of equal logits ascend, and the sort is stable. */

enum { THREADS = 512, EACH = 8, TILE = THREADS * EACH };
static_assert(2 * LH_BEST_MAX <= TILE, "a level has to leave at most half of a list");

typedef cub::BlockRadixSort<uint32_t, THREADS, EACH, int32_t> tile_sort;

typedef struct top_level {
    lh_top_logits_args a;
    const int32_t *in; /* [rows, count] columns, -1 if the last tile had less than k; NULL: all columns */
    int32_t *out;      /* [rows, tiles, k] */
    int64_t count;
} top_level;

/* Column i of the list of a block's row; -1 after its end. */
static __device__ __forceinline__ int32_t column_at(const top_level &l, int64_t i)
{
    if (i >= l.count) return -1;
    return l.in ? l.in[blockIdx.x * l.count + i] : (int32_t)i;
}

/* Passes on the i-th best of a tile. */
static __device__ void hand_on(const top_level &l, int64_t i, int32_t column)
{
    const int64_t r = blockIdx.x, at = (r * gridDim.y + blockIdx.y) * l.a.k + i;
    l.out[at] = column;
    if (gridDim.y == 1) l.a.values[at] = l.a.x[r * l.a.ld + column];
}

static __global__ void __launch_bounds__(THREADS) best_kernel(top_level l)
{
    __shared__ lh_candidate room[LH_WARP];
    const float *x = l.a.x + blockIdx.x * l.a.ld;
    lh_candidate best = 0;
    lh_let_next_start();
    lh_wait_before();
    for (int j = (int)threadIdx.x; j < TILE; j += THREADS) {
        const int32_t column = column_at(l, (int64_t)blockIdx.y * TILE + j);
        if (column >= 0) best = max(best, lh_candidate_of(x[column], column));
    }
    best = lh_block_max(best, room);
    if (threadIdx.x == 0) hand_on(l, 0, (int32_t)lh_candidate_column(best));
}

static __global__ void __launch_bounds__(THREADS) sort_kernel(top_level l)
{
    __shared__ tile_sort::TempStorage room;
    const float *x = l.a.x + blockIdx.x * l.a.ld;
    const int64_t first = (int64_t)blockIdx.y * TILE + threadIdx.x * EACH;
    uint32_t keys[EACH];
    int32_t columns[EACH];
    lh_let_next_start();
    lh_wait_before();
    for (int j = 0; j < EACH; j++) {
        columns[j] = column_at(l, first + j);
        keys[j] = columns[j] < 0 ? 0 : lh_score_key(x[columns[j]]); /* missing columns sort after NaN */
    }
    tile_sort(room).SortDescendingBlockedToStriped(keys, columns);
    for (int j = 0; j < EACH; j++) {
        const int i = j * THREADS + (int)threadIdx.x;
        if (i < l.a.k) hand_on(l, i, columns[j]);
    }
}

static int64_t tiles_of(int64_t count)
{
    return (count + TILE - 1) / TILE;
}

lh_status lh_cuda_top_logits(lh_stream *stream, const lh_top_logits_args *a)
{
    int32_t *lists[2];
    top_level l = {*a, NULL, NULL, a->cols};
    assert(a->k <= a->cols && a->k <= LH_BEST_MAX);
    if (a->rows == 0 || a->k == 0) return LH_OK;
    int64_t once = tiles_of(a->cols) * a->k, twice = tiles_of(once) * a->k;
    LH_TRY(lh_stream_scratch(stream, &lists[0], a->rows * (once + twice) * (int64_t)sizeof *lists[0]));
    lists[1] = lists[0] + a->rows * once;
    for (int turn = 0;; turn = !turn) {
        int64_t tiles = tiles_of(l.count);
        lh_shape shape = {dim3((unsigned)a->rows, (unsigned)tiles), THREADS, 0};
        l.out = tiles == 1 ? a->indices : lists[turn];
        LH_TRY(lh_launch_early(stream, "top_logits", shape, a->k == 1 ? best_kernel : sort_kernel, l));
        if (tiles == 1) return LH_OK;
        l.in = l.out;
        l.count = tiles * a->k;
    }
}
