#include <check.h>
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "suite.h"

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float number(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* The value of a 16-bit float with `e` exponent bits, from its definition: (-1)^s 2^x 1.f. */
static double defined(uint16_t h, int e)
{
    const int f = 15 - e, bias = (1 << (e - 1)) - 1;
    const int exp = (h >> f) & ((1 << e) - 1), frac = h & ((1 << f) - 1);
    const double sign = h & 0x8000 ? -1.0 : 1.0;
    if (exp == (1 << e) - 1) return frac ? (double)NAN : sign * (double)INFINITY;
    if (exp == 0) return sign * ldexp(frac, 1 - bias - f);
    return sign * ldexp((1 << f) + frac, exp - bias - f);
}

START_TEST(test_every_16_bit_value_has_its_defined_value)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        double b = defined((uint16_t)h, 8), a = defined((uint16_t)h, 5);
        float fb = lh_bf16_to_f32((uint16_t)h), fa = lh_f16_to_f32((uint16_t)h);
        ck_assert_msg(isnan(b) ? isnan(fb) : (double)fb == b && !signbit(fb) == !signbit(b), "bf16 0x%04x", h);
        ck_assert_msg(isnan(a) ? isnan(fa) : (double)fa == a && !signbit(fa) == !signbit(a), "f16 0x%04x", h);
    }
}
END_TEST

START_TEST(test_every_16_bit_value_survives_the_way_there_and_back)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t b = lh_f32_to_bf16(lh_bf16_to_f32((uint16_t)h)), a = lh_f32_to_f16(lh_f16_to_f32((uint16_t)h));
        if (isnan(lh_bf16_to_f32((uint16_t)h)))
            ck_assert(isnan(lh_bf16_to_f32(b)));
        else
            ck_assert_uint_eq(b, h);
        if (isnan(lh_f16_to_f32((uint16_t)h)))
            ck_assert(isnan(lh_f16_to_f32(a)));
        else
            ck_assert_uint_eq(a, h);
    }
}
END_TEST

/* Between two neighbours of the 16-bit type: below the middle rounds down, above it up, the middle to the even one. */
static void check_between(uint16_t low, int e, uint16_t (*narrow)(float))
{
    double down = defined(low, e), up = defined((uint16_t)(low + 1), e);
    if (isinf(up)) up = 2 * down - defined((uint16_t)(low - 1), e); /* where it would be */
    float middle = (float)((down + up) / 2);
    ck_assert((double)middle == (down + up) / 2);
    uint16_t even = low & 1 ? (uint16_t)(low + 1) : low;
    ck_assert_msg(narrow(middle) == even, "tie above 0x%04x", low);
    ck_assert_msg(narrow(nextafterf(middle, 0.0f)) == low, "below the tie above 0x%04x", low);
    ck_assert_msg(narrow(nextafterf(middle, INFINITY)) == low + 1, "above the tie above 0x%04x", low);
    ck_assert_msg(narrow(-middle) == (even | 0x8000), "negative tie above 0x%04x", low);
}

START_TEST(test_ties_round_to_even_between_all_neighbours)
{
    for (uint32_t h = 0; h < 0x7f80; h++) check_between((uint16_t)h, 8, lh_f32_to_bf16);
    for (uint32_t h = 0; h < 0x7c00; h++) check_between((uint16_t)h, 5, lh_f32_to_f16);
}
END_TEST

START_TEST(test_what_is_too_large_becomes_infinity)
{
    ck_assert_uint_eq(lh_f32_to_f16(65519.996f), 0x7bff);
    ck_assert_uint_eq(lh_f32_to_f16(65520.0f), 0x7c00);
    ck_assert_uint_eq(lh_f32_to_f16(-INFINITY), 0xfc00);
    ck_assert_uint_eq(lh_f32_to_bf16(number(0x7f7fffff)), 0x7f80);
    ck_assert_uint_eq(lh_f32_to_bf16(INFINITY), 0x7f80);
}
END_TEST

START_TEST(test_nan_stays_nan_whatever_its_payload)
{
    const uint32_t payloads[] = {0x7f800001, 0x7fc00000, 0x7f80ffff, 0xff800001, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        ck_assert(isnan(lh_bf16_to_f32(lh_f32_to_bf16(number(payloads[i])))));
        ck_assert(isnan(lh_f16_to_f32(lh_f32_to_f16(number(payloads[i])))));
    }
}
END_TEST

START_TEST(test_a_whole_array_converts_as_its_elements_do)
{
    enum { N = 1000 };
    float f[N], back[N];
    uint16_t h[N], b[N], want;
    for (int i = 0; i < N; i++) f[i] = ldexpf((float)(i * 7919 % 1009) - 500.0f, i % 60 - 30);
    lh_dtype_convert(h, LH_F16, f, LH_F32, N);
    lh_dtype_convert(b, LH_BF16, h, LH_F16, N);
    lh_dtype_convert(back, LH_F32, b, LH_BF16, N);
    for (int i = 0; i < N; i++) {
        want = lh_f32_to_f16(f[i]);
        ck_assert_uint_eq(h[i], want);
        want = lh_f32_to_bf16(lh_f16_to_f32(want));
        ck_assert_uint_eq(b[i], want);
        ck_assert_uint_eq(bits(back[i]), bits(lh_bf16_to_f32(want)));
    }
    lh_dtype_convert(f, LH_F32, f, LH_F32, N);
}
END_TEST

START_TEST(test_names_and_sizes_agree)
{
    for (int i = 0; i < LH_DTYPES; i++) {
        lh_dtype type = LH_DTYPES;
        ck_assert(lh_dtype_find(lh_dtype_name((lh_dtype)i), &type));
        ck_assert_int_eq((int)type, i);
        ck_assert_int_gt(lh_dtype_bytes(type), 0);
    }
    lh_dtype type = LH_U8;
    ck_assert(!lh_dtype_find("float32", &type));
    ck_assert_int_eq((int)type, LH_U8);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_16_bit_value_has_its_defined_value,
                                  test_every_16_bit_value_survives_the_way_there_and_back,
                                  test_ties_round_to_even_between_all_neighbours,
                                  test_what_is_too_large_becomes_infinity,
                                  test_nan_stays_nan_whatever_its_payload,
                                  test_a_whole_array_converts_as_its_elements_do,
                                  test_names_and_sizes_agree,
                                  NULL};
    return suite_run("dtype", tests);
}
