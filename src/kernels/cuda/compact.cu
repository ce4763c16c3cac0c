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

typedef struct compact_plan {
    lh_ragged dst, src;
    const uint8_t *state; /* [heads, ld] */
    int64_t ld;
    int units, columns; /* units of a key or a value; of these in a slice */
    int is_in_place, is_fill;
    int32_t *list;  /* [heads, ld] kept slots; from the end of a head's row backwards, holes */
    int32_t *stays; /* [heads] kept entries that are where they belong: the first of the list */
} compact_plan;

/* A block a head. The length that is written may be the one that was read. */
static __global__ void __launch_bounds__(LIST_THREADS) list_kernel(const __grid_constant__ compact_plan p)
{
    __shared__ int32_t room[LH_WARP];
    const int64_t h = blockIdx.x, len = p.src.len[h];
    int32_t *list = p.list + h * p.ld, kept = 0, stays = 0, total;
    for (int64_t first = 0; first < len; first += blockDim.x * LH_MARKS) {
        int64_t s = first + threadIdx.x * LH_MARKS, end = s + LH_MARKS < len ? s + LH_MARKS : len;
        unsigned marks = lh_marks_of(p.state + h * p.ld + s, len - s, LH_ENTRY_KEEP);
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
    p.stays[h] = stays;
    p.dst.len[h] = kept;
}

/* Numbers first … first + columns - 1 (at most as many as threads) of the entries that move, which have `width` numbers
 * each. Entries move towards the front only: what is written has been read, before the barrier or in an earlier turn.
 */
template <typename T>
static __device__ void move_columns(const compact_plan &p, T *dst, const T *src, int64_t width, int64_t first,
                                    int columns)
{
    const int64_t h = blockIdx.z, to = p.dst.offset[h], from = p.src.offset[h], kept = p.dst.len[h];
    const int32_t *list = p.list + h * p.ld, *holes = list + p.ld - kept; /* entry i is for holes[i] */
    const int rows = (int)blockDim.x / columns, row = (int)threadIdx.x / columns;
    const int64_t column = first + threadIdx.x % (unsigned)columns, step = (int64_t)gridDim.x * rows;
    for (int64_t n = p.stays[h] + (int64_t)blockIdx.x * rows; n < kept; n += EACH * step) {
        T x[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int64_t i = n + k * step + row;
            x[k] = src[(from + list[i < kept ? i : kept - 1]) * width + column];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int64_t i = n + k * step + row;
            if (row < rows && i < kept) dst[(to + (p.is_fill ? holes[i] : i)) * width + column] = x[k];
        }
    }
}

/* Elsewhere, what the source does not have: positions are slots, biases 0. */
static __device__ void put_missing(const compact_plan &p)
{
    const int64_t h = blockIdx.z, to = p.dst.offset[h], kept = p.dst.len[h];
    for (int64_t i = lh_grid_first(); i < kept; i += lh_grid_step()) {
        if (!p.src.positions) p.dst.positions[to + i] = p.list[h * p.ld + i];
        if (p.dst.bias && !p.src.bias) p.dst.bias[to + i] = 0.0f;
    }
}

/* blockIdx.y: slices of keys, as many of values, and at last what else an entry has. */
template <typename Unit>
static __global__ void __launch_bounds__(ORDERED_THREADS) move_kernel(const __grid_constant__ compact_plan p)
{
    const int slices = (int)gridDim.y / 2, part = (int)blockIdx.y / slices;
    if (part < 2) {
        int first = (int)blockIdx.y % slices * p.columns, left = p.units - first;
        move_columns(p, (Unit *)(part ? p.dst.v : p.dst.k), (const Unit *)(part ? p.src.v : p.src.k), p.units, first,
                     left < p.columns ? left : p.columns);
        return;
    }
    const int64_t stats = p.dst.stats ? p.dst.stat_count : 0, most = blockDim.x;
    for (int64_t c = 0; c < stats; c += most)
        move_columns(p, p.dst.stats, p.src.stats, stats, c, (int)(stats - c < most ? stats - c : most));
    if (p.src.positions) move_columns(p, p.dst.positions, p.src.positions, 1, 0, 1);
    if (p.dst.bias && p.src.bias) move_columns(p, p.dst.bias, p.src.bias, 1, 0, 1);
    put_missing(p);
}

/* ---- on the host ---- */

/* 1 if keys and values can be moved 16 bytes at a time. */
static int is_wide(const lh_compact_args *a, int64_t entry_bytes)
{
    uintptr_t all = (uintptr_t)a->dst->k | (uintptr_t)a->dst->v | (uintptr_t)a->src->k | (uintptr_t)a->src->v;
    return all % sizeof(uint4) == 0 && entry_bytes % (int64_t)sizeof(uint4) == 0;
}

lh_status lh_cuda_compact(lh_stream *stream, const lh_compact_args *a)
{
    const int64_t heads = a->src->heads, bytes = a->src->head_dim * lh_dtype_bytes(a->src->type);
    const int wide = is_wide(a, bytes), unit = wide ? (int)sizeof(uint4) : (int)sizeof(uint16_t);
    const int in_place = a->dst->k == a->src->k, fill = a->kind == LH_COMPACT_FILL, ordered = in_place && !fill;
    const int units = (int)bytes / unit, most = ordered ? SLICE_BYTES / unit : +THREADS;
    const int columns = units < most ? units : most, parts = 2 * ((units - 1) / columns + 1) + 1;
    const unsigned blocks = ordered ? 1 : lh_blocks_per_head(stream, heads * parts);
    const int64_t threads = (a->ld / LH_MARKS / LH_WARP + 1) * LH_WARP;
    const lh_shape lists = {dim3((unsigned)heads), (int)(threads < LIST_THREADS ? threads : +LIST_THREADS), 0};
    const lh_shape moves = {dim3(blocks, (unsigned)parts, (unsigned)heads), ordered ? ORDERED_THREADS : THREADS, 0};
    int32_t *list = NULL;
    LH_TRY(lh_stream_scratch(stream, &list, heads * (a->ld + 1) * (int64_t)sizeof *list));
    const compact_plan p = {*a->dst, *a->src,  a->state, a->ld, units,
                            columns, in_place, fill,     list,  list + heads * a->ld};
    LH_TRY(lh_launch(stream, "compact", lists, list_kernel, p));
    LH_TRY(lh_launch(stream, "compact", moves, wide ? move_kernel<uint4> : move_kernel<uint16_t>, p));
    return LH_OK;
}
