/* Moving kept entries together. Three kernels: count what is kept in every tile of slots, add up the counts of a head,
 * move. A block moves one tile: it reads what moves into shared memory and writes it from there, so that many reads are
 * under way. Bytes: one per slot for the states, twice those of the entries that move.
 *
 * In place and in order a tile may write where another one has not read yet. There blocks take their tiles by a ticket,
 * heads and slots ascending, report when they have read, and wait before they write for the tiles that lie there.
 * Entries move towards the front only, so these have lower tickets: their blocks run already and wait for none but
 * lower ones. Filling holes reads after the kept entries' new end and writes before it, which needs no order. */
#include "kernels/cuda/vector.cuh"

enum { MOST_SLOTS = 64, THREADS = 256, SCAN_THREADS = 1024 };

typedef struct compact_plan {
    lh_ragged dst, src;
    const uint8_t *state; /* [heads, ld] */
    int64_t ld, tiles;    /* tiles of a head, of `slots` slots each */
    int slots, units;     /* units of a key or a value */
    int is_ordered, is_fill;
    int64_t *len, *kept; /* [heads] of the source; of the target */
    int32_t *before;     /* [heads, tiles] kept in a tile, then in the tiles before it */
    int32_t *is_read;    /* [heads, tiles] */
    unsigned long long *ticket;
} compact_plan;

static __device__ __forceinline__ int is_kept(const compact_plan &p, int64_t h, int64_t s, int64_t len)
{
    return s < len && p.state[h * p.ld + s] == LH_ENTRY_KEEP;
}

/* A warp a tile. */
static __global__ void count_kernel(const __grid_constant__ compact_plan p)
{
    int64_t warps = (int64_t)gridDim.x * (THREADS / LH_WARP), all = p.src.heads * p.tiles;
    if (lh_grid_first() == 0) *p.ticket = 0;
    for (int64_t n = (int64_t)blockIdx.x * (THREADS / LH_WARP) + lh_warp(); n < all; n += warps) {
        int64_t h = n / p.tiles, first = (n - h * p.tiles) * p.slots, len = p.src.len[h];
        int kept = 0;
        for (int s = 0; s < p.slots; s += LH_WARP)
            kept += __popc(__ballot_sync(LH_ALL, s + lh_lane() < p.slots && is_kept(p, h, first + s + lh_lane(), len)));
        if (lh_lane() > 0) continue;
        p.before[n] = kept;
        p.is_read[n] = 0;
        if (first == 0) p.len[h] = len;
    }
}

/* A block a head. The target's lengths may be the source's, which nobody reads any more. */
static __global__ void __launch_bounds__(SCAN_THREADS) scan_kernel(const __grid_constant__ compact_plan p)
{
    __shared__ int32_t room[LH_WARP];
    int64_t h = blockIdx.x;
    int32_t *before = p.before + h * p.tiles, earlier = 0, total;
    for (int64_t first = 0; first < p.tiles; first += blockDim.x) {
        int64_t i = first + threadIdx.x;
        int32_t here = lh_block_before(i < p.tiles ? before[i] : 0, room, &total);
        if (i < p.tiles) before[i] = earlier + here;
        earlier += total;
    }
    if (threadIdx.x == 0) p.kept[h] = p.dst.len[h] = earlier;
}

/* ---- moving ---- */

/* The entries that a block moves: entry e of `count` from slot from[e] of its head to slot to[e] of the target; the
 * first `stays` are where they belong. */
typedef struct compact_tile {
    int64_t head, tile;
    int count, stays;
    int64_t from[MOST_SLOTS], to[MOST_SLOTS];
} compact_tile;

/* The j-th slot of a head that is not kept: in the last tile before which no more than j are not. */
static __device__ int64_t hole_at(const compact_plan &p, int64_t h, int64_t j)
{
    const int32_t *before = p.before + h * p.tiles;
    int64_t low = 0, high = p.tiles - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (middle * p.slots - before[middle] <= j)
            low = middle;
        else
            high = middle - 1;
    }
    int64_t s = low * p.slots, skip = j - (s - before[low]);
    for (;; s++) {
        if (p.state[h * p.ld + s] == LH_ENTRY_KEEP) continue;
        if (skip-- == 0) return s;
    }
}

