/* attend_tile.cuh - tiles of keys and values in shared memory for attend_block. Rows are cut in splits of 16 bytes,
 * which lie in an order that depends on the row, so that the lanes that read at the same time find different banks.
 * Keys and values of the next tile are copied while one is worked on. */
#ifndef LH_KERNELS_CUDA_ATTEND_TILE_CUH
#define LH_KERNELS_CUDA_ATTEND_TILE_CUH

#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/vector.cuh"

template <typename T_, int D_, int WARPS_, int TILES_, int KEYS_>
struct attend_kind {
    typedef T_ T;
    enum {
        D = D_,                      /* dimensions that there is room for */
        BYTES = sizeof(T_),          /* of a number */
        PARTS = lh_parts<T_>::COUNT, /* of queries and weights, too: over bf16 they are rounded */
        WARPS = WARPS_,
        THREADS = WARPS_ * LH_WARP,
        TILES = TILES_, /* of 16 rows that a warp has */
        ROWS = 16 * TILES_ * WARPS_,
        STEPS = D_ / 16, /* products along the dimensions */
        KEYS = KEYS_,    /* entries of a tile: 64, 32 or 16 */
        QUERY_BYTES = PARTS * ROWS * D_ * 2,
        TILE_BYTES = KEYS_ * D_ * (int)sizeof(T_),
        SHARED = QUERY_BYTES + 4 * TILE_BYTES /* two of keys, two of values */
    };
    static_assert(LH_SHARED_BLOCK % KEYS_ == 0, "a tile lies in one segment");
};

/* Pieces that the entries of every KV head are cut in, and what they leave: sums, and of each row the highest logit and
 * the denominator. */
typedef struct attend_splits {
    int most, tiles; /* splits of a head, and tiles of each, the last one's rest beside; most = 1: it is all one */
    int64_t rows;    /* of a block */
    float *o;        /* [units, most, rows, head_dim], units = KV head * tiles of rows + tile */
    float2 *part;    /* [units, most, rows] */
    int *count;      /* [units] splits that there are */
} attend_splits;

typedef struct attend_job {
    float *o; /* NULL: the rounded ones are enough */
    __nv_bfloat16 *o_bf16;
    float *lse;
    const float *q;
    const int32_t *positions;
    lh_ragged kv;
    lh_grouping map;
    lh_logit logit;
    int64_t tokens, q_ld, o_ld, first_head;
    int o_width; /* numbers of o and o_bf16 that are written at once */
    lh_form form;
    attend_splits splits;
} attend_job;

/* Which of eight neighbouring pieces takes the place of which: what a row's number of a piece is changed by. */
static __device__ __forceinline__ int key_turn(int row, int bytes)
{
    return bytes == 2 ? (row & 1) << 2 : row & 1;
}
static __device__ __forceinline__ int value_turn(int row, int bytes)
{
    return bytes == 2 ? (row >> 1 & 3) << 1 : (row >> 1 & 1) | (row >> 2 & 1) << 2;
}

/* Eight numbers from 8 n on of a row in shared memory; row: its first piece. */
static __device__ __forceinline__ void read_eight(lh_eight<__nv_bfloat16> *e, const uint4 *row, int n, int turn)
{
    e->w = row[n ^ turn];
}
static __device__ __forceinline__ void read_eight(lh_eight<float> *e, const uint4 *row, int n, int turn)
{
    e->x = ((const float4 *)row)[2 * n ^ turn];
    e->y = ((const float4 *)row)[(2 * n + 1) ^ turn];
}
static __device__ __forceinline__ void write_eight(const lh_eight<__nv_bfloat16> &e, uint4 *row, int n, int turn)
{
    row[n ^ turn] = e.w;
}
static __device__ __forceinline__ void write_eight(const lh_eight<float> &e, uint4 *row, int n, int turn)
{
    ((float4 *)row)[2 * n ^ turn] = e.x;
    ((float4 *)row)[(2 * n + 1) ^ turn] = e.y;
}

/* KEYS rows of keys or values from slot `slot` of a cache on, which ends at `end`: zeros after it, so that 0 times
 * them is 0. `values`: whose order. */
typedef enum tile_order { OF_KEYS, OF_VALUES } tile_order;

template <typename K>
static __device__ __forceinline__ void copy_tile(uint4 *to, const typename K::T *from, int rows, lh_form form,
                                                 tile_order order)
{
    enum { PIECES = K::D * K::BYTES / 16, NUMBERS = 16 / K::BYTES, EIGHTS = K::D / 8 };
    if (form.wide) {
#pragma unroll
        for (int n = (int)threadIdx.x; n < K::KEYS * PIECES; n += K::THREADS) {
            int row = n / PIECES, piece = n % PIECES, there = row < rows && piece * NUMBERS < form.dim;
            int turn = order == OF_KEYS ? key_turn(row, K::BYTES) : value_turn(row, K::BYTES);
            lh_copy_async(to + row * PIECES + (piece ^ turn),
                          there ? from + (int64_t)row * form.dim + piece * NUMBERS : from, there ? 16 : 0);
        }
        return;
    }
    for (int n = (int)threadIdx.x; n < K::KEYS * EIGHTS; n += K::THREADS) {
        int row = n / EIGHTS, e = n % EIGHTS;
        int turn = order == OF_KEYS ? key_turn(row, K::BYTES) : value_turn(row, K::BYTES);
        lh_eight<typename K::T> eight;
        lh_load(&eight, from + (int64_t)row * form.dim + 8 * e, row < rows ? form.dim - 8 * e : 0, 0);
        write_eight(eight, to + row * PIECES, e, turn);
    }
}

#endif
