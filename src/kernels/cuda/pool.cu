/* Pooling over what competes in a row, whatever lies between. The competing slots are listed first (marked_slots.cuh),
 * by their positions and once for the rows of a head; then a block has PART of them, as places in that list, of one
 * row.
 *
 * Near: a window of up to NEAR on either side is read number by number, from shared memory. Far: the row has aggregates
 * of blocks of BLOCK places; a window is the end of one block, whole blocks, and the beginning of another, which are
 * two scans in shared memory and a loop over aggregates: k / BLOCK steps. Sums are in double and have an order that the
 * row and k give; nothing is subtracted, so that a number has no effect outside its window. Which of the two it is
 * follows from k alone. */
#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/marked_slots.cuh"

enum { THREADS = 256, PART = 4 * THREADS, NEAR = 128, BLOCK = THREADS };

typedef struct lh_pooling {
    lh_pool_args args;
    lh_marked_slots marked;
    lh_by_position order; /* where positions are not the slots */
    int64_t half;
    double *aggregates; /* [rows, blocks] */
    int64_t blocks;     /* of ld places */
} lh_pooling;

static __global__ void pool_none_kernel(lh_pool_args a, const int64_t *lens)
{
    int64_t r = blockIdx.y, h = r / a.rows_per_head, len = lens[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step())
        a.y[r * a.ld + s] = a.state[h * a.ld + s] == LH_ENTRY_COMPETES ? a.x[r * a.ld + s] : 0.0f;
}

/* The sum or maximum of two numbers; a maximum ignores NaN, and begins with it. */
template <lh_pool_kind KIND>
static __device__ __forceinline__ double join(double x, double y)
{
    return KIND == LH_POOL_MAX ? fmax(x, y) : x + y;
}

template <lh_pool_kind KIND>
static __device__ __forceinline__ float nothing(void)
{
    return KIND == LH_POOL_MAX ? NAN : 0.0f;
}

/* The number at place n of row r. */
template <lh_pool_kind KIND>
static __device__ __forceinline__ float number_at(const lh_pooling &p, int64_t r, int64_t n)
{
    int64_t h = r / p.args.rows_per_head;
    if (n < 0 || n >= p.marked.count[h]) return nothing<KIND>();
    return p.args.x[r * p.args.ld + p.marked.slots[h * p.args.ld + n]];
}

template <lh_pool_kind KIND>
static __device__ __forceinline__ void put_pooled(const lh_pooling &p, int64_t r, int64_t n, double joined)
{
    int64_t slot = p.marked.slots[r / p.args.rows_per_head * p.args.ld + n];
    p.args.y[r * p.args.ld + slot] = (float)(KIND == LH_POOL_MAX ? joined : joined / (double)p.args.k);
}

template <lh_pool_kind KIND>
static __global__ void pool_near_kernel(lh_pooling p)
{
    __shared__ float x[PART + 2 * NEAR];
    int64_t r = blockIdx.y, count = p.marked.count[r / p.args.rows_per_head], first = (int64_t)blockIdx.x * PART;
    int half = (int)p.half;
    if (first >= count) return;
    for (int i = (int)threadIdx.x; i < PART + 2 * half; i += THREADS) x[i] = number_at<KIND>(p, r, first - half + i);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < PART && first + i < count; i += THREADS) {
        double joined = x[i];
        for (int m = 1; m <= 2 * half; m++) joined = join<KIND>(joined, x[i + m]);
        put_pooled<KIND>(p, r, first + i, joined);
    }
}

/* ---- far ---- */

/* scan[i] of `x` over the places of the block up to place i of it, in double; every thread has one. With `way` -1 from
 * its end down to place i. */
template <lh_pool_kind KIND>
static __device__ void scan_block(double *scan, float x, int way)
{
    int at = way > 0 ? (int)threadIdx.x : BLOCK - 1 - (int)threadIdx.x;
    scan[threadIdx.x] = x;
    for (int by = 1; by < BLOCK; by *= 2) {
        __syncthreads();
        double mine = scan[threadIdx.x], other = at >= by ? scan[(int)threadIdx.x - way * by] : nothing<KIND>();
        __syncthreads();
        scan[threadIdx.x] = at >= by ? join<KIND>(other, mine) : mine;
    }
    __syncthreads();
}

template <lh_pool_kind KIND>
static __global__ void aggregates_kernel(lh_pooling p)
{
    __shared__ double scan[BLOCK];
    int64_t r = blockIdx.y, first = (int64_t)blockIdx.x * BLOCK;
    if (first >= p.marked.count[r / p.args.rows_per_head]) return;
    scan_block<KIND>(scan, number_at<KIND>(p, r, first + threadIdx.x), 1);
    if (threadIdx.x == 0) p.aggregates[r * p.blocks + blockIdx.x] = scan[BLOCK - 1];
}

