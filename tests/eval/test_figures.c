/* What is reported beside the measures: confidence intervals, means of figures, and names of keep sets. */
#include <check.h>
#include <math.h>

#include "lab/eval/keep_files.h"
#include "lab/eval/measures.h"
#include "suite.h"

/* From the formula in 50 digits; Wilson's interval of 81 of 263 is the example of Newcombe, Stat. Med. 17 (1998), table
 * I: 0.2553 to 0.3662. */
START_TEST(test_intervals_are_wilsons)
{
    static const struct {
        double mean;
        int64_t n;
        double low, high;
    } cases[] = {{81.0 / 263, 263, 0.2553, 0.3662},
                 {15.0 / 148, 148, 0.0624, 0.1605},
                 {0, 20, 0, 0.1611},
                 {1.0 / 29, 29, 0.0061, 0.1718},
                 {1, 20, 0.8389, 1}};
    double low, high;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_confidence_interval(cases[i].mean, cases[i].n, &low, &high);
        ck_assert_msg(fabs(low - cases[i].low) < 6e-5 && fabs(high - cases[i].high) < 6e-5, "%g of %lld: %.4f to %.4f",
                      cases[i].mean, (long long)cases[i].n, low, high);
    }
    lh_confidence_interval(0.5, 0, &low, &high);
    ck_assert(isnan(low) && isnan(high));
}
END_TEST

START_TEST(test_means_leave_out_times_that_are_left_out)
{
    lh_cell row[LH_FIGURES] = {{0}}, mean[LH_MEAN_FIGURES] = {{0}};
    lh_figure_sums sums = {0};
    for (int64_t i = 1; i <= 3; i++) {
        lh_figures_put(row, &(lh_eval_figures){100 * i, INT64_C(1) << 40, i > 1, 0.5 * (double)i, (double)NAN});
        lh_figures_add(&sums, row);
    }
    lh_mean_figures_put(mean, &(lh_mean_figures){0.25, &sums, "smollm2"});
    ck_assert_int_eq(mean[2].number, 200);
    ck_assert_int_eq(mean[3].number, INT64_C(1) << 40);
    ck_assert_int_eq(mean[4].number, 1); /* of most */
    ck_assert_double_eq(mean[5].value, 1);
    ck_assert(isnan(mean[6].value));
    ck_assert_str_eq(mean[7].text, "smollm2");
}
END_TEST

START_TEST(test_keep_sets_have_names_of_files)
{
    lh_policy_choice choices[2] = {{.name = "full", .budget = ""},
                                   {.name = "snapkv --layer-budget profile:98cb/..", .budget = "50%"}};
    const lh_policy_list list = {.at = choices, .n = 2};
    char *name = NULL;
    ck_assert_int_eq(
        lh_keep_file_name(&name, &(lh_keep_file){"kept", "200-context-only-depth0_2-seed0", &list, 1, NULL}), LH_OK);
    ck_assert_str_eq(name, "kept/200-context-only-depth0_2-seed0.01-snapkv_--layer-budget_profile_98cb_..-50%.h5");
    lh_free(name);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_intervals_are_wilsons, test_means_leave_out_times_that_are_left_out,
                                  test_keep_sets_have_names_of_files, NULL};
    return suite_run("figures", tests);
}
