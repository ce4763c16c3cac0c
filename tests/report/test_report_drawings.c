/* Drawings of the report: axes and their ranges, confidence bands, SVG files; and tables in LaTeX. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/folder.h"
#include "lab/report/report_impl.h"
#include "report/sample.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

static lh_report *open_one(const char *path)
{
    lh_report *report = NULL;
    OK(lh_report_open(&report, &path, 1));
    return report;
}

START_TEST(test_axes_are_logarithmic_above_a_factor_of_10)
{
    static const double wide[] = {0.005, 0.1, 0.5}, narrow[] = {0.05, 0.1, 0.5}, zero[] = {0, 0.1, 0.5},
                        even[] = {1, 32, 63};
    lh_scale scale;
    lh_scale_of_dim(&scale, &(lh_figure_dim){.count = 3, .values = wide});
    ck_assert_int_eq(scale.log, 1);
    lh_scale_of_dim(&scale, &(lh_figure_dim){.count = 3, .values = narrow});
    ck_assert_int_eq(scale.log, 0);
    lh_scale_of_dim(&scale, &(lh_figure_dim){.count = 3, .values = zero});
    ck_assert_int_eq(scale.log, 0);
    lh_scale_of_dim(&scale, &(lh_figure_dim){.count = 3, .values = even});
    ck_assert_int_eq(scale.log, 0);
    lh_scale_of_dim(&scale, &(lh_figure_dim){.count = 1});
    ck_assert(scale.low < 0 && scale.high > 0);
}
END_TEST

START_TEST(test_values_are_logarithmic_above_a_factor_of_10)
{
    static const struct {
        lh_figure_view view;
        const char *unit;
        int better;
        double low, high;
        int log;
    } cases[] = {{LH_VIEW_CURVES, "nats", -1, 0.2, 2.5, 1},
                 {LH_VIEW_CURVES, "nats", -1, 0.3, 2.5, 0},
                 {LH_VIEW_CURVES, "share of the norm", -1, 0.02, 2.5, 1},
                 {LH_VIEW_CURVES, "share of 1", 1, 0.02, 1, 0}, /* the end at 100% is what counts */
                 {LH_VIEW_CURVES, "nats", -1, -0.1, 2.5, 0},
                 {LH_VIEW_BARS, "nats", 0, 0.01, 2.5, 0},
                 {LH_VIEW_HEATMAP, "entries", 0, 10, 5000, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_span span = LH_NO_SPAN;
        lh_axis axis;
        lh_span_add(&span, cases[i].low);
        lh_span_add(&span, cases[i].high);
        lh_axis_init(&axis, &(lh_figure){.view = cases[i].view, .unit = cases[i].unit, .better = cases[i].better},
                     &span, &span);
        ck_assert_msg(axis.log == cases[i].log, "case %zu", i);
    }
}
END_TEST

/* Whatever is chosen among values from `low` to `high`, some range of the axis holds it. */
START_TEST(test_ranges_hold_their_values_and_ticks_ascend_within_them)
{
    static const double ends[][2] = {{0, 1},        {3, 7000}, {1e-9, 2e-9}, {-5, 12}, {0, 0},    {5, 5.1},
                                     {1e-30, 1e30}, {-3, -2},  {1, 1e6},     {0.7, 9}, {1e-5, 3}, {2, 25}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        lh_span all = LH_NO_SPAN;
        lh_axis axis;
        lh_span_add(&all, ends[i][0]);
        lh_span_add(&all, ends[i][1]);
        lh_axis_init(&axis, &(lh_figure){.view = LH_VIEW_CURVES, .unit = ""}, &all, &all);
        ck_assert(axis.count >= 1 && axis.count <= LH_RANGES);
        const int shown = lh_axis_range(&axis, &all);
        ck_assert(axis.ranges[shown].high >= ends[i][1] * (1 - 1e-6));
        ck_assert(axis.log ? axis.ranges[shown].low <= fmax(ends[i][0], ends[i][1] / 1e6)
                           : axis.ranges[shown].low <= ends[i][0]);
        for (int r = 0; r < axis.count; r++) {
            double ticks[LH_TICKS];
            const lh_scale scale = {axis.log, axis.ranges[r].low, axis.ranges[r].high, 0, 100};
            ck_assert(scale.low < scale.high);
            const int n = lh_scale_ticks(&scale, ticks);
            ck_assert_msg(n >= 2 && n <= LH_TICKS, "%d ticks from %g to %g", n, scale.low, scale.high);
            for (int k = 0; k < n; k++) {
                const double at = lh_scale_at(&scale, ticks[k]);
                ck_assert_msg(at > -1e-6 && at < 100 + 1e-6 && (k == 0 || ticks[k] > ticks[k - 1]), "tick %g",
                              ticks[k]);
            }
        }
    }
}
END_TEST