/* The scans of two blocks that follow each other, in ends[2][BLOCK]. */
template <lh_pool_kind KIND>
static __device__ void scan_two(const lh_pooling &p, int64_t block, double *ends, int way)
{
    int64_t r = blockIdx.y;
    for (int i = 0; i < 2; i++)
        scan_block<KIND>(ends + i * BLOCK, number_at<KIND>(p, r, (block + i) * BLOCK + threadIdx.x), way);
}

/* The windows of a block's BLOCK places begin in one or two blocks and end in one or two. */
template <lh_pool_kind KIND>
static __global__ void pool_far_kernel(lh_pooling p)
{
    __shared__ double heads[2 * BLOCK], tails[2 * BLOCK];
    int64_t r = blockIdx.y, count = p.marked.count[r / p.args.rows_per_head], first = (int64_t)blockIdx.x * BLOCK;
    if (first >= count) return;
    int64_t begin = first > p.half ? (first - p.half) / BLOCK : 0;
    int64_t last = first + p.half < count ? first + p.half : count - 1, end = last / BLOCK;
    scan_two<KIND>(p, begin, heads, -1);
    scan_two<KIND>(p, end, tails, 1);
    int64_t n = first + threadIdx.x;
    if (n >= count) return;
    int64_t from = n > p.half ? n - p.half : 0, to = n + p.half < count ? n + p.half : count - 1;
    double joined = heads[from - begin * BLOCK], tail = tails[to - end * BLOCK];
    if (from / BLOCK == to / BLOCK) { /* as long as the row, at its beginning or at its end */
        put_pooled<KIND>(p, r, n, from % BLOCK == 0 ? tail : joined);
        return;
    }
    for (int64_t b = from / BLOCK + 1; b < to / BLOCK; b++) joined = join<KIND>(joined, p.aggregates[r * p.blocks + b]);
    put_pooled<KIND>(p, r, n, join<KIND>(joined, tail));
}

template <lh_pool_kind KIND>
static lh_status pool_rows(lh_stream *stream, const lh_pooling &p)
{
    lh_shape near = lh_over_slots(p.args.rows, p.args.ld, THREADS, PART);
    lh_shape far = {dim3((unsigned)p.blocks, (unsigned)p.args.rows), BLOCK, 0};
    LH_TRY(p.order.kv.positions ? lh_marked_by_position(stream, "pool", &p.marked, &p.order)
                                : lh_marked_by_slot(stream, "pool", &p.marked));
    LH_TRY(lh_stream_zero(stream, p.args.y, p.args.rows * p.args.ld * (int64_t)sizeof *p.args.y));
    if (p.half <= NEAR) {
        LH_TRY(lh_launch(stream, "pool", near, pool_near_kernel<KIND>, p));
    } else {
        LH_TRY(lh_launch(stream, "pool", far, aggregates_kernel<KIND>, p));
        LH_TRY(lh_launch(stream, "pool", far, pool_far_kernel<KIND>, p));
    }
    return LH_OK;
}

lh_status lh_cuda_pool(lh_stream *stream, const lh_pool_args *a)
{
    char *memory = NULL;
    lh_pooling p = {};
    if (a->rows == 0 || a->ld == 0) return LH_OK;
    if (a->kind == LH_POOL_NONE)
        return lh_launch(stream, "pool", lh_over_slots(a->rows, a->ld, THREADS, PART), pool_none_kernel, *a,
                         (const int64_t *)a->kv->len);
    p.args = *a;
    p.half = (a->k - 1) / 2;
    p.blocks = (a->ld + BLOCK - 1) / BLOCK;
    p.marked.x = a->state;
    p.marked.len = a->kv->len;
    p.marked.heads = a->rows / a->rows_per_head;
    p.marked.ld = a->ld;
    p.order.kv = *a->kv;
    p.order.words = a->kv->positions ? lh_order_words(a->seen) : 0;
    int64_t list = lh_marked_bytes(p.marked.heads, a->ld), order = lh_order_bytes(p.marked.heads, p.order.words);
    LH_TRY(lh_stream_scratch(stream, &memory, list + order + a->rows * p.blocks * (int64_t)sizeof(double)));
    lh_marked_place(&p.marked, memory);
    lh_order_place(&p.order, memory + list);
    p.aggregates = (double *)(memory + list + order);
    LH_TRY(a->kind == LH_POOL_MAX ? pool_rows<LH_POOL_MAX>(stream, p) : pool_rows<LH_POOL_AVG>(stream, p));
    return LH_OK;
}
