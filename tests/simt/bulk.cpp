/* Bulk and tensor copies, mbarriers, and shared memory as they see it. A copy overwrites its destination with NaN when
 * it is issued, and reads its source and arrives while a thread waits at its mbarrier, a drawn number of attempts
 * later: memory that somebody still reads, that is read without a wait, or that changes too early shows. The state of
 * an mbarrier lies in its 8 bytes. */
#include <vector>

#include "cuda.h"
#include "simt.h"

extern "C" {
#include "bulk.h"
}

namespace
{

const unsigned MADE = 0x15b;

struct mbarrier {
    uint64_t made : 9, phase : 1, arrivals : 11, missing : 11; /* missing: arrivals of this phase */
    int64_t bytes : 32;                                        /* expected less arrived */
};
static_assert(sizeof(mbarrier) == sizeof(uint64_t), "the state of an mbarrier");

struct tensor {
    unsigned char *at;
    int rank, swizzled;
    int64_t dims[3], strides[3], box[3]; /* in numbers of 2 bytes, the first stride is 1 */
};
static_assert(sizeof(tensor) <= sizeof(CUtensorMap), "the content of a map");

struct copy {
    unsigned char *dst;
    const unsigned char *src; /* NULL: a box of a tensor */
    int bytes;
    uint64_t *bar;
    tensor map;
    int64_t from[3];
};
std::vector<copy> under_way;
std::vector<uint64_t *> unfenced; /* mbarriers made since the last fence of a thread */
int64_t tensor_copies;
simt_maps_way maps_way;

/* Of each piece of 16 bytes of dynamic shared memory, the thread with stores that no fence has ordered, from 1 on, and
 * these pieces by thread. */
const size_t PIECE = 16;
std::vector<uint16_t> unordered;
std::vector<std::vector<uint32_t>> pieces_of;

/* Bytes before p in dynamic shared memory; not less than its size: p is elsewhere. */
size_t place_of(const void *p)
{
    return (size_t)((const unsigned char *)p - (const unsigned char *)simt_dynamic_shared());
}

void check_order(size_t place, size_t bytes)
{
    for (size_t i = place / PIECE; i <= (place + bytes - 1) / PIECE && i < unordered.size(); i++)
        if (unordered[i]) simt_fault("no fence after stores of thread %d to shared memory", unordered[i] - 1);
}

/* Like the card's, aligned as the pointer is up to the pattern of a swizzle. */
uint32_t address_of(const void *p)
{
    return (uint32_t)((uintptr_t)p - (uintptr_t)simt_dynamic_shared() / 1024 * 1024);
}

mbarrier *made(uint64_t *bar)
{
    mbarrier *b = (mbarrier *)bar;
    if ((uintptr_t)bar % 8) simt_fault("an mbarrier not at a multiple of 8");
    if (b->made != MADE) simt_fault("an mbarrier that was not made");
    return b;
}

void check_phase(mbarrier *b)
{
    if (b->missing || b->bytes) return;
    b->phase ^= 1;
    b->missing = b->arrivals;
}

/* Calls f(its destination, its source or NULL for zeros) for every number of a box. */
template <typename F>
void for_box(const copy &c, F f)
{
    const tensor &m = c.map;
    const uint32_t base = address_of(c.dst);
    int64_t n = 0;
    for (int64_t z = 0; z < m.box[2]; z++)
        for (int64_t y = 0; y < m.box[1]; y++)
            for (int64_t x = 0; x < m.box[0]; x++, n++) {
                const int64_t at[3] = {c.from[0] + x, c.from[1] + y, c.from[2] + z};
                const uint32_t to = base + (uint32_t)(2 * n);
                int64_t number = 0, inside = 1;
                for (int i = 0; i < 3; i++) {
                    inside &= at[i] >= 0 && at[i] < m.dims[i];
                    number += at[i] * m.strides[i];
                }
                f(c.dst + ((m.swizzled ? simt_swizzled(to) : to) - base), inside ? m.at + 2 * number : nullptr);
            }
}

void arrive(const copy &c)
{
    if (c.src) {
        memcpy(c.dst, c.src, (size_t)c.bytes);
    } else {
        for_box(c, [](unsigned char *to, const unsigned char *from) {
            const unsigned char zero[2] = {0, 0};
            memcpy(to, from ? from : zero, 2);
        });
    }
    mbarrier *b = made(c.bar);
    b->bytes -= c.bytes;
    check_phase(b);
}

void issue(const copy &c)
{
    made(c.bar);
    for (uint64_t *bar : unfenced)
        if (bar == c.bar) simt_fault("a copy to an mbarrier that was made without a fence after it");
    check_order(place_of(c.dst), (size_t)c.bytes);
    memset(c.dst, 0xff, (size_t)c.bytes);
    if (c.src)
        simt_loads(c.src, (size_t)c.bytes);
    else
        for_box(c, [](unsigned char *, const unsigned char *from) { simt_loads(from, from ? 2 : 0); });
    under_way.push_back(c);
}

/* One attempt of a wait. */
simt_attempt attempt(uint64_t *bar, int parity)
{
    if (made(bar)->phase != parity) return SIMT_READY;
    std::vector<size_t> mine;
    for (size_t i = 0; i < under_way.size(); i++)
        if (under_way[i].bar == bar) mine.push_back(i);
    if (mine.empty()) return SIMT_STUCK;
    if (simt_draw(2)) {
        const size_t i = mine[simt_draw((unsigned)mine.size())];
        const copy c = under_way[i];
        under_way.erase(under_way.begin() + (int64_t)i);
        arrive(c);
    }
    return made(bar)->phase != parity ? SIMT_READY : SIMT_LATER;
}

} // namespace

