/* Scores of single slots: a thread per slot, blockIdx.y a head. They move each number once; only apply_prior reads its
 * priors twice, for their maximum. */
#include "kernels/cuda/entries.cuh"

enum { THREADS = 256, SLOTS = 4 * THREADS };

static __global__ void weigh_scores_kernel(lh_weigh_scores_args a)
{
    int64_t h = blockIdx.y, len = a.len[h];
    const float *norms = lh_slot_at(&a.norms, h, 0, 0), *x = a.x + h * a.ld;
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        a.y[h * a.ld + s] = (x[s] + a.add) * norms[s * a.norms.step];
    }
}

lh_status lh_cuda_weigh_scores(lh_stream *stream, const lh_weigh_scores_args *a)
{
    return lh_launch(stream, "weigh_scores", lh_over_slots(a->heads, a->ld, THREADS, SLOTS), weigh_scores_kernel, *a);
}

static __global__ void put_stats_kernel(lh_put_stats_args a, lh_ragged kv)
{
    int64_t h = blockIdx.y, len = kv.len[h], first = lh_slot_of_last(len, a.last);
    float *y = lh_slot_at(&a.y, h, first, 0);
    for (int64_t n = lh_grid_first(); n < len - first; n += lh_grid_step()) y[n * a.y.step] = a.x[h * a.ld + n];
}

lh_status lh_cuda_put_stats(lh_stream *stream, const lh_put_stats_args *a)
{
    return lh_launch(stream, "put_stats", lh_over_slots(a->kv->heads, a->ld, THREADS, SLOTS), put_stats_kernel, *a,
                     *a->kv);
}

static __global__ void position_scores_kernel(lh_position_scores_args a, lh_ragged kv)
{
    int64_t h = blockIdx.y, len = kv.len[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) a.y[h * a.ld + s] = (float)lh_position(kv, h, s);
}

lh_status lh_cuda_position_scores(lh_stream *stream, const lh_position_scores_args *a)
{
    return lh_launch(stream, "position_scores", lh_over_slots(a->kv->heads, a->ld, THREADS, SLOTS),
                     position_scores_kernel, *a, *a->kv);
}

static __global__ void classify_kernel(lh_classify_args a, lh_ragged kv)
{
    int64_t h = blockIdx.y, len = kv.len[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t p = lh_position(kv, h, s);
        lh_entry_state held = p < a.sinks || p >= a.recent_from ? LH_ENTRY_KEEP : LH_ENTRY_COMPETES;
        a.state[h * a.ld + s] = (uint8_t)(p < a.visible_from ? LH_ENTRY_DROP : held);
    }
}

lh_status lh_cuda_classify(lh_stream *stream, const lh_classify_args *a)
{
    return lh_launch(stream, "classify", lh_over_slots(a->kv->heads, a->ld, THREADS, SLOTS), classify_kernel, *a,
                     *a->kv);
}

/* tops[h] = the largest prior that competes, 0 at least. What is not negative has the order of its bits. */
static __global__ void prior_top_kernel(lh_apply_prior_args a, unsigned *tops)
{
    __shared__ float room[LH_WARP];
    int64_t h = blockIdx.y, len = a.len[h];
    float top = 0.0f;
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        float x = a.state[h * a.ld + s] == LH_ENTRY_COMPETES ? a.prior[h * a.ld + s] : 0.0f;
        top = x > top ? x : top; /* a NaN is no maximum */
    }
    top = lh_block_max(top, room);
    if (threadIdx.x == 0 && top > 0.0f) atomicMax(tops + h, __float_as_uint(top));
}

static __global__ void apply_prior_kernel(lh_apply_prior_args a, const unsigned *tops)
{
    int64_t h = blockIdx.y, len = a.len[h];
    float top = __uint_as_float(tops[h]);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t at = h * a.ld + s;
        if (a.state[at] == LH_ENTRY_COMPETES) a.y[at] = top == 0.0f ? 0.0f : a.y[at] * (a.prior[at] / top);
    }
}

lh_status lh_cuda_apply_prior(lh_stream *stream, const lh_apply_prior_args *a)
{
    unsigned *tops = NULL;
    lh_shape shape = lh_over_slots(a->heads, a->ld, THREADS, SLOTS);
    int64_t bytes = a->heads * (int64_t)sizeof *tops;
    if (a->heads == 0 || a->ld == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &tops, bytes));
    LH_TRY(lh_stream_zero(stream, tops, bytes));
    LH_TRY(lh_launch(stream, "apply_prior", shape, prior_top_kernel, *a, tops));
    LH_TRY(lh_launch(stream, "apply_prior", shape, apply_prior_kernel, *a, (const unsigned *)tops));
    return LH_OK;
}
