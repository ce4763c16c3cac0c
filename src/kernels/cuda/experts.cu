/* Mixtures of experts except for their products: the experts of a token, the rows of assignments, and the weighted sum
 * of outputs. A warp chooses the experts of a token, one after the other: the largest logit after the previous one.
 * Assignments: few choices are compared with each other by the block that made them; otherwise one block per expert
 * passes over all choices twice, counts the choices of earlier experts and numbers its own. 8 bytes per choice and
 * expert from L2: 32 MiB for 4096 tokens at 8 of 128 experts. No atomics: assignments do not depend on the order of
 * blocks. */
#include "kernels/cuda/vector.cuh"

enum { WARPS = 8, CHOICE_THREADS = WARPS * LH_WARP, PLACE_THREADS = 512, FEW = 256 /* assignments */ };

/* ---- routes ---- */

/* Chooses the experts of token t into to[0 .. top_k - 1], and their routing weights; by a warp. */
static __device__ void choose_experts(const lh_route_args &a, int64_t t, int32_t *to)
{
    int experts = (int)a.routes.experts, top_k = (int)a.routes.top_k;
    const float *logits = a.logits + t * experts;
    float *weight = a.routes.weight + t * top_k, sum = 0;
    lh_candidate last = ~(lh_candidate)0;
    for (int c = 0; c < top_k; c++) {
        lh_candidate best = 0;
        for (int e = lh_lane(); e < experts; e += LH_WARP) {
            lh_candidate own = lh_candidate_of(logits[e], e);
            if (own < last && own > best) best = own;
        }
        last = lh_warp_max(best);
        if (lh_lane() == 0) to[c] = (int32_t)lh_candidate_column(last);
    }
    __syncwarp();
    float top = logits[to[0]];
    for (int n = lh_lane(); n < (a.normalised ? top_k : experts); n += LH_WARP)
        sum += expf(logits[a.normalised ? to[n] : n] - top);
    sum = lh_warp_sum(sum);
    for (int c = lh_lane(); c < top_k; c += LH_WARP) weight[c] = expf(logits[to[c]] - top) / sum;
}

/* One block, at most FEW assignments. */
static __global__ void __launch_bounds__(PLACE_THREADS) route_few_kernel(lh_route_args a)
{
    __shared__ int32_t to[FEW]; /* the expert of each choice */
    const lh_routes &r = a.routes;
    int assignments = (int)(r.tokens * r.top_k), top_k = (int)r.top_k;
    for (int64_t t = lh_warp(); t < r.tokens; t += PLACE_THREADS / LH_WARP) choose_experts(a, t, to + t * top_k);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < assignments; i += PLACE_THREADS) {
        int before = 0;
        for (int j = 0; j < assignments; j++) before += to[j] < to[i] || (to[j] == to[i] && j < i);
        r.assignment[i] = before;
        r.token[before] = i / top_k;
    }
    for (int64_t e = threadIdx.x; e <= r.experts; e += PLACE_THREADS) {
        int before = 0;
        for (int j = 0; j < assignments; j++) before += to[j] < e;
        r.first[e] = before;
    }
}

/* to: [tokens, top_k] */
static __global__ void __launch_bounds__(CHOICE_THREADS) choose_kernel(lh_route_args a, int32_t *to)
{
    int64_t tokens = a.routes.tokens, step = (int64_t)gridDim.x * WARPS;
    for (int64_t t = (int64_t)blockIdx.x * WARPS + lh_warp(); t < tokens; t += step)
        choose_experts(a, t, to + t * a.routes.top_k);
}

/* The experts of choices [i, i + 4); -1 from `end` on. */
static __device__ __forceinline__ int4 four_of(const int32_t *to, int64_t i, int64_t end)
{
    int4 four = *(const int4 *)(to + i);
    if (i + 1 >= end) four.y = -1;
    if (i + 2 >= end) four.z = -1;
    if (i + 3 >= end) four.w = -1;
    return four;
}

