/* cuda.h - what CUDA code of other rooms needs of a device: its stream, and its errors as statuses. */
#ifndef LH_DEVICE_CUDA_H
#define LH_DEVICE_CUDA_H

#include <cuda_runtime_api.h>

#include "device/device.h"

/* The CUDA stream of `stream`, whose device is of kind LH_DEVICE_CUDA. */
cudaStream_t lh_stream_cuda(const lh_stream *stream);

/* Multiprocessors of the device, for the sizes of grids. */
int lh_cuda_processors(const lh_stream *stream);

/* Bytes of shared memory that a block may have, static and dynamic together, where its kernel asks for them: 163 KiB on
 * sm_80, 99 on sm_86, sm_89 and sm_120, 227 on sm_90. */
int64_t lh_cuda_shared(const lh_stream *stream);

/* What a library keeps for one stream, as a handle. Whoever needs it first fills it in; it is closed with the stream,
 * when the stream's work is done. */
typedef enum lh_cuda_library { LH_CUDA_BLAS, LH_CUDA_DNN, LH_CUDA_LIBRARIES } lh_cuda_library;
typedef struct lh_cuda_kept {
    void *what; /* NULL: nothing yet */
    void (*close)(void *what);
} lh_cuda_kept;
lh_cuda_kept *lh_stream_kept(lh_stream *stream, lh_cuda_library library);

/* LH_OK for cudaSuccess; else a message that begins with `what`, as "launch of 'rope'", LH_ENOMEM where memory is
 * missing and LH_EINTERNAL for the rest. */
lh_status lh_cuda_check(cudaError_t rc, const char *what);

#endif
