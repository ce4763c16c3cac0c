/* attend_block.cuh - what the kernels of attend_block share: their arguments, and the query rows of a block of threads.
 */
#ifndef LH_KERNELS_CUDA_ATTEND_BLOCK_CUH
#define LH_KERNELS_CUDA_ATTEND_BLOCK_CUH

#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/vector.cuh"

/* The splits of the entries of every KV head (attend_block.cu), and their results: sums, and of each row the maximum
 * and the denominator. */
typedef struct attend_splits {
    int most, tiles; /* maximum splits of a head, and tiles of each, the last one may have fewer; most = 1: no splits */
    int64_t rows;    /* rows of a block */
    float *o;        /* [units, most, rows, head_dim], units = KV head * tiles of rows + tile */
    float2 *part;    /* [units, most, rows] */
    int *count;      /* [units] actual number of splits */
} attend_splits;

typedef struct attend_job {
    float *o; /* NULL: only the rounded outputs are needed */
    __nv_bfloat16 *o_bf16;
    float *lse;
    const float *q;
    const int32_t *positions;
    lh_ragged kv;
    lh_grouping map;
    lh_logit logit;
    int64_t tokens, q_ld, o_ld, first_head;
    int o_width; /* numbers of o and o_bf16 written in one access */
    lh_form form;
    attend_splits splits;
} attend_job;

/* The arguments of both kernels, without splits. */
static inline attend_job attend_job_of(const lh_attend_block_args *b)
{
    const int wide =
        b->kv->head_dim % 4 == 0 && lh_width(b->o, b->o_ld, LH_F32) == 4 && lh_width(b->o_bf16, b->o_ld, LH_BF16) == 4;
    attend_job a = {};
    a.o = b->keeps_o || !b->o_bf16 ? b->o : NULL;
    a.o_bf16 = (__nv_bfloat16 *)b->o_bf16;
    a.lse = b->lse;
    a.q = b->q;
    a.positions = b->positions;
    a.kv = *b->kv;
    a.map = b->map;
    a.logit = b->logit;
    a.tokens = b->tokens;
    a.q_ld = b->q_ld;
    a.o_ld = b->o_ld;
    a.first_head = b->map.first / b->map.group;
    a.o_width = wide ? 4 : 1;
    a.form = lh_form_of(b->kv);
    return a;
}

/* KV heads that the query heads use. */
static inline int64_t attend_heads(const lh_attend_block_args *b)
{
    return (b->map.first + b->map.heads - 1) / b->map.group + 1 - b->map.first / b->map.group;
}

/* The rows of a block: row k is token (row0 + k) / count and query head i0 + (row0 + k) % count. Rows of a call are
 * counted in 32 bits, which divide faster. */
typedef struct attend_place {
    int64_t head, i0;
    unsigned count, row0, rows; /* rows: of the KV head, in all tiles */
    int64_t len, offset;
    int64_t shared, parent; /* slots in the parent, and their start there */
} attend_place;

static __device__ __forceinline__ attend_place place_of(const attend_job &a, int rows_of_block)
{
    attend_place p;
    const lh_grouping &map = a.map;
    p.head = a.first_head + blockIdx.y;
    int64_t low = p.head * map.group > map.first ? p.head * map.group : map.first, most = map.first + map.heads,
            high = (p.head + 1) * map.group < most ? (p.head + 1) * map.group : most;
    p.i0 = low - map.first;
    p.count = (unsigned)(high - low);
    p.row0 =
        (gridDim.x - 1 - blockIdx.x) * (unsigned)rows_of_block; /* the last rows see the most entries: they run first */
    p.rows = (unsigned)a.tokens * p.count;
    p.len = a.kv.len[p.head];
    p.offset = a.kv.offset[p.head];
    p.shared = lh_parent_len(&a.kv, p.head);
    p.parent = p.shared ? a.kv.parent.offset[p.head] : 0;
    return p;
}

/* attend_block by the kernel of tiles (attend_block.cu), which serves every case; no count of `b` is 0. Allocates
 * workspace for splits only where the order of sums is free. */
lh_status lh_attend_by_tiles(lh_stream *stream, const lh_attend_block_args *b);

/* The index of the wgmma kernel that serves the block (attend_hopper.cu); -1: none. */
enum { LH_WGMMA_KERNELS = 12 };
int lh_wgmma_kernel(lh_stream *stream, const lh_attend_block_args *b);

/* attend_block by that kernel; or writes to `why` what the driver refused. */
lh_status lh_attend_by_wgmma(lh_stream *stream, const lh_attend_block_args *b, char why[256]);

#endif
