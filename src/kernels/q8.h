/* q8.h - a row of numbers in 8 bits: x = scale * code, with one f32 scale a row, max |x| / 127. Codes are rounded to
 * nearest even, so |x - scale * code| <= scale / 2. A row with a number that is not finite has a scale that is not, and
 * codes of 0: then every number of it reads as NaN. The same bits on every backend. */
#ifndef LH_KERNELS_Q8_H
#define LH_KERNELS_Q8_H

#include <math.h>
#include <stdint.h>

enum { LH_Q8_MAX = 127 };

/* The code of x. */
static inline int8_t lh_q8_code(float x, float scale)
{
    const float code = rintf(x / scale);
    return code >= -LH_Q8_MAX && code <= LH_Q8_MAX ? (int8_t)code : 0; /* 0 / 0: a row of zeros */
}

/* Quantises the n numbers of a row: returns its scale. */
static inline float lh_q8_row(int8_t *codes, const float *x, int64_t n)
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

#endif
