/* The entries of each head by score: heads are rows that are sorted (sort_rows.cu). What entries are sorted by is the
 * key of their score and below it the complement of their rank by position: their slot, or where slots may stand in
 * another order, what a sort by position gives. */
#include "kernels/cuda/candidates.cuh"

typedef struct entry_order {
    lh_order_entries_args a;
    lh_ragged kv;
    int64_t n;             /* candidates of a head, a power of two */
    lh_candidate *by_rank; /* [heads, n] sorted by position, with slots as columns; NULL: slots are ranks */
    lh_candidate *c;       /* [heads, n] */
} entry_order;

static __device__ __forceinline__ lh_candidate candidate(uint32_t key, int64_t column)
{
    return (lh_candidate)key << 32 | (uint32_t) ~(uint32_t)column;
}

/* No candidate is 0: columns are less than 2^32 - 1. */
static __global__ void position_kernel(entry_order o)
{
    for (int64_t h = blockIdx.y; h < o.kv.heads; h += gridDim.y) {
        const uint8_t *state = o.a.state + h * o.a.ld;
        int64_t len = o.kv.len[h];
        for (int64_t s = lh_grid_first(); s < o.n; s += lh_grid_step())
            o.by_rank[h * o.n + s] =
                s < len && state[s] == o.a.of ? candidate(~(uint32_t)lh_position(&o.kv, h, s), s) : 0;
    }
}

static __global__ void score_kernel(entry_order o)
{
    for (int64_t h = blockIdx.y; h < o.kv.heads; h += gridDim.y) {
        int64_t len = o.kv.len[h], at = h * o.a.ld;
        for (int64_t i = lh_grid_first(); i < o.n; i += lh_grid_step()) {
            lh_candidate ranked = o.by_rank ? o.by_rank[h * o.n + i] : 0;
            int64_t s = o.by_rank ? lh_candidate_column(ranked) : i;
            int is_there = o.by_rank ? ranked != 0 : s < len && o.a.state[at + s] == o.a.of;
            o.c[h * o.n + i] = is_there ? lh_candidate_of(o.a.scores[at + s], i) : 0;
        }
    }
}

/* Columns of c are ranks where `by_rank` is there and another array, else slots. */
static __global__ void put_order_kernel(entry_order o)
{
    for (int64_t h = blockIdx.y; h < o.kv.heads; h += gridDim.y) {
        const lh_candidate *c = o.c + h * o.n, *by_rank = o.by_rank ? o.by_rank + h * o.n : c;
        for (int64_t i = lh_grid_first(); i < o.n; i += lh_grid_step()) {
            if (i == 0 && !c[0]) o.a.counts[h] = 0;
            if (!c[i]) continue;
            int64_t column = lh_candidate_column(c[i]);
            o.a.order[h * o.a.ld + i] = (int32_t)(by_rank != c ? lh_candidate_column(by_rank[column]) : column);
            if (i + 1 == o.n || !c[i + 1]) o.a.counts[h] = i + 1;
        }
    }
}

lh_status lh_cuda_order_entries(lh_stream *stream, const lh_order_entries_args *a)
{
    const char *name = "order_entries";
    entry_order o = {*a, *a->kv, lh_sorted_columns(a->ld), NULL, NULL};
    const int64_t heads = o.kv.heads, all = heads * o.n;
    const int by_position = o.kv.positions || !a->scores;
    lh_shape each = lh_sorted_shape(heads, o.n);
    LH_TRY(lh_stream_scratch(stream, &o.c, (1 + by_position) * all * (int64_t)sizeof *o.c));
    if (by_position) {
        o.by_rank = a->scores ? o.c + all : o.c;
        LH_TRY(lh_launch(stream, name, each, position_kernel, o));
        LH_TRY(lh_sort_rows(stream, name, o.by_rank, heads, o.n));
    }
    if (a->scores) {
        LH_TRY(lh_launch(stream, name, each, score_kernel, o));
        LH_TRY(lh_sort_rows(stream, name, o.c, heads, o.n));
    }
    LH_TRY(lh_launch(stream, name, each, put_order_kernel, o));
    return LH_OK;
}
