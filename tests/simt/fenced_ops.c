/* A cuda backend that computes with the operations of `cpu`, in the memory of the emulated device: fast enough for the
 * whole program, while the host still cannot reach what lies on the device, and ranks talk as with GPUs. */
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda.h"
#include "kernels/ops.h"

/* runtime.cpp. With a graph under way the call becomes a part of it, with a copy of what it is given. */
void simt_open_memory(void);
void simt_close_memory(void);
int simt_capture_call(cudaStream_t stream, void (*call)(void *self, const void *args), void *self, const void *args,
                      size_t bytes);

/* What goes wrong in a graph has nobody to tell. */
static void finish(lh_status st)
{
    if (st == LH_OK) return;
    fprintf(stderr, "an operation of a graph failed: %s\n", lh_error_message());
    abort();
}

#define LH_OP(op, summary)                                                                                  \
    static void call_##op(void *stream, const void *args)                                                   \
    {                                                                                                       \
        finish(lh_ops_cpu.op(stream, args));                                                                \
    }                                                                                                       \
    static lh_status run_##op(lh_stream *stream, const lh_##op##_args *args)                                \
    {                                                                                                       \
        if (simt_capture_call(lh_stream_cuda(stream), call_##op, stream, args, sizeof *args)) return LH_OK; \
        lh_status st = lh_stream_sync(stream);                                                              \
        simt_open_memory();                                                                                 \
        if (st == LH_OK) st = lh_ops_cpu.op(stream, args);                                                  \
        simt_close_memory();                                                                                \
        return st;                                                                                          \
    }
#include "kernels/ops_list.h"
#undef LH_OP

const lh_ops lh_ops_cuda = {
    .name = "cuda",
    .device = LH_DEVICE_CUDA,
#define LH_OP(op, summary) .op = run_##op,
#include "kernels/ops_list.h"
#undef LH_OP
};
