/* rng.h - a counter-based generator: Philox 4x32-10 (Salmon et al., SC'11). A draw is a pure function of
 * its key and counter, so it never depends on call order, threads or ranks. */
#ifndef LH_BASE_RNG_H
#define LH_BASE_RNG_H

#include <math.h>
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

/* ---- standard normals, by Box-Muller: products, sums and square roots in f32 alone, so that they have the same bits
 * on every processor and device, if the compiler does not fuse products and sums (-ffp-contract=off, nvcc --fmad=false)
 */

/* Natural logarithm of a normal number in (0, 1]; polynomial of Cephes' logf, 2 units in the last place. */
static LH_BOTH inline float lh_log_of(float u)
{
    union {
        float value;
        uint32_t bits;
    } m = {u};
    int e = (int)(m.bits >> 23) - 126; /* u = m * 2^e, m in [0.5, 1) */
    m.bits = (m.bits & 0x7fffff) | 0x3f000000;
    if (m.value < 0.70710678f) {
        m.value *= 2;
        e--;
    }
    const float x = m.value - 1, z = x * x, n = (float)e;
    float y = 7.0376836292e-2f;
    y = y * x - 1.1514610310e-1f;
    y = y * x + 1.1676998740e-1f;
    y = y * x - 1.2420140846e-1f;
    y = y * x + 1.4249322787e-1f;
    y = y * x - 1.6668057665e-1f;
    y = y * x + 2.0000714765e-1f;
    y = y * x - 2.4999993993e-1f;
    y = y * x + 3.3333331174e-1f;
    y = y * x * z + n * -2.12194440e-4f;
    return x + (y - 0.5f * z) + n * 0.693359375f;
}

/* Cosine and sine of 2 pi lh_uniform(word), by a polynomial each (Cephes) around the nearest quarter of a turn. */
static LH_BOTH inline void lh_sincos_2pi(float *cosine, float *sine, uint32_t word)
{
    const int32_t k = (int32_t)(word >> 8), quarter = (k + (1 << 21)) >> 22;
    const float x = (float)(k - quarter * (1 << 22)) * 3.74507028e-7f, z = x * x; /* pi / 2^23 */
    const float c =
        ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1;
    const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
    *cosine = quarter & 1 ? s : c;
    *sine = quarter & 1 ? c : s;
    if ((quarter & 3) == 1 || (quarter & 3) == 2) *cosine = -*cosine;
    if (quarter & 2) *sine = -*sine;
}

/* z = the standard normals 4 block … 4 block + 3 of stream `stream` of `seed`. */
static LH_BOTH inline void lh_four_normals(float z[4], uint64_t seed, uint64_t stream, uint64_t block)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    uint32_t w[4];
    lh_philox(w, key, counter);
    for (int j = 0; j < 4; j += 2) {
        const float r = sqrtf(-2 * lh_log_of(lh_uniform_open(w[j])));
        float c, s;
        lh_sincos_2pi(&c, &s, w[j + 1]);
        z[j] = r * c;
        z[j + 1] = r * s;
    }
}

/* n standard normals for stream `stream` of `seed`, elements first .. first+n-1 (Box-Muller). Any split of
 * a range gives the same numbers. */
void lh_normals(float *out, uint64_t seed, uint64_t stream, int64_t first, int64_t n);

#endif
