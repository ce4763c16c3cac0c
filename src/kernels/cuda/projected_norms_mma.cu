/* Norms of values of bf16 after an output projection of bf16, on the tensor cores. A block of 4 warps has 64 * TILES
 * entries of a query head, a warp 16 * TILES of them, all of whose numbers it keeps in registers; it goes over
 * the columns of the head in the weights, 64 at a time, which the next ones follow into shared memory meanwhile. Sizes
 * are added up in f32 over 16 columns and in double beyond: the bits of a norm are those of its entry and the weights.
 *
 * A lane takes 16 bytes of a row at once, the words of two products (mma.cuh). Rows in shared memory are an odd number
 * of 64 bytes apart, so that the 8 lanes that are served at once meet different banks. */
#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/mma_parts.cuh"
#include "kernels/cuda/projected_norms.cuh"

enum {
    WARPS = 4,
    THREADS = WARPS * LH_WARP,
    COLS = 64,
    COLS_AT_ONCE = 8,
    DEPTH = 32 /* of a lane's 16 bytes, times 4 */
};

/* 16 bytes in a row of BLOCKS * DEPTH numbers, and from a row to the next in shared memory. */
template <int BLOCKS>
struct lh_row_words {
    enum { COUNT = BLOCKS * 4, NEXT = (BLOCKS | 1) * 4 };
};

/* Two products' words of a lane's rows. */
typedef unsigned lh_product_words[2][4];

/* The entries first + 16 m + this lane's rows; zeros after the end of a row, and without one. */
template <int BLOCKS, int TILES>
static __device__ void take_entries(lh_product_words (&entries)[TILES][BLOCKS], const lh_projected &p, int64_t h,
                                    int64_t first)
{
    int64_t d = p.kv.head_dim, count;
    const __nv_bfloat16 *values = lh_projected_values<__nv_bfloat16>(p, h, &count);
#pragma unroll
    for (int m = 0; m < TILES; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int64_t n = first + m * 16 + half * 8 + lh_lane() / 4;
            const __nv_bfloat16 *row = values + n * d;
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
                const int64_t at = b * DEPTH + lh_lane() % 4 * 8;
                const uint4 eight = n < count && at < d ? *(const uint4 *)(row + at) : uint4{0, 0, 0, 0};
                const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
                for (int i = 0; i < 4; i++) entries[m][b][i / 2][i % 2 * 2 + half] = words[i];
            }
        }
    }
}

/* Begins to copy columns [first, first + COLS) of query head i; zeros where there are none. */
template <int BLOCKS>
static __device__ void copy_weights(uint4 *stage, const lh_projected &p, int64_t i, int64_t first)
{
    typedef lh_row_words<BLOCKS> row;
    int64_t d = p.kv.head_dim;
    const __nv_bfloat16 *w = (const __nv_bfloat16 *)p.args.w + i * d;
    for (int n = (int)threadIdx.x; n < COLS * row::COUNT; n += THREADS) {
        int col = n / row::COUNT, word = n % row::COUNT;
        int there = first + col < p.args.out && word * 8 < d;
        lh_copy_async(stage + col * row::NEXT + word, there ? w + (first + col) * p.args.w_ld + word * 8 : w,
                      there ? 16 : 0);
    }
    lh_copy_commit();
}

/* norms[m][half] += the sizes of the products with the columns in `stage`, of which `count` are there. */
template <int BLOCKS, int TILES>
static __device__ __forceinline__ void add_sizes(double (&norms)[TILES][2],
                                                 const lh_product_words (&entries)[TILES][BLOCKS], const uint4 *stage,
                                                 int64_t count)
{
    float sizes[TILES][2] = {};
    const uint4 *column = stage + lh_lane() / 4 * lh_row_words<BLOCKS>::NEXT + lh_lane() % 4;
#pragma unroll 2
    for (int n = 0; n < COLS; n += COLS_AT_ONCE, column += COLS_AT_ONCE * lh_row_words<BLOCKS>::NEXT) {
        float sums[TILES][4] = {};
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            uint4 w = column[b * 4];
            const unsigned low[2] = {w.x, w.y}, high[2] = {w.z, w.w};
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                lh_mma(sums[m], entries[m][b][0], low);
                lh_mma(sums[m], entries[m][b][1], high);
            }
        }
        int col = n + lh_lane() % 4 * 2;
