/* q8.h - a row of numbers in 8 bits: x = scale * code, with one f32 scale a row, max |x| / 127. Codes are rounded to
 * nearest even, so |x - scale * code| <= scale / 2. A row with a number that is not finite has a scale that is not, and
 * codes of 0: then every number of it reads as NaN. The same bits on every backend.
 *
 * Keys may have a few channels with large numbers, which make the scale of a row coarse for all others. So the codes of
 * a key k are codes of H k, with the Hadamard matrix H of lh_q8_hadamard, and k is the inverse of H times the products
 * of scale and codes; values are not transformed. Attention transforms the query instead of its keys: because H is
 * symmetric, q.k is the inverse of H times q, multiplied with those products. The divergence from a cache of f32 is 3
 * to 8 times smaller where keys have such channels (docs/quality.md). */
#ifndef LH_KERNELS_Q8_H
#define LH_KERNELS_Q8_H

#include <math.h>
#include <stdint.h>

#include "base/both.h"

enum { LH_Q8_MAX = 127 };

/* The code of x. */
static LH_BOTH inline int8_t lh_q8_code(float x, float scale)
{
    const float code = rintf(x / scale);
    return code >= -LH_Q8_MAX && code <= LH_Q8_MAX ? (int8_t)code : 0; /* 0 / 0: a row of zeros */
}

/* Quantises the n numbers of a row: returns its scale. */
static LH_BOTH inline float lh_q8_row(int8_t *codes, const float *x, int64_t n)
{
    float largest = 0.0f, sum = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        sum += 0.0f * x[i]; /* NaN unless all are finite */
    }
    const float scale = (largest + sum) / LH_Q8_MAX;
    for (int64_t i = 0; i < n; i++) codes[i] = lh_q8_code(x[i], scale);
    return scale;
}

/* Rows and columns of a block of H: the largest power of two that divides n. */
static LH_BOTH inline int64_t lh_q8_hadamard_block(int64_t n)
{
    return n & -n;
}

/* Sums and differences of the numbers at a distance of `stride`. */
static LH_BOTH inline void lh_q8_butterflies(float *x, int64_t n, const int64_t stride)
{
    for (int64_t i = 0; i < n; i += 2 * stride) {
        for (int64_t j = i; j < i + stride; j++) {
            const float a = x[j], b = x[j + stride];
            x[j] = a + b;
            x[j + stride] = a - b;
        }
    }
}

/* x = H x, in place: H has Hadamard matrices of 1 and -1 as blocks on its diagonal. The sums are f32, with strides of
 * 1, 2, 4, …, and not normalised. Constant strides are vectorised: 64 numbers take 29 ns instead of 91 (AVX2). */
static LH_BOTH inline void lh_q8_hadamard(float *x, int64_t n)
{
    const int64_t block = lh_q8_hadamard_block(n);
    if (block > 1) lh_q8_butterflies(x, n, 1);
    if (block > 2) lh_q8_butterflies(x, n, 2);
    if (block > 4) lh_q8_butterflies(x, n, 4);
    if (block > 8) lh_q8_butterflies(x, n, 8);
    for (int64_t stride = 16; stride < block; stride *= 2) lh_q8_butterflies(x, n, stride);
}

/* x = the inverse of H times x, in place: H x / block, an exact division. */
static LH_BOTH inline void lh_q8_hadamard_inverse(float *x, int64_t n)
{
    const float factor = 1.0f / (float)lh_q8_hadamard_block(n);
    lh_q8_hadamard(x, n);
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

#endif
