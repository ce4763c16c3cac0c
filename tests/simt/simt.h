/* simt.h - what the files of the emulation share. */
#ifndef LH_TESTS_SIMT_SIMT_H
#define LH_TESTS_SIMT_SIMT_H

#include <math.h>
#include <string.h>

#include "cuda_runtime.h"

extern "C" {
#include "device/counts.h"
}

/* Runs a grid to its end; device memory must be open. threads.cpp */
void simt_run(const simt_shape &shape, const std::function<void()> &body);

/* Work that is done when its stream is waited for. runtime.cpp */
void simt_enqueue(cudaStream_t stream, std::function<void()> work);

/* ---- counts.cpp: what lh_device_counts gives ---- */
void simt_count_memory(void *memory, size_t bytes); /* where device memory lies */
void simt_count(lh_count_kind kind, const char *name, size_t loaded, size_t stored);
/* A launch that has ended, with what was read and written since the last one. Kernels tell by themselves (their
 * compiler calls counts.cpp); what is not compiled so uses the two functions after this one. */
void simt_count_kernel(const char *name);
/* A kernel, or the work of a library, begins. `chain`: the chain of the kernel before it, if this one may start before
 * that one has ended; else 0. Returns its chain: no kernel of it may touch, before its wait, what another one has
 * stored. `name` lives on. */
int64_t simt_count_begins(const char *name, int64_t chain);
void simt_loads(const void *p, size_t bytes);
void simt_stores(const void *p, size_t bytes);
/* Do all enqueued work of all streams. runtime.cpp */
void simt_drain(void);

/* Work that no later wait may hold up: it is done at once, after all that was enqueued before, and as part of a graph
 * when that is launched. runtime.cpp */
void simt_enqueue_now(cudaStream_t stream, std::function<void()> work);
/* A library begins or ends: it holds LONGHAUL_SIMT_LIBRARY bytes of device memory of its own. runtime.cpp */
void simt_library(int begins);

/* The capture that the stream is in: the how many-th of this process; 0: none. runtime.cpp */
int64_t simt_capture_of(cudaStream_t stream);

/* A block has ended: copies and products of warpgroups that nobody waited for are a fault. tensor.cpp, bulk.cpp,
 * wgmma.cpp */
void simt_copies_end(void);
void simt_bulk_end(void);
void simt_wgmma_end(void);

/* The index of the thread at work within its block; bytes of dynamic shared memory. threads.cpp */
size_t simt_thread(void);
size_t simt_dynamic_bytes(void);

/* Dynamic shared memory by its addresses: `bytes` from an address on, as copies and tensor cores access them. Ordinary
 * stores there (which counts.cpp gives to simt_shared_stored) that no simt_async_fence of their thread has ordered are
 * a fault, in blocks that have asked for an address. bulk.cpp */
unsigned char *simt_shared_at(uint32_t at, uint32_t bytes);
void simt_shared_stored(const void *p, size_t bytes);
extern struct simt_watched {
    const unsigned char *at;
    size_t bytes; /* 0: the block has not asked for an address */
} simt_watched;

/* A sum as tensor cores round it: to f32, towards 0. */
static inline float simt_cut(double x)
{
    float y = (float)x;
    if (isfinite(y) && fabs((double)y) > fabs(x)) {
        uint32_t bits;
        memcpy(&bits, &y, sizeof bits);
        bits--; /* the next number towards 0, of either sign */
        memcpy(&y, &bits, sizeof y);
    }
    return y;
}

const int SIMT_SLOT = 64; /* the most bytes that a lane gives */

/* As simt_warp, with the bytes of lane i at SIMT_SLOT * i of `given`: the last lane to come calls `all`,
 * which may change them, before any lane goes on. threads.cpp */
const unsigned char *simt_warp_after(const void *mine, int bytes, void (*all)(unsigned char *given));

/* Leaves the thread until an attempt says SIMT_READY; SIMT_STUCK: only another thread can change that. `what`: for the
 * report of threads that wait forever. threads.cpp */
enum simt_attempt { SIMT_READY, SIMT_LATER, SIMT_STUCK };
void simt_wait_until(const std::function<simt_attempt()> &attempt, const char *what);

/* An address of shared memory with its 16-byte pieces where a swizzle of 128 bytes has them. */
static inline uint32_t simt_swizzled(uint32_t at)
{
    return at ^ (at >> 7 & 7) << 4;
}

/* A fault of the code under test: a message and the end of the program. */
[[noreturn]] void simt_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A pseudorandom number below n. */
unsigned simt_draw(unsigned n);

/* A pseudorandom permutation of 0 .. n - 1; another one at every call. */
void simt_shuffle(int *order, int n);

#endif