/* One warp. `before`: kept entries of the head before this tile. */
static __device__ void list_kept(const compact_plan &p, compact_tile *t, int64_t before)
{
    int64_t h = t->head, first = t->tile * p.slots, len = p.len[h];
    int count = 0, stays = 0;
    for (int base = 0; base < p.slots; base += LH_WARP) {
        int64_t s = first + base + lh_lane(), to;
        int kept = base + lh_lane() < p.slots && is_kept(p, h, s, len), stay = 0;
        unsigned all = __ballot_sync(LH_ALL, kept);
        if (kept) {
            int e = count + __popc(all & ((1u << lh_lane()) - 1));
            to = before + e;
            stay = p.is_fill ? s < p.kept[h] : p.dst.k == p.src.k && p.dst.offset[h] + to == p.src.offset[h] + s;
            if (p.is_fill) to = stay ? s : hole_at(p, h, p.kept[h] - 1 - to);
            t->from[e] = s;
            t->to[e] = to;
        }
        count += __popc(all);
        stays += __popc(__ballot_sync(LH_ALL, stay));
    }
    t->count = count;
    t->stays = stays;
}

/* Until all tiles have been read that lie where this one writes. */
static __device__ void wait_for_readers(const compact_plan &p, const compact_tile &t)
{
    int64_t h = t.head;
    int64_t first = p.dst.offset[h] + t.to[t.stays], last = p.dst.offset[h] + t.to[t.count - 1];
    for (int64_t g = h; g >= 0; g--) {
        int64_t at = p.src.offset[g], end = at + p.len[g];
        if (end == at || at > last) continue; /* nothing is there, or nothing is written there */
        if (end <= first) break;              /* heads ascend */
        int64_t from = first > at ? (first - at) / p.slots : 0, to = ((last < end ? last : end - 1) - at) / p.slots;
        for (int64_t i = from; i <= to; i++) {
            const volatile int32_t *is_read = p.is_read + g * p.tiles + i;
            while (!*is_read && !(g == h && i == t.tile)) continue;
        }
    }
    __threadfence();
}

/* Shared: keys and values of what moves, [count - stays, 2, units]; statistics [count - stays, stat_count]; positions
 * and biases [count]. */
template <typename Unit>
static __device__ void read_tile(const compact_plan &p, const compact_tile &t, Unit *room)
{
    const lh_ragged &src = p.src;
    int64_t at = src.offset[t.head];
    unsigned moved = (unsigned)(t.count - t.stays), units = (unsigned)p.units, all = moved * 2 * units;
    float *stats = (float *)(room + (size_t)p.slots * 2 * units);
    int32_t *positions = (int32_t *)(stats + (p.dst.stats ? p.slots * src.stat_count : 0));
    float *biases = (float *)(positions + p.slots);
#pragma unroll 4
    for (unsigned n = threadIdx.x; n < all; n += THREADS) {
        unsigned unit = n % units, part = n / units;
        const Unit *from = (const Unit *)(part % 2 ? src.v : src.k);
        room[n] = from[(at + t.from[t.stays + part / 2]) * units + unit];
    }
    for (int64_t n = threadIdx.x; p.dst.stats && n < moved * src.stat_count; n += THREADS) {
        int64_t e = n / src.stat_count;
        stats[n] = src.stats[(at + t.from[t.stays + e]) * src.stat_count + n - e * src.stat_count];
    }
    for (int e = (int)threadIdx.x; e < t.count; e += THREADS) {
        positions[e] = src.positions ? src.positions[at + t.from[e]] : (int32_t)t.from[e];
        if (p.dst.bias) biases[e] = src.bias ? src.bias[at + t.from[e]] : 0.0f;
    }
}

template <typename Unit>
static __device__ void write_tile(const compact_plan &p, const compact_tile &t, const Unit *room)
{
    const lh_ragged &dst = p.dst;
    int64_t at = dst.offset[t.head];
    unsigned moved = (unsigned)(t.count - t.stays), units = (unsigned)p.units, all = moved * 2 * units;
    const float *stats = (const float *)(room + (size_t)p.slots * 2 * units);
    const int32_t *positions = (const int32_t *)(stats + (dst.stats ? p.slots * dst.stat_count : 0));
    const float *biases = (const float *)(positions + p.slots);
    for (unsigned n = threadIdx.x; n < all; n += THREADS) {
        unsigned unit = n % units, part = n / units;
        Unit *to = (Unit *)(part % 2 ? dst.v : dst.k);
        to[(at + t.to[t.stays + part / 2]) * units + unit] = room[n];
    }
    for (int64_t n = threadIdx.x; dst.stats && n < moved * dst.stat_count; n += THREADS) {
        int64_t e = n / dst.stat_count;
        dst.stats[(at + t.to[t.stays + e]) * dst.stat_count + n - e * dst.stat_count] = stats[n];
    }
    for (int e = (int)threadIdx.x; e < t.count; e += THREADS) {
        dst.positions[at + t.to[e]] = positions[e];
        if (dst.bias) dst.bias[at + t.to[e]] = biases[e];
    }
}

