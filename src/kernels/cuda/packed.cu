/* Weights of few bits: packed on the host in its layout; values of a table's rows and of whole matrices. */
#include "kernels/cuda/f8.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/vector.cuh"

extern "C" {
#include "base/mem.h"
}

/* The stream's staging memory may be what is packed. */
lh_status lh_cuda_pack_weights(lh_stream *stream, const lh_pack_weights_args *a)
{
    const int64_t bytes = lh_packed_bytes(a->format, a->rows, a->skip, a->cols);
    lh_pack_weights_args on_host = *a;
    lh_status st = LH_OK;
    LH_TRY(lh_calloc(&on_host.dst, bytes, 1));
    lh_pack_weights(&on_host);
    LH_TRY_DONE(lh_stream_copy(stream, a->dst, on_host.dst, bytes, LH_COPY_TO_DEVICE));
    LH_TRY_DONE(lh_stream_sync(stream));
done:
    lh_free(on_host.dst);
    return st;
}

/* ---- unpacking ----
 *
 * A warp has a pair of blocks of 16 rows at a time, a lane the 32 numbers of a row in a block. They pass through shared
 * memory, so that the warp writes whole lines of rows. Bytes: those of the layout and of dst. */

enum { WARPS = 8, PAIR_COLS = 2 * LH_PACKED_COLS };

/* Pieces of 16 bytes of a row in a pair of blocks; their place among the 16 rows: lanes of a quarter of a warp use
 * different banks, along the rows or along the pieces. */
template <typename Y>
struct lh_unpacked_row {
    enum { EACH = 16 / (int)sizeof(Y), PIECES = PAIR_COLS / EACH };
    static __device__ __forceinline__ int place(int row, int piece)
    {
        return row * PIECES + (piece ^ (row & 7));
    }
};

/* A lane's numbers to the pieces of the pair. */
template <typename F, typename Y>
static __device__ __forceinline__ void stage_row(uint4 *pair, const lh_row_block<F> &x)
{
    typedef lh_unpacked_row<Y> rows;
    const int row = lh_lane() % LH_PACKED_ROWS, parity = lh_lane() / LH_PACKED_ROWS;
    const float offset = lh_row_offset(x);
#pragma unroll
    for (int piece = 0; piece < rows::PIECES / 2; piece++) {
        float y[rows::EACH];
#pragma unroll
        for (int i = 0; i < rows::EACH; i++) {
            const int c = piece * rows::EACH + i, code = (int8_t)(lh_codes_of(x, c / 4) >> 8 * (c % 4));
            y[i] = lh_row_scale(x, c * F::GROUPS / LH_PACKED_COLS) * (float)(code - lh_zero_of<F>()) + offset;
        }
        lh_store_wide((Y *)(pair + rows::place(row, parity * (rows::PIECES / 2) + piece)), y);
    }
}

/* The pair to dst, whose column 0 is column `col` of the pair. */
template <typename Y>
static __device__ __forceinline__ void store_pair(const lh_unpack_args &a, const uint4 *pair, int64_t first_row,
                                                  int64_t col, int is_wide)
{
    typedef lh_unpacked_row<Y> rows;
#pragma unroll
    for (int n = 0; n < LH_PACKED_ROWS * rows::PIECES; n += LH_WARP) {
        const int row = (n + lh_lane()) / rows::PIECES, piece = (n + lh_lane()) % rows::PIECES;
        const int64_t c = col + piece * rows::EACH;
        if (first_row + row >= a.rows || c < 0 || c >= a.cols) continue;
        Y *to = (Y *)a.dst + (first_row + row) * a.dst_ld + c;
        const uint4 *from = pair + rows::place(row, piece);
        if (is_wide)
            *(uint4 *)to = *from;
        else
            for (int i = 0; i < rows::EACH; i++) to[i] = ((const Y *)from)[i];
    }
}

