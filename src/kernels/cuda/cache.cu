/* Appending to ragged caches, after the norms and the rotation of queries and keys, in one kernel: a row of a head is
 * read once. A block has the rows of WARPS heads of one token, or of all its heads if there are enough tokens, and
 * computes their sines and cosines once. A warp appends the key that it has rotated, and the value. If a single token
 * is appended its warps raise the lengths; else a second kernel does, after all have read them. Bytes: 8 per number of
 * queries, 14 of keys, 6 of values, and 2 more in f32. Further: query rows in a ring, gathering and compacting entries.
 */
#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/q8.cuh"
#include "kernels/elementwise.h"

/* BUSY: blocks per multiprocessor from which on a block has all heads of a token. */
enum { SEQS = 24, WARPS = 8, THREADS = WARPS * LH_WARP, BUSY = 4 };

/* Some sequences of a batch; `first` is the first row of the first one. */
typedef struct append_slice {
    lh_ragged seqs[SEQS];
    lh_rope_append_args all;
    int64_t first;
    int width; /* numbers moved in one access */
} append_slice;

/* Sines and cosines of a row, [rotary / 2] each, in shared memory. */
typedef struct turn {
    const float *sines, *cosines;
} turn;

static __device__ turn turn_of(const lh_rope_args &a, int64_t row)
{
    const int64_t half = a.rotary / 2;
    float *sines = (float *)lh_shared(), *cosines = sines + half;
    for (int64_t i = threadIdx.x; i < half; i += THREADS) {
        float s, c;
        sincosf((float)a.positions[row] * a.inv_freq[i], &s, &c);
        sines[i] = s * a.scale;
        cosines[i] = c * a.scale;
    }
    __syncthreads();
    return turn{sines, cosines};
}

static __device__ __forceinline__ void norm_head(const lh_rmsnorm_args &a, int64_t row, int64_t h, int width)
{
    const float *x = a.x + row * a.x_ld + h * a.dim;
    lh_lanes own = {lh_lane(), LH_WARP};
    if (!a.heads) return;
    float mean = a.squares ? lh_mean_of_given(a, row) : lh_warp_sum(lh_squares_of(x, a.dim, own, width)) / (float)a.dim;
    lh_norm_row((float *)a.y + row * a.y_ld + h * a.dim, x, a.w + h * a.w_ld, a, mean, own, width);
    __syncwarp();
}

static __device__ __forceinline__ void rotate(float *low, float *high, float c, float s)
{
    const float x = *low, y = *high;
    *low = fmaf(x, c, -__fmul_rn(y, s));
    *high = fmaf(y, c, __fmul_rn(x, s));
}

static __device__ __forceinline__ void rotate_head(const lh_rope_args &a, const turn &by, int64_t row, int64_t h,
                                                   int width)
{
    const int64_t half = a.rotary / 2;
    float *low = a.x + row * a.ld + h * a.dim, *high = low + half;
    if (!a.heads) return;
    const float factor = lh_query_factor(&a.scaling, a.positions[row]);
    if (width == 4 && (half | a.dim) % 2 == 0) {
        for (int64_t i = 2 * lh_lane(); i < half; i += 2 * LH_WARP) {
            float2 x = *(float2 *)(low + i), y = *(float2 *)(high + i);
            rotate(&x.x, &y.x, by.cosines[i] * factor, by.sines[i] * factor);
            rotate(&x.y, &y.y, by.cosines[i + 1] * factor, by.sines[i + 1] * factor);
            *(float2 *)(low + i) = x;
            *(float2 *)(high + i) = y;
        }
    } else {
        for (int64_t i = lh_lane(); i < half; i += LH_WARP)
            rotate(low + i, high + i, by.cosines[i] * factor, by.sines[i] * factor);
    }
    __syncwarp();
}

/* Stores n numbers of a key and of a value. */
template <typename T>
static __device__ __forceinline__ void append_numbers(T *k, T *v, const float *key, const float *value, int64_t n,
                                                      int width)
{
    for (int64_t i = 4 * lh_lane(); i < n; i += 4 * LH_WARP) {
        const lh_four x = lh_get4(key + i, n - i, width), y = lh_get4(value + i, n - i, width);
        lh_put4(k + i, x, n - i, width);
        lh_put4(v + i, y, n - i, width);
    }
}

