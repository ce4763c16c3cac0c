/* decimal.c - decimals, shares, percentages and fractions: reads them exactly as written, writes them, and applies them
 * to integers without rounding errors. */
#include <stdio.h>
#include <string.h>

#include "policies/policy_impl.h"

enum { MAX_SCALE = 18 };

static const int64_t max_digits = INT64_C(999999999999999999), max_number = INT64_C(1) << 40;

static __int128 power_of_ten(int64_t n)
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
            if (d.digits > (max_digits - (c - '0')) / 10 || d.scale + point > MAX_SCALE) return 0;
            digits++;
            d.scale += point;
            d.digits = d.digits * 10 + (c - '0');
        }
    }
    if (!digits) return 0;
    while (d.scale && d.digits % 10 == 0) { /* 0.50 is 0.5: equal policies are equal byte by byte */
        d.digits /= 10;
        d.scale--;
    }
    *out = d;
    return 1;
}

double lh_decimal_value(lh_decimal value)
{
    return (double)value.digits / (double)(int64_t)power_of_ten(value.scale);
}

void lh_decimal_write(lh_decimal value, lh_part_value *out)
{
    long long integer = (long long)(value.digits / (int64_t)power_of_ten(value.scale));
    long long rest = (long long)(value.digits % (int64_t)power_of_ten(value.scale));
    if (value.scale)
        snprintf(out->text, sizeof out->text, "%lld.%0*lld", integer, (int)value.scale, rest);
    else
        snprintf(out->text, sizeof out->text, "%lld", integer);
}

static int at_most(lh_decimal d, int64_t max)
{
    return lh_decimal_of(d, 1) < max || (lh_decimal_of(d, 1) == max && !d.scale);
}

int lh_share_read(lh_decimal *out, const char *text)
{
    return lh_decimal_read(out, text, (int64_t)strlen(text)) && at_most(*out, 1);
}

int lh_percent_read(lh_decimal *out, const char *text)
{
    lh_decimal d;
    size_t n = strlen(text);
    if (!n || text[n - 1] != '%' || !lh_decimal_read(&d, text, (int64_t)n - 1) || !d.digits || !at_most(d, 100))
        return 0;
    *out = d;
    return 1;
}

void lh_percent_write(lh_decimal value, lh_part_value *out)
{
    lh_decimal_write(value, out);
    strcat(out->text, "%");
}

int lh_fraction_read(lh_fraction *out, const char *text)
{
    const char *slash = strchr(text, '/');
    size_t bytes = slash ? (size_t)(slash - text) : strlen(text);
    lh_decimal num, den = {1, 0};
    if (!lh_decimal_read(&num, text, (int64_t)bytes)) return 0;
    if (slash && (!lh_decimal_read(&den, slash + 1, (int64_t)strlen(slash + 1)) || num.scale || den.scale)) return 0;
    int64_t b = slash ? den.digits : (int64_t)power_of_ten(num.scale), a = num.digits, x = a, y = b;
    if (b == 0 || a > b) return 0;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    *out = (lh_fraction){a / x, b / x};
    return 1;
}

/* Writes the fraction, as a decimal if it has a finite one. */
void lh_fraction_write(lh_fraction value, lh_part_value *out)
{
    for (int scale = 0; scale <= MAX_SCALE; scale++) {
        __int128 digits = (__int128)value.num * power_of_ten(scale);
        if (digits % value.den) continue;
        lh_decimal_write((lh_decimal){(int64_t)(digits / value.den), scale}, out);
        return;
    }
    snprintf(out->text, sizeof out->text, "%lld/%lld", (long long)value.num, (long long)value.den);
}

int lh_integer_read(int64_t *out, const char *text, int64_t bytes, int64_t min)
{
    lh_decimal d;
    if (!lh_decimal_read(&d, text, bytes) || memchr(text, '.', (size_t)bytes)) return 0;
    *out = d.digits;
    return d.digits >= min && d.digits <= max_number;
}

int64_t lh_decimal_of(lh_decimal share, int64_t n)
{
    return (int64_t)((__int128)n * share.digits / power_of_ten(share.scale));
}

int64_t lh_percent_of(lh_decimal percent, int64_t n)
{
    return (int64_t)((__int128)n * percent.digits / power_of_ten(percent.scale + 2));
}

lh_fraction lh_decimal_fraction(lh_decimal decimal)
{
    return (lh_fraction){decimal.digits, (int64_t)power_of_ten(decimal.scale)};
}
