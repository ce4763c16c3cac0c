/* The best entries of each head, by radix. Entries are ordered by one integer of 64 bits, larger is better: the score
 * key above, and below it the complement of the position, which breaks ties. Six rounds find the number of the last of
 * the best entries (the line) from its top, 11, 11 and 10 bits of either half: count the entries with the bits found so
 * far by their next bits, and choose the bin of the last of the best. When all entries of that bin are among the best,
 * the line is final, which without ties happens at the latest after the third round.
 *
 * A row of up to SHORT slots is processed by one block, from the first round to the marks, with its keys in registers;
 * for longer rows each round is a launch with several blocks per head, which reads 5 bytes per slot, and the last block
 * to finish a head chooses the bin. Positions are read only of entries with the key of the line. Everything is decided
 * on the device. Further: orders, histograms and budgets. */
#include <assert.h>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/entries.cuh"
#include "kernels/head_budgets.h"
#include "kernels/ops_select.h"

enum {
    ROUNDS = 6,
    BINS = 1 << 11,
    THREADS = 1024,
    MIN_THREADS = 64,
    SHORT = 1 << 15,
    SLOTS = 8 * THREADS,
    FEW = 8 /* slots of a thread */
};

#define NO_LINE UINT64_MAX /* above every entry: the largest key is the key of infinity */

/* The known bits of a head's line. */
typedef struct found_line {
    uint64_t at; /* the bits found so far, then zeros */
    int rest;    /* number of the best entries with these bits */
    int stands;
} found_line;

/* Selection of the counts[r] best competing entries in the rows of some caches. */
typedef struct selection {
    lh_caches caches;
    lh_select_top_args args; /* for these caches; its kv is not used */
    found_line *lines;       /* [rows], for long rows, initially all zero */
    unsigned *bins;          /* [rows, BINS] */
    unsigned *arrived;       /* [rows] */
} selection;

/* A row: a head of one of the caches. */
typedef struct head_row {
    const int32_t *positions; /* NULL: the slots */
    const float *scores;
    uint8_t *state;
    int64_t at, len, count; /* index of the row; its slots; number of the best */
} head_row;

static __device__ __forceinline__ head_row row_of(const selection &c)
{
    int64_t row = blockIdx.y, h;
    lh_select_top_args a = c.args;
    a.kv = c.caches.at;
    const lh_ragged *kv = lh_cache_of_row(a.kv, row, &h);
    return head_row{lh_positions_of(kv, h), lh_row_scores(&a, row), a.state + row * a.ld, row, kv->len[h],
                    lh_row_count(&a, row)};
}

/* The bits before round r, and the bits of round r. */
static __device__ __forceinline__ int bits_before(int round)
{
    return round / 3 * 32 + round % 3 * 11;
}

static __device__ __forceinline__ int bits_of(int round)
{
    return round % 3 == 2 ? 10 : 11;
}

static __device__ __forceinline__ uint32_t place_of(const head_row &r, int s)
{
    return ~(uint32_t)(r.positions ? r.positions[s] : s);
}

/* Returns 1 if slot s with this key is counted in a round, and its bin. */
static __device__ __forceinline__ int find_bin(const head_row &r, uint32_t key, int s, int round, uint64_t line,
                                               int *bin)
{
    const int before = bits_before(round) % 32;
    uint32_t half = key, half_of_line = (uint32_t)(line >> 32);
    if (round >= ROUNDS / 2) {
        if (half != half_of_line) return 0;
        half = place_of(r, s);
        half_of_line = (uint32_t)line;
    }
    if (before > 0 && (half ^ half_of_line) >> (32 - before)) return 0;
    *bin = (int)(half >> (32 - before - bits_of(round))) & ((1 << bits_of(round)) - 1);
    return 1;
}

/* The line before the first round, in a row that keeps `count` of `competing` entries. */
static __device__ found_line line_before(int64_t count, int competing)
{
    if (count <= 0) return found_line{NO_LINE, 0, 1};
    if (count >= competing) return found_line{0, 0, 1};
    return found_line{0, (int)count, 0};
}

/* Appends the bin of the last of the best entries to the line. Every thread of the block calls it and visits some bins,
 * the best first; `line` is in shared memory, and no thread reads it before the next barrier. */
