/* split_kv.cuh - query rows that look at all entries of ragged caches (attend_decode, row_lse): which rows and entries
 * a block has, and how the parts of a row become one.
 *
 * The entries of a KV head are cut in pieces that depend on its own length, and on how many there may be at most: as
 * many as keep the processors busy where the order of adding may be any, else LH_SPLITS. A block has one piece and a
 * tile of rows: of one sequence and KV head, row r of query head i at r * (heads of the group here) + i. It
 * leaves at once where its head has no such piece, so the grid does not depend on lengths and a CUDA graph can be
 * replayed. Pieces leave their highest logit, their denominator and their sums of values; the last block of a head to
 * arrive puts them together in their order. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_CUH

#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/softmax.cuh"

enum {
    LH_SPLITS = 128,    /* pieces of a head, at most */
    LH_SPLIT_SEQS = 16, /* sequences of a launch */
    LH_SPLIT_WARPS = 4, /* of a block */
    LH_SPLIT_KEYS = 16, /* entries that a warp has at a time */
    LH_SPLIT_MOST_DIM = 256
};
#define LH_SPLIT_THREADS (LH_SPLIT_WARPS * LH_WARP)
#define LH_SPLIT_STEP (LH_SPLIT_WARPS * LH_SPLIT_KEYS)
static_assert(LH_SHARED_BLOCK % LH_SPLIT_KEYS == 0, "entries of a warp lie in one segment");

/* What the pieces of a head leave for the last of them to join; units = (sequence * heads + head) * tiles + tile. */
typedef struct lh_split_parts {
    float *o;          /* [units, LH_SPLITS, tile, dim] */
    float2 *sums;      /* [units, tile, LH_SPLITS] highest logit and denominator */
    uint32_t *arrived; /* [units] 0 */
} lh_split_parts;

/* Rows that look at the caches of `seqs`, which are host structs copied into the launch. Row r of sequence b is row
 * b * rows + r of every array. */
typedef struct lh_split_kv {
    float *o;              /* sums of values; NULL: not wanted */
    __nv_bfloat16 *o_bf16; /* them rounded; may be NULL */
    float *lse;            /* may be NULL */
    const float *q;
    const int32_t *positions, *until; /* as in lh_observed */
    const float *gains;
    int64_t rows, q_ld, o_ld; /* rows of a sequence */
    lh_grouping map;
    lh_logit logit;
    int64_t first_head, heads; /* KV heads */
    int tiles;                 /* of rows of each */
    lh_form form;
    int tile; /* rows that a tile has at most */
    int most; /* pieces of a head */
    lh_split_parts parts;
    lh_ragged seqs[LH_SPLIT_SEQS];
    lh_row_logits logits[LH_SPLIT_SEQS]; /* of rows = 1 */
} lh_split_kv;

/* Where a block is. */
typedef struct lh_split_place {
    int64_t head, seq, unit;
    int64_t i0;         /* the first query head */
    int count;          /* query heads */
    int row0, rows;     /* of the tile, among the sequence's rows * count */
    int64_t slots;      /* where the head begins in the cache */
    int shared;         /* slots of it that lie in the base; counted in 32 bits, where registers are short */
    int64_t first, end; /* slots of the piece */
    int splits, split;
} lh_split_place;

/* Entries of a piece, a multiple of LH_SPLIT_STEP: short pieces keep all processors busy, long ones make little to put
 * together. */
static __device__ __forceinline__ int64_t lh_piece(int64_t len, int most)
{
    const int64_t step = LH_SPLIT_STEP, even = ((len + most - 1) / most + step - 1) / step * step;
    int64_t least = 4 * step;
    if (len <= 64 * 2 * step) least = 2 * step;
    if (len <= 32 * step) least = step;
    return even > least ? even : least;
}

/* 0 where there is nothing to do. */
static __device__ __forceinline__ int lh_split_find(const lh_split_kv &a, lh_split_place *p)
{
    const lh_grouping &map = a.map;
    const lh_ragged &kv = a.seqs[blockIdx.y];
    int n = (int)blockIdx.x / a.tiles, tile = (int)blockIdx.x % a.tiles, left;
    int64_t low, high;
    p->head = a.first_head + n;
    p->seq = blockIdx.y;
    p->split = (int)blockIdx.z;
    int64_t len = kv.len[p->head], piece = lh_piece(len, a.most);
    p->splits = len > 0 ? (int)((unsigned)(len + piece - 1) / (unsigned)piece) : 1; /* of no 2^32 entries */
    low = p->head * map.group > map.first ? p->head * map.group : map.first;
    high = (p->head + 1) * map.group < map.first + map.heads ? (p->head + 1) * map.group : map.first + map.heads;
    p->i0 = low - map.first;
    p->count = (int)(high - low);
    p->row0 = tile * a.tile;
    left = (int)a.rows * p->count - p->row0;
    p->rows = left < a.tile ? left : a.tile;
    p->unit = (p->seq * a.heads + n) * a.tiles + tile;
    p->slots = kv.offset[p->head];
    p->shared = (int)lh_parent_len(&kv, p->head);
    p->first = p->split * piece;
    p->end = p->first + piece < len ? p->first + piece : len;
    return p->split < p->splits && left > 0;
}

/* Row k of the tile: its row in the arrays and its query head. */
static __device__ __forceinline__ void lh_split_row(const lh_split_kv &a, const lh_split_place &p, int k, int64_t *r,
                                                    int64_t *i)
{
    int at = p.row0 + k;
    *r = p.seq * a.rows + at / p.count;
    *i = p.i0 + at % p.count;
}

#endif
