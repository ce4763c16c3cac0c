/* In the order of slots: a block has CHUNK slots of a head, a thread EACH that follow each other, one load. The first
 * launch counts, the second adds up what is before a chunk, at most 256 numbers for a million of slots, and writes. */
#include "kernels/cuda/marked_slots.cuh"

#include "kernels/cuda/entries.cuh"

enum { THREADS = 256, EACH = LH_MARKS, CHUNK = THREADS * EACH };

int64_t lh_marked_chunks(int64_t ld)
{
    return (ld + CHUNK - 1) / CHUNK;
}

int64_t lh_marked_bytes(int64_t heads, int64_t ld)
{
    int64_t bytes = heads * (ld + 1 + lh_marked_chunks(ld)) * (int64_t)sizeof(int32_t);
    return (bytes + 15) / 16 * 16;
}

void lh_marked_place(lh_marked_slots *marked, void *memory)
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

lh_status lh_marked_by_slot(lh_stream *stream, const char *name, const lh_marked_slots *marked)
{
    lh_shape shape = {dim3((unsigned)lh_marked_chunks(marked->ld), (unsigned)marked->heads), THREADS, 0};
    LH_TRY(lh_launch(stream, name, shape, count_chunks_kernel, *marked));
    LH_TRY(lh_launch(stream, name, shape, write_chunks_kernel, *marked));
    return LH_OK;
}

/* ---- in the order of positions ---- */

int64_t lh_order_words(int64_t seen)
{
    return (seen + 31) / 32;
}

int64_t lh_order_bytes(int64_t heads, int64_t words)
{
    return (heads * words * (int64_t)(sizeof(uint32_t) + sizeof(int32_t)) + 15) / 16 * 16;
}

void lh_order_place(lh_by_position *order, void *memory)
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

/* A block a head. */
static __global__ void __launch_bounds__(4 * THREADS) count_bits_kernel(lh_marked_slots a, lh_by_position o)
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

lh_status lh_marked_by_position(lh_stream *stream, const char *name, const lh_marked_slots *marked,
                                const lh_by_position *order)
{
    lh_shape slots = lh_over_slots(marked->heads, marked->ld, THREADS, CHUNK);
    lh_shape words = {dim3((unsigned)marked->heads), 4 * THREADS, 0};
    LH_TRY(lh_stream_zero(stream, order->bits, marked->heads * order->words * (int64_t)sizeof *order->bits));
    LH_TRY(lh_launch(stream, name, slots, set_bits_kernel, *marked, *order));
    LH_TRY(lh_launch(stream, name, words, count_bits_kernel, *marked, *order));
    LH_TRY(lh_launch(stream, name, slots, write_by_bits_kernel, *marked, *order));
    return LH_OK;
}