static __device__ void choose_bin(int64_t wanted, int round, const unsigned *bins, found_line *line)
{
    __shared__ int room[LH_WARP];
    int each = BINS / (int)blockDim.x, first = BINS - 1 - (int)threadIdx.x * each, mine = 0, all;
    found_line now = *line;
    for (int i = 0; i < each; i++) mine += (int)bins[first - i];
    int before = lh_block_before(mine, room, &all);
    if (round == 0) now = line_before(wanted, all);
    if (now.stands) {
        if (threadIdx.x == 0) *line = now;
        return;
    }
    for (int i = 0; i < each; i++) {
        int count = (int)bins[first - i];
        if (before < now.rest && now.rest <= before + count) {
            now.at |= (uint64_t)(first - i) << (64 - bits_before(round) - bits_of(round));
            now.rest -= before;
            now.stands = round == ROUNDS - 1 || now.rest == count;
            *line = now;
            return;
        }
        before += count;
    }
}

/* Marks slot s, which competes with this key. */
static __device__ __forceinline__ void mark(const head_row &r, uint32_t key, int s, uint64_t line,
                                            lh_entry_state others)
{
    const uint32_t key_of_line = (uint32_t)(line >> 32);
    const int best = key > key_of_line || (key == key_of_line && place_of(r, s) >= (uint32_t)line);
    r.state[s] = (uint8_t)(best ? LH_ENTRY_KEEP : others);
}

/* bins: [BINS], shared. */
static __device__ __forceinline__ void clear_bins(unsigned *bins)
{
    for (int i = (int)threadIdx.x; i < BINS; i += (int)blockDim.x) bins[i] = 0;
    __syncthreads();
}

/* ---- short rows: blockIdx.y is the row, one block each ---- */

static __device__ __forceinline__ int slot_of_thread(int i)
{
    return (int)(threadIdx.x + i * blockDim.x);
}

/* The slots of a thread, which are loaded together, once. */
template <int EACH>
struct held_slots {
    uint32_t keys[EACH], competes; /* a bit for each slot */
};

template <int EACH>
static __device__ __forceinline__ void load_slots(const head_row &r, held_slots<EACH> *held)
{
    float scores[EACH];
    uint8_t states[EACH];
    held->competes = 0;
    if (r.len == 0) return;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int at = min(slot_of_thread(i), (int)r.len - 1);
        scores[i] = r.scores[at];
        states[i] = r.state[at];
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        held->keys[i] = lh_score_key(scores[i]);
        held->competes |= (uint32_t)(slot_of_thread(i) < (int)r.len && states[i] == LH_ENTRY_COMPETES) << i;
    }
}

