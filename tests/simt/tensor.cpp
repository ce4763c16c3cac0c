/* What tensor cores and asynchronous copies do, for a warp of fibers. */
#include <vector>

#include "cuda_bf16.h"
#include "simt.h"

namespace
{

struct shares {
    unsigned a[4], b[2];
};

void halves(double y[4], unsigned low, unsigned high)
{
    y[0] = __uint_as_float(low << 16);
    y[1] = __uint_as_float(low & 0xffff0000u);
    y[2] = __uint_as_float(high << 16);
    y[3] = __uint_as_float(high & 0xffff0000u);
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

float simt_cut(double x)
{
    float y = (float)x;
    return isfinite(y) && fabs((double)y) > fabs(x) ? nextafterf(y, 0.0f) : y;
}

/* Row g of the lane's part of a is held by lanes 4 g .. 4 g + 3, column n of b by lanes 4 n .. 4 n + 3; a lane holds
 * k = 2 t, 2 t + 1 (first word) and those 8 further on (second word). */
void simt_mma_bf16(float c[4], const unsigned a[4], const unsigned b[2])
{
    shares own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, part;
    const unsigned char *given = simt_warp(&own, sizeof own);
    int lane = simt_lane(), row = lane / 4, col = lane % 4 * 2;
    double rows[2][16], cols[2][16];
    for (int t = 0; t < 4; t++) {
        memcpy(&part, given + (4 * row + t) * 64, sizeof part);
        halves(rows[0] + 4 * t, part.a[0], part.a[2]);
        halves(rows[1] + 4 * t, part.a[1], part.a[3]);
        for (int i = 0; i < 2; i++) {
            memcpy(&part, given + (4 * (col + i) + t) * 64, sizeof part);
            halves(cols[i] + 4 * t, part.b[0], part.b[1]);
        }
    }
    for (int i = 0; i < 4; i++) {
        double sum = c[i];
        for (int k = 0; k < 16; k++) sum += rows[i / 2][k] * cols[i % 2][k];
        c[i] = simt_cut(sum);
    }
}

unsigned simt_transposed(unsigned word)
{
    const unsigned char *given = simt_warp(&word, sizeof word);
    int row = simt_lane() / 4, col = simt_lane() % 4 * 2;
    unsigned y = 0;
    for (int i = 0; i < 2; i++) {
        unsigned short number;
        memcpy(&number, given + (4 * (col + i) + row / 2) * 64 + row % 2 * 2, sizeof number);
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
    for (int i = 0; i < 4; i++) memcpy(y + i, given + (8 * i + simt_lane() / 4) * 64 + simt_lane() % 4 * 4, sizeof *y);
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