/* Quantises a key and a value to a slot of a cache of q8. */
static __device__ __forceinline__ void append_codes(const lh_ragged &kv, int64_t slot, const float *key,
                                                    const float *value, int width)
{
    const int64_t d = kv.head_dim, first = LH_OF_LANE * lh_lane();
    float x[LH_OF_LANE], y[LH_OF_LANE];
    lh_get_of_lane(x, key + first, d - first, width);
    lh_get_of_lane(y, value + first, d - first, width);
    lh_hadamard(x, (int)d);
    lh_quantise((int8_t *)kv.k + slot * d, kv.k_scale + slot, x, d, width);
    lh_quantise((int8_t *)kv.v + slot * d, kv.v_scale + slot, y, d, width);
}

/* Stores key and value of head h in `row` as the entry in `slot`. */
static __device__ void append_entry(const append_slice &a, const lh_ragged &kv, int64_t row, int64_t h, int64_t slot)
{
    const lh_append_args &args = a.all.append;
    const int64_t d = kv.head_dim, to = slot * d, at = row * args.ld + h * d;
    if (kv.type == LH_Q8)
        append_codes(kv, slot, args.k + at, args.v + at, a.width);
    else if (kv.type == LH_F32)
        append_numbers((float *)kv.k + to, (float *)kv.v + to, args.k + at, args.v + at, d, a.width);
    else
        append_numbers((__nv_bfloat16 *)kv.k + to, (__nv_bfloat16 *)kv.v + to, args.k + at, args.v + at, d, a.width);
    for (int64_t c = lh_lane(); kv.stats && c < kv.stat_count; c += LH_WARP) kv.stats[slot * kv.stat_count + c] = 0.0f;
    if (lh_lane() > 0) return;
    if (kv.positions) kv.positions[slot] = args.positions[row];
    if (kv.bias) kv.bias[slot] = 0.0f;
}

/* Head h of a row: query heads come first, then KV heads. */
static __device__ __forceinline__ void append_head(const append_slice &a, const turn &by, int64_t row, int64_t h)
{
    const lh_rope_append_args &all = a.all;
    const lh_ragged &kv = a.seqs[blockIdx.z];
    if (h < all.q.heads) {
        norm_head(all.q_norm, row, h, a.width);
        rotate_head(all.q, by, row, h, a.width);
        return;
    }
    h -= all.q.heads;
    const int64_t first = kv.offset[h], len = kv.len[h];
    norm_head(all.k_norm, row, h, a.width);
    rotate_head(all.k, by, row, h, a.width);
    append_entry(a, kv, row, h, first + len + blockIdx.x);
    __syncwarp(); /* all lanes have read the length */
    if (all.append.tokens == 1 && !all.append.leaves_len && lh_lane() == 0) kv.len[h] = len + 1;
}

/* Blocks: tokens, heads, sequences. No kernel computes positions and frequencies: they come by copies. */
static __global__ void __launch_bounds__(THREADS) append_kernel(const __grid_constant__ append_slice a)
{
    const lh_rope_append_args &all = a.all;
    const int64_t row = a.first + blockIdx.z * all.append.tokens + blockIdx.x,
                  heads = all.q.heads + a.seqs[blockIdx.z].heads;
    turn by = {NULL, NULL};
    lh_let_next_start();
    if (all.q.heads || all.k.heads) by = turn_of(all.q.heads ? all.q : all.k, row);
    lh_wait_before();
    for (int64_t h = (int64_t)blockIdx.y * WARPS + lh_warp(); h < heads; h += gridDim.y * WARPS)
        append_head(a, by, row, h);
}

static __global__ void raise_kernel(const __grid_constant__ append_slice a)
{
    const lh_ragged &kv = a.seqs[blockIdx.z];
    for (int64_t h = threadIdx.x; h < kv.heads; h += blockDim.x) kv.len[h] += a.all.append.tokens;
}

