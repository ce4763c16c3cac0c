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

static int prepare(lh_stream *stream, const lh_attend_block_args *like)
{
    (void)stream, (void)like;
    return 0;
}

static lh_status find(lh_stream *stream, const lh_attend_block_args *a, lh_attend_trust **trust)
{
    (void)stream, (void)a, (void)trust;
    return LH_OK;
}

const lh_attend_way lh_attend_cudnn = {.name = "cuDNN", .prepare = prepare, .find = find};

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
