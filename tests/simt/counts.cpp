/* Counts of launches, and of the bytes that they touch. Kernels are compiled with the instrumentation of the thread
 * sanitizer, and the functions that it calls at every load and store are here, not in its runtime.
 *
 * They also prove that kernels that start early do not touch, before they wait, what earlier kernels compute: each
 * piece of 16 bytes has the launch that stored it last. */
#include <string.h>
#include <sys/mman.h>

#include <vector>

#include "simt.h"

extern "C" int64_t lh_cuda_counts(const lh_count **counts);

namespace
{

const size_t SECTOR = 32, PIECE = 16;

char *base; /* of device memory */
size_t range;

/* Zeros, which take memory where they are touched. */
void *addresses(size_t bytes)
{
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) simt_fault("no addresses for counting device memory");
    return p;
}

/* Sectors that the kernel at work has read, or written. */
struct sectors {
    uint64_t *bits;            /* of all device memory */
    std::vector<size_t> words; /* those that are not 0 */
    size_t count;

    void make(size_t bytes)
    {
        bits = (uint64_t *)addresses((bytes / SECTOR / 64 + 1) * sizeof *bits);
    }

    /* at: of device memory */
    void add(size_t at, size_t bytes)
    {
        for (size_t s = at / SECTOR; s <= (at + bytes - 1) / SECTOR; s++) {
            uint64_t &word = bits[s / 64], bit = (uint64_t)1 << s % 64;
            if (word & bit) continue;
            if (!word) words.push_back(s / 64);
            word |= bit;
            count++;
        }
    }

    size_t take()
    {
        const size_t bytes = count * SECTOR;
        for (size_t w : words) bits[w] = 0;
        words.clear();
        count = 0;
        return bytes;
    }
} loads, stores;

std::vector<lh_count> counts;

/* Kernels between which nothing but their waits is an order are a chain. */
struct launch {
    const char *name;
    int64_t chain;
};
std::vector<launch> launches(1); /* the first one is none */
uint32_t *stored_by;             /* of all device memory */

void check_load(size_t at, size_t bytes)
{
    for (size_t s = at / PIECE; s <= (at + bytes - 1) / PIECE; s++) {
        const launch &by = launches[stored_by[s]];
        if (by.chain == launches.back().chain)
            simt_fault("'%s' loads what '%s' stores, before it waits for it", launches.back().name, by.name);
    }
}

inline void add_load(const void *p, size_t bytes)
{
    const size_t at = (size_t)((const char *)p - base);
    if (at >= range || !bytes) return; /* shared memory, a stack, the host's */
    loads.add(at, bytes);
    if (simt_here && simt_here->waits) check_load(at, bytes);
}

inline void add_store(const void *p, size_t bytes)
{
    const size_t at = (size_t)((const char *)p - base);
    if ((size_t)((const unsigned char *)p - simt_watched.at) < simt_watched.bytes) simt_shared_stored(p, bytes);
    if (at >= range || !bytes) return;
    stores.add(at, bytes);
    if (simt_here && simt_here->waits)
        simt_fault("'%s' stores before it waits for the kernels before it", launches.back().name);
    for (size_t s = at / PIECE; s <= (at + bytes - 1) / PIECE; s++) stored_by[s] = (uint32_t)(launches.size() - 1);
}

} // namespace

int64_t simt_count_begins(const char *name, int64_t chain)
{
    static int64_t chains;
    launches.push_back({name, chain ? chain : ++chains});
    return launches.back().chain;
}

void simt_count_memory(void *memory, size_t bytes)
{
    base = (char *)memory;
    range = bytes;
    loads.make(bytes);
    stores.make(bytes);
    stored_by = (uint32_t *)addresses((bytes / PIECE + 1) * sizeof *stored_by);
}

void simt_loads(const void *p, size_t bytes)
{
    add_load(p, bytes);
}

void simt_stores(const void *p, size_t bytes)
{
    add_store(p, bytes);
}

void simt_count(lh_count_kind kind, const char *name, size_t loaded, size_t stored)
{
    size_t i = 0;
    while (i < counts.size() && (counts[i].kind != kind || strcmp(counts[i].name, name) != 0)) i++;
    if (i == counts.size()) counts.push_back({kind, name, 0, 0, 0});
    counts[i].times++;
    counts[i].loaded += (int64_t)loaded;
    counts[i].stored += (int64_t)stored;
}

void simt_count_kernel(const char *name)
{
    const size_t loaded = loads.take(), stored = stores.take();
    simt_count(LH_COUNT_KERNEL, name, loaded, stored);
}

int64_t lh_cuda_counts(const lh_count **out)
{
    simt_drain();
    *out = counts.data();
    return (int64_t)counts.size();
}

/* ---- what the instrumentation calls; the address sanitizer excludes it, and declares these otherwise ---- */

#if !defined(__SANITIZE_ADDRESS__)
#define ACCESSES(bytes)               \
    void __tsan_read##bytes(void *p)  \
    {                                 \
        add_load(p, bytes);           \
    }                                 \
    void __tsan_write##bytes(void *p) \
    {                                 \
        add_store(p, bytes);          \
    }

extern "C" {
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void *p, size_t bytes)
{
    add_load(p, bytes);
}
void __tsan_write_range(void *p, size_t bytes)
{
    add_store(p, bytes);
}
void __tsan_init(void)
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void)
{
}
}
#endif
