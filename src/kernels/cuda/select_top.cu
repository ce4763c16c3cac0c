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

enum { ROUNDS = 6, BINS = 1 << 11, THREADS = 1024, LEAST_THREADS = 64, SHORT = 1 << 15, SLOTS = 8 * THREADS };

#define NO_LINE UINT64_MAX /* above every entry: the largest key is that of infinity */

/* The bits of the line of a head that are found. */
typedef struct lh_line {
    uint64_t at; /* the bits found so far; the others are 0 */
    int rest;    /* how many of the best have these bits */
    int stands;
} lh_line;

/* Who is among the counts[h] best of those that compete. */
typedef struct lh_contest {
    lh_ragged kv;
    const float *scores;
    uint8_t *state;
    const int64_t *counts;
    int64_t ld;
    lh_entry_state others;
    lh_line *lines;    /* [heads], for long rows, all of these zero at first */
    unsigned *bins;    /* [heads, BINS] */
    unsigned *arrived; /* [heads] */
} lh_contest;

/* The bits before round r, and its own. */
static __device__ __forceinline__ int bits_before(int round)
{
    return round / 3 * 32 + round % 3 * 11;
}

static __device__ __forceinline__ int bits_of(int round)
{
    return round % 3 == 2 ? 10 : 11;
}

static __device__ __forceinline__ uint32_t place_of(const lh_contest &c, int64_t h, int64_t s)
{
    return ~(uint32_t)lh_position(&c.kv, h, s);
}

/* 1 if slot s of head h is counted in a round, and its bin. */
static __device__ __forceinline__ int find_bin(const lh_contest &c, const int64_t at[2], int round, uint64_t line,
                                               int *bin)
{
    int64_t h = at[0], s = at[1];
    int before = bits_before(round);
    uint64_t number = (uint64_t)lh_score_key(c.scores[h * c.ld + s]) << 32;
    if (round >= 3) {
        if ((number ^ line) >> 32) return 0;
        number |= place_of(c, h, s);
    }
    if (round > 0 && (number ^ line) >> (64 - before)) return 0;
    *bin = (int)(number >> (64 - before - bits_of(round))) & ((1 << bits_of(round)) - 1);
    return 1;
}

/* The block counts its slots of head h. bins: [BINS], shared. */
static __device__ void count_round(const lh_contest &c, int64_t h, int round, uint64_t line, unsigned *bins)
{
    int64_t len = c.kv.len[h];
    int bin;
    for (int i = (int)threadIdx.x; i < BINS; i += (int)blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        const int64_t at[2] = {h, s};
        if (c.state[h * c.ld + s] != LH_ENTRY_COMPETES) continue;
        if (find_bin(c, at, round, line, &bin)) atomicAdd(bins + bin, 1u);
    }
    __syncthreads();
}

/* Where the line is before the first round, in a head in which `competing` entries compete. */
static __device__ lh_line line_before(const lh_contest &c, int64_t h, int competing)
{
    int64_t count = c.counts[h];
    if (count <= 0) return lh_line{NO_LINE, 0, 1};
    if (count >= competing) return lh_line{0, 0, 1};
    return lh_line{0, (int)count, 0};
}

/* The bin in which the last of the best lies becomes part of the line. Every thread of the block calls it, and looks at
 * some bins, the best first; `line` is in memory that they share, and no thread reads it before the next barrier. */
