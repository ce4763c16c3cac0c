/* decimal.h - decimals as they were written, so that shares of entries are taken in integers, never in floating
 * point. */
#ifndef LH_POLICIES_DECIMAL_H
#define LH_POLICIES_DECIMAL_H

#include <stdint.h>

#include "base/fraction.h"

/* A decimal as it was written: value = digits / 10^scale, scale <= 18. Shares are computed from it in integers. No
 * padding: policies are compared byte by byte. */
typedef struct lh_decimal {
    int64_t digits, scale;
} lh_decimal;

/* floor(n * decimal) and floor(n * percent / 100), exact. n < 2^62. */
int64_t lh_decimal_of(lh_decimal share, int64_t n);
int64_t lh_percent_of(lh_decimal percent, int64_t n);

/* The nearest double, for values that are no shares of entries; and the fraction in lowest terms. */
double lh_decimal_value(lh_decimal value);
lh_fraction lh_decimal_fraction(lh_decimal decimal);

#endif
