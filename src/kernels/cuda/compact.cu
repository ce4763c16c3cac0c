/* Moving kept entries together, in two kernels. The first lists a head's slots: those that are kept, and where holes
 * are filled the others. The second moves by the list, and its blocks share the bytes of a head in two ways. As a rule
 * along the entries: elsewhere nothing is read that is written, and filling holes reads after the kept entries' new end
 * and writes before it. In place and in order an entry is written where another one has been, so one block moves all
 * entries, front to back, but only a slice of their bytes: no two blocks touch the same. Bytes: one per slot for the
 * states, four for each listed slot, twice those of the entries that move. */
#include "kernels/cuda/entries.cuh"

/* EACH: numbers of a thread under way. THREADS: of a block that shares the entries; ORDERED_THREADS: of one that moves
 * all of them. */
enum { LIST_THREADS = 1024, THREADS = 256, ORDERED_THREADS = 1024, EACH = 4, SLICE_BYTES = 64 };

/* Slots that are listed at once, 4 bytes each, where that is more than one cache has. */
enum { LISTED = 1 << 24 };

typedef struct compact_plan {
    lh_caches dst, src;
    const uint8_t *state; /* of their rows, [rows, ld] */
    int64_t ld;
    int units, columns; /* units of a key or a value; of these in a slice */
    int is_in_place, is_fill;
    int32_t *list;  /* [rows, ld] kept slots; from the end of a row backwards, holes */
    int32_t *stays; /* [rows] kept entries that are where they belong: the first of the list */
} compact_plan;

/* A head of one of the caches: a row. */
typedef struct compact_head {
    const lh_ragged *dst, *src;
    int64_t head, to, from, kept;
    const int32_t *list;
} compact_head;

/* Of blockIdx.z, once it is listed. */
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

/* A block a row. The length that is written may be the one that was read. */
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

/* Numbers first … first + columns - 1 (at most as many as threads) of the entries that move, which have `width` numbers
 * each. Entries move towards the front only: what is written has been read, before the barrier or in an earlier turn.
 */
template <typename T>
static __device__ void move_columns(const compact_plan &p, const compact_head &h, T *dst, const T *src, int64_t width,
                                    int64_t first, int columns)
{
    const int32_t *holes = h.list + p.ld - h.kept; /* entry i is for holes[i] */
    const int rows = (int)blockDim.x / columns, row = (int)threadIdx.x / columns;
    const int64_t column = first + threadIdx.x % (unsigned)columns, step = (int64_t)gridDim.x * rows;
    for (int64_t n = p.stays[blockIdx.z] + (int64_t)blockIdx.x * rows; n < h.kept; n += EACH * step) {
        T x[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int64_t i = n + k * step + row;
            x[k] = src[(h.from + h.list[i < h.kept ? i : h.kept - 1]) * width + column];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int64_t i = n + k * step + row;
            if (row < rows && i < h.kept) dst[(h.to + (p.is_fill ? holes[i] : i)) * width + column] = x[k];
        }
    }
}

/* Elsewhere, what the source does not have: positions are slots, biases 0. */
static __device__ void put_missing(const compact_head &h)
{
    for (int64_t i = lh_grid_first(); i < h.kept; i += lh_grid_step()) {
        if (!h.src->positions) h.dst->positions[h.to + i] = h.list[i];
        if (h.dst->bias && !h.src->bias) h.dst->bias[h.to + i] = 0.0f;
    }
}

/* blockIdx.y: slices of keys, as many of values, and at last what else an entry has. */
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
    if (src.positions) move_columns(p, h, dst.positions, src.positions, 1, 0, 1);
    if (dst.bias && src.bias) move_columns(p, h, dst.bias, src.bias, 1, 0, 1);
    put_missing(h);
}

/* ---- on the host ---- */

/* 1 if keys and values can be moved 16 bytes at a time. */
static int is_wide(const lh_compact_args *a, int64_t entry_bytes)
{
    uintptr_t all = (uintptr_t)entry_bytes;
    for (int64_t b = 0; b < a->batch; b++)
        all |= (uintptr_t)a->dst[b].k | (uintptr_t)a->dst[b].v | (uintptr_t)a->src[b].k | (uintptr_t)a->src[b].v;
    return all % sizeof(uint4) == 0;
}

/* The caches of `p`. */
static lh_status compact_some(lh_stream *stream, compact_plan *p, int64_t unit)
{
    const int64_t rows = p->src.rows;
    const int ordered = p->is_in_place && !p->is_fill, most = ordered ? (int)(SLICE_BYTES / unit) : +THREADS;
    p->columns = p->units < most ? p->units : most;
    const int parts = 2 * ((p->units - 1) / p->columns + 1) + 1;
    const unsigned blocks = ordered ? 1 : lh_blocks_per_head(stream, rows * parts);
    const int64_t threads = (p->ld / LH_MARKS / LH_WARP + 1) * LH_WARP;
    const lh_shape lists = {dim3((unsigned)rows), (int)(threads < LIST_THREADS ? threads : +LIST_THREADS), 0};
    const lh_shape moves = {dim3(blocks, (unsigned)parts, (unsigned)rows), ordered ? ORDERED_THREADS : THREADS, 0};
    LH_TRY(lh_stream_scratch(stream, &p->list, rows * (p->ld + 1) * (int64_t)sizeof *p->list));
    p->stays = p->list + rows * p->ld;
    LH_TRY(lh_launch(stream, "compact", lists, list_kernel, *p));
    LH_TRY(lh_launch(stream, "compact", moves, unit == sizeof(uint4) ? move_kernel<uint4> : move_kernel<uint16_t>, *p));
    return LH_OK;
}

lh_status lh_cuda_compact(lh_stream *stream, const lh_compact_args *a)
{
    const int64_t bytes = a->src->head_dim * lh_dtype_bytes(a->src->type);
    const int64_t unit = is_wide(a, bytes) ? (int64_t)sizeof(uint4) : (int64_t)sizeof(uint16_t);
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