/* Blocks: experts. A thread has a run of all choices. */
static __global__ void __launch_bounds__(PLACE_THREADS) place_kernel(lh_routes r, const int32_t *to)
{
    __shared__ int room[LH_WARP];
    int64_t assignments = r.tokens * r.top_k, run = (assignments + 4 * PLACE_THREADS - 1) / (4 * PLACE_THREADS) * 4;
    int64_t begin = threadIdx.x * run, end = begin + run < assignments ? begin + run : assignments;
    int e = (int)blockIdx.x, smaller = 0, equal = 0, all;
    for (int64_t i = begin; i < end; i += 4) {
        int4 four = four_of(to, i, end);
        const int own[4] = {four.x, four.y, four.z, four.w};
        for (int j = 0; j < 4; j++) smaller += (unsigned)own[j] < (unsigned)e, equal += own[j] == e;
    }
    int first = lh_block_sum(smaller, room), s = first + lh_block_before(equal, room, &all);
    for (int64_t i = begin; i < end; i += 4) {
        int4 four = four_of(to, i, end);
        const int own[4] = {four.x, four.y, four.z, four.w};
        for (int j = 0; j < 4; j++) {
            if (own[j] != e) continue;
            r.assignment[i + j] = s;
            r.token[s++] = (int32_t)((unsigned)(i + j) / (unsigned)r.top_k);
        }
    }
    if (threadIdx.x == 0) r.first[e] = first;
    if (threadIdx.x == 0 && e == 0) r.first[r.experts] = (int32_t)assignments;
}

lh_status lh_cuda_route(lh_stream *stream, const lh_route_args *a)
{
    const lh_routes *r = &a->routes;
    int64_t assignments = r->tokens * r->top_k;
    int32_t *to;
    if (assignments <= FEW)
        return lh_launch(stream, "route", lh_shape{dim3(1), PLACE_THREADS, 0}, route_few_kernel, *a);
    LH_TRY(lh_stream_scratch(stream, &to, (assignments + 3) * (int64_t)sizeof *to)); /* read in fours */
    LH_TRY(lh_launch(stream, "route", lh_shape{dim3(lh_blocks(r->tokens, WARPS)), CHOICE_THREADS, 0}, choose_kernel, *a,
                     to));
    return lh_launch(stream, "route", lh_shape{dim3((unsigned)r->experts), PLACE_THREADS, 0}, place_kernel, *r,
                     (const int32_t *)to);
}

/* ---- rows: each number read once and written once ---- */

template <typename Y>
static __global__ void gather_rows_kernel(lh_gather_rows_args a, int width)
{
    for (int64_t r = blockIdx.y; r < a.count; r += gridDim.y) {
        const float *x = a.x + a.rows[r] * a.x_ld;
        for (int64_t i = 4 * lh_grid_first(); i < a.dim; i += 4 * lh_grid_step())
            lh_put4((Y *)a.y + r * a.y_ld + i, lh_get4(x + i, a.dim - i, width), a.dim - i, width);
    }
}

lh_status lh_cuda_gather_rows(lh_stream *stream, const lh_gather_rows_args *a)
{
    auto *kernel = a->y_type == LH_F32 ? gather_rows_kernel<float> : gather_rows_kernel<__nv_bfloat16>;
    int is_wide = lh_width(a->x, a->x_ld, LH_F32) == 4 && lh_width(a->y, a->y_ld, a->y_type) == 4;
    return lh_launch(stream, "gather_rows", lh_fours_shape(a->count, a->dim), kernel, *a, is_wide ? 4 : 1);
}

static __global__ void combine_kernel(lh_combine_args a, int width)
{
    const lh_routes &r = a.routes;
    for (int64_t t = blockIdx.y; t < r.tokens; t += gridDim.y) {
        const int32_t *assignment = r.assignment + t * r.top_k;
        const float *weight = r.weight + t * r.top_k;
        for (int64_t i = 4 * lh_grid_first(); i < a.dim; i += 4 * lh_grid_step()) {
            lh_four sum = {{0, 0, 0, 0}};
#pragma unroll 4
            for (int64_t c = 0; c < r.top_k; c++) {
                lh_four x = lh_get4(a.x + assignment[c] * a.dim + i, a.dim - i, width);
                for (int j = 0; j < 4; j++) sum.at[j] = fmaf(weight[c], x.at[j], sum.at[j]);
            }
            lh_put4(a.y + t * a.dim + i, sum, a.dim - i, width);
        }
    }
}

lh_status lh_cuda_combine(lh_stream *stream, const lh_combine_args *a)
{
    int is_wide = lh_width(a->x, a->dim, LH_F32) == 4 && lh_width(a->y, a->dim, LH_F32) == 4;
    return lh_launch(stream, "combine", lh_fours_shape(a->routes.tokens, a->dim), combine_kernel, *a, is_wide ? 4 : 1);
}
