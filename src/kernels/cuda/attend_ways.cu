/* attend_block: the wgmma kernels compute what they serve (attend_hopper.cu), and the kernel of tiles all other blocks
 * (attend_block.cu). The first result of every wgmma kernel is compared with the kernel of tiles, and the host waits.
 * After a difference or a failure the kernel of tiles computes this block and all later ones. */
#include <stdio.h>

#include "kernels/cuda/attend_block.cuh"

extern "C" {
#include "base/log.h"
#include "base/mem.h"
}

/* Trust in the results of a kernel; a stream has one for each. */
typedef struct attend_trust {
    int compared;  /* true after the first result */
    char why[256]; /* the reason not to use the kernel; "": it is used */
} attend_trust;

static lh_status find_trust(lh_stream *stream, int kernel, attend_trust **trust)
{
    lh_cuda_kept *kept = lh_stream_kept(stream, LH_CUDA_WGMMA);
    if (!kept->what) {
        LH_TRY(lh_calloc(&kept->what, LH_WGMMA_KERNELS, sizeof(attend_trust)));
        kept->close = lh_free;
    }
    *trust = (attend_trust *)kept->what + kernel;
    return LH_OK;
}

/* Counts of rows. far: outputs or log-sum-exp differ by more than rounding explains; nan: NaN where the kernel of tiles
 * has a number. */
typedef struct attend_off {
    uint32_t far, nan;
} attend_off;

/* *off += differing rows of a.o and a.lse, compared with o [tokens, heads, dim] and lse [tokens, heads]. One warp per
 * row of a head. */
static __global__ void compare_kernel(const __grid_constant__ attend_job a, const float *o, const float *lse,
                                      attend_off *off)
{
    const float near = 0.1f; /* relative to the norm of a row; absolute for a logarithm */
    const int64_t heads = a.map.heads, dim = a.form.dim;
    for (int64_t n = lh_grid_first() / LH_WARP; n < a.tokens * heads; n += lh_grid_step() / LH_WARP) {
        const float *mine = a.o + n / heads * a.o_ld + n % heads * dim;
        float apart = 0, all = 0;
        for (int64_t x = lh_lane(); x < dim; x += LH_WARP) {
            float want = o[n * dim + x], differ = mine[x] - want;
            apart = fmaf(differ, differ, apart), all = fmaf(want, want, all);
        }
        apart = lh_warp_sum(apart), all = lh_warp_sum(all);
        if (lh_lane() != 0 || isnan(all)) continue;
        int is_near = apart <= near * near * all;
        if (a.lse) is_near &= a.lse[n] == lse[n] || fabsf(a.lse[n] - lse[n]) <= near;
        if (isnan(apart))
            atomicAdd(&off->nan, 1u);
        else if (!is_near)
            atomicAdd(&off->far, 1u);
    }
}

/* Compares b->o and b->lse with the kernel of tiles: a kernel that differs from our assumptions of the hardware gets
 * most rows wrong. Waits. */
static lh_status compare(lh_stream *stream, const lh_attend_block_args *b, attend_trust *trust)
{
    const int threads = 256;
    const int64_t rows = b->tokens * b->map.heads, dim = b->kv->head_dim;
    attend_off off = {0, 0}, *counted;
    lh_attend_block_args tiles = *b;
    LH_TRY(lh_stream_scratch(stream, &tiles.o, rows * (dim + 1) * (int64_t)sizeof(float) + (int64_t)sizeof off));
    tiles.o_bf16 = NULL;
    tiles.lse = tiles.o + rows * dim;
    tiles.o_ld = b->map.heads * dim;
    tiles.order = LH_ORDER_FIXED; /* without splits: the workspace is in use */
    counted = (attend_off *)(tiles.lse + rows);
    LH_TRY(lh_attend_by_tiles(stream, &tiles));
    LH_TRY(lh_stream_zero(stream, counted, sizeof off));
    LH_TRY(lh_launch(stream, "attend_block", lh_shape{dim3(lh_blocks(rows, threads / LH_WARP)), threads, 0},
                     compare_kernel, attend_job_of(b), tiles.o, tiles.lse, counted));
    LH_TRY(lh_stream_copy(stream, &off, counted, sizeof off, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(stream));
    trust->compared = 1;
    if (16 * (int64_t)off.far > rows || off.nan)
        snprintf(trust->why, sizeof trust->why,
                 "of %lld rows %u were far from the results of the kernel of tiles, and %u no numbers", (long long)rows,
                 off.far, off.nan);
    return LH_OK;
}

/* *done = 1 if a wgmma kernel has computed the block. */
static lh_status attend_by_wgmma(lh_stream *stream, const lh_attend_block_args *b, int *done)
{
    const int kernel = lh_wgmma_kernel(stream, b);
    lh_attend_block_args kept = *b;
    attend_trust *trust = NULL;
    if (kernel < 0) return LH_OK;
    LH_TRY(find_trust(stream, kernel, &trust));
    if (trust->why[0]) return LH_OK;
    kept.keeps_o |= !trust->compared;
    LH_TRY(lh_attend_by_wgmma(stream, &kept, trust->why));
    if (!trust->compared && !trust->why[0]) LH_TRY(compare(stream, &kept, trust));
    *done = !trust->why[0];
    if (!*done) lh_warn("wgmma is not used any more for attention: %s", trust->why);
    return LH_OK;
}

lh_status lh_cuda_attend_block(lh_stream *stream, const lh_attend_block_args *b)
{
    int done = 0;
    if (b->tokens == 0 || b->map.heads == 0 || b->kv->head_dim == 0) return LH_OK;
    LH_TRY(attend_by_wgmma(stream, b, &done));
    return done ? LH_OK : lh_attend_by_tiles(stream, b);
}
