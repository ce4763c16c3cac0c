/* Pooling over the competing entries of a row, ignoring gaps. The competing slots are listed first, by their positions
 * and once for the rows of a head; then a block has PART of them, as places in that list, of one row.
 *
 * Near: a window of up to NEAR on either side is read number by number, from shared memory. Far: the row has aggregates
 * of blocks of BLOCK places; a window is the end of one block, whole blocks, and the beginning of another, computed by
 * two scans in shared memory and a loop over aggregates: k / BLOCK steps. Sums are in double, in an order given by the
 * row and k; nothing is subtracted, so that a number has no effect outside its window. The choice of near or far
 * follows from k alone. */
#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/launch.cuh"

/* The competing slots of a head, in the order of the slots or of their positions. */
typedef struct lh_marked_slots {
    int32_t *slots;   /* [heads, ld], out */
    int32_t *count;   /* [heads], out */
    int32_t *chunks;  /* [heads, marked_chunks(ld)], work */
    const uint8_t *x; /* [heads, ld] lh_entry_state */
    const int64_t *len;
    int64_t heads, ld;
} lh_marked_slots;

/* Memory to list slots by the positions in `kv`, which differ and are below 32 * words. */
typedef struct lh_by_position {
    lh_ragged kv;
    int64_t words;   /* words of a head */
    uint32_t *bits;  /* [heads, words], work: a bit for each marked position */
    int32_t *before; /* [heads, words], work: marked positions in the words before */
} lh_by_position;

/* ---- in the order of slots ----
 *
 * A block has CHUNK slots of a head, a thread EACH adjacent slots, in one load. The first launch counts, the second
 * adds the counts of earlier chunks, at most 256 numbers for a million slots, and writes. */

enum { MARKED_THREADS = 256, EACH = LH_MARKS, CHUNK = MARKED_THREADS * EACH };

static int64_t marked_chunks(int64_t ld)
{
    return (ld + CHUNK - 1) / CHUNK;
}

/* Bytes of slots, count and chunks together, a multiple of 16. */
static int64_t marked_bytes(int64_t heads, int64_t ld)
{
    int64_t bytes = heads * (ld + 1 + marked_chunks(ld)) * (int64_t)sizeof(int32_t);
    return (bytes + 15) / 16 * 16;
}

static void marked_place(lh_marked_slots *marked, void *memory)
{
    marked->slots = (int32_t *)memory;
    marked->count = marked->slots + marked->heads * marked->ld;
    marked->chunks = marked->count + marked->heads;
}

/* Bit i: whether slot s + i is marked. */
static __device__ __forceinline__ unsigned marks_of(const lh_marked_slots &a, int64_t h, int64_t s, int64_t len)
{
    return lh_marks_of(a.x + h * a.ld + s, len - s, LH_ENTRY_COMPETES);
}

static __device__ __forceinline__ int is_marked(const lh_marked_slots &a, int64_t h, int64_t s)
{
    return a.x[h * a.ld + s] == LH_ENTRY_COMPETES;
}

static __global__ void count_chunks_kernel(lh_marked_slots a)
{
    __shared__ int room[LH_WARP];
    int64_t h = blockIdx.y, s = lh_grid_first() * EACH, len = a.len[h];
    if ((int64_t)blockIdx.x * CHUNK >= len) return;
    int count = lh_block_sum(__popc(marks_of(a, h, s, len)), room);
    if (threadIdx.x == 0) a.chunks[h * gridDim.x + blockIdx.x] = count;
}

static __global__ void write_chunks_kernel(lh_marked_slots a)
{
    __shared__ int room[LH_WARP];
    int64_t h = blockIdx.y, s = lh_grid_first() * EACH, len = a.len[h];
    int earlier = 0, total;
    if (blockIdx.x > 0 && (int64_t)blockIdx.x * CHUNK >= len) return;
    for (unsigned c = threadIdx.x; c < blockIdx.x; c += blockDim.x) earlier += a.chunks[h * gridDim.x + c];
    earlier = lh_block_sum(earlier, room);
    unsigned marks = marks_of(a, h, s, len);
    int32_t *slots = a.slots + h * a.ld + earlier + lh_block_before(__popc(marks), room, &total);
    for (int i = 0; i < EACH; i++) {
        if (marks >> i & 1) *slots++ = (int32_t)(s + i);
    }
    if (threadIdx.x == 0 && (int64_t)(blockIdx.x + 1) * CHUNK >= len) a.count[h] = earlier + total;
}

/* Two launches, for any lengths. Without heads or slots nothing is done. */
static lh_status marked_by_slot(lh_stream *stream, const char *name, const lh_marked_slots *marked)
{
    lh_shape shape = {dim3((unsigned)marked_chunks(marked->ld), (unsigned)marked->heads), MARKED_THREADS, 0};
    LH_TRY(lh_launch(stream, name, shape, count_chunks_kernel, *marked));
    LH_TRY(lh_launch(stream, name, shape, write_chunks_kernel, *marked));
    return LH_OK;
}

