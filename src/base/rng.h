/* rng.h - a counter-based generator: Philox 4x32-10 (Salmon et al., SC'11). A draw is a pure function of
 * its key and counter, so it never depends on call order, threads or ranks. */
#ifndef LH_BASE_RNG_H
#define LH_BASE_RNG_H

#include <stdint.h>

/* out = Philox4x32-10(key, counter). */
void lh_philox(uint32_t out[4], const uint32_t key[2], const uint32_t counter[4]);

/* Uniform in [0, 1) with 24 bits, and in (0, 1] (for logarithms), from one of the four words. */
static inline float lh_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

static inline float lh_uniform_open(uint32_t word)
{
    return ((float)(word >> 8) + 1.0f) * 0x1p-24f;
}

/* n standard normals for stream `stream` of `seed`, elements first .. first+n-1 (Box-Muller). Any split of
 * a range gives the same numbers. */
void lh_normals(float *out, uint64_t seed, uint64_t stream, int64_t first, int64_t n);

#endif
