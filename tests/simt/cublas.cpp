/* cuBLAS's product by plain loops: column by column, with the demands on sizes that the library has. */
extern "C" {
#include "kernels/cuda/blas_library.h"
}
#include <cstdlib>
#include <vector>

#include "cuda_bf16.h"
#include "simt.h"

struct simt_cublas {
    cudaStream_t stream;
    size_t room_bytes;
};

namespace
{

/* Element [row, column] of op(a) as the library sees it. */
struct matrix {
    const void *at;
    cudaDataType type;
    cublasOperation_t as;
    int64_t ld;

    float operator()(int64_t row, int64_t column) const
    {
        int64_t i = as == CUBLAS_OP_N ? row + column * ld : column + row * ld;
        return type == CUDA_R_32F ? ((const float *)at)[i] : __bfloat162float(((const __nv_bfloat16 *)at)[i]);
    }

    /* What a product reads of it. */
    void count(int64_t rows, int64_t columns) const
    {
        const int64_t size = type == CUDA_R_32F ? 4 : 2, runs = as == CUBLAS_OP_N ? columns : rows,
                      each = as == CUBLAS_OP_N ? rows : columns;
        for (int64_t i = 0; i < runs; i++) simt_loads((const char *)at + i * ld * size, (size_t)(each * size));
    }

    bool holds(int64_t rows, int64_t columns) const
    {
        return ld >= 1 && ld >= (as == CUBLAS_OP_N ? rows : columns);
    }
};

struct product {
    matrix a, b;
    void *c;
    cudaDataType c_type;
    int64_t m, n, k, ldc;
    float alpha, beta;

    void put(int64_t at, float sum) const
    {
        float *to = (float *)c + at;
        __nv_bfloat16 *rounded = (__nv_bfloat16 *)c + at;
        if (c_type == CUDA_R_32F)
            *to = sum + (beta ? beta * *to : 0.0f);
        else
            *rounded = __float2bfloat16_rn(sum + (beta ? beta * __bfloat162float(*rounded) : 0.0f));
    }

    /* One thread: the others of its warp have nothing to do. op(b) is unpacked once. */
    void run() const
    {
        std::vector<double> all((size_t)(k * n)), sums((size_t)n);
        a.count(m, k);
        b.count(k, n);
        const int64_t size = c_type == CUDA_R_32F ? 4 : 2;
        for (int64_t j = 0; j < n; j++) simt_stores((char *)c + j * ldc * size, (size_t)(m * size));
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++) all[(size_t)(l * n + j)] = b(l, j);
        for (int64_t i = 0; i < m; i++) {
            std::fill(sums.begin(), sums.end(), 0.0);
            for (int64_t l = 0; l < k; l++) {
                const double x = a(i, l), *y = &all[(size_t)(l * n)];
                for (int64_t j = 0; j < n; j++) sums[(size_t)j] += x * y[j];
            }
            for (int64_t j = 0; j < n; j++) put(i + j * ldc, (float)(alpha * sums[(size_t)j]));
        }
    }
};

cublasStatus_t create(cublasHandle_t *out)
{
    *out = new simt_cublas();
    simt_library(1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t destroy(cublasHandle_t h)
{
    delete h;
    simt_library(0);
    return CUBLAS_STATUS_SUCCESS;
}

/* As in the library, a new stream takes away the room. */
cublasStatus_t set_stream(cublasHandle_t h, cudaStream_t stream)
{
    *h = simt_cublas{stream, 0};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_workspace(cublasHandle_t h, void *room, size_t bytes)
{
    if ((uintptr_t)room % 256) return CUBLAS_STATUS_INVALID_VALUE;
    h->room_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_math_mode(cublasHandle_t, cublasMath_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t gemm_ex(cublasHandle_t h, cublasOperation_t a_as, cublasOperation_t b_as, int64_t m, int64_t n,
                       int64_t k, const void *alpha, const void *a, cudaDataType a_type, int64_t lda, const void *b,
                       cudaDataType b_type, int64_t ldb, const void *beta, void *c, cudaDataType c_type, int64_t ldc,
                       cublasComputeType_t compute, cublasGemmAlgo_t)
{
    product p = {{a, a_type, a_as, lda}, {b, b_type, b_as, ldb}, c, c_type, m, n, k, ldc,
                 *(const float *)alpha,  *(const float *)beta};
    if (!h->stream || !h->room_bytes) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (a_type != b_type || (c_type != CUDA_R_32F && c_type != a_type) || compute != CUBLAS_COMPUTE_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (m < 0 || n < 0 || k < 0 || !p.a.holds(m, k) || !p.b.holds(k, n) || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
    cudaError_t rc = simt_launch(h->stream, "cublas", simt_shape{dim3(1), dim3(32), 0}, [p] {
        if (threadIdx.x == 0) p.run();
    });
    return rc == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

const char *get_status_string(cublasStatus_t rc)
{
    return rc == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the emulation";
}

} // namespace

extern "C" lh_status lh_cublas_open(lh_cublas *out)
{
    if (getenv("LONGHAUL_SIMT_NO_CUBLAS")) LH_FAIL(LH_EUSAGE, "the emulation was asked to have no cuBLAS");
    *out = {create, destroy, set_stream, set_workspace, set_math_mode, gemm_ex, get_status_string, "the emulation's"};
    return LH_OK;
}
