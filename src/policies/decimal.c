#include <stdio.h>
#include <string.h>

#include "policies/policy_impl.h"

enum { MOST_DIGITS = 18 };

static __int128 power_of_ten(int n)
{
    __int128 p = 1;
    while (n-- > 0) p *= 10;
    return p;
}

int lh_decimal_read(lh_decimal *out, const char *text, int64_t bytes)
{
    lh_decimal d = {0};
    int digits = 0, point = 0;
    for (int64_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == '.') {
            if (point++) return 0;
        } else if (c < '0' || c > '9') {
            return 0;
        } else {
            if (++digits > MOST_DIGITS) return 0;
            d.scale += point;
            d.digits = d.digits * 10 + (c - '0');
        }
    }
    if (!digits) return 0;
    while (d.scale && d.digits % 10 == 0) { /* 0.50 is 0.5: equal plans are equal bytes */
        d.digits /= 10;
        d.scale--;
    }
    *out = d;
    return 1;
}

void lh_decimal_write(lh_decimal value, lh_part_value *out)
{
    long long whole = (long long)(value.digits / (int64_t)power_of_ten(value.scale));
    long long rest = (long long)(value.digits % (int64_t)power_of_ten(value.scale));
    if (value.scale)
        snprintf(out->text, sizeof out->text, "%lld.%0*lld", whole, value.scale, rest);
    else
        snprintf(out->text, sizeof out->text, "%lld", whole);
}

int64_t lh_decimal_of(lh_decimal share, int64_t n)
{
    return (int64_t)((__int128)n * share.digits / power_of_ten(share.scale));
}

int64_t lh_percent_of(lh_decimal percent, int64_t n)
{
    return (int64_t)((__int128)n * percent.digits / power_of_ten(percent.scale + 2));
}
