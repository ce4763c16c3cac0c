/* Norms of values behind the output projection: a matrix product of which only the sums of absolute values are kept.
 * The slots that are wanted are listed (list.cuh). Here, in f32, a block has 64 of them and a query head, and takes the
 * columns in order (product.cuh). What a thread has of an entry is added up in double, 8 columns at a time. Bound by
 * arithmetic.
 */
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/projected.cuh"

template <typename V, typename W>
static __device__ void project(double (&norms)[8], const lh_factors<V, W> &f, lh_product_room *room)
{
    for (int i = 0; i < 8; i++) norms[i] = 0.0;
    for (int64_t first = 0; first < f.count; first += PRODUCT_COLS) {
        float sums[8][8];
        lh_product_tile(sums, f, first, room);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float norm = 0.0f;
#pragma unroll
            for (int j = 0; j < 8; j++) norm += first + lh_product_col(j) < f.count ? fabsf(sums[i][j]) : 0.0f;
            norms[i] += norm;
        }
    }
    for (int i = 0; i < 8; i++) norms[i] = lh_product_across(norms[i]);
}

template <typename V, typename W>
static __global__ void __launch_bounds__(PRODUCT_THREADS) projected_norms_kernel(lh_projected p)
{
    __shared__ lh_product_room room;
    int64_t i = blockIdx.y, h = (p.args.map.first + i) / p.args.map.group, d = p.kv.head_dim, count = p.list.count[h];
    const int32_t *slots = p.list.slots + h * p.args.ld;
    for (int64_t first = (int64_t)blockIdx.x * PRODUCT_ROWS; first < count;
         first += (int64_t)gridDim.x * PRODUCT_ROWS) {
        int64_t mine = first + threadIdx.x % PRODUCT_ROWS;
        lh_factors<V, W> f = {NULL, (const W *)p.args.w + i * d, p.args.out, p.args.w_ld, d};
        double norms[8];
        if (mine < count) f.row = (const V *)p.kv.v + (p.kv.offset[h] + slots[mine]) * d;
        project(norms, f, &room);
        for (int n = 0; n < 8; n++) {
            int64_t at = first + lh_product_row(n);
            if (threadIdx.x % 16 == 0 && at < count) p.args.y[i * p.args.y_ld + slots[at]] = (float)norms[n];
        }
    }
}

unsigned lh_projected_blocks(const lh_stream *stream, const lh_projected_norms_args *a, int64_t each)
{
    unsigned most = (unsigned)((a->ld + each - 1) / each);
    return min(most, lh_blocks_per_head(stream, a->map.heads));
}

static lh_status project_in_f32(lh_stream *stream, const lh_projected *p)
{
    typedef __nv_bfloat16 bf16;
    lh_shape shape = {dim3(lh_projected_blocks(stream, &p->args, PRODUCT_ROWS), (unsigned)p->args.map.heads),
                      PRODUCT_THREADS, 0};
    lh_dtype type = p->args.type;
    auto *kernel = p->kv.type == LH_F32
                       ? (type == LH_F32 ? projected_norms_kernel<float, float> : projected_norms_kernel<float, bf16>)
                       : (type == LH_F32 ? projected_norms_kernel<bf16, float> : projected_norms_kernel<bf16, bf16>);
    return lh_launch(stream, "projected_norms", shape, kernel, *p);
}

lh_status lh_cuda_projected_norms(lh_stream *stream, const lh_projected_norms_args *a)
{
    void *memory = NULL;
    lh_projected p = {*a, *a->kv, {}};
    if (a->map.heads == 0 || a->ld == 0) return LH_OK;
    p.list.x = a->wanted;
    p.list.len = a->kv->len;
    p.list.heads = a->kv->heads;
    p.list.ld = a->ld;
    p.list.kind = LH_LIST_NOT_ZERO;
    LH_TRY(lh_stream_scratch(stream, &memory, lh_list_bytes(a->kv->heads, a->ld)));
    lh_list_place(&p.list, memory);
    LH_TRY(lh_list_slots(stream, "projected_norms", &p.list));
    LH_TRY(lh_stream_zero(stream, a->y, a->map.heads * a->y_ld * (int64_t)sizeof *a->y));
    LH_TRY(lh_projects_on_tensor_cores(a) ? lh_project_on_tensor_cores(stream, &p) : project_in_f32(stream, &p));
    return LH_OK;
}
