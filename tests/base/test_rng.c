#include <check.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "suite.h"

/* The known answers of Random123 (kat_vectors, philox4x32 10): counter, key, output. */
START_TEST(test_philox_gives_the_published_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        lh_philox(out, known[i].key, known[i].counter);
        ck_assert_mem_eq(out, known[i].out, sizeof out);
    }
}
END_TEST

START_TEST(test_normals_do_not_depend_on_how_a_range_is_split)
{
    enum { N = 257 };
    static const int64_t starts[] = {0, 1, 3, 1022, INT64_C(1) << 34, (INT64_C(1) << 34) + 5};
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        float whole[N], parts[N];
        lh_normals(whole, 42, 7, starts[s], N);
        for (int64_t at = 0, n = 1; at < N; at += n, n = n % 11 + 1) {
            if (n > N - at) n = N - at;
            lh_normals(parts + at, 42, 7, starts[s] + at, n);
        }
        ck_assert_mem_eq(whole, parts, sizeof whole);
    }
}
END_TEST

START_TEST(test_seeds_and_streams_differ)
{
    float a[64], b[64], c[64], d[64];
    lh_normals(a, 1, 0, 0, 64);
    lh_normals(b, 2, 0, 0, 64);
    lh_normals(c, 1, 1, 0, 64);
    lh_normals(d, 1 + (UINT64_C(1) << 32), 0, 0, 64);
    ck_assert_mem_ne(a, b, sizeof a);
    ck_assert_mem_ne(a, c, sizeof a);
    ck_assert_mem_ne(a, d, sizeof a);
}
END_TEST

/* To two units of their last place, for every angle that a word has, and every logarithm. */
START_TEST(test_logarithms_and_turns_are_those_of_the_mathematics)
{
    const double turn = 6.283185307179586;
    double worst = 0;
    for (uint32_t k = 0; k < 1 << 24; k++) {
        const uint32_t word = k << 8;
        const double u = lh_uniform_open(word), angle = turn * lh_uniform(word);
        float c, s;
        lh_sincos_2pi(&c, &s, word);
        const double off[] = {u < 1 ? lh_log_of((float)u) / log(u) - 1 : 0, c - cos(angle), s - sin(angle)};
        for (int i = 0; i < 3; i++)
            if (!(fabs(off[i]) <= worst)) worst = fabs(off[i]);
    }
    ck_assert_msg(worst <= 0x1p-23, "off by %g", worst);
    ck_assert(lh_log_of(1) == 0);
}
END_TEST

/* The same bits on every machine: they are what models of `import --random` consist of. */
START_TEST(test_normals_have_known_bits)
{
    static const float known[8] = {0x1.a254ecp-2f, 0x1.00c432p-1f,  -0x1.48b604p-1f, 0x1.879c54p+0f,
                                   0x1.19316cp-1f, -0x1.44e742p-1f, 0x1.aa91b4p-1f,  -0x1.ec3c7ep-1f};
    float z[8];
    lh_normals(z, 1, 2, 3, 8);
    ck_assert_mem_eq(z, known, sizeof z);
}
END_TEST

/* 2^20 draws: the moments of a standard normal to within five standard errors (1/sqrt(n), sqrt(2/n), sqrt(96/n)). */
START_TEST(test_normals_are_normal)
{
    enum { N = 1 << 20, BLOCK = 4096 };
    static float z[BLOCK];
    double m1 = 0, m2 = 0, m4 = 0;
    for (int64_t at = 0; at < N; at += BLOCK) {
        lh_normals(z, 20240, 3, at, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            double x = z[i];
            ck_assert(isfinite(x));
            m1 += x / N;
            m2 += x * x / N;
            m4 += x * x * x * x / N;
        }
    }
    ck_assert_double_le(fabs(m1), 5 / sqrt(N));
    ck_assert_double_le(fabs(m2 - 1), 5 * sqrt(2.0 / N));
    ck_assert_double_le(fabs(m4 - 3), 5 * sqrt(96.0 / N));
}
END_TEST

START_TEST(test_uniforms_stay_in_their_interval)
{
    ck_assert(lh_uniform(0) == 0.0f);
    ck_assert(lh_uniform(UINT32_MAX) < 1.0f);
    ck_assert(lh_uniform_open(0) > 0.0f);
    ck_assert(lh_uniform_open(UINT32_MAX) == 1.0f);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_philox_gives_the_published_answers,
                                  test_normals_do_not_depend_on_how_a_range_is_split,
                                  test_seeds_and_streams_differ,
                                  test_logarithms_and_turns_are_those_of_the_mathematics,
                                  test_normals_have_known_bits,
                                  test_normals_are_normal,
                                  test_uniforms_stay_in_their_interval,
                                  NULL};
    return suite_run("rng", tests);
}
