/* NCCL's collectives through memory that the processes share, piece by piece. A sum is there when its stream is waited
 * for, not earlier: so a missing wait of another stream is seen.
 *
 * NCCL's rules are checked: all ranks call the same collectives in the same order; whether one is captured in a graph
 * is the same on all ranks; and they launch graphs that they captured together, as often. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "base/dtype.h"
#include "comm/nccl_library.h"
}
#include "simt.h"

namespace
{

const size_t PIECE = 256 << 10;
const int MOST = 8; /* ranks */

enum kind { ALL_REDUCE, ALL_GATHER, BROADCAST, MESSAGE };

/* What has to be the same on all ranks that meet. */
struct stamp {
    kind what;
    size_t bytes;
    int how;              /* type and operation, or root */
    int64_t graph, place; /* the how many-th of this communicator, and the how many-th there; 0: in no graph */
    bool operator==(const stamp &other) const
    {
        return what == other.what && bytes == other.bytes && how == other.how && graph == other.graph &&
               place == other.place;
    }
};

struct shared {
    std::atomic<int> arrived, turn;
    std::atomic<int> full[MOST][MOST]; /* mailboxes, from and to */
    stamp stamps[MOST], sent[MOST][MOST];
    char slots[MOST][PIECE];
    char mail[MOST][MOST][PIECE];
};

} // namespace

struct simt_nccl {
    shared *all;
    int ranks, rank;
    int64_t capture, graphs, place; /* capture of the stream in which the last collective was captured */
};

namespace
{

void barrier(simt_nccl *c)
{
    int turn = c->all->turn;
    if (++c->all->arrived == c->ranks) {
        c->all->arrived = 0;
        c->all->turn++;
        return;
    }
    while (c->all->turn == turn) sched_yield();
}

size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- what ranks are at ---- */

/* Messages have no place: their ranks send and receive different numbers of them. */
stamp stamp_of(simt_nccl *c, cudaStream_t stream, kind what, size_t bytes, int how)
{
    stamp s = {what, bytes, how, 0, 0};
    int64_t capture = simt_capture_of(stream);
    if (!capture) return s;
    if (capture != c->capture) {
        c->capture = capture;
        c->graphs++;
        c->place = 0;
    }
    s.graph = c->graphs;
    if (what != MESSAGE) s.place = ++c->place;
    return s;
}

std::string text_of(const stamp &s, int rank)
{
    static const char *const names[] = {"an all-reduce", "an all-gather", "a broadcast", "a message"};
    char text[160], graph[80] = "in no graph";
    if (s.graph) snprintf(graph, sizeof graph, "in graph %d, number %d", (int)s.graph, (int)s.place);
    snprintf(text, sizeof text, "rank %d is at %s of %zu bytes (%d), %s", rank, names[s.what], s.bytes, s.how, graph);
    return text;
}

void check_same(const stamp &own, int rank, const stamp &other, int other_rank)
{
    if (!(own == other)) simt_fault("NCCL: %s; %s", text_of(own, rank).c_str(), text_of(other, other_rank).c_str());
}

/* All ranks, at the same collective. */
void meet(simt_nccl *c, const stamp &own)
{
    c->all->stamps[c->rank] = own;
    barrier(c);
    for (int r = 0; r < c->ranks; r++) check_same(own, c->rank, c->all->stamps[r], r);
}

/* ---- collectives ---- */

int grouped; /* depth; blocks are small enough that those of a group may come one after the other */

ncclResult_t enqueue(cudaStream_t stream, std::function<void()> work)
{
    simt_enqueue_now(stream, work);
    return ncclSuccess;
}

template <typename T>
void reduce(T *to, const T *from, size_t n, ncclRedOp_t op)
{
    for (size_t i = 0; i < n; i++)
        to[i] = op == ncclSum   ? to[i] + from[i]
                : op == ncclMax ? (from[i] > to[i] ? from[i] : to[i])
                                : (from[i] < to[i] ? from[i] : to[i]);
}

void add_bf16(uint16_t *to, const uint16_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = lh_f32_to_bf16(lh_bf16_to_f32(to[i]) + lh_bf16_to_f32(from[i]));
}

void reduce_bytes(char *to, const char *from, size_t bytes, ncclDataType_t type, ncclRedOp_t op)
{
    if (type == ncclFloat32) reduce((float *)to, (const float *)from, bytes / 4, op);
    if (type == ncclInt32) reduce((int *)to, (const int *)from, bytes / 4, op);
    if (type == ncclInt64) reduce((int64_t *)to, (const int64_t *)from, bytes / 8, op);
    if (type == ncclBfloat16) add_bf16((uint16_t *)to, (const uint16_t *)from, bytes / 2);
}

ncclResult_t all_reduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c,
                        cudaStream_t stream)
{
    size_t bytes = count * (type == ncclInt64 ? 8 : type == ncclBfloat16 ? 2 : 4);
    stamp own = stamp_of(c, stream, ALL_REDUCE, bytes, 100 * (int)type + (int)op);
    auto sum = std::make_shared<std::vector<char>>(bytes);
    enqueue(stream, [=] {
        simt_count(LH_COUNT_COLLECTIVE, "all-reduce", bytes, bytes);
        for (size_t at = 0; at < bytes; at += PIECE) {
            size_t n = least(PIECE, bytes - at);
            char *to = sum->data() + at;
            memcpy(c->all->slots[c->rank], (const char *)send + at, n);
            meet(c, own);
            memcpy(to, c->all->slots[0], n);
            for (int r = 1; r < c->ranks; r++) reduce_bytes(to, c->all->slots[r], n, type, op);
            barrier(c);
        }
    });
    simt_enqueue(stream, [=] { memcpy(recv, sum->data(), bytes); });
    return ncclSuccess;
}

