/* Entries of a head in any order: threads lie along the units of keys and values, of 16 bytes where these allow it.
 * Bytes: twice those of the entries. */
#include "kernels/cuda/launch.cuh"

enum { THREADS = 256, EACH = 4 };

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
        if (!is_value) p.dst.positions[to + i] = (int32_t)lh_position(&p.src, p.head, s);
        if (is_value && p.dst.bias) p.dst.bias[to + i] = p.src.bias ? p.src.bias[from + s] : 0.0f;
    }
}

/* Without entries there is a length all the same. */
lh_status lh_cuda_gather_entries(lh_stream *stream, const lh_gather_entries_args *a)
{
    const int64_t bytes = a->src->head_dim * lh_dtype_bytes(a->src->type);
    const uintptr_t all = (uintptr_t)a->dst->k | (uintptr_t)a->dst->v | (uintptr_t)a->src->k | (uintptr_t)a->src->v;
    const int is_wide = all % sizeof(uint4) == 0 && bytes % (int64_t)sizeof(uint4) == 0;
    const int64_t units = bytes / (int64_t)(is_wide ? sizeof(uint4) : sizeof(uint16_t));
    const gather_plan p = {*a->dst, *a->src, a->order, a->head, a->count, units};
    const unsigned blocks = lh_blocks(a->count * 2 * units, THREADS * EACH);
    const lh_shape shape = {dim3(blocks ? blocks : 1), THREADS, 0};
    return lh_launch(stream, "gather_entries", shape, is_wide ? gather_kernel<uint4> : gather_kernel<uint16_t>, p);
}
