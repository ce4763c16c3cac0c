/* nccl_comm.c - the communicator over NCCL: collectives of device memory, enqueued on a stream. The ranks exchange
 * NCCL's id over MPI. A failure, or a missing peer, is detected when the stream is waited for; the watchdog covers that
 * wait and aborts the communicator before it ends the process. */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm_impl.h"
#include "comm/nccl_library.h"
#include "device/cuda.h"

typedef struct nccl {
    const lh_nccl *f;
    ncclComm_t comm;
    lh_stream *stream;
    lh_comm *owner;
    cudaStream_t on;
    lh_stream *beside; /* stream of asynchronous all-reduces */
} nccl;

static lh_status check_nccl(const nccl *n, ncclResult_t rc, const char *what)
{
    if (rc != ncclSuccess && rc != ncclInProgress)
        LH_FAIL(LH_ECOMM, "%s failed in NCCL: %s", what, n->f->GetErrorString(rc));
    return LH_OK;
}

static lh_status check_start(const nccl *n, ncclResult_t rc, const char *help)
{
    if (rc != ncclSuccess && rc != ncclInProgress)
        LH_FAIL(LH_ECOMM, "NCCL does not start: %s%s", n->f->GetErrorString(rc), help);
    return LH_OK;
}

static ncclDataType_t type_of(lh_dtype type)
{
    static const ncclDataType_t types[LH_DTYPES] = {
        [LH_F32] = ncclFloat32, [LH_BF16] = ncclBfloat16, [LH_I32] = ncclInt32, [LH_I64] = ncclInt64};
    return types[type];
}

static lh_status reduce_on(const nccl *n, cudaStream_t on, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    static const ncclRedOp_t ops[] = {[LH_SUM] = ncclSum, [LH_MAX] = ncclMax, [LH_MIN] = ncclMin};
    if (!count) return LH_OK;
    return check_nccl(n, n->f->AllReduce(buf, buf, (size_t)count, type_of(type), ops[op], n->comm, on),
                      "an all-reduce");
}

static lh_status allreduce(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    const nccl *n = comm->impl;
    return reduce_on(n, n->on, buf, count, type, op);
}

/* NCCL runs the collectives of a communicator in the order in which they were enqueued, on any stream: only other work
 * of the main stream overlaps. */
static lh_status allreduce_async(lh_comm *comm, void *buf, int64_t count, lh_dtype type, lh_reduce op)
{
    const nccl *n = comm->impl;
    LH_TRY(lh_stream_after(n->beside, n->stream));
    return reduce_on(n, lh_stream_cuda(n->beside), buf, count, type, op);
}

static lh_status wait_async(lh_comm *comm)
{
    const nccl *n = comm->impl;
    return lh_stream_after(n->stream, n->beside);
}

static lh_status allgather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    const nccl *n = comm->impl;
    if (!bytes) return LH_OK;
    return check_nccl(n, n->f->AllGather(send, recv, (size_t)bytes, ncclUint8, n->comm, n->on), "an all-gather");
}

/* NCCL only gathers blocks of equal size: others are broadcast by their ranks, in one group. */
static lh_status allgatherv(lh_comm *comm, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    const nccl *n = comm->impl;
    LH_TRY(check_nccl(n, n->f->GroupStart(), "a group"));
    for (int r = 0; r < comm->size; r++) {
        char *block = (char *)recv + at[r];
        if (bytes[r])
            LH_TRY(check_nccl(
                n,
                n->f->Broadcast(r == comm->rank ? send : block, block, (size_t)bytes[r], ncclUint8, r, n->comm, n->on),
                "an all-gather"));
    }
    LH_TRY(check_nccl(n, n->f->GroupEnd(), "an all-gather"));
    return LH_OK;
}

static lh_status gatherv(lh_comm *comm, int root, const void *send, void *recv, const int64_t *bytes, const int64_t *at)
{
    const nccl *n = comm->impl;
    LH_TRY(check_nccl(n, n->f->GroupStart(), "a group"));
    if (bytes[comm->rank])
        LH_TRY(check_nccl(n, n->f->Send(send, (size_t)bytes[comm->rank], ncclUint8, root, n->comm, n->on), "a gather"));
    for (int r = 0; r < comm->size && comm->rank == root; r++)
        if (bytes[r])
            LH_TRY(check_nccl(n, n->f->Recv((char *)recv + at[r], (size_t)bytes[r], ncclUint8, r, n->comm, n->on),
                              "a gather"));
    LH_TRY(check_nccl(n, n->f->GroupEnd(), "a gather"));
    return LH_OK;
}

