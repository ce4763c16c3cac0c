/* The best of each head, by radix. What entries are ordered by is one integer of 64 bits, the larger the better:
 * its score key above, and below it the complement of its position, which breaks ties. Six rounds find the number of
 * the last entry that is among the best (the line) from its top, 11, 11 and 10 bits of either half: count the entries
 * that have the bits found so far by their next bits, and see in which of the bins the last of the best lies. When all
 * entries of that bin are among the best, the line stands, which without ties it does after the third round at most.
 *
 * A row of up to SHORT slots is one block's, from the first round to the marks; of longer ones each round is a launch
 * with several blocks a head, of which the last one that is done with a head chooses the bin. The device decides all
 * of it. A round reads 5 bytes a slot, and positions of those alone that have the key of the line. */
#include "kernels/cuda/entries.cuh"
#include "kernels/score_rows.h"

enum { ROUNDS = 6, BINS = 1 << 11, THREADS = 1024, LEAST_THREADS = 64, SHORT = 1 << 15, SLOTS = 8 * THREADS };

#define NO_LINE UINT64_MAX /* above every entry: the largest key is that of infinity */

/* The bits of the line of a head that are found. */
typedef struct found_line {
    uint64_t at; /* the bits found so far; the others are 0 */
    int rest;    /* how many of the best have these bits */
    int stands;
} found_line;

/* Who is among the counts[r] best of those that compete, in the rows of some caches. */
typedef struct selection {
    lh_caches caches;
    lh_select_top_args args; /* of these caches; its kv is not used */
    found_line *lines;       /* [rows], for long rows, all of these zero at first */
    unsigned *bins;          /* [rows, BINS] */
    unsigned *arrived;       /* [rows] */
} selection;

/* A row: a head of one of the caches. */
typedef struct head_row {
    const int32_t *positions; /* NULL: the slots */
    const float *scores;
    uint8_t *state;
    int64_t at, len, count; /* which row; its slots; how many of the best */
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

/* The bits before round r, and its own. */
static __device__ __forceinline__ int bits_before(int round)
{
    return round / 3 * 32 + round % 3 * 11;
}

static __device__ __forceinline__ int bits_of(int round)
{
    return round % 3 == 2 ? 10 : 11;
}

static __device__ __forceinline__ uint32_t place_of(const head_row &r, int64_t s)
{
    return ~(uint32_t)(r.positions ? r.positions[s] : s);
}

/* 1 if slot s is counted in a round, and its bin. */
static __device__ __forceinline__ int find_bin(const head_row &r, int64_t s, int round, uint64_t line, int *bin)
{
    int before = bits_before(round);
    uint64_t number = (uint64_t)lh_score_key(r.scores[s]) << 32;
    if (round >= 3) {
        if ((number ^ line) >> 32) return 0;
        number |= place_of(r, s);
    }
    if (round > 0 && (number ^ line) >> (64 - before)) return 0;
    *bin = (int)(number >> (64 - before - bits_of(round))) & ((1 << bits_of(round)) - 1);
    return 1;
}

/* The block counts its slots of the row. bins: [BINS], shared. */
static __device__ void count_round(const head_row &r, int round, uint64_t line, unsigned *bins)
{
    int bin;
    for (int i = (int)threadIdx.x; i < BINS; i += (int)blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int64_t s = lh_grid_first(); s < r.len; s += lh_grid_step())
        if (r.state[s] == LH_ENTRY_COMPETES && find_bin(r, s, round, line, &bin)) atomicAdd(bins + bin, 1u);
    __syncthreads();
}

/* Where the line is before the first round, in a row in which `count` of `competing` entries stay. */
static __device__ found_line line_before(int64_t count, int competing)
{
    if (count <= 0) return found_line{NO_LINE, 0, 1};
    if (count >= competing) return found_line{0, 0, 1};
    return found_line{0, (int)count, 0};
}

/* The bin in which the last of the best lies becomes part of the line. Every thread of the block calls it, and looks at
 * some bins, the best first; `line` is in memory that they share, and no thread reads it before the next barrier. */
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

static __device__ void mark(const head_row &r, uint64_t line, lh_entry_state others)
{
    uint32_t key_of_line = (uint32_t)(line >> 32);
    for (int64_t s = lh_grid_first(); s < r.len; s += lh_grid_step()) {
        if (r.state[s] != LH_ENTRY_COMPETES) continue;
        uint32_t key = lh_score_key(r.scores[s]);
        int best = key > key_of_line || (key == key_of_line && place_of(r, s) >= (uint32_t)line);
        r.state[s] = (uint8_t)(best ? LH_ENTRY_KEEP : others);
    }
}

/* ---- short rows: blockIdx.y is the row, one block each ---- */

static __global__ void __launch_bounds__(THREADS) contest_kernel(const __grid_constant__ selection c)
{
    __shared__ unsigned bins[BINS];
    __shared__ found_line line;
    head_row r = row_of(c);
    if (threadIdx.x == 0) line = found_line{0, 0, 0};
    for (int round = 0; round < ROUNDS; round++) {
        __syncthreads();
        if (line.stands) break;
        count_round(r, round, line.at, bins);
        choose_bin(r.count, round, bins, &line);
    }
    __syncthreads();
    mark(r, line.at, c.args.others);
}

/* ---- long rows ---- */

/* Adds up what the blocks have counted; 1 in the last block of the row, which has all of it in `bins` then, and leaves
 * zeros for the next round. */
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
    head_row r = row_of(c);
    if (c.lines[r.at].stands) return;
    count_round(r, round, c.lines[r.at].at, bins);
    if (gather_bins(c, r.at, bins)) choose_bin(r.count, round, bins, c.lines + r.at);
}

static __global__ void __launch_bounds__(THREADS) contest_mark_kernel(const __grid_constant__ selection c)
{
    head_row r = row_of(c);
    mark(r, c.lines[r.at].at, c.args.others);
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

/* Of a short row: some slots for each, and a power of two, so that all have as many bins. */
static int threads_for(int64_t ld)
{
    int threads = LEAST_THREADS;
    while (threads < THREADS && threads * 4 < ld) threads *= 2;
    return threads;
}

static lh_status hold(lh_stream *stream, selection *c)
{
    if (c->args.ld > SHORT) return hold_long(stream, c);
    lh_shape shape = {dim3(1, (unsigned)c->caches.rows), threads_for(c->args.ld), 0};
    return lh_launch(stream, "select_top", shape, contest_kernel, *c);
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
