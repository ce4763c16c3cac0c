/* Laws of a budget that is divided by loss curves, against every division that there is. */
#include <check.h>
#include <math.h>

#include "lab/replay/make_budgets.h"
#include "suite.h"

enum { UNITS = 4, POINTS = 9 };

static const double shares[POINTS] = {0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.25};

/* A number in [0, 1). */
static double next_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407); /* Knuth's MMIX */
    return (double)(*state >> 40) * 0x1p-24;
}

/* Falling curves of seeded numbers; convex ones fall less and less. */
static void make_curves(double *losses, uint64_t seed, int convex)
{
    uint64_t state = seed;
    for (int64_t u = 0; u < UNITS; u++) {
        double falls[POINTS - 1], sum = 0;
        for (int i = 0; i < POINTS - 1; i++) falls[i] = next_number(&state);
        for (int i = 1; convex && i < POINTS - 1; i++) falls[i] *= falls[i - 1];
        for (int i = POINTS - 1; i >= 0; i--) {
            losses[u * POINTS + i] = sum;
            if (i) sum += falls[i - 1];
        }
    }
}

/* The least loss of all divisions whose shares are points of the curves. */
static double try_all(const double *losses, int unit, int quarters)
{
    double best = INFINITY;
    if (unit == UNITS) return quarters == 0 ? 0 : INFINITY;
    for (int i = 0; i < POINTS && i + 1 <= quarters; i++)
        best = fmin(best, losses[unit * POINTS + i] + try_all(losses, unit + 1, quarters - i - 1));
    return best;
}

static double sum_of(const double *x)
{
    double sum = 0;
    for (int u = 0; u < UNITS; u++) sum += x[u];
    return sum;
}

START_TEST(test_greedy_is_the_best_of_all_divisions)
{
    double losses[UNITS * POINTS], got[UNITS];
    const lh_loss_curves curves = {UNITS, POINTS, shares, losses, 0};
    for (uint64_t seed = 0; seed < 50; seed++) {
        make_curves(losses, seed, 1);
        ck_assert_int_eq(lh_curves_allocate(&curves, got), LH_OK);
        ck_assert_double_eq_tol(sum_of(got), UNITS, 1e-12);
        ck_assert_double_eq_tol(lh_curves_loss(&curves, got), try_all(losses, 0, 4 * UNITS), 1e-12);
    }
}
END_TEST

/* Where a curve is not convex the end of the budget may lie within a stretch of its hull. */
START_TEST(test_curves_that_are_not_convex_are_divided_well)
{
    double losses[UNITS * POINTS], got[UNITS];
    const lh_loss_curves curves = {UNITS, POINTS, shares, losses, 0};
    int best = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        make_curves(losses, seed, 0);
        ck_assert_int_eq(lh_curves_allocate(&curves, got), LH_OK);
        ck_assert_double_eq_tol(sum_of(got), UNITS, 1e-12);
        const double least = try_all(losses, 0, 4 * UNITS), loss = lh_curves_loss(&curves, got);
        ck_assert_double_ge(loss, least - 1e-12);
        ck_assert_double_le(loss, lh_curves_loss(&curves, NULL) + 1e-12);
        best += loss <= least + 1e-12;
    }
    ck_assert_int_ge(best, 120);
}
END_TEST

START_TEST(test_every_unit_gets_the_least_share)
{
    double losses[UNITS * POINTS], got[UNITS];
    for (uint64_t seed = 0; seed < 50; seed++)
        for (double least = 0; least < 1.2; least += 0.3) {
            const lh_loss_curves curves = {UNITS, POINTS, shares, losses, least};
            make_curves(losses, seed, seed % 2 == 0);
            ck_assert_int_eq(lh_curves_allocate(&curves, got), LH_OK);
            ck_assert_double_eq_tol(sum_of(got), UNITS, 1e-12);
            for (int u = 0; u < UNITS; u++) ck_assert_double_ge(got[u], fmin(1, fmax(least, 0.25)) - 1e-12);
        }
}
END_TEST

START_TEST(test_equal_curves_and_flat_ones_get_the_same)
{
    double losses[UNITS * POINTS] = {0}, got[UNITS];
    const lh_loss_curves curves = {UNITS, POINTS, shares, losses, 0.2};
    ck_assert_int_eq(lh_curves_allocate(&curves, got), LH_OK);
    for (int u = 0; u < UNITS; u++) ck_assert_double_eq_tol(got[u], 1, 1e-12);
    for (int i = 0; i < POINTS; i++) losses[2 * POINTS + i] = 1 / shares[i]; /* the others have nothing to gain */
    ck_assert_int_eq(lh_curves_allocate(&curves, got), LH_OK);
    const double rest = (UNITS - 2.25 - 3 * 0.25) / UNITS; /* of what nobody gains by, each */
    for (int u = 0; u < UNITS; u++) ck_assert_double_eq_tol(got[u], (u == 2 ? 2.25 : 0.25) + rest, 1e-12);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_greedy_is_the_best_of_all_divisions, test_curves_that_are_not_convex_are_divided_well,
        test_every_unit_gets_the_least_share, test_equal_curves_and_flat_ones_get_the_same, NULL};
    return suite_run("allocate", tests);
}
