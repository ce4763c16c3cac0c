/* nccl_library.h - NCCL's functions, loaded at run time (the same program runs with and without the library), and the
 * choice of its network. */
#ifndef LH_COMM_NCCL_LIBRARY_H
#define LH_COMM_NCCL_LIBRARY_H

#include <nccl.h>

#include "base/status.h"

/* LH_NCCL(result, name, arguments): the functions in use, without the prefix. */
#define LH_NCCL_FUNCTIONS                                                                                            \
    LH_NCCL(ncclResult_t, GetVersion, (int *version))                                                                \
    LH_NCCL(ncclResult_t, GetUniqueId, (ncclUniqueId * id))                                                          \
    LH_NCCL(ncclResult_t, CommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))                   \
    LH_NCCL(ncclResult_t, CommDestroy, (ncclComm_t comm))                                                            \
    LH_NCCL(ncclResult_t, CommAbort, (ncclComm_t comm))                                                              \
    LH_NCCL(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                                \
    LH_NCCL(ncclResult_t, AllReduce,                                                                                 \
            (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,       \
             cudaStream_t stream))                                                                                   \
    LH_NCCL(ncclResult_t, AllGather,                                                                                 \
            (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) \
    LH_NCCL(ncclResult_t, Broadcast,                                                                                 \
            (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,             \
             cudaStream_t stream))                                                                                   \
    LH_NCCL(ncclResult_t, Send,                                                                                      \
            (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))   \
    LH_NCCL(ncclResult_t, Recv,                                                                                      \
            (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))         \
    LH_NCCL(ncclResult_t, GroupStart, (void))                                                                        \
    LH_NCCL(ncclResult_t, GroupEnd, (void))                                                                          \
    LH_NCCL(const char *, GetErrorString, (ncclResult_t rc))

typedef struct lh_nccl {
#define LH_NCCL(result, name, arguments) result(*name) arguments;
    LH_NCCL_FUNCTIONS
#undef LH_NCCL
    const char *file; /* path of the loaded library */
} lh_nccl;

/* Loads the library once per process. LH_EUSAGE, naming it, if it is missing or too old. */
lh_status lh_nccl_open(const lh_nccl **out);

/* Paths that the choice of the network reads, for tests: "/sys", "/etc/nccl.conf", "libnccl-net.so". */
typedef struct lh_nccl_places {
    const char *sys;
    const char *conf;   /* an administrator's settings of NCCL: nothing is set if it is there */
    const char *plugin; /* NCCL's network plug-in of the system, which may support any network */
} lh_nccl_places;

/* NCCL silently falls back to TCP sockets where it cannot use the fast network of a cluster. Sets NCCL_NET to the
 * network of this host, so that NCCL fails instead, unless the environment, the administrator or a plug-in decides;
 * warns if the environment asks for sockets on a host with a faster network. places NULL: the paths of the system.
 * Returns a hint for the message of a failed start, "" if NCCL_NET was not set here. To be called before NCCL's first
 * call of the process. */
const char *lh_nccl_choose_network(const lh_nccl_places *places);

#endif
