/* attend_pieces.cuh - few rows over many entries: a tile of rows for each KV head would keep few multiprocessors busy,
 * as a question's rows on a long prompt's cache. The entries that rows see are cut in splits, a block each; a second
 * kernel joins what they leave. How many there are at most follows from what the host knows, and is the same for all
 * heads; how many there are follows from the head's own length, on the device: blocks after them leave at once. */
#ifndef LH_KERNELS_CUDA_ATTEND_PIECES_CUH
#define LH_KERNELS_CUDA_ATTEND_PIECES_CUH

#include "kernels/cuda/attend_rows.cuh"

/* ATTEND_BUSY: blocks for each multiprocessor, of which two run at a time. A piece has MIN_SPLIT entries at least,
 * and as many for each row that what it leaves is little beside what it reads. */
enum { MAX_SPLITS = 256, ATTEND_BUSY = 4, MIN_SPLIT = 512, SPLIT_PER_ROW = 24, COMBINE_THREADS = 128 };

/* Blocks of rows of each KV head, KV heads, and of a block the rows that there are at most and the entries of a tile.
 */
typedef struct attend_grid {
    int64_t tiles, heads, rows, keys;
} attend_grid;

static __device__ __forceinline__ int64_t unit_here(void)
{
    return (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
}

/* Entries that a row tile of any head may have to look at. */
static int64_t entries_seen(const lh_attend_block_args *b)
{
    int64_t near = b->logit.window + b->tokens;
    return b->logit.window > 0 && !b->kv->positions && near < b->most ? near : b->most;
}

/* Where there are no more blocks than multiprocessors, and the order of adding may be any: how splits are cut, and
 * memory for what they leave. Else one piece. */
static lh_status split_entries(lh_stream *stream, const lh_attend_block_args *b, const attend_grid *grid,
                               attend_splits *splits)
{
    int64_t units = grid->tiles * grid->heads, seen = entries_seen(b), least = grid->rows * SPLIT_PER_ROW;
    int64_t processors = lh_cuda_processors(stream), most, tiles, numbers;
    char *memory = NULL;
    *splits = attend_splits{1, 0, grid->rows, NULL, NULL, NULL};
    if (b->order != LH_ORDER_ANY || units > processors) return LH_OK;
    most = processors * ATTEND_BUSY / units;
    if (least < MIN_SPLIT) least = MIN_SPLIT;
    if (most > seen / least) most = seen / least;
    if (most > MAX_SPLITS) most = MAX_SPLITS;
    if (most < 2) return LH_OK;
    splits->most = (int)most;
    tiles = (seen - 1) / (most * grid->keys) + 1;
    splits->tiles = (int)(tiles < INT32_MAX ? tiles : INT32_MAX);
    numbers = (units * most * grid->rows + 1) / 2 * 2; /* what is after them lies on 16 bytes, too */
    LH_TRY(lh_stream_scratch(stream, &memory,
                             numbers * (b->kv->head_dim * (int64_t)sizeof(float) + (int64_t)sizeof(float2)) +
                                 units * (int64_t)sizeof(int)));
    splits->part = (float2 *)memory;
    splits->o = (float *)(splits->part + numbers);
    splits->count = (int *)(splits->o + numbers * b->kv->head_dim);
    return LH_OK;
}

/* A row of a KV head (blockIdx.x, y) from its splits, in their order. `rows`: of a tile. */
static __global__ void __launch_bounds__(COMBINE_THREADS)
    combine_kernel(const __grid_constant__ attend_job a, int64_t tiles, unsigned rows)
{
    __shared__ float room[LH_WARP], weights[MAX_SPLITS];
    attend_place p = place_of(a, 0);
    unsigned row = blockIdx.x;
    if (row >= p.rows) return;
    int64_t unit = (p.head - a.first_head) * tiles + (tiles - 1 - row / rows), dim = a.form.dim;
    int64_t first = unit * a.splits.most * a.splits.rows + row % rows, token = row / p.count, i = p.i0 + row % p.count;
    int count = a.splits.count[unit];
    float row_max = -INFINITY, denominator = 0.0f;
    for (int n = (int)threadIdx.x; n < count; n += COMBINE_THREADS)
        row_max = fmaxf(row_max, a.splits.part[first + n * a.splits.rows].x);
    row_max = lh_block_max(row_max, room);
    for (int n = (int)threadIdx.x; n < count; n += COMBINE_THREADS) {
        float2 own = a.splits.part[first + n * a.splits.rows];
        weights[n] = lh_weight(own.x, lh_shift(row_max));
        denominator = fmaf(weights[n], own.y, denominator);
    }
    denominator = lh_block_sum(denominator, room); /* after its barrier all weights are there */
    if (a.lse && threadIdx.x == 0)
        a.lse[token * a.map.heads + i] = denominator != 0 ? lh_shift(row_max) + logf(denominator) : -INFINITY;
    for (int64_t x = threadIdx.x; x < dim; x += COMBINE_THREADS) {
        const float *at = a.splits.o + first * dim + x;
        float sum = 0.0f;
#pragma unroll 16
        for (int n = 0; n < count; n++) sum = fmaf(weights[n], at[n * a.splits.rows * dim], sum);
        float o = denominator != 0 ? sum / denominator : 0.0f;
        if (a.o) a.o[token * a.o_ld + i * dim + x] = o;
        if (a.o_bf16) lh_put(a.o_bf16 + token * a.o_ld + i * dim + x, o);
    }
}

static lh_status combine_splits(lh_stream *stream, const attend_job *a, const attend_grid *grid, int64_t rows)
{
    dim3 blocks((unsigned)(a->tokens * a->map.group), (unsigned)grid->heads);
    return lh_launch(stream, "attend_block", lh_shape{blocks, COMBINE_THREADS, 0}, combine_kernel, *a, grid->tiles,
                     (unsigned)rows);
}

#endif
