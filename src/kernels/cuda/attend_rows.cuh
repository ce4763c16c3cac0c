/* attend_rows.cuh - the query rows of a block of attend_block, and where they are staged. */
#ifndef LH_KERNELS_CUDA_ATTEND_ROWS_CUH
#define LH_KERNELS_CUDA_ATTEND_ROWS_CUH

#include "kernels/cuda/attend_tile.cuh"

/* Which rows a block has: row k is that of token (row0 + k) / count and query head i0 + (row0 + k) % count. Rows of a
 * call are counted in 32 bits, which divides faster. */
typedef struct attend_place {
    int64_t head, i0;
    unsigned count, row0, rows; /* rows: of the KV head, all tiles */
    int64_t len, offset;
    int64_t shared, parent; /* slots that lie in the base, from there on */
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
    p.row0 = (gridDim.x - 1 - blockIdx.x) * (unsigned)rows_of_block; /* the last rows see the most: they go first */
    p.rows = (unsigned)a.tokens * p.count;
    p.len = a.kv.len[p.head];
    p.offset = a.kv.offset[p.head];
    p.shared = lh_parent_len(&a.kv, p.head);
    p.parent = p.shared ? a.kv.parent.offset[p.head] : 0;
    return p;
}

/* Queries times what makes of them logits (arguments of tanh where there is a soft cap), zeros after rows and
 * dimensions, as the products read them: 16 bytes are what a lane has of the first matrix of one m16n8k16 product.
 * [PARTS, ROWS / 16, D / 16, lanes]; the lane's numbers of two products lie together in a row (mma.cuh). */
template <typename K>
static __device__ void stage_rows(const attend_job &a, const attend_place &p, uint4 *to)
{
    enum { OPERANDS = K::ROWS / 16 * K::STEPS * LH_WARP };
    float factor = a.logit.softcap > 0 ? a.logit.scale / a.logit.softcap : a.logit.scale;
    for (int n = (int)threadIdx.x; n < OPERANDS; n += K::THREADS) {
        int lane = n % LH_WARP, step = n / LH_WARP % K::STEPS, tile = n / LH_WARP / K::STEPS;
        unsigned words[K::PARTS][4], word[K::PARTS];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned row = p.row0 + (unsigned)(16 * tile + lane / 4 + i % 2 * 8);
            int x = step / 2 * 32 + lane % 4 * 8 + step % 2 * 4 + i / 2 * 2;
            const float *q = a.q + row / p.count * a.q_ld + (p.i0 + row % p.count) * a.form.dim;
            float first = row < p.rows && x < a.form.dim ? q[x] * factor : 0.0f,
                  second = row < p.rows && x + 1 < a.form.dim ? q[x + 1] * factor : 0.0f;
            lh_cut_pair<K::PARTS>(word, first, second);
#pragma unroll
            for (int part = 0; part < K::PARTS; part++) words[part][i] = word[part];
        }
#pragma unroll
        for (int part = 0; part < K::PARTS; part++)
            to[part * OPERANDS + n] = make_uint4(words[part][0], words[part][1], words[part][2], words[part][3]);
    }
}

#endif
