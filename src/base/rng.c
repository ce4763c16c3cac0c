#include "base/rng.h"

#include <math.h>

void lh_philox(uint32_t out[4], const uint32_t key[2], const uint32_t counter[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

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