struct simt_watched simt_watched;

void simt_mbarrier_init(uint64_t *bar, int arrivals)
{
    if ((uintptr_t)bar % 8) simt_fault("an mbarrier not at a multiple of 8");
    if (arrivals < 1 || arrivals > 1024) simt_fault("an mbarrier for %d arrivals", arrivals);
    mbarrier b = {MADE, 0, (unsigned)arrivals, (unsigned)arrivals, 0};
    memcpy(bar, &b, sizeof b);
    unfenced.push_back(bar);
}

void simt_mbarrier_fence(void)
{
    unfenced.clear();
}

void simt_mbarrier_arrive(uint64_t *bar, int bytes)
{
    mbarrier *b = made(bar);
    if (b->missing == 0) simt_fault("more arrivals at an mbarrier than its phase has");
    b->missing--;
    b->bytes += bytes;
    if (bytes < 0 || b->bytes >= 1 << 20) simt_fault("an mbarrier that expects %d bytes", (int)b->bytes);
    check_phase(b);
}

void simt_mbarrier_wait(uint64_t *bar, int parity)
{
    if (parity != 0 && parity != 1) simt_fault("a wait at an mbarrier with parity %d", parity);
    simt_wait_until([=] { return attempt(bar, parity); }, "for an mbarrier");
}

void simt_bulk_copy(void *dst, const void *src, int bytes, uint64_t *bar)
{
    if ((uintptr_t)dst % 16 || (uintptr_t)src % 16 || bytes <= 0 || bytes % 16)
        simt_fault("a bulk copy of %d bytes, or not at multiples of 16", bytes);
    issue({(unsigned char *)dst, (const unsigned char *)src, bytes, bar, tensor{}, {0, 0, 0}});
}

