#include <cblas.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

lh_status lh_cpu_openblas_gemm(lh_stream *stream, const lh_gemm_args *a)
{
    (void)stream;
    for (int64_t t = 0; a->bias && t < a->tokens; t++)
        memcpy(a->y + t * a->y_ld, a->bias, (size_t)a->out * sizeof *a->y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)a->tokens, (blasint)a->out, (blasint)a->in, 1.0f,
                a->x, (blasint)a->x_ld, a->w, (blasint)a->w_ld, a->bias ? 1.0f : 0.0f, a->y, (blasint)a->y_ld);
    return LH_OK;
}