START_TEST(test_each_drawn_figure_is_an_svg_file)
{
    char folder[FOLDER_BYTES];
    lh_buf text = {0};
    folder_enter(folder);
    OK(sample_write("a.h5"));
    lh_report *report = open_one("a.h5");
    OK(lh_report_svg(report, "svg"));
    for (int64_t i = 0; i < report->figure_count; i++) {
        char path[LH_FIGURE_NAME + 16];
        snprintf(path, sizeof path, "svg/%s.svg", report->figures[i].figure->name);
        text.bytes = 0;
        OK(lh_file_read(&text, path, 1 << 24));
        ck_assert_ptr_eq(strstr(text.data, "<svg xmlns=\"http://www.w3.org/2000/svg\""), text.data);
        ck_assert_int_eq(count_of(text.data, "<svg"), count_of(text.data, "</svg>"));
        ck_assert_msg(!strstr(text.data, "data-ends") && !strstr(text.data, "var("), "%s", path);
        ck_assert_int_eq(count_of(text.data, "<style>"), 1);
    }
    text.bytes = 0;
    OK(lh_file_read(&text, "svg/attention-kept.svg", 1 << 24));
    ck_assert_int_eq(count_of(text.data, "<svg class=\"key"), 8); /* a legend with every policy */
    lh_buf_clear(&text);
    lh_report_close(report);
    ck_assert_int_eq(system("rm -r svg a.h5"), 0);
    folder_leave(folder);
}
END_TEST

START_TEST(test_latex_has_a_table_for_each_figure)
{
    char folder[FOLDER_BYTES];
    lh_buf text = {0};
    folder_enter(folder);
    OK(sample_write("a.h5"));
    lh_report *report = open_one("a.h5");
    OK(lh_report_latex(report, &text));
    const int tables = count_of(text.data, "\\begin{tabular}{l");
    ck_assert_int_eq(tables, 12); /* curves, similarities, bars, and eight policies with budgets of heads */
    ck_assert_int_eq(count_of(text.data, "\\toprule"), tables);
    ck_assert_int_eq(count_of(text.data, "\\bottomrule"), tables);
    ck_assert_int_eq(count_of(text.data, "\\begin{table}"), count_of(text.data, "\\end{table}"));
    ck_assert_ptr_nonnull(
        strstr(text.data, "    policy & 0.5\\% & 1\\% & 2\\% & 5\\% & 10\\% & 20\\% & 50\\% \\\\\n    \\midrule\n"));
    ck_assert_ptr_nonnull(
        strstr(text.data, "\\caption{Attention kept (share of 1), mean over 6 layers, mean over 4 heads}"));
    lh_buf_clear(&text);
    lh_report_close(report);
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

/* Wilson's interval of 3 right answers of 4 is 30.1% to 95.4% (Wilson, JASA 22, 1927); Student's of 1, 2, 3, 4 is 2.5
 * with t(3) = 3.182 and a standard error of 0.6455: 0.446 to 4.554. */
START_TEST(test_bands_are_intervals_of_the_mean_that_is_shown)
{
    static const char *const policies[] = {"a"};
    static const double budgets[] = {0.1}, right[] = {1, 1, 0, 1}, numbers[] = {1, 2, 3, 4};
    static const float shares_shown[] = {0.75F}, numbers_shown[] = {2.5F}, other[] = {2};
    double band[2];
    lh_view view;
    lh_figure figure = {
        .name = "needle-exact",
        .unit = "share of the prompts",
        .view = LH_VIEW_CURVES,
        .x = "budget",
        .y = "policy",
        .better = 1,
        .dim_count = 2,
        .dims = {{.name = "policy", .count = 1, .labels = policies}, {.name = "budget", .count = 1, .values = budgets}},
        .values = shares_shown};
    lh_samples samples = {.budgets = 1, .texts = 4, .values = (double *)(uintptr_t)right};
    lh_view_init(&view, &figure);
    ck_assert(lh_samples_band(&samples, &view, 0, 0, band));
    ck_assert(fabs(band[0] - 0.3006) < 1e-3 && fabs(band[1] - 0.9544) < 1e-3);
    samples.values = (double *)(uintptr_t)numbers;
    figure.name = "answer-nll";
    figure.better = -1;
    figure.values = numbers_shown;
    ck_assert(lh_samples_band(&samples, &view, 0, 0, band));
    ck_assert(fabs(band[0] - 0.446) < 1e-3 && fabs(band[1] - 4.554) < 1e-3);
    figure.values = other; /* of one layer, say: the texts have no such values */
    ck_assert(!lh_samples_band(&samples, &view, 0, 0, band));
    figure.values = numbers_shown;
    samples.texts = 1;
    ck_assert(!lh_samples_band(&samples, &view, 0, 0, band));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_axes_are_logarithmic_above_a_factor_of_10,
                                  test_values_are_logarithmic_above_a_factor_of_10,
                                  test_ranges_hold_their_values_and_ticks_ascend_within_them,
                                  test_each_drawn_figure_is_an_svg_file,
                                  test_latex_has_a_table_for_each_figure,
                                  test_bands_are_intervals_of_the_mean_that_is_shown,
                                  NULL};
    return suite_run("report drawings", tests);
}