/* In rows and caches. */
static int width_of(const lh_rope_append_args *all)
{
    const lh_append_args *a = &all->append;
    int is_wide = lh_width(a->k, a->ld, LH_F32) == 4 && lh_width(a->v, a->ld, LH_F32) == 4;
    is_wide = is_wide && (!all->q.heads || lh_width(all->q.x, all->q.ld, LH_F32) == 4);
    is_wide = is_wide && (!all->q_norm.heads || lh_norm_width(&all->q_norm) == 4);
    is_wide = is_wide && (!all->k_norm.heads || lh_norm_width(&all->k_norm) == 4);
    for (int64_t b = 0; b < a->batch; b++) {
        const lh_ragged *kv = &a->seqs[b];
        is_wide = is_wide && lh_width(kv->k, kv->head_dim, kv->type) == 4;
        is_wide = is_wide && lh_width(kv->v, kv->head_dim, kv->type) == 4;
    }
    return is_wide ? 4 : 1;
}

/* A warp quantises a row. */
static lh_status check_rows(const lh_append_args *a)
{
    for (int64_t b = 0; b < a->batch; b++)
        if (a->seqs[b].type == LH_Q8 && a->seqs[b].head_dim > LH_ROW_OF_WARP)
            LH_FAIL(LH_EINTERNAL, "append of q8 on a GPU: heads of %lld dimensions, more than %d",
                    (long long)a->seqs[b].head_dim, +LH_ROW_OF_WARP);
    return LH_OK;
}

lh_status lh_cuda_rope_append(lh_stream *stream, const lh_rope_append_args *all)
{
    const lh_append_args *a = &all->append;
    int64_t rotary = all->q.heads ? all->q.rotary : all->k.heads ? all->k.rotary : 0;
    append_slice slice = {};
    LH_TRY(check_rows(a));
    slice.all = *all;
    slice.width = width_of(all);
    for (int64_t b = 0; b < a->batch; b += SEQS) {
        unsigned count = (unsigned)(a->batch - b < SEQS ? a->batch - b : (int64_t)SEQS);
        int64_t heads = 0;
        for (unsigned i = 0; i < count; i++) {
            slice.seqs[i] = a->seqs[b + i];
            heads = slice.seqs[i].heads > heads ? slice.seqs[i].heads : heads;
        }
        slice.first = b * a->tokens;
        heads += all->q.heads;
        const int is_busy = a->tokens * count >= BUSY * lh_cuda_processors(stream);
        const lh_shape shape = {dim3((unsigned)a->tokens, is_busy ? 1 : (unsigned)((heads + WARPS - 1) / WARPS), count),
                                THREADS, rotary * (int64_t)sizeof(float)};
        LH_TRY(lh_launch_early(stream, "append", shape, append_kernel, slice));
        if (a->tokens > 1 && !a->leaves_len)
            LH_TRY(lh_launch(stream, "append", lh_shape{dim3(1, 1, count), LH_WARP, 0}, raise_kernel, slice));
    }
    return LH_OK;
}

lh_status lh_cuda_append(lh_stream *stream, const lh_append_args *a)
{
    lh_rope_append_args all = {};
    all.append = *a;
    return lh_cuda_rope_append(stream, &all);
}

/* ---- query rows in a ring ---- */

/* A row that a later one replaces is skipped: no two blocks write to one place. */
static __global__ void put_rows_kernel(lh_put_rows_args a, int width)
{
    for (int64_t t = blockIdx.y; t < a.tokens; t += gridDim.y) {
        int64_t p = a.positions[t];
        if (p >= a.head && t + a.rows - a.head < a.tokens) continue;
        float *row = a.ring + lh_ring_place(p, a.rows, a.head) * a.width;
        for (int64_t i = 4 * lh_grid_first(); i < a.width; i += 4 * lh_grid_step())
            lh_put4(row + i, lh_get4(a.x + t * a.x_ld + i, a.width - i, width), a.width - i, width);
    }
}

lh_status lh_cuda_put_rows(lh_stream *stream, const lh_put_rows_args *a)
{
    int width = lh_width(a->ring, a->width, LH_F32) == 4 && lh_width(a->x, a->x_ld, LH_F32) == 4 ? 4 : 1;
    return lh_launch(stream, "put_rows", lh_fours_shape(a->tokens, a->width), put_rows_kernel, *a, width);
}

/* ---- entries of a head in any order: threads along the units of keys and values, 16 bytes or one ---- */

