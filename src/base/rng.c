/* rng.c - ranges of normals. */
#include "base/rng.h"

/* The normals of one block of 4, from number `first` on and before number `end`; returns how many they are. */
static int64_t part_of_block(float *out, uint64_t seed, uint64_t stream, int64_t first, int64_t end)
{
    float z[4];
    int64_t n = 0;
    lh_four_normals(z, seed, stream, (uint64_t)first / 4);
    for (int64_t j = first % 4; j < 4 && first + n < end; j++) out[n++] = z[j];
    return n;
}

void lh_normals(float *out, uint64_t seed, uint64_t stream, int64_t first, int64_t n)
{
    const int64_t end = first + n;
    int64_t i = first;
    if (i % 4 && i < end) i += part_of_block(out, seed, stream, i, end);
    const uint64_t block = (uint64_t)i / 4;
    const int64_t whole = (end - i) / 4;
    for (int64_t b = 0; b < whole; b++) lh_four_normals(out + (i - first) + 4 * b, seed, stream, block + (uint64_t)b);
    i += 4 * whole;
    if (i < end) part_of_block(out + (i - first), seed, stream, i, end);
}