template <typename Unit>
static __global__ void move_kernel(const __grid_constant__ compact_plan p)
{
    __shared__ compact_tile t;
    if (threadIdx.x == 0) {
        int64_t n = p.is_ordered ? (int64_t)atomicAdd(p.ticket, 1ull) : blockIdx.x;
        t.head = n / p.tiles;
        t.tile = n - t.head * p.tiles;
    }
    __syncthreads();
    int32_t *is_read = p.is_read + t.head * p.tiles + t.tile;
    if (t.tile * p.slots >= p.len[t.head]) return;
    if (lh_warp() == 0) list_kept(p, &t, p.before[t.head * p.tiles + t.tile]);
    __syncthreads();
    read_tile(p, t, (Unit *)lh_shared());
    __syncthreads();
    if (p.is_ordered && threadIdx.x == 0) {
        __threadfence();
        *(volatile int32_t *)is_read = 1;
        if (t.count > t.stays) wait_for_readers(p, t);
    }
    __syncthreads();
    write_tile(p, t, (const Unit *)lh_shared());
}

/* ---- on the host ---- */

static int64_t room_of(const compact_plan *p, int64_t entry_bytes)
{
    int64_t stats = p->dst.stats ? p->dst.stat_count * (int64_t)sizeof(float) : 0;
    int64_t bias = p->dst.bias ? (int64_t)sizeof(float) : 0;
    return p->slots * (2 * entry_bytes + stats + bias + (int64_t)sizeof(int32_t));
}

/* 1 if keys and values can be moved 16 bytes at a time. */
static int is_aligned(const compact_plan *p, int64_t entry_bytes)
{
    uintptr_t all = (uintptr_t)p->dst.k | (uintptr_t)p->dst.v | (uintptr_t)p->src.k | (uintptr_t)p->src.v;
    return all % sizeof(uint4) == 0 && entry_bytes % (int64_t)sizeof(uint4) == 0;
}

static lh_status take_room(lh_stream *stream, compact_plan *p)
{
    int64_t heads = p->src.heads, cells = heads * p->tiles;
    char *at = NULL;
    LH_TRY(lh_stream_scratch(stream, &at, 8 + heads * 16 + cells * 8));
    p->ticket = (unsigned long long *)at;
    p->len = (int64_t *)(at + 8);
    p->kept = p->len + heads;
    p->before = (int32_t *)(p->kept + heads);
    p->is_read = p->before + cells;
    return LH_OK;
}

/* The part of a plan that does not depend on lengths. */
static compact_plan plan_of(const lh_compact_args *a, int64_t entry_bytes)
{
    compact_plan p = {};
    p.dst = *a->dst;
    p.src = *a->src;
    p.state = a->state;
    p.ld = a->ld;
    p.is_fill = a->kind == LH_COMPACT_FILL;
    p.is_ordered = !p.is_fill && p.dst.k == p.src.k;
    p.slots = MOST_SLOTS;
    while (p.slots > 1 && room_of(&p, entry_bytes) > LH_SHARED_PLAIN - (int64_t)sizeof(compact_tile)) p.slots /= 2;
    p.tiles = (a->ld + p.slots - 1) / p.slots;
    p.units = (int)(is_aligned(&p, entry_bytes) ? entry_bytes / (int64_t)sizeof(uint4) : entry_bytes / 2);
    return p;
}

lh_status lh_cuda_compact(lh_stream *stream, const lh_compact_args *a)
{
    int64_t bytes = a->src->head_dim * lh_dtype_bytes(a->src->type);
    compact_plan p = plan_of(a, bytes);
    unsigned heads = (unsigned)p.src.heads;
    lh_shape count = {dim3(lh_blocks(heads * p.tiles, THREADS / LH_WARP)), THREADS, 0};
    lh_shape scan = {dim3(heads), p.tiles < SCAN_THREADS ? (int)(p.tiles / LH_WARP + 1) * LH_WARP : SCAN_THREADS, 0};
    lh_shape move = {dim3((unsigned)(heads * p.tiles)), THREADS, room_of(&p, bytes)};
    LH_TRY(take_room(stream, &p));
    LH_TRY(lh_launch(stream, "compact", count, count_kernel, p));
    LH_TRY(lh_launch(stream, "compact", scan, scan_kernel, p));
    LH_TRY(lh_launch(stream, "compact", move, is_aligned(&p, bytes) ? move_kernel<uint4> : move_kernel<uint16_t>, p));
    return LH_OK;
}
