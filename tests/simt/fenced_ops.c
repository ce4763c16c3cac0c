/* A cuda backend that computes with the operations of `cpu`, in the memory of the emulated device: fast enough for the
 * whole program, while the host still cannot reach what lies on the device, and ranks talk as with GPUs. */
#include "kernels/ops.h"

/* runtime.cpp */
void simt_open_memory(void);
void simt_close_memory(void);

#define LH_OP(op, summary)                                                   \
    static lh_status run_##op(lh_stream *stream, const lh_##op##_args *args) \
    {                                                                        \
        lh_status st = lh_stream_sync(stream);                               \
        simt_open_memory();                                                  \
        if (st == LH_OK) st = lh_ops_cpu.op(stream, args);                   \
        simt_close_memory();                                                 \
        return st;                                                           \
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