static lh_status bcast(lh_comm *comm, int root, void *buf, int64_t bytes)
{
    const nccl *n = comm->impl;
    if (!bytes) return LH_OK;
    return check_nccl(n, n->f->Broadcast(buf, buf, (size_t)bytes, ncclUint8, root, n->comm, n->on), "a broadcast");
}

/* Collectives are enqueued in stream order: nothing to wait for. */
static lh_status flush(lh_comm *comm)
{
    (void)comm;
    return LH_OK;
}

/* ---- waiting ---- */

static void before_wait(void *self)
{
    const nccl *n = self;
    lh_watch_enter(n->owner->world->watch, "NCCL's collectives", -1);
}

static lh_status during_wait(void *self)
{
    lh_status st = LH_OK;
    const nccl *n = self;
    ncclResult_t error = ncclSuccess;
    LH_TRY_DONE(check_nccl(n, n->f->CommGetAsyncError(n->comm, &error), "the query of its state"));
    LH_TRY_DONE(check_nccl(n, error, "a collective"));
done:
    if (st != LH_OK) n->owner->world->broken = 1;
    return st;
}

static void after_wait(void *self)
{
    const nccl *n = self;
    lh_watch_leave(n->owner->world->watch);
}

static void take_down(void *self)
{
    const nccl *n = self;
    n->f->CommAbort(n->comm);
}

/* ---- opening and closing ---- */

static void close_nccl(lh_comm *comm)
{
    nccl *n = comm->impl;
    if (!n) return;
    if (n->comm) {
        lh_stream_watch(n->stream, NULL);
        lh_watch_at_end(comm->world->watch, NULL, NULL);
        if (comm->world->broken)
            n->f->CommAbort(n->comm); /* peers may be gone */
        else
            n->f->CommDestroy(n->comm);
    }
    lh_stream_close(n->beside);
    lh_free(n);
}

static const lh_comm_ops nccl_ops = {.name = "nccl",
                                     .enqueues = 1,
                                     .close = close_nccl,
                                     .allreduce = allreduce,
                                     .allreduce_async = allreduce_async,
                                     .wait = wait_async,
                                     .allgather = allgather,
                                     .allgatherv = allgatherv,
                                     .gatherv = gatherv,
                                     .bcast = bcast,
                                     .flush = flush};

/* Agrees that every rank has the library, before any rank waits in NCCL for its peers. */
static lh_status find_library(const lh_comm_on *on, nccl *n)
{
    lh_status own = lh_nccl_open(&n->f);
    if (own == LH_OK && !on->one_device_per_rank)
        own = lh_fail(LH_EUSAGE, __FILE__, __LINE__, "NCCL needs a device for every rank, and ranks share one here");
    LH_TRY(lh_comm_agree(on->host, own));
    return LH_OK;
}

/* Collective. Ranks of several hosts need a network: *help is a hint for the message of a failed start, "" if NCCL
 * chooses by itself. */
static lh_status choose_network(lh_comm *host, const char **help)
{
    char first[LH_HOST_BYTES] = "";
    *help = "";
    snprintf(first, sizeof first, "%s", lh_comm_host(host));
    LH_TRY(lh_comm_bcast(host, 0, first, sizeof first));
    int32_t several = strcmp(first, lh_comm_host(host)) != 0;
    LH_TRY(lh_comm_allreduce(host, &several, 1, LH_I32, LH_MAX));
    if (several) *help = lh_nccl_choose_network(NULL);
    return LH_OK;
}

lh_status lh_comm_open_nccl(lh_comm *comm, const lh_comm_on *on)
{
    lh_status st = LH_OK, own = LH_OK;
    nccl *n = NULL;
    const char *help;
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    LH_TRY_DONE(lh_calloc(&n, 1, sizeof *n));
    comm->impl = n;
    comm->ops = &nccl_ops;
    n->stream = on->stream;
    n->owner = comm;
    LH_TRY_DONE(find_library(on, n));
    n->on = lh_stream_cuda(on->stream);
    own = lh_stream_open(&n->beside, lh_stream_device(on->stream));
    LH_TRY_DONE(lh_comm_agree(on->host, own));
    LH_TRY_DONE(choose_network(on->host, &help));
    if (comm->rank == 0) own = check_nccl(n, n->f->GetUniqueId(&id), "making an id");
    LH_TRY_DONE(lh_comm_agree(on->host, own));
    LH_TRY_DONE(lh_comm_bcast(on->host, 0, &id, sizeof id));
    lh_watch_enter(comm->world->watch, "start of NCCL", -1);
    own = check_start(n, n->f->CommInitRank(&n->comm, comm->size, id, comm->rank), help);
    lh_watch_leave(comm->world->watch);
    LH_TRY_DONE(lh_comm_agree(on->host, own));
    lh_stream_watch(on->stream, &(lh_stream_waiter){n, before_wait, during_wait, after_wait});
    lh_watch_at_end(comm->world->watch, take_down, n);
done:
    if (st != LH_OK && n) {
        close_nccl(comm);
        comm->impl = NULL;
        comm->ops = NULL;
    }
    return st;
}

