/* Products of warpgroups. A product is made when its warp waits for its group, with what the registers and shared
 * memory then hold, all 32 lanes at once; from its issue until then the lane's sums are NaN. */
#include <vector>

#include "simt.h"

namespace
{

const int ROWS = 16, DEEP = 16, MAX_COLS = 256;

struct product {
    float *d;
    int cols;
    const unsigned *words; /* NULL: a is in shared memory */
    uint64_t a, b;
    int keep, group; /* group: -1: not committed yet */
};
/* Sums of a lane before the first product that waits. */
struct held {
    float *d;
    std::vector<float> numbers;
};
struct lane {
    std::vector<product> waiting;
    std::vector<held> before;
    int groups, fenced;
};
std::vector<lane> lanes;

lane &mine()
{
    const size_t i = simt_thread();
    if (lanes.size() <= i) lanes.resize(i + 1);
    return lanes[i];
}

/* A matrix in shared memory: numbers at (row / 8 * stride + row % 8 * 128, columns / 64 * lead). */
struct matrix {
    uint32_t at, lead, stride;
};

matrix matrix_of(uint64_t bits)
{
    const matrix m = {(uint32_t)(bits & 0x3fff) << 4, (uint32_t)(bits >> 16 & 0x3fff) << 4,
                      (uint32_t)(bits >> 32 & 0x3fff) << 4};
    if (bits >> 62 != 1 || (bits >> 49 & 7)) simt_fault("a matrix without a swizzle of 128 bytes, or not at its start");
    if (m.stride % 1024 || m.lead % 16) simt_fault("a matrix whose rows are not in groups of 1024 bytes");
    return m;
}

double number_at(uint32_t at)
{
    unsigned short bits;
    memcpy(&bits, simt_shared_at(simt_swizzled(at), sizeof bits), sizeof bits);
    return (double)__uint_as_float((unsigned)bits << 16);
}

double number_along(const matrix &m, int row, int k)
{
    return number_at(m.at + (uint32_t)(row / 8) * m.stride + (uint32_t)(row % 8 * 128 + 2 * k));
}
double number_across(const matrix &m, int k, int col)
{
    return number_at(m.at + (uint32_t)(col / 64) * m.lead + (uint32_t)(k / 8) * m.stride +
                     (uint32_t)(k % 8 * 128 + col % 64 * 2));
}

/* b [16, cols], and the 16 rows of a that are the warp's. */
void read_operands(lane *const all[32], size_t n, double a[ROWS][DEEP], double b[DEEP][MAX_COLS])
{
    const product &p = all[0]->waiting[n];
    const matrix mb = matrix_of(p.b);
    for (int k = 0; k < DEEP; k++)
        for (int col = 0; col < p.cols; col++)
            b[k][col] = p.words ? number_across(mb, k, col) : number_along(mb, col, k);
    const int first = (int)(simt_thread() / 32 % 4) * ROWS;
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < DEEP; k++) {
            if (p.words) {
                const unsigned word = all[row % 8 * 4 + k % 8 / 2]->waiting[n].words[row / 8 + k / 8 * 2];
                a[row][k] = (double)__uint_as_float(k % 2 ? word & 0xffff0000u : word << 16);
            } else {
                a[row][k] = number_along(matrix_of(p.a), first + row, k);
            }
        }
}

float *before(lane *l, float *d)
{
    for (held &h : l->before)
        if (h.d == d) return h.numbers.data();
    simt_fault("sums of a product that were not kept");
}

/* Product n of all lanes of a warp; sums so far are in `before`. */
void multiply(lane *const all[32], size_t n)
{
    static double a[ROWS][DEEP], b[DEEP][MAX_COLS], sum[MAX_COLS];
    const product &p = all[0]->waiting[n];
    for (int i = 1; i < 32; i++) {
        const product &q = all[i]->waiting[n];
        if (q.a != p.a || q.b != p.b || q.cols != p.cols || q.keep != p.keep || !q.words != !p.words)
            simt_fault("lanes of a warp with different products");
    }
    read_operands(all, n, a, b);
    for (int row = 0; row < ROWS; row++) {
        for (int t = 0; t < 4; t++) {
            lane *l = all[row % 8 * 4 + t];
            const float *d = before(l, l->waiting[n].d);
            for (int c = 0; c < p.cols / 4; c++)
                sum[c / 2 * 8 + 2 * t + c % 2] = p.keep ? d[c / 2 * 4 + row / 8 * 2 + c % 2] : 0.0f;
        }
        for (int k = 0; k < DEEP; k++)
            for (int col = 0; col < p.cols; col++) sum[col] += a[row][k] * b[k][col];
        for (int t = 0; t < 4; t++) {
            lane *l = all[row % 8 * 4 + t];
            float *d = before(l, l->waiting[n].d);
            for (int c = 0; c < p.cols / 4; c++)
                d[c / 2 * 4 + row / 8 * 2 + c % 2] = simt_cut(sum[c / 2 * 8 + 2 * t + c % 2]);
        }
    }
}

/* The first `done` products of a lane have ended: its sums are there unless later products wait for them. */
void finish(lane *l, size_t done)
{
    l->waiting.erase(l->waiting.begin(), l->waiting.begin() + (int64_t)done);
    for (size_t i = 0; i < l->before.size();) {
        held &h = l->before[i];
        bool waits = false;
        for (const product &p : l->waiting) waits |= p.d == h.d;
        if (waits) {
            i++;
            continue;
        }
        memcpy(h.d, h.numbers.data(), h.numbers.size() * sizeof(float));
        l->before.erase(l->before.begin() + (int64_t)i);
    }
}

} // namespace

void simt_wgmma(float *d, int cols, const unsigned *words, uint64_t a, uint64_t b, int keep)
{
    lane &l = mine();
    bool there = false;
    if (!l.fenced) simt_fault("a product of a warpgroup without a fence before it");
    for (const held &h : l.before) there |= h.d == d;
    if (!there) l.before.push_back({d, std::vector<float>(d, d + cols / 2)});
    memset(d, 0xff, (size_t)(cols / 2) * sizeof *d);
    l.waiting.push_back({d, cols, words, a, b, keep, -1});
}

void simt_wgmma_fence(void)
{
    mine().fenced = 1;
}

void simt_wgmma_commit(void)
{
    lane &l = mine();
    for (product &p : l.waiting)
        if (p.group < 0) p.group = l.groups;
    l.groups++;
}

void simt_wgmma_wait(int groups_left)
{
    mine(); /* lanes do not move from here on, but for other warps' */
    size_t first = simt_thread() / 32 * 32, done = 0;
    simt_warp(nullptr, 0);
    if (simt_lane() == 0) {
        lane *all[32];
        for (int i = 0; i < 32; i++) all[i] = &lanes[first + (size_t)i];
        for (const product &p : all[0]->waiting) done += p.group >= 0 && p.group < all[0]->groups - groups_left;
        for (int i = 1; i < 32; i++)
            if (all[i]->waiting.size() != all[0]->waiting.size()) simt_fault("lanes of a warp with different products");
        for (size_t n = 0; n < done; n++) multiply(all, n);
        for (lane *l : all) finish(l, done);
    }
    mine().fenced = 0;
    simt_warp(nullptr, 0);
}

void simt_wgmma_end(void)
{
    for (lane &l : lanes) {
        if (!l.waiting.empty()) simt_fault("a block ended before its products");
        l.groups = l.fenced = 0;
    }
}