/* Blocks: groups of rows; warps and blocks along y: pairs of blocks. */
template <typename F, typename Y>
static __global__ void __launch_bounds__(WARPS *LH_WARP) unpack_kernel(lh_unpack_args a, int is_wide)
{
    __shared__ uint4 room[WARPS][LH_PACKED_ROWS * lh_unpacked_row<Y>::PIECES];
    const lh_packing p = F::packing();
    const int lead = (int)(a.w.phase / LH_PACKED_COLS), first = lead + (int)(a.w.first / LH_PACKED_COLS);
    const int end = first + (int)(a.cols / LH_PACKED_COLS), step = 2 * WARPS * (int)gridDim.y;
    const uint8_t *group = (const uint8_t *)a.w.data + blockIdx.x * lh_group_bytes(&p, lead, a.w.ld / LH_PACKED_COLS);
    for (int n = first / 2 * 2 + 2 * ((int)blockIdx.y * WARPS + lh_warp()); n < end; n += step) {
        lh_row_block<F> own[1];
        lh_load_pairs(own, group, lead, first, end, n);
        stage_row<F, Y>(room[lh_warp()], own[0]);
        __syncwarp();
        store_pair<Y>(a, room[lh_warp()], (int64_t)blockIdx.x * LH_PACKED_ROWS, (int64_t)(n - first) * LH_PACKED_COLS,
                      is_wide);
        __syncwarp();
    }
}

template <typename F, typename Y>
static lh_status launch_unpack(lh_stream *stream, const lh_unpack_args *a)
{
    const int64_t most = 65535, across = (a->cols / PAIR_COLS + WARPS) / WARPS;
    const lh_shape shape = {
        dim3((unsigned)((a->rows + LH_PACKED_ROWS - 1) / LH_PACKED_ROWS), (unsigned)(across < most ? across : most)),
        WARPS * LH_WARP, 0};
    return lh_launch(stream, "unpack", shape, unpack_kernel<F, Y>, *a, lh_is_wide(a->dst, a->dst_ld, a->dst_type));
}

static const struct {
    int (*is_format)(const lh_format *);
    lh_status (*to_f32)(lh_stream *, const lh_unpack_args *), (*to_bf16)(lh_stream *, const lh_unpack_args *);
} formats[] = {
#define ENTRY(...) \
    {lh_is_format<__VA_ARGS__>, launch_unpack<__VA_ARGS__, float>, launch_unpack<__VA_ARGS__, __nv_bfloat16>},
    LH_FEW_BITS(ENTRY)
#undef ENTRY
};

/* The same of f8_e4m3: fours of a row for a thread, blocks along y rows. */
template <typename Y>
static __global__ void unpack_f8_kernel(lh_unpack_args a, int width)
{
    for (int64_t r = blockIdx.y; r < a.rows; r += gridDim.y) {
        const lh_f8_cursor row = lh_f8_cursor_at(a.w, r);
        for (int64_t i = 4 * lh_grid_first(); i < a.cols; i += 4 * lh_grid_step()) {
            lh_four x;
            lh_f8_values(x.at, row, i);
            lh_put4((Y *)a.dst + r * a.dst_ld + i, x, a.cols - i, width);
        }
    }
}

static lh_status unpack_f8(lh_stream *stream, const lh_unpack_args *a)
{
    auto *kernel = a->dst_type == LH_F32 ? unpack_f8_kernel<float> : unpack_f8_kernel<__nv_bfloat16>;
    return lh_launch(stream, "unpack", lh_fours_shape(a->rows, a->cols), kernel, *a,
                     lh_width(a->dst, a->dst_ld, a->dst_type));
}

lh_status lh_cuda_unpack(lh_stream *stream, const lh_unpack_args *a)
{
    auto *f = formats;
    if (a->rows == 0 || a->cols == 0) return LH_OK;
    if (a->w.format->by_rows) return unpack_f8(stream, a);
    while (!f->is_format(a->w.format)) f++;
    return (a->dst_type == LH_F32 ? f->to_f32 : f->to_bf16)(stream, a);
}
