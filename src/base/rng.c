/* rng.c - Philox 4x32-10 and normals by Box-Muller. */
#include "base/rng.h"

#include <math.h>

void lh_normals(float *out, uint64_t seed, uint64_t stream, int64_t first, int64_t n)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int64_t i = first; i < first + n;) {
        uint64_t block = (uint64_t)i / 4;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                                     (uint32_t)(stream >> 32)};
        uint32_t w[4];
        float z[4];
        lh_philox(w, key, counter);
        for (int j = 0; j < 4; j += 2) {
            float r = sqrtf(-2.0f * logf(lh_uniform_open(w[j]))), a = 6.28318530717958647692f * lh_uniform(w[j + 1]);
            z[j] = r * cosf(a);
            z[j + 1] = r * sinf(a);
        }
        for (int j = (int)(i % 4); j < 4 && i < first + n; j++, i++) out[i - first] = z[j];
    }
}
