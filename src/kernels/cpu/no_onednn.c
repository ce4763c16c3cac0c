/* A build without oneDNN. */
#include <assert.h>

#include "kernels/cpu/cpu.h"

int lh_cpu_onednn_there(void)
{
    return 0;
}

lh_status lh_cpu_onednn_gemm(lh_stream *stream, const lh_gemm_args *args)
{
    (void)stream, (void)args;
    assert(0 && "asked for oneDNN without looking");
    return LH_EINTERNAL;
}
