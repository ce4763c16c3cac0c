/* split_kv_kernel.cuh - entries times rows of a tile on the tensor cores, whatever the type of the cache (queries and
 * weights in three parts: nothing is rounded to bf16), and every byte of the cache read once for up to 16 rows.
 *
 * A warp takes 16 entries at a time: their keys (and values) come from device memory straight to where the products
 * want them, 16 bytes a lane, 64 or 128 of a row together. Entries are the 16 rows of a product and query rows its 8
 * columns, so a group of 8 heads or less wastes nothing but what it has less. With 16 x 128 bf16 numbers of keys and of
 * values 8 KiB are under way a warp, 96 KiB a multiprocessor, three times what hides the memory's latency; the products
 * take a fifth of the time of the bytes. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_KERNEL_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_KERNEL_CUH

#include "kernels/cuda/split_kv_join.cuh"
#include "kernels/cuda/split_kv_sums.cuh"

/* ---- from warps to the block, from blocks to the row ---- */

/* Shared memory: queries while entries are read, then sums [tile, dim] or weights of pieces; and of the warps'
 * rows the highest logits and denominators. */
template <typename K>
struct split_room {
    enum {
        QUERY_BYTES = 2 * SCAN_PARTS * K::ROWS * K::PITCH, /* more than the sums */
        WEIGHT_BYTES = 4 * K::ROWS * LH_SPLITS,
        FIRST = (int)QUERY_BYTES > (int)WEIGHT_BYTES ? (int)QUERY_BYTES : (int)WEIGHT_BYTES,
        BYTES = FIRST + 4 * K::ROWS * (2 * LH_SPLIT_WARPS + 2)
    };
    float *sums;                      /* [ROWS, D] */
    float *row_maxima, *denominators; /* [LH_SPLIT_WARPS, ROWS] */
    lh_split_joint joint;
};

template <typename K>
static __device__ __forceinline__ split_room<K> room_of(void)
{
    float *sums = (float *)lh_shared(), *row_maxima = (float *)(lh_shared() + split_room<K>::FIRST);
    float *denominators = row_maxima + LH_SPLIT_WARPS * K::ROWS, *row_max = denominators + LH_SPLIT_WARPS * K::ROWS;
    return split_room<K>{sums, row_maxima, denominators, {row_max, row_max + K::ROWS, sums}};
}

/* Sums of a warp, brought to the highest logit of all warps, are set (by the first warp) or added. */
template <typename K>
static __device__ void give_sums(const split_state<K> &state, const float shrink[K::HALVES][2],
                                 const split_room<K> &room)
{
    int g = lh_lane() / 4, t = lh_lane() % 4;
#pragma unroll
    for (int c = 0; c < K::VALUE_CHUNKS; c++) {
#pragma unroll
        for (int n = 0; n < 2 * K::HALVES; n++) {
            float *at = room.sums + (n / 2 * 8 + 2 * t + n % 2) * K::D + 64 * c + 8 * g;
#pragma unroll
            for (int x = 0; x < 8; x++) {
                float before = lh_warp() ? at[x] : 0.0f;
                at[x] = fmaf(shrink[n / 2][n % 2], state.sum[c][x / 2][n / 2][x % 2 * 2 + n % 2], before);
            }
        }
    }
}

