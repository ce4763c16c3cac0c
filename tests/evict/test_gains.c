/* What an entry more is worth, from curves of losses. */
#include "evict/loss_curves.h"

#include <math.h>

#include "base/rng.h"
#include "suite.h"

static const int64_t rooms[] = {1, 2, 5, 63, 700, 1024, 8000, 131072};
enum { ROOMS = sizeof rooms / sizeof *rooms, LAST = LH_CURVE_POINTS - 1 };

static float chance(uint32_t seed, uint32_t n)
{
    uint32_t out[4], key[2] = {seed, 5}, counter[4] = {n};
    lh_philox(out, key, counter);
    return lh_uniform(out[0]);
}

/* Rank r, on the line between points. */
static double gain_at(int64_t room, const float *gains, int64_t r)
{
    int p = 1;
    while (p < LAST && lh_curve_entries(room, p) <= r) p++;
    const double from = (double)lh_curve_entries(room, p - 1), to = (double)lh_curve_entries(room, p);
    return (double)gains[p - 1] + ((double)gains[p] - (double)gains[p - 1]) * ((double)r - from) / (to - from);
}

START_TEST(test_points_go_from_no_entry_to_all_in_doubles)
{
    for (int i = 0; i < ROOMS; i++) {
        ck_assert_int_eq(lh_curve_entries(rooms[i], 0), 0);
        ck_assert_int_eq(lh_curve_entries(rooms[i], LAST), rooms[i]);
        for (int64_t p = 1, power = 1024; p < LAST; p++, power /= 2)
            ck_assert_int_eq(lh_curve_entries(rooms[i], p), (rooms[i] + power / 2) / power);
    }
}
END_TEST

START_TEST(test_gains_fall_strictly_whatever_the_losses_are)
{
    for (uint32_t n = 0; n < 400; n++) {
        const int64_t room = rooms[n % ROOMS];
        float losses[LH_CURVE_POINTS], gains[LH_CURVE_POINTS];
        for (uint32_t p = 0; p < LH_CURVE_POINTS; p++)
            losses[p] = n % 3 == 0 ? 0 : chance(n, p) * (n % 3 == 1 ? 1 : 1 / (float)(1 + p));
        lh_gains_of_losses(room, losses, gains);
        for (int64_t p = 1; p < LH_CURVE_POINTS; p++) {
            ck_assert_msg(isfinite(gains[p]) && gains[p] >= 0, "a gain of %g", (double)gains[p]);
            ck_assert_msg(lh_curve_entries(room, p) == lh_curve_entries(room, p - 1) || gains[p] < gains[p - 1],
                          "room %lld: gains of %g, then %g", (long long)room, (double)gains[p - 1], (double)gains[p]);
        }
    }
}
END_TEST

/* Of a convex curve the gains of the first k entries add up to what the loss falls by, as far as lines between points
 * tell. */
START_TEST(test_gains_add_up_to_what_a_convex_curve_falls_by)
{
    const int64_t room = 8192;
    float losses[LH_CURVE_POINTS], gains[LH_CURVE_POINTS];
    for (int64_t p = 0; p < LH_CURVE_POINTS; p++)
        losses[p] = (float)(1000 / (1000 + (double)lh_curve_entries(room, p)));
    lh_gains_of_losses(room, losses, gains);
    double sum = 0;
    for (int64_t r = 0; r < room; r++) {
        sum += gain_at(room, gains, r);
        const double falls = 1 - 1000 / (1000 + (double)r + 1);
        ck_assert_msg(r < 256 || fabs(sum - falls) < 0.25 * falls, "%lld entries gain %g, the loss falls by %g",
                      (long long)(r + 1), sum, falls);
    }
}
END_TEST

/* A hump hides nothing: what comes after it counts from before it on. */
START_TEST(test_a_hump_is_passed_over)
{
    float with[LH_CURVE_POINTS], without[LH_CURVE_POINTS], losses[LH_CURVE_POINTS];
    for (int p = 0; p < LH_CURVE_POINTS; p++) losses[p] = (float)(LAST - p);
    losses[5] = 100;
    lh_gains_of_losses(4096, losses, with);
    losses[5] = 99;
    lh_gains_of_losses(4096, losses, without);
    for (int p = 0; p < LH_CURVE_POINTS; p++) ck_assert_float_eq(with[p], without[p]);
}
END_TEST

int main(void)
{
    return suite_run("gains", (const TTest *const[]){test_points_go_from_no_entry_to_all_in_doubles,
                                                     test_gains_fall_strictly_whatever_the_losses_are,
                                                     test_gains_add_up_to_what_a_convex_curve_falls_by,
                                                     test_a_hump_is_passed_over, NULL});
}
