/* A build without cuDNN's headers (9.8 or later). */
#include <stdio.h>

#include "kernels/cuda/attend_cudnn.h"
#include "kernels/cuda/cuda.h"

static const char missing[] =
    "this build has no cuDNN (its header, cudnn_graph.h of version 9.8 or later, was not found)";

lh_status lh_sdpa_open(lh_stream *stream)
{
    (void)stream;
    return LH_OK;
}

void lh_cuda_prepare_attend(lh_stream *stream, const lh_attend_block_args *like)
{
    (void)stream, (void)like;
}

lh_status lh_sdpa_attend(lh_stream *stream, const lh_attend_block_args *a, int *done)
{
    (void)stream, (void)a;
    *done = 0;
    return LH_OK;
}

lh_status lh_cudnn_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    (void)stream, (void)a;
    LH_FAIL(LH_EUSAGE, "%s", missing);
}

int lh_cudnn_found(char text[256])
{
    snprintf(text, 256, "%s", missing);
    return 0;
}
