/* cuda.h - the interface of a CUDA device to CUDA code of other rooms: its stream, and its errors as statuses. */
#ifndef LH_DEVICE_CUDA_H
#define LH_DEVICE_CUDA_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "device/device.h"

/* The CUDA stream of `stream`, whose device is of kind LH_DEVICE_CUDA. */
cudaStream_t lh_stream_cuda(const lh_stream *stream);

/* Multiprocessors of the device, for grid sizes. */
int lh_cuda_processors(const lh_stream *stream);

/* Compute capability of the device, times 10: 80 for sm_80, 90 for sm_90. */
int lh_cuda_capability(const lh_stream *stream);

/* Version of the driver as CUDA writes it: 12030 for 12.3. */
int lh_cuda_driver(const lh_stream *stream);

/* The driver's function that makes maps for tensor copies; NULL: a driver older than CUDA 12 or a device below 9.0. */
typedef __typeof__(&cuTensorMapEncodeTiled) lh_cuda_map_maker;
lh_cuda_map_maker lh_cuda_maps(const lh_stream *stream);

/* Bytes of shared memory that a block may have, static and dynamic together, if its kernel opts in: 163 KiB on sm_80,
 * 99 on sm_86, sm_89 and sm_120, 227 on sm_90. */
int64_t lh_cuda_shared(const lh_stream *stream);

/* Data of a library for one stream, such as a handle. The first user fills it in; it is closed with the stream, after
 * the stream's work is done. */
typedef enum lh_cuda_library { LH_CUDA_BLAS, LH_CUDA_WGMMA, LH_CUDA_LIBRARIES } lh_cuda_library;
typedef struct lh_cuda_kept {
    void *what; /* NULL: not filled yet */
    void (*close)(void *what);
} lh_cuda_kept;
lh_cuda_kept *lh_stream_kept(lh_stream *stream, lh_cuda_library library);

/* Returns LH_OK for cudaSuccess; else fails with a message that begins with `what`, such as "launch of 'rope'":
 * LH_ENOMEM if memory is missing, LH_EINTERNAL for other errors. */
lh_status lh_cuda_check(cudaError_t rc, const char *what);

#endif
