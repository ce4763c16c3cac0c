/* Appending to ragged caches. A block owns TILE tokens of one head of one sequence, a thread four numbers of a key or
 * value at a time: 4 bytes a number read, 2 or 4 written. Where one block has all tokens of a head (decoding) it raises
 * the length itself; else a second kernel does when all have read it. */
#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/vector.cuh"

enum { SEQS = 24, TILE = 32, THREADS = 256 };

/* Some sequences of a batch. The rows of the first one begin at k and v. */
typedef struct append_slice {
    lh_ragged seqs[SEQS];
    const float *k, *v;
    const int32_t *positions;
    int64_t tokens, ld;
} append_slice;

typedef struct append_tile {
    int64_t slot, row, count; /* the first slot in the pools, the first row of k and v, tokens */
} append_tile;

template <typename T>
static __device__ void append_numbers(const append_slice &a, const lh_ragged &kv, append_tile tile, int width)
{
    unsigned d = (unsigned)kv.head_dim, fours = (d + 3) / 4, items = (unsigned)tile.count * 2 * fours;
    int64_t column = (int64_t)blockIdx.y * kv.head_dim;
    for (unsigned n = threadIdx.x; n < items; n += blockDim.x) {
        unsigned four = n % fours, half = n / fours, t = half / 2, i = 4 * four;
        const float *from = (half % 2 ? a.v : a.k) + (tile.row + t) * a.ld + column + i;
        T *to = (T *)(half % 2 ? kv.v : kv.k) + (tile.slot + t) * kv.head_dim + i;
        lh_put4(to, lh_get4(from, d - i, width), d - i, width);
    }
}

/* Blocks: tiles of tokens, heads, sequences. */
static __global__ void append_kernel(const __grid_constant__ append_slice a, int width)
{
    const lh_ragged &kv = a.seqs[blockIdx.z];
    int64_t h = blockIdx.y, first = (int64_t)blockIdx.x * TILE, left = a.tokens - first;
    if (h >= kv.heads) return;
    append_tile tile = {kv.offset[h] + kv.len[h] + first, blockIdx.z * a.tokens + first,
                        left < TILE ? left : (int64_t)TILE};
    if (kv.type == LH_F32)
        append_numbers<float>(a, kv, tile, width);
    else
        append_numbers<__nv_bfloat16>(a, kv, tile, width);
    for (int64_t t = threadIdx.x; kv.positions && t < tile.count; t += blockDim.x)
        kv.positions[tile.slot + t] = a.positions[tile.row + t];
    for (int64_t t = threadIdx.x; kv.bias && t < tile.count; t += blockDim.x) kv.bias[tile.slot + t] = 0.0f;
    for (int64_t c = threadIdx.x; kv.stats && c < tile.count * kv.stat_count; c += blockDim.x)
        kv.stats[tile.slot * kv.stat_count + c] = 0.0f;
    __syncthreads(); /* all have read the length */
    if (gridDim.x == 1 && threadIdx.x == 0) kv.len[h] += a.tokens;
}

static __global__ void raise_kernel(const __grid_constant__ append_slice a)
{
    const lh_ragged &kv = a.seqs[blockIdx.z];
    for (int64_t h = threadIdx.x; h < kv.heads; h += blockDim.x) kv.len[h] += a.tokens;
}

/* Numbers moved at once, in rows and caches alike. */
static int width_of(const lh_append_args *a)
{
    int is_wide = lh_width(a->k, a->ld, LH_F32) == 4 && lh_width(a->v, a->ld, LH_F32) == 4;
    for (int64_t b = 0; b < a->batch; b++) {
        const lh_ragged *kv = &a->seqs[b];
        is_wide = is_wide && lh_width(kv->k, kv->head_dim, kv->type) == 4;
        is_wide = is_wide && lh_width(kv->v, kv->head_dim, kv->type) == 4;
    }
    return is_wide ? 4 : 1;
}

lh_status lh_cuda_append(lh_stream *stream, const lh_append_args *a)
{
    int width = width_of(a);
    unsigned tiles = (unsigned)((a->tokens + TILE - 1) / TILE);
    for (int64_t b = 0; b < a->batch; b += SEQS) {
        append_slice slice = {};
        unsigned count = (unsigned)(a->batch - b < SEQS ? a->batch - b : (int64_t)SEQS);
        int64_t heads = 0;
        for (unsigned i = 0; i < count; i++) {
            slice.seqs[i] = a->seqs[b + i];
            heads = slice.seqs[i].heads > heads ? slice.seqs[i].heads : heads;
        }
        slice.k = a->k + b * a->tokens * a->ld;
        slice.v = a->v + b * a->tokens * a->ld;
        slice.positions = a->positions + b * a->tokens;
        slice.tokens = a->tokens;
        slice.ld = a->ld;
        lh_shape shape = {dim3(tiles, (unsigned)heads, count), THREADS, 0};
        LH_TRY(lh_launch(stream, "append", shape, append_kernel, slice, width));
        if (tiles > 1)
            LH_TRY(lh_launch(stream, "append", lh_shape{dim3(1, 1, count), LH_WARP, 0}, raise_kernel, slice));
    }
    return LH_OK;
}

/* ---- query rows in a ring ---- */

/* A row that another one replaces is left out: no two blocks write to one place. */
static __global__ void put_rows_kernel(lh_put_rows_args a, int width)
{
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        int64_t p = a.positions[t];
        if (p >= a.head && t + a.rows - a.head < a.tokens) continue;
        float *row = a.ring + lh_ring_place(p, a.rows, a.head) * a.width;
        for (int64_t i = 4 * lh_grid_first(); i < a.width; i += 4 * lh_grid_step())
            lh_put4(row + i, lh_get4(a.x + t * a.x_ld + i, a.width - i, width), a.width - i, width);
    }
}

lh_status lh_cuda_put_rows(lh_stream *stream, const lh_put_rows_args *a)
{
    int width = lh_width(a->ring, a->width, LH_F32) == 4 && lh_width(a->x, a->x_ld, LH_F32) == 4 ? 4 : 1;
    return lh_launch(stream, "put_rows", lh_fours_shape(a->tokens, a->width), put_rows_kernel, *a, width);
}