/* ---- in the order of positions ---- */

static int64_t order_words(int64_t seen)
{
    return (seen + 31) / 32;
}

/* Bytes of bits and before together, a multiple of 16. */
static int64_t order_bytes(int64_t heads, int64_t words)
{
    return (heads * words * (int64_t)(sizeof(uint32_t) + sizeof(int32_t)) + 15) / 16 * 16;
}

static void order_place(lh_by_position *order, void *memory)
{
    order->bits = (uint32_t *)memory;
    order->before = (int32_t *)(order->bits + order->kv.heads * order->words);
}

static __global__ void set_bits_kernel(lh_marked_slots a, lh_by_position o)
{
    int64_t h = blockIdx.y, len = a.len[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t p = lh_position(&o.kv, h, s);
        if (is_marked(a, h, s)) atomicOr(&o.bits[h * o.words + p / 32], 1u << p % 32);
    }
}

/* One block per head. */
static __global__ void __launch_bounds__(4 * MARKED_THREADS) count_bits_kernel(lh_marked_slots a, lh_by_position o)
{
    __shared__ int room[LH_WARP];
    int64_t h = blockIdx.x, first = h * o.words;
    int earlier = 0, total;
    for (int64_t w = 0; w < o.words; w += blockDim.x) {
        int64_t i = w + threadIdx.x;
        int here = lh_block_before(i < o.words ? __popc(o.bits[first + i]) : 0, room, &total);
        if (i < o.words) o.before[first + i] = earlier + here;
        earlier += total;
    }
    if (threadIdx.x == 0) a.count[h] = earlier;
}

static __global__ void write_by_bits_kernel(lh_marked_slots a, lh_by_position o)
{
    int64_t h = blockIdx.y, len = a.len[h];
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t p = lh_position(&o.kv, h, s), w = h * o.words + p / 32;
        if (is_marked(a, h, s)) a.slots[h * a.ld + o.before[w] + __popc(o.bits[w] & ((1u << p % 32) - 1))] = (int32_t)s;
    }
}

/* Three launches. marked->chunks is not used. */
static lh_status marked_by_position(lh_stream *stream, const char *name, const lh_marked_slots *marked,
                                    const lh_by_position *order)
{
    lh_shape slots = lh_over_slots(marked->heads, marked->ld, MARKED_THREADS, CHUNK);
    lh_shape words = {dim3((unsigned)marked->heads), 4 * MARKED_THREADS, 0};
    LH_TRY(lh_stream_zero(stream, order->bits, marked->heads * order->words * (int64_t)sizeof *order->bits));
    LH_TRY(lh_launch(stream, name, slots, set_bits_kernel, *marked, *order));
    LH_TRY(lh_launch(stream, name, words, count_bits_kernel, *marked, *order));
    LH_TRY(lh_launch(stream, name, slots, write_by_bits_kernel, *marked, *order));
    return LH_OK;
}

/* ---- pooling ---- */

enum { THREADS = 256, PART = 4 * THREADS, NEAR = 128, BLOCK = THREADS };

typedef struct lh_pooling {
    lh_pool_args args;
    lh_marked_slots marked;
    lh_by_position order; /* used if positions are not the slots */
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

/* The sum or maximum of two numbers; a maximum ignores NaN, and starts from it. */
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

/* scan[i] of `x` over the places of the block up to its place i, in double, one per thread. With `way` -1 from the end
 * of the block down to place i. */
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

/* The scans of two adjacent blocks, in ends[2][BLOCK]. */
template <lh_pool_kind KIND>
static __device__ void scan_two(const lh_pooling &p, int64_t block, double *ends, int way)
{
    int64_t r = blockIdx.y;
    for (int i = 0; i < 2; i++)
        scan_block<KIND>(ends + i * BLOCK, number_at<KIND>(p, r, (block + i) * BLOCK + threadIdx.x), way);
}

/* The windows of a block's BLOCK places begin in one or two blocks and end in one or two blocks. */
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
    if (from / BLOCK == to / BLOCK) { /* windows that cover the row, or are at its beginning or end */
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
    LH_TRY(p.order.kv.positions ? marked_by_position(stream, "pool", &p.marked, &p.order)
                                : marked_by_slot(stream, "pool", &p.marked));
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
    p.order.words = a->kv->positions ? order_words(a->seen) : 0;
    int64_t list = marked_bytes(p.marked.heads, a->ld), order = order_bytes(p.marked.heads, p.order.words);
    LH_TRY(lh_stream_scratch(stream, &memory, list + order + a->rows * p.blocks * (int64_t)sizeof(double)));
    marked_place(&p.marked, memory);
    order_place(&p.order, memory + list);
    p.aggregates = (double *)(memory + list + order);
    LH_TRY(a->kind == LH_POOL_MAX ? pool_rows<LH_POOL_MAX>(stream, p) : pool_rows<LH_POOL_AVG>(stream, p));
    return LH_OK;
}