ncclResult_t all_gather(const void *send, void *recv, size_t bytes, ncclDataType_t, ncclComm_t c, cudaStream_t stream)
{
    stamp own = stamp_of(c, stream, ALL_GATHER, bytes, 0);
    return enqueue(stream, [=] {
        simt_count(LH_COUNT_COLLECTIVE, "all-gather", bytes, bytes * (size_t)c->ranks);
        for (size_t at = 0; at < bytes; at += PIECE) {
            size_t n = least(PIECE, bytes - at);
            memcpy(c->all->slots[c->rank], (const char *)send + at, n);
            meet(c, own);
            for (int r = 0; r < c->ranks; r++) memcpy((char *)recv + (size_t)r * bytes + at, c->all->slots[r], n);
            barrier(c);
        }
    });
}

ncclResult_t broadcast(const void *send, void *recv, size_t bytes, ncclDataType_t, int root, ncclComm_t c,
                       cudaStream_t stream)
{
    stamp own = stamp_of(c, stream, BROADCAST, bytes, root);
    return enqueue(stream, [=] {
        simt_count(LH_COUNT_COLLECTIVE, "broadcast", c->rank == root ? bytes : 0, bytes);
        for (size_t at = 0; at < bytes; at += PIECE) {
            size_t n = least(PIECE, bytes - at);
            if (c->rank == root) memcpy(c->all->slots[root], (const char *)send + at, n);
            meet(c, own);
            memcpy((char *)recv + at, c->all->slots[root], n);
            barrier(c);
        }
    });
}

/* A block to a peer. One to oneself is read by the receive after it: at most a piece. */
ncclResult_t send_to(const void *send, size_t bytes, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t stream)
{
    if (peer == c->rank && bytes > PIECE) simt_fault("%zu bytes to oneself", bytes);
    stamp own = stamp_of(c, stream, MESSAGE, bytes, 0);
    return enqueue(stream, [=] {
        simt_count(LH_COUNT_COLLECTIVE, "send", bytes, 0);
        for (size_t at = 0; at < bytes; at += PIECE) {
            while (c->all->full[c->rank][peer]) sched_yield();
            c->all->sent[c->rank][peer] = own;
            memcpy(c->all->mail[c->rank][peer], (const char *)send + at, least(PIECE, bytes - at));
            c->all->full[c->rank][peer] = 1;
        }
    });
}

ncclResult_t receive(void *recv, size_t bytes, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t stream)
{
    stamp own = stamp_of(c, stream, MESSAGE, bytes, 0);
    return enqueue(stream, [=] {
        simt_count(LH_COUNT_COLLECTIVE, "receive", 0, bytes);
        for (size_t at = 0; at < bytes; at += PIECE) {
            while (!c->all->full[peer][c->rank]) sched_yield();
            check_same(own, c->rank, c->all->sent[peer][c->rank], peer);
            memcpy((char *)recv + at, c->all->mail[peer][c->rank], least(PIECE, bytes - at));
            c->all->full[peer][c->rank] = 0;
        }
    });
}

ncclResult_t get_version(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

/* The one who makes the id makes the memory. */
ncclResult_t get_unique_id(ncclUniqueId *id)
{
    static int count;
    int fd = -1;
    memset(id, 0, sizeof *id);
    const char *owner = getenv("LONGHAUL_TEST_OWNER"); /* removes it if this process is killed (base/temporary.h) */
    do {                                               /* a killed process of the same number may have left some */
        snprintf(id->internal, sizeof id->internal, "/longhaul-test-%s-simt-%d-%d", owner ? owner : "", (int)getpid(),
                 count++);
        fd = shm_open(id->internal, O_CREAT | O_EXCL | O_RDWR, 0600);
    } while (fd < 0 && errno == EEXIST);
    if (fd < 0 || ftruncate(fd, sizeof(shared)) != 0) return ncclSystemError;
    close(fd);
    return ncclSuccess;
}

/* A network that is asked for (NCCL_NET) must be the emulated one, if that has a name. */
ncclResult_t comm_init_rank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank)
{
    const char *asked = getenv("NCCL_NET"), *here = getenv("LONGHAUL_SIMT_NETWORK");
    if (asked && strcmp(asked, here ? here : "Socket") != 0) return ncclInvalidUsage;
    int fd = shm_open(id.internal, O_RDWR, 0600);
    if (fd < 0 || ranks > MOST) return ncclSystemError;
    void *p = mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return ncclSystemError;
    ncclComm_t c = new simt_nccl{(shared *)p, ranks, rank, 0, 0, 0};
    barrier(c);
    if (rank == 0) shm_unlink(id.internal);
    *out = c;
    simt_library(1);
    return ncclSuccess;
}

ncclResult_t comm_destroy(ncclComm_t c)
{
    munmap(c->all, sizeof(shared));
    delete c;
    simt_library(0);
    return ncclSuccess;
}

ncclResult_t comm_get_async_error(ncclComm_t, ncclResult_t *error)
{
    *error = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t group_start(void)
{
    grouped++;
    return ncclSuccess;
}

ncclResult_t group_end(void)
{
    return grouped-- > 0 ? ncclSuccess : ncclInvalidArgument;
}

const char *get_error_string(ncclResult_t rc)
{
    return rc == ncclSuccess ? "success" : "an error of the emulation";
}

} // namespace

extern "C" lh_status lh_nccl_open(const lh_nccl **out)
{
    static const lh_nccl functions = {
        get_version, get_unique_id,    comm_init_rank,   comm_destroy, comm_destroy, comm_get_async_error,
        all_reduce,  all_gather,       broadcast,        send_to,      receive,      group_start,
        group_end,   get_error_string, "the emulation's"};
    *out = &functions;
    return LH_OK;
}