enum { GATHER_THREADS = 256, EACH = 4 };

typedef struct gather_plan {
    lh_ragged dst, src;
    const int32_t *order;
    int64_t head, count, units; /* units of a key or a value */
} gather_plan;

template <typename Unit>
static __global__ void gather_kernel(const __grid_constant__ gather_plan p)
{
    const int64_t to = p.dst.offset[0], from = p.src.offset[p.head], all = p.count * 2 * p.units;
    if (lh_grid_first() == 0) p.dst.len[0] = p.count;
    for (int64_t n = lh_grid_first(); n < all; n += lh_grid_step()) {
        int64_t part = n / p.units, unit = n - part * p.units, i = part / 2, s = p.order[i];
        const int is_value = part % 2 != 0;
        Unit *y = (Unit *)(is_value ? p.dst.v : p.dst.k);
        y[(to + i) * p.units + unit] = ((const Unit *)(is_value ? p.src.v : p.src.k))[(from + s) * p.units + unit];
        if (unit > 0) continue;
        if (p.src.type == LH_Q8)
            (is_value ? p.dst.v_scale : p.dst.k_scale)[to + i] = (is_value ? p.src.v_scale : p.src.k_scale)[from + s];
        if (!is_value) p.dst.positions[to + i] = (int32_t)lh_position(&p.src, p.head, s);
        if (is_value && p.dst.bias) p.dst.bias[to + i] = p.src.bias ? p.src.bias[from + s] : 0.0f;
    }
}

/* Sets the length even without entries. */
lh_status lh_cuda_gather_entries(lh_stream *stream, const lh_gather_entries_args *a)
{
    const int64_t bytes = a->src->head_dim * lh_dtype_bytes(a->src->type);
    const uintptr_t all = (uintptr_t)a->dst->k | (uintptr_t)a->dst->v | (uintptr_t)a->src->k | (uintptr_t)a->src->v;
    const int is_wide = all % sizeof(uint4) == 0 && bytes % (int64_t)sizeof(uint4) == 0;
    const int64_t units = bytes / (int64_t)(is_wide ? sizeof(uint4) : sizeof(uint8_t));
    const gather_plan p = {*a->dst, *a->src, a->order, a->head, a->count, units};
    const unsigned blocks = lh_blocks(a->count * 2 * units, GATHER_THREADS * EACH);
    const lh_shape shape = {dim3(blocks ? blocks : 1), GATHER_THREADS, 0};
    return lh_launch(stream, "gather_entries", shape, is_wide ? gather_kernel<uint4> : gather_kernel<uint8_t>, p);
}

/* ---- compaction, in two kernels ----
 *
 * The first lists a head's slots: the kept ones, and the holes if they are filled. The second moves by the list, and
 * its blocks share the bytes of a head in one of two ways. Usually along the entries: a copy to another cache never
 * reads written memory, and filling holes reads after the new end of kept entries and writes before it. In place and in
 * order an entry overwrites another one, so one block moves all entries, front to back, but only a slice of their
 * bytes: no two blocks touch the same bytes. Bytes: one per slot for the states, four for each listed slot, and twice
 * the bytes of the moved entries. */

/* COMPACT_EACH: numbers of a thread in flight. COMPACT_THREADS: threads of a block that shares the entries;
 * ORDERED_THREADS: of a block that moves all of them. */
enum { LIST_THREADS = 1024, COMPACT_THREADS = 256, ORDERED_THREADS = 1024, COMPACT_EACH = 4, SLICE_BYTES = 64 };

/* Slots listed in one launch, 4 bytes each, if that is more than one cache. */
enum { LISTED = 1 << 24 };

typedef struct compact_plan {
    lh_caches dst, src;
    const uint8_t *state; /* [rows, ld] states of their rows */
    int64_t ld;
    int units, columns; /* units of a key or a value; units in a slice */
    int is_in_place, is_fill;
    int32_t *list;  /* [rows, ld] kept slots; from the end of a row backwards, holes */
    int32_t *stays; /* [rows] kept entries already in place: the first of the list */
} compact_plan;

