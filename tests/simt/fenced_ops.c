/* A cuda backend that computes with the operations of `cpu`, in the memory of the emulated device: fast enough for the
 * whole program, while the host still cannot reach what lies on the device, and ranks talk as with GPUs. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda.h"
#include "kernels/ops.h"

/* runtime.cpp. With a graph under way the call becomes a part of it, with a copy of what it is given. */
void simt_open_memory(void);
void simt_close_memory(void);
int simt_capture_call(cudaStream_t stream, void (*call)(void *self, const void *args), void *self, const void *args,
                      size_t bytes);

/* ---- arguments of a call that runs later ---- */

enum {
#define LH_OP(op, summary) OP_##op,
    LH_OPS(LH_OP)
#undef LH_OP
};

/* An array on the host that arguments point to: a kernel takes it by value, so that the caller may change it then. */
typedef struct host_array {
    size_t member; /* offset of the pointer to it */
    const void *from;
    size_t bytes;
} host_array;

enum { ARRAYS = 2 };

static void arrays_of(int op, const void *args, host_array *out)
{
    const lh_append_args *append = op == OP_rope_append ? &((const lh_rope_append_args *)args)->append : args;
    const lh_attend_decode_args *decode = args;
    if (op == OP_append || op == OP_rope_append)
        out[0] = (host_array){(size_t)((const char *)&append->seqs - (const char *)args), append->seqs,
                              (size_t)append->batch * sizeof *append->seqs};
    if (op == OP_attend_decode) {
        out[0] = (host_array){offsetof(lh_attend_decode_args, seqs), decode->seqs,
                              (size_t)decode->batch * sizeof *decode->seqs};
        out[1] = (host_array){offsetof(lh_attend_decode_args, logits), decode->logits,
                              (size_t)decode->batch * sizeof *decode->logits};
    }
}

/* What a graph keeps: this, the arguments, and the arrays one after the other. */
typedef struct kept_call {
    size_t args;
    host_array arrays[ARRAYS];
} kept_call;

static int capture(lh_stream *stream, void (*call)(void *self, const void *kept), int op, const void *args,
                   size_t bytes)
{
    kept_call head = {.args = bytes};
    arrays_of(op, args, head.arrays);
    size_t all = sizeof head + bytes;
    for (int i = 0; i < ARRAYS; i++) all += head.arrays[i].from ? head.arrays[i].bytes : 0;
    char *kept = malloc(all), *to = kept;
    if (!kept) abort();
    to = (char *)memcpy(to, &head, sizeof head) + sizeof head;
    to = (char *)memcpy(to, args, bytes) + bytes;
    for (int i = 0; i < ARRAYS; i++)
        if (head.arrays[i].from)
            to = (char *)memcpy(to, head.arrays[i].from, head.arrays[i].bytes) + head.arrays[i].bytes;
    int captured = simt_capture_call(lh_stream_cuda(stream), call, stream, kept, all);
    free(kept);
    return captured;
}

/* The arguments, with pointers to the arrays that were kept. */
static void unpack(void *args, const void *kept)
{
    const kept_call *head = kept;
    const char *at = (const char *)kept + sizeof *head;
    memcpy(args, at, head->args);
    at += head->args;
    for (int i = 0; i < ARRAYS; i++)
        if (head->arrays[i].from) {
            memcpy((char *)args + head->arrays[i].member, &at, sizeof at);
            at += head->arrays[i].bytes;
        }
}

/* ---- the operations ---- */

/* What goes wrong in a graph has nobody to tell. */
static void finish(lh_status st)
{
    if (st == LH_OK) return;
    fprintf(stderr, "an operation of a graph failed: %s\n", lh_error_message());
    abort();
}

#define LH_OP(op, summary)                                                         \
    static void call_##op(void *stream, const void *kept)                          \
    {                                                                              \
        lh_##op##_args args;                                                       \
        unpack(&args, kept);                                                       \
        finish(lh_ops_cpu.op(stream, &args));                                      \
    }                                                                              \
    static lh_status run_##op(lh_stream *stream, const lh_##op##_args *args)       \
    {                                                                              \
        if (capture(stream, call_##op, OP_##op, args, sizeof *args)) return LH_OK; \
        lh_status st = lh_stream_sync(stream);                                     \
        simt_open_memory();                                                        \
        if (st == LH_OK) st = lh_ops_cpu.op(stream, args);                         \
        simt_close_memory();                                                       \
        return st;                                                                 \
    }
LH_OPS(LH_OP)
#undef LH_OP

const lh_ops lh_ops_cuda = {.name = "cuda",
                            .device = LH_DEVICE_CUDA,
#define LH_OP(op, summary) .op = run_##op,
                            LH_OPS(LH_OP)
#undef LH_OP
};
