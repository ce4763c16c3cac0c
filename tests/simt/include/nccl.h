/* nccl.h - the part of NCCL that this project uses, among processes of one host (nccl.cpp). For tests only. Collectives
 * run when they are enqueued, with all that was enqueued before: as on a card, no rank needs another's host for them.
 */
#ifndef LH_TESTS_SIMT_NCCL_H
#define LH_TESTS_SIMT_NCCL_H

#include "cuda_runtime_api.h"

typedef struct simt_nccl *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclSystemError = 2,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclInProgress = 7
} ncclResult_t;
typedef enum { ncclUint8 = 1, ncclInt32 = 2, ncclInt64 = 4, ncclFloat32 = 7, ncclBfloat16 = 9 } ncclDataType_t;
typedef enum { ncclSum = 0, ncclMax = 2, ncclMin = 3 } ncclRedOp_t;

#endif