/* A head of one of the caches: a row. */
typedef struct compact_head {
    const lh_ragged *dst, *src;
    int64_t head, to, from, kept;
    const int32_t *list;
} compact_head;

/* The head of blockIdx.z, after it was listed. */
static __device__ __forceinline__ compact_head head_of(const compact_plan &p)
{
    compact_head h;
    const int64_t row = blockIdx.z;
    h.src = lh_cache_of_row(p.src.at, row, &h.head);
    h.dst = lh_cache_of_row(p.dst.at, row, &h.head);
    h.to = h.dst->offset[h.head];
    h.from = h.src->offset[h.head];
    h.kept = h.dst->len[h.head];
    h.list = p.list + row * p.ld;
    return h;
}

/* One block per row. The written length may be the one that is read. */
static __global__ void __launch_bounds__(LIST_THREADS) list_kernel(const __grid_constant__ compact_plan p)
{
    __shared__ int32_t room[LH_WARP];
    int64_t row = blockIdx.x, h, len = lh_cache_of_row(p.src.at, row, &h)->len[h];
    int32_t *list = p.list + row * p.ld, kept = 0, stays = 0, total;
    for (int64_t first = 0; first < len; first += blockDim.x * LH_MARKS) {
        int64_t s = first + threadIdx.x * LH_MARKS, end = s + LH_MARKS < len ? s + LH_MARKS : len;
        unsigned marks = lh_marks_of(p.state + row * p.ld + s, len - s, LH_ENTRY_KEEP);
        int64_t before = kept + lh_block_before(__popc(marks), room, &total);
        for (; s < end; s++, marks >>= 1) {
            if (marks & 1)
                list[before++] = (int32_t)s;
            else if (p.is_fill)
                list[p.ld - 1 - (s - before)] = (int32_t)s;
        }
        kept += total;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < kept && p.is_in_place; i += (int)blockDim.x)
        stays += p.is_fill ? list[i] < kept : list[i] == i;
    stays = lh_block_sum(stays, room);
    if (threadIdx.x > 0) return;
    p.stays[row] = stays;
    lh_cache_of_row(p.dst.at, row, &h)->len[h] = kept;
}

/* Moves numbers first … first + columns - 1 (at most one per thread) of the entries, which have `width` numbers each.
 * Entries only move towards the front: a written number was read before the barrier, or in an earlier iteration. */
template <typename T>
static __device__ void move_columns(const compact_plan &p, const compact_head &h, T *dst, const T *src, int64_t width,
                                    int64_t first, int columns)
{
    const int32_t *holes = h.list + p.ld - h.kept; /* entry i is for holes[i] */
    const int rows = (int)blockDim.x / columns, row = (int)threadIdx.x / columns;
    const int64_t column = first + threadIdx.x % (unsigned)columns, step = (int64_t)gridDim.x * rows;
    for (int64_t n = p.stays[blockIdx.z] + (int64_t)blockIdx.x * rows; n < h.kept; n += COMPACT_EACH * step) {
        T x[COMPACT_EACH];
#pragma unroll
        for (int k = 0; k < COMPACT_EACH; k++) {
            int64_t i = n + k * step + row;
            x[k] = src[(h.from + h.list[i < h.kept ? i : h.kept - 1]) * width + column];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < COMPACT_EACH; k++) {
            int64_t i = n + k * step + row;
            if (row < rows && i < h.kept) dst[(h.to + (p.is_fill ? holes[i] : i)) * width + column] = x[k];
        }
    }
}

/* In another cache, fills in data that the source lacks: positions are slots, biases 0. */
static __device__ void put_missing(const compact_head &h)
{
    for (int64_t i = lh_grid_first(); i < h.kept; i += lh_grid_step()) {
        if (!h.src->positions) h.dst->positions[h.to + i] = h.list[i];
        if (h.dst->bias && !h.src->bias) h.dst->bias[h.to + i] = 0.0f;
    }
}

