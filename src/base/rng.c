/* rng.c - ranges of normals. */
#include "base/rng.h"

void lh_normals(float *out, uint64_t seed, uint64_t stream, int64_t first, int64_t n)
{
    for (int64_t i = first; i < first + n;) {
        float z[4];
        lh_four_normals(z, seed, stream, (uint64_t)i / 4);
        for (int j = (int)(i % 4); j < 4 && i < first + n; j++, i++) out[i - first] = z[j];
    }
}
