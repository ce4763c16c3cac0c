/* rng.h - a counter-based generator: Philox 4x32-10 (Salmon et al., SC'11). A draw is a pure function of
 * its key and counter, so it never depends on call order, threads or ranks. */
#ifndef LH_BASE_RNG_H
#define LH_BASE_RNG_H

#include <stdint.h>

#include "base/both.h"

/* out = Philox4x32-10(key, counter). */
static LH_BOTH inline void lh_philox(uint32_t out[4], const uint32_t key[2], const uint32_t counter[4])
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

/* Uniform in [0, 1) with 24 bits, and in (0, 1] (for logarithms), from one of the four words. */
static LH_BOTH inline float lh_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

static LH_BOTH inline float lh_uniform_open(uint32_t word)
{
    return ((float)(word >> 8) + 1.0f) * 0x1p-24f;
}

/* n standard normals for stream `stream` of `seed`, elements first .. first+n-1 (Box-Muller). Any split of
 * a range gives the same numbers. */
void lh_normals(float *out, uint64_t seed, uint64_t stream, int64_t first, int64_t n);

#endif
