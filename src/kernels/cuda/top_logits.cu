/* The largest logits of a row. For few (k <= MOST), level by level: a block takes TILE numbers of a row, finds the k-th
 * largest by radix rounds of 8 bits over their keys and hands on the k best in the order of their columns, until one
 * tile is left, whose best are sorted. 256k columns and k = 256 take three levels; the first reads the row, 4 bytes a
 * number. For more, whole rows are sorted. */
#include "kernels/cuda/candidates.cuh"
#include "kernels/cuda/vector.cuh"

enum { THREADS = 512, EACH = 8, TILE = THREADS * EACH, MOST = 1024, BINS = 256, DIGIT = 8 };

typedef struct top_level {
    lh_top_logits_args a;
    const lh_candidate *in; /* [rows, count], ascending columns; NULL: the logits themselves */
    lh_candidate *out;      /* [rows, out_count], where there is more than one tile */
    int64_t count, out_count;
    int width;
} top_level;

typedef struct top_room {
    int bins[BINS], scan[LH_WARP], digit, left;
    lh_candidate most[LH_WARP], best[MOST];
} top_room;

/* Thread i takes EACH numbers from `first` on, in order; 0, which is below all, after the end. */
static __device__ void load_tile(const top_level &l, int64_t r, int64_t first, lh_candidate *c)
{
    if (!l.in) {
        const float *x = l.a.x + r * l.a.ld;
        for (int j = 0; j < EACH; j += 4) {
            lh_four four = lh_get4(x + first + j, l.count - first - j, l.width);
            for (int i = 0; i < 4; i++)
                c[j + i] = first + j + i < l.count ? lh_candidate_of(four.at[i], first + j + i) : 0;
        }
        return;
    }
    for (int j = 0; j < EACH; j++) c[j] = first + j < l.count ? l.in[r * l.count + first + j] : 0;
}

/* Adds the digits at `shift` of the keys whose upper bits are those of `prefix`. Neighbours are often of one digit:
 * these are added at once. */
static __device__ void count_digits(top_room *room, const lh_candidate *c, uint32_t prefix, int shift)
{
    int count = 0;
    uint32_t digit = 0, above = shift + DIGIT < 32 ? ~0u << (shift + DIGIT) : 0;
    for (int i = (int)threadIdx.x; i < BINS; i += THREADS) room->bins[i] = 0;
    __syncthreads();
    for (int j = 0; j < EACH; j++) {
        if ((lh_candidate_key(c[j]) & above) != prefix) continue;
        uint32_t own = lh_candidate_key(c[j]) >> shift & (BINS - 1);
        if (count && own != digit) {
            atomicAdd(&room->bins[digit], count);
            count = 0;
        }
        digit = own;
        count++;
    }
    if (count) atomicAdd(&room->bins[digit], count);
    __syncthreads();
}

/* The k-th largest key of a tile; of those equal to it the first *ties are among the k. */
static __device__ uint32_t find_key(top_room *room, const lh_candidate *c, int k, int *ties)
{
    uint32_t prefix = 0;
    int left = k, all;
    for (int shift = 32 - DIGIT; shift >= 0; shift -= DIGIT) {
        count_digits(room, c, prefix, shift);
        int digit = BINS - 1 - (int)threadIdx.x, here = digit >= 0 ? room->bins[digit] : 0;
        int before = lh_block_before(here, room->scan, &all); /* in larger digits */
        if (before < left && before + here >= left) {
            room->digit = digit;
            room->left = left - before;
        }
        __syncthreads();
        prefix |= (uint32_t)room->digit << shift;
        left = room->left;
    }
    *ties = left;
    return prefix;
}

/* The k best of a tile to `to`, in the order of their columns. */
static __device__ void hand_on(top_room *room, const lh_candidate *c, int k, lh_candidate *to)
{
    int ties, all, equal = 0, wanted = 0;
    uint32_t key = find_key(room, c, k, &ties);
    for (int j = 0; j < EACH; j++) equal += lh_candidate_key(c[j]) == key;
    int takes = ties - lh_block_before(equal, room->scan, &all);
    takes = takes < 0 ? 0 : takes < equal ? takes : equal;
    for (int j = 0; j < EACH; j++) wanted += lh_candidate_key(c[j]) > key;
    int at = lh_block_before(wanted + takes, room->scan, &all);
    for (int j = 0; j < EACH; j++) {
        uint32_t own = lh_candidate_key(c[j]);
        if (own > key || (own == key && takes-- > 0)) to[at++] = c[j];
    }
}

/* The best of a tile, without all that. */
static __device__ void hand_on_one(top_room *room, const lh_candidate *c, lh_candidate *to)
{
    lh_candidate most = 0;
    for (int j = 0; j < EACH; j++) most = c[j] > most ? c[j] : most;
    most = lh_block_max(most, room->most);
    if (threadIdx.x == 0) *to = most;
}

/* Blocks: tiles, rows. */
static __global__ void __launch_bounds__(THREADS) level_kernel(top_level l)
{
    __shared__ top_room room;
    int64_t first = (int64_t)blockIdx.x * TILE, left = l.count - first;
    int k = (int)(l.a.k < left ? l.a.k : left), is_last = gridDim.x == 1, n = 1;
    while (n < k) n *= 2;
    for (int64_t r = blockIdx.y; r < l.a.rows; r += gridDim.y) {
        lh_candidate c[EACH], *to = is_last ? room.best : l.out + r * l.out_count + blockIdx.x * l.a.k;
        load_tile(l, r, first + (int64_t)threadIdx.x * EACH, c);
        for (int i = (int)threadIdx.x; is_last && i < n; i += THREADS) room.best[i] = 0;
        if (k == 1)
            hand_on_one(&room, c, to);
        else
            hand_on(&room, c, k, to);
        if (!is_last) continue;
        __syncthreads();
        for (int run = 2; run <= n; run *= 2) lh_sort_steps(room.best, n, 0, run, run / 2);
        lh_put_best(l.a, r, room.best);
        __syncthreads(); /* before the next row */
    }
}

static int64_t tiles_of(int64_t count)
{
    return (count + TILE - 1) / TILE;
}

/* Number of candidates that a level hands on from a row of `count`. */
static int64_t handed_on(int64_t count, int64_t k)
{
    int64_t tiles = tiles_of(count), last = count - (tiles - 1) * TILE;
    return (tiles - 1) * k + (k < last ? k : last);
}

lh_status lh_cuda_top_logits(lh_stream *stream, const lh_top_logits_args *a)
{
    const int64_t most_rows = 65535;
    unsigned rows = (unsigned)(a->rows < most_rows ? a->rows : most_rows);
    lh_candidate *room[2];
    top_level l = {*a, NULL, NULL, a->cols, 0, lh_width(a->x, a->ld, LH_F32)};
    if (a->rows == 0 || a->k == 0) return LH_OK;
    if (a->k > MOST) return lh_top_by_sorting(stream, a);
    int64_t once = handed_on(a->cols, a->k), twice = handed_on(once, a->k);
    LH_TRY(lh_stream_scratch(stream, &room[0], a->rows * (once + twice) * (int64_t)sizeof(lh_candidate)));
    room[1] = room[0] + a->rows * once;
    for (int turn = 0;; turn = !turn) {
        int64_t tiles = tiles_of(l.count);
        l.out = room[turn];
        l.out_count = handed_on(l.count, a->k);
        LH_TRY(lh_launch(stream, "top_logits", lh_shape{dim3((unsigned)tiles, rows), THREADS, 0}, level_kernel, l));
        if (tiles == 1) break;
        l.in = l.out;
        l.count = l.out_count;
    }
    return LH_OK;
}