static __device__ void choose_bin(const lh_contest &c, int64_t h, int round, const unsigned *bins, lh_line *line)
{
    __shared__ int room[LH_WARP];
    int each = BINS / (int)blockDim.x, first = BINS - 1 - (int)threadIdx.x * each, mine = 0, all;
    lh_line now = *line;
    for (int i = 0; i < each; i++) mine += (int)bins[first - i];
    int before = lh_block_before(mine, room, &all);
    if (round == 0) now = line_before(c, h, all);
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

static __device__ void mark(const lh_contest &c, int64_t h, uint64_t line)
{
    int64_t len = c.kv.len[h];
    uint32_t key_of_line = (uint32_t)(line >> 32);
    for (int64_t s = lh_grid_first(); s < len; s += lh_grid_step()) {
        int64_t at = h * c.ld + s;
        if (c.state[at] != LH_ENTRY_COMPETES) continue;
        uint32_t key = lh_score_key(c.scores[at]);
        int best = key > key_of_line || (key == key_of_line && place_of(c, h, s) >= (uint32_t)line);
        c.state[at] = (uint8_t)(best ? LH_ENTRY_KEEP : c.others);
    }
}

/* ---- short rows: blockIdx.y is the head, one block each ---- */

static __global__ void __launch_bounds__(THREADS) contest_kernel(lh_contest c)
{
    __shared__ unsigned bins[BINS];
    __shared__ lh_line line;
    int64_t h = blockIdx.y;
    if (threadIdx.x == 0) line = lh_line{0, 0, 0};
    for (int round = 0; round < ROUNDS; round++) {
        __syncthreads();
        if (line.stands) break;
        count_round(c, h, round, line.at, bins);
        choose_bin(c, h, round, bins, &line);
    }
    __syncthreads();
    mark(c, h, line.at);
}

/* ---- long rows ---- */

/* Adds up what the blocks have counted; 1 in the last block of the head, which has all of it in `bins` then, and leaves
 * zeros for the next round. */
static __device__ int gather_bins(const lh_contest &c, int64_t h, unsigned *bins)
{
    __shared__ int last;
    unsigned *all = c.bins + h * BINS;
    for (int i = (int)threadIdx.x; i < BINS; i += (int)blockDim.x) {
        if (bins[i]) atomicAdd(all + i, bins[i]);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(c.arrived + h, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return 0;
    for (int i = (int)threadIdx.x; i < BINS; i += (int)blockDim.x) bins[i] = atomicExch(all + i, 0u);
    __syncthreads();
    return 1;
}

static __global__ void __launch_bounds__(THREADS) contest_round_kernel(lh_contest c, int round)
{
    __shared__ unsigned bins[BINS];
    int64_t h = blockIdx.y;
    if (c.lines[h].stands) return;
    count_round(c, h, round, c.lines[h].at, bins);
    if (gather_bins(c, h, bins)) choose_bin(c, h, round, bins, c.lines + h);
}

static __global__ void __launch_bounds__(THREADS) contest_mark_kernel(lh_contest c)
{
    mark(c, blockIdx.y, c.lines[blockIdx.y].at);
}

static lh_status hold_long(lh_stream *stream, const char *name, lh_contest *c)
{
    int64_t heads = c->kv.heads, bytes = heads * (int64_t)(sizeof(lh_line) + (BINS + 1) * sizeof(unsigned));
    lh_shape shape = lh_over_slots(heads, c->ld, THREADS, SLOTS);
    LH_TRY(lh_stream_scratch(stream, &c->lines, bytes));
    LH_TRY(lh_stream_zero(stream, c->lines, bytes));
    c->bins = (unsigned *)(c->lines + heads);
    c->arrived = c->bins + heads * BINS;
    for (int round = 0; round < ROUNDS; round++)
        LH_TRY(lh_launch(stream, name, shape, contest_round_kernel, *c, round));
    LH_TRY(lh_launch(stream, name, shape, contest_mark_kernel, *c));
    return LH_OK;
}

/* Of a short row: some slots for each, and a power of two, so that all have as many bins. */
static int threads_for(int64_t ld)
{
    int threads = LEAST_THREADS;
    while (threads < THREADS && threads * 4 < ld) threads *= 2;
    return threads;
}

static lh_status hold(lh_stream *stream, const char *name, lh_contest *c)
{
    if (c->kv.heads == 0 || c->ld == 0) return LH_OK;
    if (c->ld > SHORT) return hold_long(stream, name, c);
    lh_shape shape = {dim3(1, (unsigned)c->kv.heads), threads_for(c->ld), 0};
    return lh_launch(stream, name, shape, contest_kernel, *c);
}

lh_status lh_cuda_select_top(lh_stream *stream, const lh_select_top_args *a)
{
    lh_contest c = {};
    c.kv = *a->kv;
    c.scores = a->scores;
    c.state = a->state;
    c.counts = a->counts;
    c.ld = a->ld;
    c.others = a->others;
    return hold(stream, "select_top", &c);
}