/* The warps' shares become the block's: sums, highest logits and denominators. */
template <typename K>
static __device__ void join_warps(const split_state<K> &state, const split_room<K> &room)
{
    float shrink[K::HALVES][2];
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int k = n / 2 * 8 + lh_lane() % 4 * 2 + n % 2;
        float denominator = state.denominator[n / 2][n % 2];
        for (int with = 4; with < LH_WARP; with *= 2) denominator += __shfl_xor_sync(LH_ALL, denominator, with);
        if (lh_lane() < 4) room.row_maxima[lh_warp() * K::ROWS + k] = state.row_max[n / 2][n % 2];
        if (lh_lane() < 4) room.denominators[lh_warp() * K::ROWS + k] = denominator;
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 2 * K::HALVES; n++) {
        int k = n / 2 * 8 + lh_lane() % 4 * 2 + n % 2;
        float row_max = room.row_maxima[k], denominator = 0.0f;
        for (int w = 1; w < LH_SPLIT_WARPS; w++) row_max = fmaxf(row_max, room.row_maxima[w * K::ROWS + k]);
        for (int w = 0; w < LH_SPLIT_WARPS; w++)
            denominator = fmaf(lh_weight(room.row_maxima[w * K::ROWS + k], lh_shift(row_max)),
                               room.denominators[w * K::ROWS + k], denominator);
        shrink[n / 2][n % 2] = lh_weight(state.row_max[n / 2][n % 2], lh_shift(row_max));
        if (threadIdx.x < 4) room.joint.row_max[k] = row_max, room.joint.denominator[k] = denominator;
    }
    if constexpr (K::VALUES) {
        for (int w = 0; w < LH_SPLIT_WARPS; w++) {
            if (lh_warp() == w) give_sums<K>(state, shrink, room);
            __syncthreads();
        }
    }
    __syncthreads();
}

/* The results of a head in one piece, or this piece of them. */
template <typename K>
static __device__ void leave(const lh_split_kv &a, const lh_split_place &p, const split_room<K> &room)
{
    int dim = a.form.dim, alone = p.splits == 1, k = (int)threadIdx.x;
    if (k < p.rows && alone) lh_split_tell(a, p, k, room.joint.row_max[k], room.joint.denominator[k]);
    if (k < p.rows && !alone)
        a.parts.sums[(p.unit * a.tile + k) * LH_SPLITS + p.split] =
            make_float2(room.joint.row_max[k], room.joint.denominator[k]);
    for (int n = (int)threadIdx.x; K::VALUES && n < p.rows * dim; n += LH_SPLIT_THREADS) {
        int x = n % dim;
        k = n / dim;
        float sum = room.sums[k * K::D + x];
        int64_t r, i;
        lh_split_row(a, p, k, &r, &i);
        if (alone)
            lh_split_put(a, r * a.o_ld + i * dim + x, sum, room.joint.denominator[k]);
        else
            a.parts.o[((p.unit * LH_SPLITS + p.split) * a.tile + k) * dim + x] = sum;
    }
}

template <typename K>
static __global__ void __launch_bounds__(LH_SPLIT_THREADS, K::BLOCKS)
    split_kernel(const __grid_constant__ lh_split_kv a)
{
    lh_split_place p;
    split_state<K> state = {};
    split_rows<K> rows;
    split_room<K> room = room_of<K>();
    if (!lh_split_find(a, &p)) return;
    stage_queries<K>(a, p, (unsigned *)lh_shared());
    describe_rows<K>(a, p, &rows);
    for (int n = 0; n < 2 * K::HALVES; n++) state.row_max[n / 2][n % 2] = -INFINITY;
    __syncthreads();
    int64_t first = p.first, end = p.end;
    if (K::VALUES && !a.seqs[p.seq].positions) { /* slots are positions, and all rows see the same */
        lh_visible_range visible = rows.visible[0][0];
        int64_t skipped = visible.before + 1 - first;
        if (skipped > 0) first += skipped / LH_SPLIT_STEP * LH_SPLIT_STEP;
        if (end > (int64_t)visible.last + 1) end = (int64_t)visible.last + 1;
    }
    for (int64_t slot = first + lh_warp() * LH_SPLIT_KEYS; slot < end; slot += LH_SPLIT_STEP)
        split_entries<K>(&state, a, p, rows, slot);
    __syncthreads(); /* before queries are written over */
    /* Found again rather than kept: the loop is in need of the registers. */
    lh_split_find(a, &p);
    join_warps<K>(state, room);
    leave<K>(a, p, room);
    if (p.splits == 1 || !lh_split_is_last(a, p)) return;
    lh_split_merge(a, p, room.joint);
}

#endif
