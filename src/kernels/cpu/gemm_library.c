#include <cblas.h>
#include <omp.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

const char *lh_cpu_gemm_library(lh_dtype type)
{
    (void)type;
    return "OpenBLAS";
}

/* y += x * w^T in f32. */
static void sgemm(const lh_gemm_args *a, const float *x, const float *w, int64_t w_ld)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)a->tokens, (blasint)a->out, (blasint)a->in, 1.0f, x,
                (blasint)a->x_ld, w, (blasint)w_ld, a->bias ? 1.0f : 0.0f, a->y, (blasint)a->y_ld);
}

static void widen(float *dst, const void *src, int64_t rows, int64_t cols, int64_t ld)
{
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        lh_dtype_convert(dst + r * cols, LH_F32, (const uint16_t *)src + r * ld, LH_BF16, cols);
}

lh_status lh_cpu_gemm_library_run(lh_stream *stream, const lh_gemm_args *a)
{
    lh_status st = LH_OK;
    float *x = NULL;
    for (int64_t t = 0; a->bias && t < a->tokens; t++)
        memcpy(a->y + t * a->y_ld, a->bias, (size_t)a->out * sizeof *a->y);
    if (a->type == LH_F32) {
        sgemm(a, a->x, a->w, a->w_ld);
        return LH_OK;
    }
    LH_TRY(lh_stream_scratch(stream, &x, (a->tokens + a->out) * a->in * (int64_t)sizeof *x));
    widen(x, a->x, a->tokens, a->in, a->x_ld);
    widen(x + a->tokens * a->in, a->w, a->out, a->in, a->w_ld);
    lh_gemm_args wide = *a;
    wide.x_ld = a->in;
    sgemm(&wide, x, x + a->tokens * a->in, a->in);
done:
    return st;
}
