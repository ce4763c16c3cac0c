/* split_kv_rows.cuh - split-KV attention: kinds of kernel, and the query rows of a block. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_ROWS_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_ROWS_CUH

#include "kernels/cuda/split_kv.cuh"

/* Three parts of a query and of a weight. */
enum { SCAN_PARTS = 3 };

template <typename T_, int D_, int HALVES_, int VALUES_>
struct split_kind {
    typedef T_ T;
    enum {
        D = D_,           /* dimensions that there is room for */
        HALVES = HALVES_, /* rows of a tile / 8 */
        VALUES = VALUES_, /* whether values are summed */
        ROWS = 8 * HALVES_,
        KEY_CHUNKS = D_ / 32, /* a lane has 8 numbers of each */
        VALUE_CHUNKS = D_ / 64,
        PARTS = lh_parts<T_>::COUNT,
        PITCH = D_ + 32, /* of rows of queries in shared memory, in bf16: rows in turn begin 16 banks apart */
        SMALL = sizeof(T_) == 2 && D_ <= 128,      /* whether there are registers for values beside keys */
        STAGE = SMALL ? D_ / 32 : 2,               /* chunks of keys under way */
        BLOCKS = D_ <= 128 && HALVES_ == 1 ? 3 : 2 /* of a multiprocessor */
    };
};

/* A warp's share of the rows: lane 4 g + t has rows 8 h + 2 t and 8 h + 2 t + 1 (i = 0, 1), of these a share of the
 * denominator and the sums of values of the dimensions 64 c + 8 g + 2 j (sum[c][j][h][i]) and 64 c + 8 g + 2 j + 1 ([2
 * + i]).
 */
template <typename K>
struct split_state {
    float row_max[K::HALVES][2], denominator[K::HALVES][2];
    float sum[K::VALUE_CHUNKS][4][K::HALVES][4];
};

/* A lane's part of its rows. */
template <typename K>
struct split_rows {
    lh_visible_range visible[K::HALVES][2];
    float gain[K::HALVES][2];
    float *logits[K::HALVES][2]; /* of slot 0; NULL: not wanted */
};

/* The 16 entries of a warp from `slot` on, of which `left` are in the piece. k: of entry g, from dimension 8 t on; at:
 * positions of g and 8 + g, -1: not in the piece; bias: theirs. v: of entry 2 t, from dimension 8 g on; seen: whether
 * rows see 2 t, 2 t + 1, 2 t + 8, 2 t + 9; all: whether they see all that are in the piece. */
template <typename K>
struct split_entry {
    const typename K::T *k, *v;
    int64_t slot;
    int left, at[2], seen[4], all;
    float bias[2];
};

/* Queries of the tile in shared memory: [SCAN_PARTS, ROWS, PITCH] bf16, zeros after rows and dimensions. */
template <typename K>
static __device__ void stage_queries(const lh_split_kv &a, const lh_split_place &p, unsigned *to)
{
    enum { PAIRS = K::D / 2, PITCH = K::PITCH / 2 };
    for (int n = (int)threadIdx.x; n < K::ROWS * PAIRS; n += LH_SPLIT_THREADS) {
        int k = n / PAIRS, x = n % PAIRS * 2;
        unsigned word[SCAN_PARTS];
        float pair[2] = {0, 0};
        if (k < p.rows) {
            int64_t r, i;
            lh_split_row(a, p, k, &r, &i);
            const float *q = a.q + r * a.q_ld + i * a.form.dim;
            if (x < a.form.dim) pair[0] = q[x];
            if (x + 1 < a.form.dim) pair[1] = q[x + 1];
        }
        lh_cut_pair<SCAN_PARTS>(word, pair[0], pair[1]);
#pragma unroll
        for (int part = 0; part < SCAN_PARTS; part++) to[(part * K::ROWS + k) * PITCH + x / 2] = word[part];
    }
}

/* Rows after those of the tile see what its last one sees; nobody looks at what becomes of them. */
template <typename K>
static __device__ void describe_rows(const lh_split_kv &a, const lh_split_place &p, split_rows<K> *rows)
{
    const lh_row_logits &out = a.logits[p.seq];
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int k = n / 2 * 8 + lh_lane() % 4 * 2 + n % 2, at = k < p.rows ? k : p.rows - 1;
        int64_t r, i;
        lh_split_row(a, p, at, &r, &i);
        rows->visible[n / 2][n % 2] = lh_visible_range_of(a.positions, a.until, a.logit.window, r);
        rows->gain[n / 2][n % 2] = a.gains ? a.gains[r] : 1.0f;
        rows->logits[n / 2][n % 2] = out.at && k < p.rows ? out.at + i * out.ld : NULL;
    }
}

#endif