#pragma unroll
        for (int c = 0; c < TILES * 4; c++)
            sizes[c / 4][c / 2 % 2] += col + c % 2 < count ? fabsf(sums[c / 4][c % 4]) : 0.0f;
    }
#pragma unroll
    for (int m = 0; m < TILES * 2; m++) norms[m / 2][m % 2] += sizes[m / 2][m % 2];
}

template <int TILES>
static __device__ void put_norms(double (&norms)[TILES][2], float *y, int64_t first, int64_t count)
{
#pragma unroll
    for (int m = 0; m < TILES * 2; m++) {
        double norm = norms[m / 2][m % 2];
        norm += __shfl_xor_sync(LH_ALL, norm, 1);
        norm += __shfl_xor_sync(LH_ALL, norm, 2);
        int64_t n = first + m * 8 + lh_lane() / 4;
        if (lh_lane() % 4 == 0 && n < count) y[n] = (float)norm;
    }
}

template <int BLOCKS, int TILES>
static __global__ void __launch_bounds__(THREADS) project_kernel(lh_projected p)
{
    const int stage_words = COLS * lh_row_words<BLOCKS>::NEXT;
    uint4 *stages = (uint4 *)lh_shared();
    int64_t i = blockIdx.y, h = (p.args.map.first + i) / p.args.map.group;
    int64_t count = min(p.kv.len[h], p.args.last), each = 16 * TILES, out = p.args.out;
    for (int64_t first = blockIdx.x * each * WARPS; first < count; first += gridDim.x * each * WARPS) {
        lh_product_words entries[TILES][BLOCKS];
        double norms[TILES][2] = {};
        int turn = 0;
        copy_weights<BLOCKS>(stages, p, i, 0);
        take_entries(entries, p, h, first + lh_warp() * each);
        for (int64_t col = 0; col < out; col += COLS, turn = !turn) {
            copy_weights<BLOCKS>(stages + !turn * stage_words, p, i, col + COLS);
            lh_copy_wait<1>();
            __syncthreads();
            add_sizes(norms, entries, stages + turn * stage_words, out - col);
            __syncthreads();
        }
        lh_copy_wait<0>();
        put_norms(norms, p.args.y + i * p.args.ld, first + lh_warp() * each, count);
    }
}

int lh_projects_on_tensor_cores(const lh_projected_norms_args *a)
{
    int64_t d = a->kv->head_dim;
    uintptr_t at = (uintptr_t)a->kv->v | (uintptr_t)a->w;
    return a->kv->type == LH_BF16 && a->type == LH_BF16 && d <= 256 && d % 8 == 0 && a->w_ld % 8 == 0 && at % 16 == 0;
}

template <int BLOCKS, int TILES>
static lh_status project_by(lh_stream *stream, const lh_projected *p)
{
    unsigned blocks = lh_projected_blocks(stream, &p->args, 16 * TILES * WARPS);
    int64_t shared = 2 * COLS * lh_row_words<BLOCKS>::NEXT * (int64_t)sizeof(uint4);
    lh_shape shape = {dim3(blocks, (unsigned)p->args.map.heads), THREADS, shared};
    return lh_launch(stream, "projected_norms", shape, project_kernel<BLOCKS, TILES>, *p);
}

lh_status lh_project_on_tensor_cores(lh_stream *stream, const lh_projected *p)
{
    int64_t d = p->kv.head_dim;
    if (d <= 64) return project_by<2, 2>(stream, p);
    if (d <= 96) return project_by<3, 2>(stream, p);
    if (d <= 128) return project_by<4, 2>(stream, p);
    return project_by<8, 1>(stream, p);
}