template <int EACH>
static __global__ void __launch_bounds__(THREADS) contest_kernel(const __grid_constant__ selection c)
{
    __shared__ unsigned bins[BINS];
    __shared__ found_line line;
    const head_row r = row_of(c);
    held_slots<EACH> held;
    int bin;
    load_slots<EACH>(r, &held);
    if (threadIdx.x == 0) line = found_line{0, 0, 0};
    for (int round = 0; round < ROUNDS; round++) {
        __syncthreads();
        if (line.stands) break;
        clear_bins(bins);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (held.competes >> i & 1 && find_bin(r, held.keys[i], slot_of_thread(i), round, line.at, &bin))
                atomicAdd(bins + bin, 1u);
        __syncthreads();
        choose_bin(r.count, round, bins, &line);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (held.competes >> i & 1) mark(r, held.keys[i], slot_of_thread(i), line.at, c.args.others);
}

/* ---- long rows ---- */

/* Adds the counts of the block to the row's. Returns 1 in the last block of the row, with the totals in `bins`, and
 * leaves zeros for the next round. */
static __device__ int gather_bins(const selection &c, int64_t row, unsigned *bins)
{
    __shared__ int last;
    unsigned *all = c.bins + row * BINS;
    for (int i = (int)threadIdx.x; i < BINS; i += (int)blockDim.x) {
        if (bins[i]) atomicAdd(all + i, bins[i]);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(c.arrived + row, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return 0;
    for (int i = (int)threadIdx.x; i < BINS; i += (int)blockDim.x) bins[i] = atomicExch(all + i, 0u);
    __syncthreads();
    return 1;
}

static __global__ void __launch_bounds__(THREADS) contest_round_kernel(const __grid_constant__ selection c, int round)
{
    __shared__ unsigned bins[BINS];
    const head_row r = row_of(c);
    int bin;
    if (c.lines[r.at].stands) return;
    clear_bins(bins);
    for (int64_t s = lh_grid_first(); s < r.len; s += lh_grid_step())
        if (r.state[s] == LH_ENTRY_COMPETES &&
            find_bin(r, lh_score_key(r.scores[s]), (int)s, round, c.lines[r.at].at, &bin))
            atomicAdd(bins + bin, 1u);
    __syncthreads();
    if (gather_bins(c, r.at, bins)) choose_bin(r.count, round, bins, c.lines + r.at);
}

static __global__ void __launch_bounds__(THREADS) contest_mark_kernel(const __grid_constant__ selection c)
{
    const head_row r = row_of(c);
    for (int64_t s = lh_grid_first(); s < r.len; s += lh_grid_step())
        if (r.state[s] == LH_ENTRY_COMPETES)
            mark(r, lh_score_key(r.scores[s]), (int)s, c.lines[r.at].at, c.args.others);
}

static lh_status hold_long(lh_stream *stream, selection *c)
{
    int64_t rows = c->caches.rows, bytes = rows * (int64_t)(sizeof(found_line) + (BINS + 1) * sizeof(unsigned));
    lh_shape shape = lh_over_slots(rows, c->args.ld, THREADS, SLOTS);
    LH_TRY(lh_stream_scratch(stream, &c->lines, bytes));
    LH_TRY(lh_stream_zero(stream, c->lines, bytes));
    c->bins = (unsigned *)(c->lines + rows);
    c->arrived = c->bins + rows * BINS;
    for (int round = 0; round < ROUNDS; round++)
        LH_TRY(lh_launch(stream, "select_top", shape, contest_round_kernel, *c, round));
    LH_TRY(lh_launch(stream, "select_top", shape, contest_mark_kernel, *c));
    return LH_OK;
}

/* Threads of a short row: some slots for each, a power of two, so that all have the same number of bins. */
static int threads_for(int64_t ld)
{
    int threads = MIN_THREADS;
    while (threads < THREADS && threads * 4 < ld) threads *= 2;
    return threads;
}

static lh_status hold(lh_stream *stream, selection *c)
{
    if (c->args.ld > SHORT) return hold_long(stream, c);
    lh_shape shape = {dim3(1, (unsigned)c->caches.rows), threads_for(c->args.ld), 0};
    return lh_launch(stream, "select_top", shape,
                     c->args.ld <= FEW * shape.threads ? contest_kernel<FEW> : contest_kernel<SHORT / THREADS>, *c);
}

lh_status lh_cuda_select_top(lh_stream *stream, const lh_select_top_args *a)
{
    if (a->kv->heads == 0 || a->ld == 0) return LH_OK;
    for (int64_t from = 0; from < a->batch; from += LH_CACHES_AT_ONCE) {
        selection c = {};
        c.caches = lh_caches_from(a->kv, from, a->batch);
        c.args = *a;
        c.args.state += c.caches.first * a->ld;
        c.args.scores += from * a->scores_step;
        c.args.counts += from * a->counts_step;
        LH_TRY(hold(stream, &c));
    }
    return LH_OK;
}

/* ---- the order of each head's entries ----
 *
 * CUB sorts the slots of all heads together, by position, then by score. (Its segmented sorts have one block per
 * segment: they would leave most of the device idle.) */

enum { ORDER_THREADS = 256, KEY_BITS = 32 };

/* An item is a slot's head, a bit that moves it to the end of its head if it is not in the order, 32 bits of a key, the
 * smallest first, and the slot. Items are sorted by the bits above the slot; the sort is stable. */
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

/* Arguments of CUB's sort, and its memory: NULL until room_bytes is known. */
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

/* Bits of numbers below `count`. */
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
    lh_shape each = lh_over_slots(heads, a->ld, ORDER_THREADS, ORDER_THREADS);
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

/* ---- histograms of score keys ----
 *
 * Integers, so that atomics may add them in any order. A block first counts its slots of one head in shared memory: 5
 * bytes per slot are read, and a head's bins are written once per block. */

enum {
    HISTOGRAM_THREADS = 512,
    HISTOGRAM_SLOTS = 16 * HISTOGRAM_THREADS,
    SHARED_BITS = 12 /* more bins are counted in device memory */
};

/* For some caches; its kv is not used. */
typedef struct histogram_job {
    lh_histogram_args args;
    lh_caches caches;
} histogram_job;

/* The row of blockIdx.y. */
static __device__ __forceinline__ lh_histogram_row histogram_row_of(const histogram_job &job)
{
    lh_histogram_args a = job.args;
    a.kv = job.caches.at;
    return lh_histogram_row_at(&a, blockIdx.y);
}

/* The only block of a row writes its bins; several blocks add to them. */
static __global__ void __launch_bounds__(HISTOGRAM_THREADS) histogram_kernel(const __grid_constant__ histogram_job job)
{
    unsigned *bins = (unsigned *)lh_shared();
    const lh_histogram_row row = histogram_row_of(job);
    int count = 1 << job.args.bits;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int64_t s = lh_grid_first(); s < row.len; s += lh_grid_step()) {
        int64_t bin = lh_histogram_bin(&job.args, &row, s);
        if (bin >= 0) atomicAdd(bins + bin, 1u);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        if (gridDim.x == 1)
            row.bins[i] = (int32_t)bins[i];
        else if (bins[i])
            atomicAdd((unsigned *)row.bins + i, bins[i]);
    }
}

static __global__ void __launch_bounds__(HISTOGRAM_THREADS)
    histogram_many_kernel(const __grid_constant__ histogram_job job)
{
    const lh_histogram_row row = histogram_row_of(job);
    for (int64_t s = lh_grid_first(); s < row.len; s += lh_grid_step()) {
        int64_t bin = lh_histogram_bin(&job.args, &row, s);
        if (bin >= 0) atomicAdd((unsigned *)row.bins + bin, 1u);
    }
}

static __global__ void __launch_bounds__(HISTOGRAM_THREADS) clear_bins_kernel(const __grid_constant__ histogram_job job)
{
    const lh_histogram_row row = histogram_row_of(job);
    for (int64_t i = lh_grid_first(); i < (int64_t)1 << job.args.bits; i += lh_grid_step()) row.bins[i] = 0;
}

static lh_status count(lh_stream *stream, const histogram_job *job)
{
    const int64_t rows = job->caches.rows, bins = (int64_t)1 << job->args.bits;
    lh_shape shape = lh_over_slots(rows, job->args.ld, HISTOGRAM_THREADS, HISTOGRAM_SLOTS);
    int few = job->args.bits <= SHARED_BITS;
    if (!few || shape.blocks.x != 1)
        LH_TRY(lh_launch(stream, "histogram", lh_over_slots(rows, bins, HISTOGRAM_THREADS, HISTOGRAM_SLOTS),
                         clear_bins_kernel, *job));
    if (few) shape.shared = bins * (int64_t)sizeof(unsigned);
    return lh_launch(stream, "histogram", shape, few ? histogram_kernel : histogram_many_kernel, *job);
}

lh_status lh_cuda_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    for (int64_t from = 0; from < a->batch; from += LH_CACHES_AT_ONCE) {
        histogram_job job = {};
        job.args = *a;
        job.caches = lh_caches_from(a->kv, from, a->batch);
        job.args.histograms += from << a->bits;
        job.args.scores += from * a->scores_step;
        job.args.state += from * a->state_step;
        if (a->search) job.args.search += from * a->search_step;
        LH_TRY(count(stream, &job));
    }
    return LH_OK;
}

/* A block counts the entries of a head. */
static __global__ void __launch_bounds__(THREADS)
    count_best_kernel(const __grid_constant__ lh_count_best_args a, const __grid_constant__ lh_ragged kv)
{
    __shared__ int64_t room[LH_WARP];
    int64_t h = blockIdx.x, count = 0;
    const int64_t len = kv.len[h];
#pragma unroll 8
    for (int64_t s = threadIdx.x; s < len; s += blockDim.x) count += lh_is_best(&a, h, s);
    count = lh_block_sum(count, room);
    if (threadIdx.x == 0) a.counts[h] = lh_count_within(&a, count);
}

lh_status lh_cuda_count_best(lh_stream *stream, const lh_count_best_args *a)
{
    const lh_shape shape = {dim3((unsigned)a->kv->heads), THREADS, 0};
    return lh_launch(stream, "count_best", shape, count_best_kernel, *a, *a->kv);
}

/* ---- budgets of heads: the search for the threshold between its histograms, and the counts ----
 *
 * All of it is small: 8 KB of bins per head and round, and some numbers per head. */

enum { BUDGETS_THREADS = 256 };

/* The number of thread t's bins, and the first one; bins are assigned to threads from the last one down. */
static __device__ __forceinline__ int64_t bins_each(int64_t size)
{
    return (size + blockDim.x - 1) / blockDim.x;
}

/* ---- sums of bins: blockIdx.x is the head and its layer ---- */

static __global__ void add_histograms_kernel(lh_add_histograms_args a)
{
    __shared__ int64_t room[LH_WARP];
    int64_t size = (int64_t)1 << a.bits, each = bins_each(size), last = size - 1 - threadIdx.x * each, mine = 0, all;
    const int32_t *bins = a.histograms + blockIdx.x * size;
    int64_t above = a.candidates ? a.candidates[blockIdx.x].above : 0;
    int64_t skip = lh_max_i64(0, a.limits[blockIdx.x % a.of.layers].floor - above);
    int32_t *sums = a.sums + lh_contest_of(&a.of, blockIdx.x) * (size + 1);
    for (int64_t b = last; b > last - each && b >= 0; b--) mine += bins[b];
    int64_t before = lh_block_before(mine, room, &all);
    for (int64_t b = last; b > last - each && b >= 0; b--) {
        int64_t n = bins[b], left = n - lh_min_i64(lh_max_i64(0, skip - before), n);
        if (left) atomicAdd(sums + b, (int)left);
        before += n;
    }
    if (threadIdx.x == 0 && skip > 0) atomicAdd(sums + size, (int)lh_min_i64(skip, all));
}

lh_status lh_cuda_add_histograms(lh_stream *stream, const lh_add_histograms_args *a)
{
    int64_t sums = lh_contest_count(&a->of) * (((int64_t)1 << a->bits) + 1);
    LH_TRY(lh_stream_zero(stream, a->sums, sums * (int64_t)sizeof *a->sums));
    LH_TRY(lh_launch(stream, "add_histograms",
                     lh_shape{dim3((unsigned)(a->of.heads * a->of.layers)), BUDGETS_THREADS, 0}, add_histograms_kernel,
                     *a));
    return LH_OK;
}

/* ---- refine_threshold: blockIdx.y is the contest; its blocks all find the same bin, and update one head each ---- */

/* Finds *bin, in shared memory; returns the entries wanted of it. Every thread of the block calls it. */
static __device__ int64_t budgets_find_bin(const lh_refine_threshold_args &a, int64_t contest, int64_t *bin)
{
    __shared__ int64_t room[LH_WARP], wanted;
    int64_t size = (int64_t)1 << a.bits, each = bins_each(size), last = size - 1 - threadIdx.x * each, mine = 0, all;
    for (int64_t b = last; b > last - each && b >= 0; b--) mine += lh_bin_of_ranks(&a, contest, b);
    int64_t before = lh_block_before(mine, room, &all);
    int64_t left_out = a.from ? 0 : lh_bin_of_ranks(&a, contest, size);
    int64_t want =
        a.from ? a.from[contest].want : lh_min_i64(lh_most_of(a.limits, &a.of, contest), all + left_out) - left_out;
    if (threadIdx.x == 0) {
        *bin = want > 0 ? 0 : size - 1;
        wanted = want > 0 ? want - (all - lh_bin_of_ranks(&a, contest, 0)) : want;
    }
    __syncthreads();
    for (int64_t b = last; b > last - each && b >= 0; b--) {
        int64_t held = lh_bin_of_ranks(&a, contest, b);
        if (before < want && want <= before + held) {
            *bin = b;
            wanted = want - before;
        }
        before += held;
    }
    __syncthreads();
    return wanted;
}

static __global__ void refine_threshold_kernel(lh_refine_threshold_args a)
{
    __shared__ int64_t room[LH_WARP], bin;
    const lh_contest c = lh_contest_at(&a.of, blockIdx.y);
    int64_t size = (int64_t)1 << a.bits, want = budgets_find_bin(a, c.index, &bin), all = 0, above = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        a.to[c.index] = lh_search{want, (a.from ? a.from[c.index].prefix << a.bits : 0) | (uint32_t)bin};
    if ((int64_t)blockIdx.x >= a.of.heads * c.layers) return;
    int64_t cell = blockIdx.x / c.layers * a.of.layers + c.first + blockIdx.x % c.layers;
    const int32_t *bins = a.histograms + cell * size;
    for (int64_t b = threadIdx.x; b < size; b += blockDim.x) {
        all += bins[b];
        above += b > bin ? bins[b] : 0;
    }
    all = lh_block_sum(all, room);
    above = lh_block_sum(above, room);
    if (threadIdx.x > 0) return;
    lh_candidate_counts t = a.from ? a.candidates[cell] : lh_candidate_counts{(int32_t)all, 0, 0};
    t.above += (int32_t)above;
    t.at = bins[bin];
    a.candidates[cell] = t;
}

/* The search state is updated even without heads. */
lh_status lh_cuda_refine_threshold(lh_stream *stream, const lh_refine_threshold_args *a)
{
    int64_t contests = lh_contest_count(&a->of), cells = a->of.heads * a->of.layers / contests;
    return lh_launch(stream, "refine_threshold",
                     lh_shape{dim3((unsigned)(cells ? cells : 1), (unsigned)contests), BUDGETS_THREADS, 0},
                     refine_threshold_kernel, *a);
}

/* ---- head_budgets ---- */

/* Some heads of a contest for each thread, in the order of ties. */
typedef struct own_heads {
    int64_t first, end;
} own_heads;

/* lh_give_shares by a block: every thread calls it. room: shared, [LH_WARP]. */
static __device__ int64_t give_shares(const lh_head_budgets_args &a, lh_contest c, own_heads own, int64_t *lags,
                                      int64_t *room)
{
    int64_t tied = 0, held = 0, given = 0, all;
    for (int64_t i = own.first; i < own.end; i++) {
        tied += lh_tied_of(&a, c, i);
        held += lh_tied_candidates(&a, c, i).competing;
    }
    int64_t rest = a.search[c.index].want - lh_block_before(tied, room, &all);
    for (int64_t i = own.first; i < own.end; i++) {
        given += lh_give_share(&a, c, i, rest, lags);
        rest -= lh_tied_of(&a, c, i);
    }
    held = lh_block_sum(held, room);
    return lh_min_i64(a.limits[c.first].most, held) - lh_block_sum(given, room);
}

/* lh_give_rounds by a block. */
static __device__ int64_t give_rounds(const lh_head_budgets_args &a, lh_contest c, own_heads own, int64_t left,
                                      int64_t *lags, int64_t *room)
{
    while (left > 0) {
        int64_t open = 0, each = left;
        for (int64_t i = own.first; i < own.end; i++) {
            const int64_t spare = lh_spare_of(&a, c, i, lags);
            if (spare > 0) open++, each = lh_min_i64(each, spare);
        }
        open = lh_block_sum(open, room);
        each = -lh_block_max(-each, room);
        if (open == 0) return 0;
        if (left < open) return left;
        each = lh_min_i64(each, left / open);
        for (int64_t i = own.first; i < own.end; i++)
            if (lags[i] >= 0) lh_counts_of(&a, c)[i] += each;
        left -= each * open;
    }
    return 0;
}

/* One block per contest. lags: [heads * layers]. */
static __global__ void head_budgets_kernel(lh_head_budgets_args a, int64_t *lags)
{
    __shared__ int64_t room[LH_WARP];
    const lh_contest c = lh_contest_at(&a.of, blockIdx.x);
    const int64_t n = lh_heads_of_contest(&a, c), each = (n + blockDim.x - 1) / blockDim.x;
    const own_heads own = {lh_min_i64(n, threadIdx.x * each), lh_min_i64(n, (threadIdx.x + 1) * each)};
    lags += a.of.heads * c.first;
    int64_t left = give_shares(a, c, own, lags, room);
    left = give_rounds(a, c, own, left, lags, room);
    __syncthreads();
    lh_give_last(&a, c, left, lags, threadIdx.x, blockDim.x);
}

lh_status lh_cuda_head_budgets(lh_stream *stream, const lh_head_budgets_args *a)
{
    int64_t *lags = NULL, n = a->of.heads * a->of.layers;
    if (n == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &lags, n * (int64_t)sizeof *lags));
    LH_TRY(lh_launch(stream, "head_budgets", lh_shape{dim3((unsigned)lh_contest_count(&a->of)), BUDGETS_THREADS, 0},
                     head_budgets_kernel, *a, lags));
    return LH_OK;
}
