#include <math.h>
#include <omp.h>
#include <string.h>

#include "cases.h"
#include "rig.h"

static const double temperatures[] = {1, 0.3, 7, 1e-6, 1e4, 1e-310, 1e300};
enum { TEMPERATURES = sizeof temperatures / sizeof *temperatures };

enum { NORMAL, EQUAL, ODD, INFINITE, NO_NUMBER }; /* EQUAL: many of them; ODD, INFINITE: odd numbers among them */
enum { COUNT, LOGITS, SKIPPED, PENALTY, SEEN, TEMPERATURE, VOCAB, THREADS };
static const dimension kinds[] = {
    [COUNT] = {"logits", 6, {40009, 0, 0, 0, 0, 0}, {"many", "few", "few", "few", "few", "few"}}, /* many: by threads */
    [LOGITS] = {"kind",
                5,
                {NORMAL, EQUAL, ODD, INFINITE, NO_NUMBER},
                {"normals", "equal ones", "odd ones", "infinite ones", "no number"}},
    [SKIPPED] = {"skipped", 3, {0, 1, 2}},
    [PENALTY] = {"tenths of the penalty", 3, {11, 7, 30}},
    [SEEN] = {"seen", 7, {0, 1, 1, 1, 1, 1, 1}, {"none", "some", "some", "some", "some", "some", "some"}},
    [TEMPERATURE] = {"temperature", 7, {0, 1, 2, 3, 4, 5, 6}, {"1", "0.3", "7", "1e-6", "1e4", "1e-310", "1e300"}},
    [VOCAB] = {"vocabulary", 2, {150000, 0}, {"150000", "the logits"}},
    [THREADS] = {"threads", 4, {1, 2, 3, 4}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

static float *logits_make(lot *m, int64_t n, int64_t of, uint64_t seed)
{
    const float odd[] = {NAN, -NAN, -INFINITY, -0.0f, 0.0f, 1e-45f, -3e38f, 3e38f, INFINITY};
    float *x = lot_normals(m, n, 3.0f, seed);
    for (int64_t i = 0; i < n; i++) {
        uint64_t dice = seed * 1000003 + (uint64_t)i;
        if (of == EQUAL) x[i] = (float)draw(90, dice, 5);
        if (of == ODD && draw(91, dice, 3) == 0) x[i] = odd[draw(92, dice, 5)];
        if (of == INFINITE && draw(91, dice, 3) == 0) x[i] = odd[draw(92, dice, 9)];
        if (of == NO_NUMBER) x[i] = odd[draw(92, dice, 3)];
    }
    return x;
}

static int64_t count_of(int n)
{
    int64_t many = kind(COUNT, n);
    return many ? many + n : draw(93, (uint64_t)n, 300);
}

START_TEST(test_a_penalty_changes_what_was_seen_and_nothing_else)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 90 / rig_scale(&g); n++) {
            lot m = {0};
            int64_t count = count_of(n), words = (count + 31) / 32, skip = kind(SKIPPED, n);
            int64_t some = kind(SEEN, n);
            double penalty = (double)kind(PENALTY, n) / 10;
            float *x = logits_make(&m, count + skip, kind(LOGITS, n), (uint64_t)n), *got = lot_new(&m, count * 4);
            uint32_t *seen = lot_new(&m, words * 4);
            for (int64_t i = 0; i < words; i++)
                seen[i] = some ? (uint32_t)draw(94, (uint64_t)(n * 9999 + i), 1L << 32) : 0;
            float *y = rig_new(&g, count * 4), *at = rig_put(&g, x, (count + skip) * 4);
            float *bias = n % 3 ? logits_make(&m, count, 0, (uint64_t)n + 900) : NULL;
            float *minus = n % 4 > 1 ? logits_make(&m, count, 0, (uint64_t)n + 800) : NULL;
            RUN(&g, penalise, .y = y, .x = at + skip, .seen = rig_put(&g, seen, words * 4),
                .bias = bias ? rig_put(&g, bias, count * 4) : NULL,
                .minus = minus ? rig_put(&g, minus, count * 4) : NULL, .count = count, .penalty = penalty);
            rig_get(&g, got, y, count * 4);
            for (int64_t i = 0; i < count; i++) {
                float was = bias ? x[i + skip] + bias[i] : x[i + skip], want = was;
                if (seen[i / 32] >> i % 32 & 1) want = (float)(was > 0 ? was / penalty : was * penalty);
                if (minus) want -= minus[i];
                ck_assert_msg(memcmp(&want, &got[i], 4) == 0 || (isnan(want) && isnan(got[i])),
                              "%s: %.9g of %.9g, not %.9g%s", g.ops->name, got[i], was, want, case_words());
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

static float top_of(const float *x, int64_t n)
{
    float top = -INFINITY;
    for (int64_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

/* Rows are cut anywhere, as ranks cut them. */
START_TEST(test_probabilities_of_parts_add_up_to_the_same_sum_everywhere)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 140 / rig_scale(&g); n++) {
            lot m = {0};
            int64_t count = count_of(n), cut = draw(95, (uint64_t)n, count + 1), parts[2], want = 0;
            int64_t vocab = kind(VOCAB, n);
            float *x = logits_make(&m, count, kind(LOGITS, n), (uint64_t)n);
            int64_t *sums = rig_new(&g, sizeof parts);
            float *at = rig_put(&g, x, count * 4);
            lh_probabilities by =
                lh_probabilities_of(top_of(x, count), temperatures[kind(TEMPERATURE, n)], vocab ? vocab : count);
            omp_set_num_threads((int)kind(THREADS, n));
            RUN(&g, sum_probabilities, .sum = sums, .x = at, .count = cut, .by = by);
            RUN(&g, sum_probabilities, .sum = sums + 1, .x = at + cut, .count = count - cut, .by = by);
            rig_get(&g, parts, sums, sizeof parts);
            for (int64_t i = 0; i < count; i++) want += lh_probability(&by, x[i]);
            ck_assert_msg(parts[0] + parts[1] == want, "%s: %lld and %lld, not %lld%s", g.ops->name,
                          (long long)parts[0], (long long)parts[1], (long long)want, case_words());
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_a_probability_is_what_the_exponential_says)
{
    lot m = {0};
    float *x = lot_normals(&m, 10000, 10.0f, 1);
    for (int t = 0; t < TEMPERATURES; t++) {
        const float top = 40.25f;
        const int64_t vocabularies[] = {1, 150000, 1 << 18, INT32_MAX};
        for (int v = 0; v < 4; v++) {
            lh_probabilities by = lh_probabilities_of(top, temperatures[t], vocabularies[v]);
            for (int i = 0; i < 10000; i++) {
                if (x[i] > top) continue;
                long double want = ldexpl(expl(((long double)x[i] - top) / temperatures[t]), by.bits);
                long double off = fabsl((long double)lh_probability(&by, x[i]) - want);
                ck_assert_msg(off <= 0.5L + want * 0x1p-46L, "%.9g at %g, 2^%d: %lld, not %.3Lf", x[i], temperatures[t],
                              by.bits, (long long)lh_probability(&by, x[i]), want);
            }
        }
    }
    lot_end(&m);
}
END_TEST

START_TEST(test_the_largest_logits_share_all_probabilities_and_a_sum_has_room_for_any_vocabulary)
{
    const float tops[] = {-INFINITY, -3e38f, -2.5f, -0.0f, 0.0f, 7.0f, 3e38f, INFINITY};
    for (int64_t vocab = 1; vocab <= INT32_MAX; vocab = vocab * 3 / 2 + 1) {
        lh_probabilities by = lh_probabilities_of(1.0f, 1.0, vocab);
        ck_assert_int_gt(by.bits, 0);
        ck_assert_int_le(vocab, INT64_MAX >> by.bits);
    }
    for (int t = 0; t < TEMPERATURES; t++) {
        for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
            lh_probabilities by = lh_probabilities_of(tops[i], temperatures[t], 1000);
            ck_assert_int_eq(lh_probability(&by, tops[i]), (int64_t)1 << by.bits);
            ck_assert_int_eq(lh_probability(&by, NAN), 0);
            if (tops[i] > -INFINITY) ck_assert_int_eq(lh_probability(&by, -INFINITY), 0);
            if (tops[i] == INFINITY) ck_assert_int_eq(lh_probability(&by, 3e38f), 0);
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_a_penalty_changes_what_was_seen_and_nothing_else,
        test_probabilities_of_parts_add_up_to_the_same_sum_everywhere, test_a_probability_is_what_the_exponential_says,
        test_the_largest_logits_share_all_probabilities_and_a_sum_has_room_for_any_vocabulary, NULL};
    return rig_run("kernels/logits", tests);
}
