/* The entries of each head by score: CUB sorts the slots of all heads at once, by position, then by score. (Its sorts
 * of segments have one block for each: they would leave most of the device idle.) */
#include <assert.h>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/entries.cuh"

enum { THREADS = 256, KEY_BITS = 32 };

/* An item is a slot's head, a bit that sends it to the end of its head where it is not in the order, 32 bits of a key,
 * the smallest first, and the slot itself. What is above the slot is sorted by; the sort is stable. */
typedef struct entry_order {
    lh_order_entries_args a;
    lh_ragged kv;
    uint64_t *items; /* [heads, ld] */
    int slot_bits;
} entry_order;

static __device__ __forceinline__ uint64_t item_of(const entry_order &o, int64_t h, int is_out, uint32_t key, int64_t s)
{
    return ((uint64_t)(2 * h + is_out) << KEY_BITS | key) << o.slot_bits | (uint64_t)s;
}
static __device__ __forceinline__ int64_t slot_of(const entry_order &o, uint64_t item)
{
    return (int64_t)(item & (((uint64_t)1 << o.slot_bits) - 1));
}
static __device__ __forceinline__ int is_out(const entry_order &o, uint64_t item)
{
    return (int)(item >> (KEY_BITS + o.slot_bits) & 1);
}

static __global__ void position_kernel(entry_order o)
{
    int64_t h = blockIdx.y, at = h * o.a.ld, len = o.kv.len[h];
    for (int64_t s = lh_grid_first(); s < o.a.ld; s += lh_grid_step()) {
        int is_in = s < len && o.a.state[at + s] == o.a.of;
        o.items[at + s] = item_of(o, h, !is_in, is_in ? (uint32_t)lh_position(&o.kv, h, s) : 0, s);
    }
}

static __global__ void score_kernel(entry_order o)
{
    int64_t h = blockIdx.y, at = h * o.a.ld;
    for (int64_t i = lh_grid_first(); i < o.a.ld; i += lh_grid_step()) {
        uint64_t item = o.items[at + i];
        int64_t s = slot_of(o, item);
        if (!is_out(o, item)) o.items[at + i] = item_of(o, h, 0, ~lh_score_key(o.a.scores[at + s]), s);
    }
}

static __global__ void put_order_kernel(entry_order o)
{
    int64_t h = blockIdx.y, at = h * o.a.ld;
    for (int64_t i = lh_grid_first(); i < o.a.ld; i += lh_grid_step()) {
        uint64_t item = o.items[at + i];
        if (is_out(o, item)) continue;
        o.a.order[at + i] = (int32_t)slot_of(o, item);
        if (i + 1 == o.a.ld || is_out(o, o.items[at + i + 1])) o.a.counts[h] = i + 1;
    }
}

/* What CUB sorts, and its memory: NULL until room_bytes is known. */
typedef struct sorting {
    cub::DoubleBuffer<uint64_t> items;
    void *room;
    size_t room_bytes;
    int64_t count;
    int first_bit, end_bit;
} sorting;

static lh_status sort_items(lh_stream *stream, const char *name, sorting *s)
{
    return lh_cuda_check(cub::DeviceRadixSort::SortKeys(s->room, s->room_bytes, s->items, s->count, s->first_bit,
                                                        s->end_bit, lh_stream_cuda(stream)),
                         name);
}

/* Of the numbers below `count`. */
static int bits_for(int64_t count)
{
    int bits = 0;
    while ((int64_t)1 << bits < count) bits++;
    return bits;
}

lh_status lh_cuda_order_entries(lh_stream *stream, const lh_order_entries_args *a)
{
    const char *name = "order_entries";
    const int64_t heads = a->kv->heads, count = heads * a->ld;
    entry_order o = {*a, *a->kv, NULL, bits_for(a->ld)};
    sorting s = {{}, NULL, 0, count, o.slot_bits, o.slot_bits + KEY_BITS + bits_for(2 * heads)};
    lh_shape each = lh_over_slots(heads, a->ld, THREADS, THREADS);
    assert(s.end_bit <= 64);
    LH_TRY(sort_items(stream, name, &s));
    LH_TRY(lh_stream_scratch(stream, &o.items, 2 * count * (int64_t)sizeof *o.items + (int64_t)s.room_bytes));
    s.items = cub::DoubleBuffer<uint64_t>(o.items, o.items + count);
    s.room = o.items + 2 * count;
    LH_TRY(lh_launch(stream, name, each, position_kernel, o));
    if (a->kv->positions || !a->scores) LH_TRY(sort_items(stream, name, &s));
    o.items = s.items.Current();
    if (a->scores) {
        LH_TRY(lh_launch(stream, name, each, score_kernel, o));
        LH_TRY(sort_items(stream, name, &s));
        o.items = s.items.Current();
    }
    LH_TRY(lh_stream_zero(stream, a->counts, heads * (int64_t)sizeof *a->counts));
    LH_TRY(lh_launch(stream, name, each, put_order_kernel, o));
    return LH_OK;
}