void simt_tensor_copy(void *dst, const CUtensorMap *map, int rank, const int *from, uint64_t *bar)
{
    copy c = {(unsigned char *)dst, nullptr, 2, bar, tensor{}, {from[0], from[1], rank > 2 ? from[2] : 0}};
    memcpy(&c.map, map->opaque, sizeof c.map);
    for (int64_t box : c.map.box) c.bytes *= (int)box;
    if (c.map.rank != rank || (uintptr_t)map % 64) simt_fault("a map of %d dimensions", c.map.rank);
    if ((uintptr_t)dst % (c.map.swizzled ? 1024 : 128)) simt_fault("a box of a tensor at the wrong multiple");
    tensor_copies++;
    issue(c);
}

int64_t simt_tensor_copies(void)
{
    return tensor_copies;
}

void simt_maps_go(simt_maps_way way)
{
    maps_way = way;
}

void simt_bulk_end(void)
{
    if (!under_way.empty()) simt_fault("a block ended before its bulk copies");
    unfenced.clear();
    simt_watched.bytes = 0;
    unordered.clear();
    for (std::vector<uint32_t> &pieces : pieces_of) pieces.clear();
}

uint32_t simt_shared_address(const void *p)
{
    if (!simt_watched.bytes) {
        simt_watched = {(const unsigned char *)simt_dynamic_shared(), simt_dynamic_bytes()};
        unordered.assign(simt_watched.bytes / PIECE + 1, 0);
    }
    return address_of(p);
}

void simt_shared_stored(const void *p, size_t bytes)
{
    const size_t place = place_of(p), thread = simt_thread();
    if (pieces_of.size() <= thread) pieces_of.resize(thread + 1);
    for (size_t i = place / PIECE; i <= (place + bytes - 1) / PIECE; i++) {
        if (unordered[i] != thread + 1) pieces_of[thread].push_back((uint32_t)i);
        unordered[i] = (uint16_t)(thread + 1);
    }
}

void simt_async_fence(void)
{
    const size_t thread = simt_thread();
    if (pieces_of.size() <= thread) return;
    for (uint32_t i : pieces_of[thread])
        if (unordered[i] == thread + 1) unordered[i] = 0;
    pieces_of[thread].clear();
}

unsigned char *simt_shared_at(uint32_t at, uint32_t bytes)
{
    const uint32_t first = address_of(simt_dynamic_shared());
    if (at < first || at + bytes > first + simt_dynamic_bytes())
        simt_fault("a matrix outside of dynamic shared memory");
    check_order(at - first, bytes);
    return (unsigned char *)simt_dynamic_shared() + (at - first);
}

/* What the driver refuses, of the maps that this project makes. */
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *at,
                                const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    tensor t = {(unsigned char *)at, (int)rank, swizzle == CU_TENSOR_MAP_SWIZZLE_128B && maps_way != SIMT_MAPS_WRONG,
                {1, 1, 1},           {1, 0, 0}, {1, 1, 1}};
    if (maps_way == SIMT_MAPS_REFUSED || type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ||
        interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || rank < 2 || rank > 3)
        return CUDA_ERROR_INVALID_VALUE;
    if ((uintptr_t)map % 64 || (uintptr_t)at % 16 || box[0] * 2 % 16 || (t.swizzled && box[0] * 2 > 128))
        return CUDA_ERROR_INVALID_VALUE;
    for (cuuint32_t i = 0; i < rank; i++) {
        if (!dims[i] || dims[i] > (cuuint64_t)1 << 32 || !box[i] || box[i] > 256 || steps[i] != 1)
            return CUDA_ERROR_INVALID_VALUE;
        if (i > 0 && (strides[i - 1] % 16 || strides[i - 1] >> 40)) return CUDA_ERROR_INVALID_VALUE;
        t.dims[i] = (int64_t)dims[i];
        t.box[i] = box[i];
        if (i > 0) t.strides[i] = (int64_t)strides[i - 1] / 2;
    }
    memset(map, 0, sizeof *map);
    memcpy(map->opaque, &t, sizeof t);
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *found)
{
    const bool there = strcmp(name, "cuTensorMapEncodeTiled") == 0;
    *out = there ? (void *)cuTensorMapEncodeTiled : nullptr;
    *found = there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
