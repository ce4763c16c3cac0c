/* Norms of values after the output projection: a matrix product of which only the sums of absolute values are kept.
 * Here, in f32, a block has 64 entries of a query head, and takes the columns in order (product.cuh). What a thread has
 * of an entry is added up in double, 8 columns at a time. Bound by arithmetic.
 */
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/projected_norms.cuh"

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
    int64_t i = blockIdx.y, d = p.kv.head_dim, count;
    const V *values = lh_projected_values<V>(p, (p.args.map.first + i) / p.args.map.group, &count);
    for (int64_t first = (int64_t)blockIdx.x * PRODUCT_ROWS; first < count;
         first += (int64_t)gridDim.x * PRODUCT_ROWS) {
        int64_t mine = first + threadIdx.x % PRODUCT_ROWS;
        lh_factors<V, W> f = {NULL, (const W *)p.args.w + i * d, p.args.out, p.args.w_ld, d};
        double norms[8];
        if (mine < count) f.row = values + mine * d;
        project(norms, f, &room);
        for (int n = 0; n < 8; n++) {
            int64_t at = first + lh_product_row(n);
            if (threadIdx.x % 16 == 0 && at < count) p.args.y[i * p.args.ld + at] = (float)norms[n];
        }
    }
}

unsigned lh_projected_blocks(const lh_stream *stream, const lh_projected_norms_args *a, int64_t each)
{
    unsigned most = (unsigned)((min(a->last, a->ld) + each - 1) / each);
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
    lh_projected p = {*a, *a->kv};
    if (a->map.heads == 0 || a->last == 0 || a->ld == 0) return LH_OK;
    return lh_projects_on_tensor_cores(a) ? lh_project_on_tensor_cores(stream, &p) : project_in_f32(stream, &p);
}
