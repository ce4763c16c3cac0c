/* split_kv_launch.cuh - the launches of split-KV attention (split_kv.cuh), for attend_decode and row_lse. */
#ifndef LH_KERNELS_CUDA_SPLIT_KV_LAUNCH_CUH
#define LH_KERNELS_CUDA_SPLIT_KV_LAUNCH_CUH

#include "kernels/cuda/split_kv_kernel.cuh"

typedef void (*split_function)(lh_split_kv);
typedef struct split_way {
    split_function kernel;
    int64_t shared;
} split_way;

template <typename T, int D, int HALVES, int VALUES>
static split_way way_for(void)
{
    typedef split_kind<T, D, HALVES, VALUES> K;
    return split_way{split_kernel<K>, split_room<K>::BYTES};
}

template <typename T, int HALVES, int VALUES>
static split_way way_of(int64_t dim)
{
    if (dim <= 64) return way_for<T, 64, HALVES, VALUES>();
    return dim <= 128 ? way_for<T, 128, HALVES, VALUES>() : way_for<T, 256, HALVES, VALUES>();
}

/* Attention over an f32 cache always have room for 16 rows, of which few models are in need. */
template <int VALUES>
static split_way choose(const lh_split_kv *a)
{
    if (a->seqs[0].type == LH_F32) return way_of<float, 2, VALUES>(a->form.dim);
    if (a->tile <= 8) return way_of<__nv_bfloat16, 1, VALUES>(a->form.dim);
    return way_of<__nv_bfloat16, 2, VALUES>(a->form.dim);
}

/* Rows, tiles and form; seqs[0] is there. */
static lh_status shape_split(lh_split_kv *a, const char *op)
{
    int64_t rows = a->rows * a->map.group;
    a->form = lh_form_of(&a->seqs[0]);
    a->first_head = a->map.first / a->map.group;
    a->heads = (a->map.first + a->map.heads - 1) / a->map.group + 1 - a->first_head;
    a->tile = rows < 16 ? (int)rows : 16;
    a->tiles = (int)((rows + a->tile - 1) / a->tile);
    a->most = LH_SPLITS;
    if (a->form.dim > LH_SPLIT_MOST_DIM)
        LH_FAIL(LH_EINTERNAL, "%s on a GPU: heads of %d dimensions, more than %d", op, a->form.dim, LH_SPLIT_MOST_DIM);
    return LH_OK;
}

/* Memory for pieces of one launch; those after it use it again. */
static lh_status open_split(lh_stream *stream, lh_split_kv *a, int64_t seqs)
{
    int64_t units = (seqs < LH_SPLIT_SEQS ? seqs : +LH_SPLIT_SEQS) * a->heads * a->tiles,
            parts = units * a->tile * LH_SPLITS;
    char *memory = NULL;
    LH_TRY(lh_stream_scratch(stream, &memory,
                             parts * (int64_t)(sizeof(float2) + (a->o ? a->form.dim * sizeof(float) : 0))));
    LH_TRY(lh_stream_counters(stream, &a->parts.arrived, units));
    a->parts.o = (float *)memory;
    a->parts.sums = (float2 *)(memory + (a->o ? parts * a->form.dim * (int64_t)sizeof(float) : 0));
    return LH_OK;
}

/* VALUES 0: log-sum-exps alone are wanted. */
template <int VALUES>
static lh_status launch_split(lh_stream *stream, const char *op, const lh_split_kv *a, int64_t seqs)
{
    split_way way = choose<VALUES>(a);
    dim3 blocks((unsigned)(a->heads * a->tiles), (unsigned)seqs, (unsigned)a->most);
    return lh_launch(stream, op, lh_shape{blocks, LH_SPLIT_THREADS, way.shared}, way.kernel, *a);
}

#endif