/* blockIdx.y: slices of keys, the same number for values, then scales, positions, biases and statistics. */
template <typename Unit>
static __global__ void __launch_bounds__(ORDERED_THREADS) move_kernel(const __grid_constant__ compact_plan p)
{
    const compact_head h = head_of(p);
    const lh_ragged &dst = *h.dst, &src = *h.src;
    const int slices = (int)gridDim.y / 2, part = (int)blockIdx.y / slices;
    if (part < 2) {
        int first = (int)blockIdx.y % slices * p.columns, left = p.units - first;
        move_columns(p, h, (Unit *)(part ? dst.v : dst.k), (const Unit *)(part ? src.v : src.k), p.units, first,
                     left < p.columns ? left : p.columns);
        return;
    }
    const int64_t stats = dst.stats ? dst.stat_count : 0, most = blockDim.x;
    for (int64_t c = 0; c < stats; c += most)
        move_columns(p, h, dst.stats, src.stats, stats, c, (int)(stats - c < most ? stats - c : most));
    if (src.type == LH_Q8) move_columns(p, h, dst.k_scale, src.k_scale, 1, 0, 1);
    if (src.type == LH_Q8) move_columns(p, h, dst.v_scale, src.v_scale, 1, 0, 1);
    if (src.positions) move_columns(p, h, dst.positions, src.positions, 1, 0, 1);
    if (dst.bias && src.bias) move_columns(p, h, dst.bias, src.bias, 1, 0, 1);
    put_missing(h);
}

/* ---- on the host ---- */

/* Returns 1 if keys and values can be moved 16 bytes at a time. */
static int is_wide(const lh_compact_args *a, int64_t entry_bytes)
{
    uintptr_t all = (uintptr_t)entry_bytes;
    for (int64_t b = 0; b < a->batch; b++)
        all |= (uintptr_t)a->dst[b].k | (uintptr_t)a->dst[b].v | (uintptr_t)a->src[b].k | (uintptr_t)a->src[b].v;
    return all % sizeof(uint4) == 0;
}

/* Compacts the caches of `p`. */
static lh_status compact_some(lh_stream *stream, compact_plan *p, int64_t unit)
{
    const int64_t rows = p->src.rows;
    const int ordered = p->is_in_place && !p->is_fill, most = ordered ? (int)(SLICE_BYTES / unit) : +COMPACT_THREADS;
    p->columns = p->units < most ? p->units : most;
    const int parts = 2 * ((p->units - 1) / p->columns + 1) + 1;
    const unsigned blocks = ordered ? 1 : lh_blocks_per_head(stream, rows * parts);
    const int64_t threads = (p->ld / LH_MARKS / LH_WARP + 1) * LH_WARP;
    const lh_shape lists = {dim3((unsigned)rows), (int)(threads < LIST_THREADS ? threads : +LIST_THREADS), 0};
    const lh_shape moves = {dim3(blocks, (unsigned)parts, (unsigned)rows), ordered ? ORDERED_THREADS : COMPACT_THREADS,
                            0};
    LH_TRY(lh_stream_scratch(stream, &p->list, rows * (p->ld + 1) * (int64_t)sizeof *p->list));
    p->stays = p->list + rows * p->ld;
    LH_TRY(lh_launch(stream, "compact", lists, list_kernel, *p));
    LH_TRY(lh_launch(stream, "compact", moves, unit == sizeof(uint4) ? move_kernel<uint4> : move_kernel<uint8_t>, *p));
    return LH_OK;
}

lh_status lh_cuda_compact(lh_stream *stream, const lh_compact_args *a)
{
    const int64_t bytes = a->src->head_dim * lh_dtype_bytes(a->src->type);
    const int64_t unit = is_wide(a, bytes) ? (int64_t)sizeof(uint4) : (int64_t)sizeof(uint8_t);
    const int64_t slots = a->src->heads * a->ld + 1, most = slots < LISTED ? LISTED / slots : 1;
    compact_plan p = {};
    p.ld = a->ld;
    p.units = (int)(bytes / unit);
    p.is_in_place = a->dst->k == a->src->k;
    p.is_fill = a->kind == LH_COMPACT_FILL;
    for (int64_t from = 0; from < a->batch; from += p.src.count) {
        const int64_t end = lh_min_i64(from + most, a->batch);
        p.dst = lh_caches_from(a->dst, from, end);
        p.src = lh_caches_from(a->src, from, end);
        p.state = a->state + p.src.first * a->ld;
        LH_TRY(compact_some(stream, &p, unit));
    }
    return LH_OK;
}