int lh_comm_nccl_found(char text[256])
{
    const lh_nccl *f;
    int version = 0;
    if (lh_nccl_open(&f) != LH_OK) {
        snprintf(text, 256, "%s", lh_error_message());
        lh_error_clear();
        return 0;
    }
    f->GetVersion(&version);
    snprintf(text, 256, "%d.%d.%d, %s", version / 10000, version / 100 % 100, version % 100, f->file);
    return 1;
}

/* ---- the network of a host, by the files of its drivers, and NCCL's name for it ---- */
/* A network is there if a file that matches `files` exists and begins with `begins` (NULL: any contents), and if the
 * file `also` in the same folder begins with `also_begins` (NULL: no such condition). */
typedef struct network {
    const char *name, *value; /* value: for NCCL_NET */
    const char *files, *begins, *also, *also_begins;
    int by_plugin; /* true if a plug-in supports it; false: NCCL does, and a plug-in may be faster */
    const char *help;
} network;

static const char cxi_help[] = "; NCCL_NET was set to 'AWS Libfabric', because this host has Slingshot: is the plug-in "
                               "aws-ofi-nccl in LD_LIBRARY_PATH? NCCL_NET=Socket takes TCP instead",
                  ib_help[] =
                      "; NCCL_NET was set to 'IB', because this host has InfiniBand: NCCL_DEBUG=WARN prints what "
                      "NCCL lacks, NCCL_NET=Socket takes TCP instead";

/* Slingshot's adapters are found by the class of their driver or by the names of their interfaces. RoCE looks like
 * Ethernet and is not detected. */
static const network networks[] = {
    {"Slingshot", "AWS Libfabric", "class/cxi/*", NULL, NULL, NULL, 1, cxi_help},
    {"Slingshot", "AWS Libfabric", "class/net/hsn[0-9]*", NULL, NULL, NULL, 1, cxi_help},
    {"InfiniBand", "IB", "class/infiniband/*/ports/*/link_layer", "InfiniBand", "state", "4:", 0, ib_help}};
enum { NETWORKS = sizeof networks / sizeof *networks };

static int begins_with(const char *path, const char *begins)
{
    char line[64] = "";
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (!fgets(line, sizeof line, f)) line[0] = 0;
    fclose(f);
    return strncmp(line, begins, strlen(begins)) == 0;
}

static int is_file_of(const network *n, const char *path)
{
    char other[4096];
    const char *slash = strrchr(path, '/');
    if (n->begins && !begins_with(path, n->begins)) return 0;
    if (!n->also) return 1;
    return snprintf(other, sizeof other, "%.*s/%s", (int)(slash - path), path, n->also) < (int)sizeof other &&
           begins_with(other, n->also_begins);
}

/* Returns NULL if no known network is found. */
static const network *find_network(const char *sys)
{
    for (int i = 0; i < NETWORKS; i++) {
        char pattern[4096];
        glob_t found;
        int there = 0;
        snprintf(pattern, sizeof pattern, "%s/%s", sys, networks[i].files);
        if (glob(pattern, 0, NULL, &found) != 0) continue;
        for (size_t k = 0; k < found.gl_pathc; k++) there |= is_file_of(&networks[i], found.gl_pathv[k]);
        globfree(&found);
        if (there) return &networks[i];
    }
    return NULL;
}

static int is_loadable(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (handle) dlclose(handle);
    return handle != NULL;
}

const char *lh_nccl_choose_network(const lh_nccl_places *places)
{
    static const lh_nccl_places system = {"/sys", "/etc/nccl.conf", "libnccl-net.so"};
    if (!places) places = &system;
    const char *given = getenv("NCCL_NET");
    const network *n = find_network(places->sys);
    if (!n) return "";
    if (given && strcmp(given, "Socket") == 0)
        lh_warn("NCCL_NET is 'Socket', and this host has %s: NCCL_NET='%s' would be faster", n->name, n->value);
    if (given || getenv("NCCL_NET_PLUGIN") || getenv("NCCL_CONF_FILE") || access(places->conf, F_OK) == 0) return "";
    if (!n->by_plugin && is_loadable(places->plugin)) return "";
    if (setenv("NCCL_NET", n->value, 1) != 0) return "";
    lh_debug("NCCL_NET is set to '%s': this host has %s", n->value, n->name);
    return n->help;
}
