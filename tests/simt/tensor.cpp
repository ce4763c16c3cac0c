/* What tensor cores and asynchronous copies do, for a warp of fibers. */
#include <vector>

#include "cuda_bf16.h"
#include "simt.h"

namespace
{

/* A lane's part of a product of a warp. */
struct shares {
    float c[4];
    unsigned a[4], b[2];
};

void halves(double *y, int step, unsigned low, unsigned high)
{
    y[0] = __uint_as_float(low << 16);
    y[step] = __uint_as_float(low & 0xffff0000u);
    y[2 * step] = __uint_as_float(high << 16);
    y[3 * step] = __uint_as_float(high & 0xffff0000u);
}

/* c [16, 8] += a [16, 16] b [16, 8], of all lanes. Row g of a is held by lanes 4 g .. 4 g + 3 (and row g + 8), column n
 * of b by lanes 4 n .. 4 n + 3; a lane holds k = 2 t, 2 t + 1 (first word) and those 8 further on (second word). Lane
 * 4 g + t has the columns 2 t, 2 t + 1 of c in the rows g and g + 8. Products of bf16 numbers are exact. */
__attribute__((target_clones("avx512f", "avx2", "default"))) void multiply(unsigned char *given)
{
    double a[16][16], b[16][8], c[16][8];
    shares part;
    for (int lane = 0; lane < 32; lane++) {
        const int g = lane / 4, t = lane % 4;
        memcpy(&part, given + lane * SIMT_SLOT, sizeof part);
        halves(a[g] + 4 * t, 1, part.a[0], part.a[2]);
        halves(a[g + 8] + 4 * t, 1, part.a[1], part.a[3]);
        halves(b[4 * t] + g, 8, part.b[0], part.b[1]);
        for (int i = 0; i < 4; i++) c[g + i / 2 * 8][2 * t + i % 2] = part.c[i];
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int col = 0; col < 8; col++) c[row][col] += a[row][k] * b[k][col];
    for (int lane = 0; lane < 32; lane++) {
        float sums[4];
        for (int i = 0; i < 4; i++) sums[i] = simt_cut(c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
        memcpy(given + lane * SIMT_SLOT, sums, sizeof sums);
    }
}

/* A copy that is under way, and the group it was committed with (-1: none yet). */
struct copy {
    unsigned char *dst;
    const unsigned char *src;
    int bytes, all, group;
};
struct copies {
    std::vector<copy> waiting;
    int groups; /* committed so far */
};
std::vector<copies> of_threads;

copies &mine()
{
    const size_t i = simt_thread();
    if (of_threads.size() <= i) of_threads.resize(i + 1);
    return of_threads[i];
}

} // namespace

void simt_mma_bf16(float c[4], const unsigned a[4], const unsigned b[2])
{
    const shares own = {{c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    memcpy(c, simt_warp_after(&own, sizeof own, multiply) + simt_lane() * SIMT_SLOT, 4 * sizeof *c);
}

unsigned simt_transposed(unsigned word)
{
    const unsigned char *given = simt_warp(&word, sizeof word);
    int row = simt_lane() / 4, col = simt_lane() % 4 * 2;
    unsigned y = 0;
    for (int i = 0; i < 2; i++) {
        unsigned short number;
        memcpy(&number, given + (4 * (col + i) + row / 2) * SIMT_SLOT + row % 2 * 2, sizeof number);
        y |= (unsigned)number << 16 * i;
    }
    return y;
}

void simt_load_matrices(unsigned y[4], const void *row)
{
    unsigned char words[16];
    if ((uintptr_t)row % 16) simt_fault("a row of a matrix not at a multiple of 16");
    memcpy(words, row, sizeof words);
    const unsigned char *given = simt_warp(words, sizeof words);
    for (int i = 0; i < 4; i++)
        memcpy(y + i, given + (8 * i + simt_lane() / 4) * SIMT_SLOT + simt_lane() % 4 * 4, sizeof *y);
}

void simt_copy_async(void *dst, const void *src, int bytes, int all)
{
    if ((uintptr_t)dst % (unsigned)all || (bytes && (uintptr_t)src % (unsigned)all) || bytes < 0 || bytes > all)
        simt_fault("a copy of %d bytes, or not at multiples of %d", bytes, all);
    memset(dst, 0xff, (size_t)all);
    simt_loads(src, (size_t)bytes);
    mine().waiting.push_back({(unsigned char *)dst, (const unsigned char *)src, bytes, all, -1});
}

void simt_copy_commit(void)
{
    copies &m = mine();
    for (copy &c : m.waiting)
        if (c.group < 0) c.group = m.groups;
    m.groups++;
}

void simt_copy_wait(int groups_left)
{
    copies &m = mine();
    std::vector<copy> later;
    for (const copy &c : m.waiting) {
        if (c.group < 0 || c.group >= m.groups - groups_left) {
            later.push_back(c);
            continue;
        }
        memset(c.dst, 0, (size_t)c.all);
        memcpy(c.dst, c.src, (size_t)c.bytes);
    }
    m.waiting.swap(later);
}

void simt_copies_end(void)
{
    for (copies &m : of_threads) {
        if (!m.waiting.empty()) simt_fault("a block ended before its copies");
        m.groups = 0;
    }
}
