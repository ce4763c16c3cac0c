/* The report without a browser: texts of files stay texts, drawings are of the numbers, tables become figures. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* ---- texts ---- */

START_TEST(test_a_text_is_neither_markup_nor_the_end_of_an_attribute)
{
    static const struct {
        const char *text, *want;
    } cases[] = {{"a < b & c > \"d\" 'e'", "a &lt; b &amp; c &gt; &quot;d&quot; &#39;e&#39;"},
                 {"tab\tline\n", "tab\tline\n"},
                 {"\x01\x1B[31m\x7F\xC2\x9B", "\xEF\xBF\xBD\xEF\xBF\xBD[31m\xEF\xBF\xBD\xEF\xBF\xBD"},
                 {"a\xE2\x80\xA8"
                  "b\xE2\x80\xAE"
                  "c",
                  "a b\xEF\xBF\xBD"
                  "c"},
                 {"\xC3\xA9 \xFF", "\xC3\xA9 \xEF\xBF\xBD"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf out = {0};
        OK(lh_html_text(&out, cases[i].text));
        ck_assert_str_eq(out.data, cases[i].want);
        lh_buf_clear(&out);
    }
}
END_TEST

START_TEST(test_data_cannot_end_its_script)
{
    lh_buf out = {0};
    json_t *value = json_string(sample_hostile_text), *back;
    OK(lh_html_json(&out, value));
    ck_assert_ptr_null(strpbrk(out.data, "<>&"));
    for (int64_t i = 0; i < out.bytes; i++) ck_assert((unsigned char)out.data[i] < 0x80);
    back = json_loads(out.data, JSON_DECODE_ANY, NULL);
    ck_assert(json_equal(value, back));
    json_decref(value);
    json_decref(back);
    lh_buf_clear(&out);
}
END_TEST

/* RFC 4648, section 10. */
START_TEST(test_base64)
{
    static const char *const cases[][2] = {{"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf out = {0};
        OK(lh_base64(&out, cases[i][0], (int64_t)strlen(cases[i][0])));
        ck_assert_str_eq(out.data, cases[i][1]);
        lh_buf_clear(&out);
    }
}
END_TEST

START_TEST(test_values_have_three_digits_and_shares_are_percentages)
{
    static const struct {
        double value;
        const char *unit, *want;
    } cases[] = {{0.12345, "nats", "0.123"},  {0.12345, "share of 1", "12.3%"}, {1, "mean share of words", "100%"},
                 {12345, "entries", "12345"}, {1.5, "share of 1", "150%"},      {0.0000123, "", "1.2e-05"},
                 {-0.0, "share of 1", "0%"},  {0.5, "% of the prompt", "0.5%"}, {(double)NAN, "nats", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf out = {0};
        OK(lh_value_text(cases[i].value, cases[i].unit, &out));
        if (cases[i].want) ck_assert_str_eq(out.data, cases[i].want);
        if (!cases[i].want) ck_assert_int_eq(out.bytes, 0);
        lh_buf_clear(&out);
    }
}
END_TEST

/* ---- views ---- */

static const char *const names[] = {"a", "random"};
static const double shares[] = {0.05, 0.1};
static const float cube[] = {1, 2, 3, NAN, 5, 6, 7, 8}; /* policy, budget, layer */
static const lh_figure small = {.name = "small",
                                .title = "t",
                                .about = "",
                                .unit = "",
                                .source = "",
                                .view = LH_VIEW_CURVES,
                                .x = "budget",
                                .y = "policy",
                                .better = -1,
                                .dim_count = 3,
                                .dims = {{.name = "policy", .count = 2, .labels = names},
                                         {.name = "budget", .count = 2, .values = shares},
                                         {.name = "layer", .count = 2}},
                                .values = cube};

START_TEST(test_a_view_takes_means_of_what_is_there)
{
    lh_view view;
    lh_view_init(&view, &small);
    ck_assert(view.x == 1 && view.series == 0 && view.panel == -1);
    ck_assert(lh_view_value(&view, 0, 0, 0) == 1.5 && lh_view_value(&view, 0, 0, 1) == 3);
    view.pick[2] = 1;
    ck_assert(lh_view_value(&view, 0, 1, 0) == 6 && isnan(lh_view_value(&view, 0, 0, 1)));
    lh_figure map = small;
    map.view = LH_VIEW_HEATMAP;
    map.y = "layer";
    lh_view_init(&view, &map);
    ck_assert_int_eq(view.panel, 0); /* a panel for each policy */
    ck_assert(lh_view_value(&view, 1, 0, 1) == 7);
}
END_TEST

START_TEST(test_a_ranking_leaves_references_out)
{
    lh_ranking r;
    const lh_samples none = {0};
    static const char *const three[] = {"a", "random", "b"};
    static const float values[] = {1, 3, 0, 0, 2, 4}, worse[] = {1, 3, 0, 9, 2, 4};
    lh_figure figure = small;
    figure.dim_count = 2;
    figure.dims[0] = (lh_figure_dim){.name = "policy", .count = 3, .labels = three};
    figure.values = worse;
    ck_assert(lh_can_rank(&figure));
    OK(lh_ranking_init(&r, &figure, &none));
    ck_assert_int_eq(r.quoted, 1); /* 10% */
    ck_assert(r.order[0] == 0 && r.order[1] == 2 && r.order[2] == 1);
    const lh_verdict v = lh_ranking_judge(&r, 1);
    ck_assert(v.standing == LH_STANDING_AHEAD && v.best == 0 && v.rival == 2);
    ck_assert(lh_ranking_leads(&r, 0, 1) && !lh_ranking_leads(&r, 1, 1) && !lh_ranking_leads(&r, 2, 1));
    ck_assert_int_eq(lh_ranking_reference(&r, "random"), 1);
    ck_assert_int_eq(lh_ranking_reference(&r, "oracle"), -1);
    figure.values = values; /* nobody wins whom a random choice beats */
    ck_assert_int_eq(lh_ranking_judge(&r, 1).standing, LH_STANDING_CHANCE);
    lh_ranking_clear(&r);
    OK(lh_ranking_init(&r, &small, &none)); /* one policy and a reference */
    ck_assert_int_eq(lh_ranking_judge(&r, 1).standing, LH_STANDING_ALONE);
    ck_assert(!lh_ranking_leads(&r, 0, 1));
    lh_ranking_clear(&r);
    lh_figure neither = small;
    neither.better = 0;
    ck_assert(!lh_can_rank(&neither));
}
END_TEST

START_TEST(test_a_large_figure_shrinks_by_averages)
{
    enum { N = 1000 };
    static float values[3 * N];
    lh_figure figure = {.name = "n",
                        .view = LH_VIEW_CURVES,
                        .x = "step",
                        .dim_count = 2,
                        .dims = {{.name = "head", .count = 3}, {.name = "step", .count = N}},
                        .values = values};
    lh_figures out = {0};
    for (int i = 0; i < 3 * N; i++) values[i] = (float)(i % N);
    OK(lh_figure_shrink(&figure, 300, &out));
    const lh_figure *f = &out.list[0];
    ck_assert(lh_figure_count(f) <= 300 && f->dims[0].count == 3 &&
              f->dims[1].values[1] == N / (double)f->dims[1].count);
    for (int64_t i = 0; i < lh_figure_count(f); i++) {
        const int64_t wide = N / f->dims[1].count, at = i % f->dims[1].count;
        ck_assert(f->values[i] == (float)(at * wide) + (float)(wide - 1) / 2);
    }
    lh_figures_clear(&out);
    static const char *const labels[3] = {"a", "b", "c"};
    figure.dims[0].labels = labels;
    OK(lh_figure_shrink(&figure, 2, &out)); /* policies are never averaged */
    ck_assert(out.list[0].dims[0].count == 3 && out.list[0].dims[1].count == 1);
    ck_assert_str_eq(out.list[0].dims[0].labels[2], "c");
    lh_figures_clear(&out);
}
END_TEST

/* ---- drawings and pages ---- */

static lh_report *open_one(const char *path)
{
    lh_report *report = NULL;
    OK(lh_report_open(&report, &path, 1));
    return report;
}

START_TEST(test_every_figure_is_drawn)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    OK(sample_write("a.h5"));
    lh_report *report = open_one("a.h5");
    ck_assert_int_eq(report->group_count, 6);
    ck_assert_str_eq(report->figures[0].figure->name,
                     "perturbation-l2"); /* measures in their order, then other rankings */
    ck_assert_str_eq(report->figures[1].figure->name, "attention-kept");
    for (int64_t g = 0; g < report->group_count; g++) {
        const lh_figure_group *group = &report->groups[g];
        const lh_report_figure *figure = &report->figures[group->first];
        lh_view view;
        lh_drawing d = {.view = &view, .palette = &report->palette, .axis = &group->axis, .live = 1, .width = 540};
        lh_buf out = {0};
        lh_html html = {.out = &out};
        lh_view_init(&view, figure->drawn);
        d.range = lh_axis_range(&group->axis, &group->shown);
        for (d.panel = 0; d.panel < lh_view_count(&view, view.panel); d.panel++) lh_draw(&d, &html);
        OK(html.st);
        ck_assert_msg(!strstr(out.data, "nan") && !strstr(out.data, "inf"), "%s", figure->figure->name);
        ck_assert_int_eq(count_of(out.data, "<path"), count_of(out.data, "/>"));
        ck_assert_int_eq(count_of(out.data, "<text"), count_of(out.data, "</text>"));
        ck_assert_int_eq(count_of(out.data, "<g"), count_of(out.data, "</g>"));
        const int lines = count_of(out.data, "class=\"line"), cells = count_of(out.data, "h1v1h-1z");
        if (view.figure->view == LH_VIEW_CURVES) ck_assert_int_eq(lines, lh_view_count(&view, view.series));
        if (view.figure->view == LH_VIEW_HEATMAP)
            ck_assert_int_ge(cells, lh_view_count(&view, view.series) * lh_view_count(&view, view.panel));
        if (view.figure->view == LH_VIEW_BARS) ck_assert_int_eq(count_of(out.data, "class=\"bar"), 24);
        if (view.figure->view != LH_VIEW_HEATMAP) /* one of the ranges of the axis is shown */
            ck_assert_int_eq(count_of(out.data, "data-ends=") - count_of(out.data, " class=\"hidden\">"), 1);
        lh_buf_clear(&out);
    }
    lh_report_close(report);
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

START_TEST(test_a_hostile_file_adds_no_markup_to_the_page)
{
    char folder[FOLDER_BYTES];
    lh_buf page = {0};
    folder_enter(folder);
    OK(sample_write_hostile("h.h5"));
    lh_report *report = open_one("h.h5");
    OK(lh_report_page(report, &page));
    ck_assert_int_eq(count_of(page.data, "<script"), 2); /* data, and page.js */
    ck_assert_int_eq(count_of(page.data, "</script"), 2);
    ck_assert_int_eq(count_of(page.data, "</style"), 2);
    ck_assert_int_eq(count_of(page.data, "</title"), 1);
    ck_assert_int_eq(count_of(page.data, "<img"), 0);
    ck_assert_int_eq(count_of(page.data, "onerror=\""), 0);
    ck_assert_int_eq(count_of(page.data, "\xE2\x80\xAE"), 0);
    ck_assert_ptr_nonnull(strstr(page.data, "default-src 'none'"));
    lh_buf_clear(&page);
    OK(lh_report_markdown(report, &page));
    for (const unsigned char *c = (const unsigned char *)page.data; *c; c++)
        ck_assert_msg((*c >= 0x20 || *c == '\n') && *c != 0x7F && !(c[0] == 0xC2 && c[1] < 0xA0), "%s", page.data);
    OK(lh_report_csv(report, "csv"));
    OK(lh_report_svg(report, "svg"));
    ck_assert_int_eq(system("! grep -liE '<script|<img|onerror=\"' svg/*"), 0);
    page.bytes = 0;
    OK(lh_report_latex(report, &page));
    ck_assert_ptr_null(strstr(page.data, "$d")); /* "${document" is "\\$\\{document" */
    lh_buf_clear(&page);
    lh_report_close(report);
    ck_assert_int_eq(system("rm -r csv svg h.h5"), 0);
    folder_leave(folder);
}
END_TEST

/* ---- tables ---- */

static const lh_column means[] = {{"policy", "", LH_COLUMN_LABEL},     {"budget", "", LH_COLUMN_LABEL},
                                  {"length", "tokens", LH_COLUMN_I64}, {"exact", "share of the prompts", LH_COLUMN_F64},
                                  {"kl", "nats", LH_COLUMN_F64},       {"evict_s", "s", LH_COLUMN_F64},
                                  {"model", "", LH_COLUMN_LABEL},      {NULL, NULL, LH_COLUMN_TEXT}};

static void add(lh_table *table, const char *policy, const char *budget, int64_t length, double exact)
{
    OK(lh_table_add(table, (lh_cell[]){{.text = policy},
                                       {.text = budget},
                                       {.number = length},
                                       {.value = exact},
                                       {.value = 1 - exact},
                                       {.value = 1},
                                       {.text = "m"}}));
}

START_TEST(test_means_become_curves_over_budgets)
{
    char folder[FOLDER_BYTES];
    lh_table table;
    lh_h5 *h5 = NULL;
    folder_enter(folder);
    lh_table_init(&table, means);
    add(&table, "full", "", 2000, 0.9);
    add(&table, "full", "", 500, 1);
    add(&table, "snapkv", "5%", 500, 0.25);
    add(&table, "snapkv", "10%", 500, 0.5);
    add(&table, "snapkv", "10%", 2000, 0.375);
    OK(lh_h5_create(&h5, "a.h5",
                    &(lh_h5_header){"analysis", 1,
                                    "{\"command\":\"eval needle\",\"arguments\":[],"
                                    "\"options\":{\"length\":\"500,2000\",\"text\":\"a b\","
                                    "\"flag\":true},\"given\":[\"length\",\"text\",\"flag\"]}"}));
    OK(lh_table_h5(&table, h5, "/needle/means"));
    OK(lh_h5_commit(h5));
    lh_report *report = open_one("a.h5");
    ck_assert_int_eq(report->figure_count, 2); /* times are no measures */
    ck_assert_str_eq(report->sources[0].command, "longhaul eval needle --length 500,2000 --text 'a b' --flag");
    const lh_figure *f = report->figures[1].figure;
    ck_assert_str_eq(f->name, "needle-exact");
    ck_assert(f->better == 1 && report->figures[0].figure->better == -1); /* kl */
    ck_assert(f->dim_count == 3 && f->dims[0].count == 2 && f->dims[1].count == 2 && f->dims[2].count == 2);
    ck_assert(f->dims[1].values[0] == 0.05 && f->dims[1].values[1] == 0.1);   /* budgets as numbers */
    ck_assert(f->dims[2].values[0] == 500 && f->dims[2].values[1] == 2000);   /* in order */
    static const float want[] = {1, 0.9F, 1, 0.9F, 0.25F, NAN, 0.5F, 0.375F}; /* full at every budget */
    for (int i = 0; i < 8; i++)
        ck_assert_msg(f->values[i] == want[i] || (isnan(f->values[i]) && isnan(want[i])), "value %d: %g", i,
                      (double)f->values[i]);
    lh_report_close(report);
    lh_table_clear(&table);
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

START_TEST(test_answers_that_differ_are_beside_each_other)
{
    static const lh_column columns[] = {{"policy", "", LH_COLUMN_LABEL}, {"budget", "", LH_COLUMN_LABEL},
                                        {"seed", "", LH_COLUMN_I64},     {"secret", "", LH_COLUMN_TEXT},
                                        {"answer", "", LH_COLUMN_TEXT},  {NULL, NULL, LH_COLUMN_TEXT}};
    lh_stored_table stored = {.name = "needle/prompts"};
    lh_report_source source = {.tables = {&stored, 1}};
    const lh_report report = {.sources = &source, .source_count = 1};
    lh_buf out = {0};
    lh_html html = {.out = &out};
    lh_table_init(&stored.table, columns);
    for (int i = 0; i < 6; i++) /* both answer the seeds 0 and 2 alike */
        OK(lh_table_add(&stored.table, (lh_cell[]){{.text = i % 2 ? "h2o" : "full"},
                                                   {.text = i % 2 ? "9" : "all"},
                                                   {.number = i / 2},
                                                   {.text = "<owl>"},
                                                   {.text = i == 3 ? "a cat" : "an owl"}}));
    lh_page_prompts(&report, &html);
    OK(html.st);
    ck_assert_int_eq(count_of(out.data, "<h3>"), 1);
    ck_assert_ptr_nonnull(strstr(out.data, "<h3>seed 1</h3>\n<p class=\"about\">Expected: &lt;owl&gt;</p>"));
    ck_assert_int_eq(count_of(out.data, "<blockquote>"), 2);
    ck_assert_ptr_nonnull(strstr(out.data, "a cat"));
    lh_buf_clear(&out);
    lh_table_clear(&stored.table);
}
END_TEST

START_TEST(test_a_curve_runs_over_positions)
{
    static const lh_column columns[] = {{"policy", "", LH_COLUMN_LABEL},
                                        {"budget", "", LH_COLUMN_LABEL},
                                        {"from", "tokens", LH_COLUMN_I64},
                                        {"nll", "nats", LH_COLUMN_F64},
                                        {NULL, NULL, LH_COLUMN_TEXT}};
    lh_stored_table stored = {.name = "ppl/curve"};
    lh_figures out = {0};
    lh_table_init(&stored.table, columns);
    for (int i = 0; i < 6; i++)
        OK(lh_table_add(&stored.table, (lh_cell[]){{.text = i % 2 ? "h2o" : "full"},
                                                   {.text = i % 2 ? "9" : "all"},
                                                   {.number = 64 * (2 - i / 2)},
                                                   {.value = i}}));
    OK(lh_figures_of_tables(&(lh_tables){&stored, 1}, &out));
    ck_assert_int_eq(out.count, 1);
    const lh_figure *f = &out.list[0];
    ck_assert_str_eq(f->name, "ppl-nll-by-position");
    ck_assert(!lh_can_rank(f) && f->better == -1 && strcmp(f->x, "from") == 0);
    ck_assert(f->dims[1].count == 3 && f->dims[1].values[2] == 128);
    ck_assert(f->values[0] == 4 && f->values[2] == 0 && f->values[3] == 5);
    lh_figures_clear(&out);
    lh_table_clear(&stored.table);
}
END_TEST

/* The number of facts and their places are no measures. */
START_TEST(test_a_curve_runs_over_ages)
{
    static const lh_column columns[] = {{"policy", "", LH_COLUMN_LABEL},       {"budget", "", LH_COLUMN_LABEL},
                                        {"length", "tokens", LH_COLUMN_I64},   {"place", "", LH_COLUMN_I64},
                                        {"age", "tokens", LH_COLUMN_F64},      {"facts", "facts", LH_COLUMN_I64},
                                        {"answer_nll", "nats", LH_COLUMN_F64}, {NULL, NULL, LH_COLUMN_TEXT}};
    lh_stored_table stored = {.name = "recall/curve"};
    lh_figures out = {0};
    lh_table_init(&stored.table, columns);
    for (int i = 0; i < 6; i++)
        OK(lh_table_add(&stored.table, (lh_cell[]){{.text = i < 3 ? "full" : "h2o"},
                                                   {.text = i < 3 ? "all" : "9"},
                                                   {.number = 450},
                                                   {.number = i % 3},
                                                   {.value = 900.5 - 400 * (i % 3)},
                                                   {.number = 8},
                                                   {.value = i}}));
    OK(lh_figures_of_tables(&(lh_tables){&stored, 1}, &out));
    ck_assert_int_eq(out.count, 1);
    const lh_figure *f = &out.list[0];
    ck_assert_str_eq(f->name, "recall-answer-nll-by-age");
    ck_assert(f->better == -1 && strcmp(f->x, "age") == 0);
    ck_assert(f->dims[1].count == 3 && f->dims[1].values[0] == 100.5 && f->dims[1].values[2] == 900.5);
    ck_assert(f->values[0] == 2 && f->values[2] == 0 && f->values[3] == 5);
    lh_figures_clear(&out);
    lh_table_clear(&stored.table);
}
END_TEST

/* Curves are of the mean over the tasks, in which the row of the average has no part. */
START_TEST(test_scores_of_tasks_are_curves_and_a_table_for_each_length)
{
    static const lh_column columns[] = {{"policy", "", LH_COLUMN_LABEL}, {"budget", "", LH_COLUMN_LABEL},
                                        {"length", "", LH_COLUMN_I64},   {"scenario", "", LH_COLUMN_LABEL},
                                        {"task", "", LH_COLUMN_LABEL},   {"score", "%", LH_COLUMN_F64},
                                        {"exact", "", LH_COLUMN_F64},    {NULL, NULL, LH_COLUMN_TEXT}};
    static const char *const tasks[] = {"vt", "cwe", "average"}, *const budgets[] = {"", "10%", "20%"};
    lh_stored_table stored = {.name = "tasks/means"};
    lh_figures out = {0};
    lh_view view;
    lh_table_init(&stored.table, columns);
    for (int i = 0; i < 18; i++) {
        const int length = i / 9, b = i % 9 / 3, t = i % 3;
        OK(lh_table_add(&stored.table, (lh_cell[]){{.text = b ? "h2o" : "full"},
                                                   {.text = budgets[b]},
                                                   {.number = 4096 << length},
                                                   {.text = "context-only"},
                                                   {.text = tasks[t]},
                                                   {.value = 100 * length + 10 * b + (t == 2 ? 1 : 2 * t)},
                                                   {.value = 0.5}}));
    }
    OK(lh_figures_of_tables(&(lh_tables){&stored, 1}, &out));
    ck_assert_int_eq(out.count, 2 + 2);
    ck_assert_str_eq(out.list[0].name, "tasks-score");
    ck_assert(lh_can_rank(&out.list[0]) && out.list[0].dims[2].count == 2);
    lh_view_init(&view, &out.list[0]);
    ck_assert_double_eq(lh_view_value(&view, 0, 1, 0), 111); /* of the length in the middle */
    for (int length = 0; length < 2; length++) {
        const lh_figure *f = &out.list[2 + length];
        ck_assert_str_eq(f->name, length ? "tasks-score-by-task-8192" : "tasks-score-by-task-4096");
        ck_assert_str_eq(f->title, length ? "Tasks: score by task, length 8192" : "Tasks: score by task, length 4096");
        ck_assert(!lh_can_rank(f) && f->view == LH_VIEW_TABLE);
        lh_view_init(&view, f);
        ck_assert(lh_view_count(&view, view.panel) == 2 && lh_view_count(&view, view.series) == 3);
        ck_assert_double_eq(lh_view_value(&view, 1, 2, 0), 100 * length + 1); /* full, in the table of every budget */
        ck_assert_double_eq(lh_view_value(&view, 1, 1, 1), 100 * length + 22);
    }
    lh_figures_clear(&out);
    lh_table_clear(&stored.table);
}
END_TEST

START_TEST(test_csv_has_a_row_for_each_value)
{
    char folder[FOLDER_BYTES], line[256];
    int lines = 0;
    folder_enter(folder);
    OK(sample_write("a.h5"));
    lh_report *report = open_one("a.h5");
    OK(lh_report_csv(report, "csv"));
    FILE *f = fopen("csv/head-budgets.csv", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    ck_assert_str_eq(line, "policy,layer,head,value\n");
    while (fgets(line, sizeof line, f)) lines++;
    fclose(f);
    ck_assert_int_eq(lines, 8 * 6 * 4);
    lh_report_close(report);
    ck_assert_int_eq(system("rm -r csv a.h5"), 0);
    folder_leave(folder);
}
END_TEST

/* ---- headlines ---- */

enum { PROMPTS = 8 };

/* Answers of two policies and of the full cache to the first n prompts: right or wrong, and their likelihood. */
typedef struct headline {
    const char *want, *because; /* of the page; NULL: anything */
    int n;
    double exact[3][PROMPTS], nll[3][PROMPTS];
    int filled; /* 1: protected entries fill the budget of the first policy */
} headline;

static const headline headlines[] = {
    {"No difference between policies at a budget of 10%",
     "no difference at 10%: a 100%, then b 100%",
     3,
     {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
     {{2, 2, 2}, {2, 2, 2}, {1, 1, 1}},
     0},
    {"b loses least at a budget of 10%, on 6 texts",
     "the full cache answers none at 10%",
     6,
     {{0}, {0}, {0}},
     {{5, 6, 7, 5, 6, 7}, {2, 2.5, 3, 2, 2.4, 3}, {1, 1, 1, 1, 1, 1}},
     0},
    {"b loses least at a budget of 10%, on 1 text", "no difference at 10%", 1, {{1}, {1}, {1}}, {{2}, {1.5}, {1}}, 0},
    /* the likelihoods of single prompts overlap widely, their differences do not */
    {"b loses least at a budget of 10%, on 6 texts",
     "95% interval of the difference",
     6,
     {{0}, {0}, {0}},
     {{1.1, 2.11, 3.1, 4.09, 5.1, 6.1}, {1, 2, 3, 4, 5, 6}, {0.5, 1, 2, 3, 4, 5}},
     0},
    {"No clear difference between policies at a budget of 10%",
     "no clear difference at 10%: b 3.42, then a 3.5",
     6,
     {{0}, {0}, {0}},
     {{1, 2, 3, 4, 5, 6}, {2, 1, 4, 3, 6, 4.5}, {0.5, 1, 2, 3, 4, 4}},
     0},
    {"No difference between policies at a budget of 10%",
     "no loss at 10%: a 1, then b 1.1",
     2,
     {{0}, {0}, {0}},
     {{1, 1}, {1.1, 1.1}, {1.2, 1.2}},
     0},
    /* three right answers of three say less than eight of eight */
    {"No clear difference between policies at a budget of 10%",
     NULL,
     3,
     {{1, 1, 1}, {0}, {1, 1, 1}},
     {{2, 2, 2}, {2, 2, 2}, {1, 1, 1}},
     0},
    {"a scores highest at a budget of 10%, on 8 texts",
     NULL,
     8,
     {{1, 1, 1, 1, 1, 1, 1, 1}, {0}, {1, 1, 1, 1, 1, 1, 1, 1}},
     {{0}, {0}, {0}},
     0},
    {"b at a budget of 10%", NULL, 8, {{1, 1, 1, 1, 1, 1, 1, 1}, {0}, {1, 1, 1, 1, 1, 1, 1, 1}}, {{0}, {0}, {0}}, 1},
};

static void write_headline(const headline *h, const char *path)
{
    static const lh_column mean_columns[] = {{"policy", "", LH_COLUMN_LABEL},
                                             {"budget", "", LH_COLUMN_LABEL},
                                             {"exact", "share of the prompts", LH_COLUMN_F64},
                                             {"answer_nll", "nats per token", LH_COLUMN_F64},
                                             {NULL, NULL, LH_COLUMN_TEXT}},
                           columns[] = {{"policy", "", LH_COLUMN_LABEL},   {"budget", "", LH_COLUMN_LABEL},
                                        {"seed", "", LH_COLUMN_I64},       {"exact", "1: yes", LH_COLUMN_I64},
                                        {"answer_nll", "", LH_COLUMN_F64}, {"filled", "1: yes", LH_COLUMN_I64},
                                        {"answer", "", LH_COLUMN_TEXT},    {NULL, NULL, LH_COLUMN_TEXT}};
    static const char *const policies[] = {"a", "b", "full"};
    lh_table means_table, prompts;
    lh_h5 *h5 = NULL;
    lh_table_init(&means_table, mean_columns);
    lh_table_init(&prompts, columns);
    for (int p = 0; p < 3; p++) {
        double exact = 0, nll = 0;
        const char *budget = p == 2 ? "" : "10%";
        for (int i = 0; i < h->n; i++) {
            exact += h->exact[p][i] / h->n;
            nll += h->nll[p][i] / h->n;
            OK(lh_table_add(&prompts, (lh_cell[]){{.text = policies[p]},
                                                  {.text = budget},
                                                  {.number = i},
                                                  {.number = (int64_t)h->exact[p][i]},
                                                  {.value = h->nll[p][i]},
                                                  {.number = p == 0 && h->filled},
                                                  {.text = ""}}));
        }
        OK(lh_table_add(&means_table,
                        (lh_cell[]){{.text = policies[p]}, {.text = budget}, {.value = exact}, {.value = nll}}));
    }
    OK(lh_h5_create(&h5, path, &(lh_h5_header){"analysis", 1, "{}"}));
    OK(lh_table_h5(&means_table, h5, "/needle/means"));
    OK(lh_table_h5(&prompts, h5, "/needle/prompts"));
    OK(lh_h5_commit(h5));
    lh_table_clear(&means_table);
    lh_table_clear(&prompts);
}

/* The page of a file has this headline, and `because` in the text below it. */
static void check_headline(const char *path, const char *want, const char *because)
{
    lh_buf page = {0};
    char title[160];
    lh_report *report = open_one(path);
    OK(lh_report_page(report, &page));
    snprintf(title, sizeof title, "<h1>%s</h1>", want);
    ck_assert_msg(strstr(page.data, title) != NULL, "'%s' is none of %.600s", title, strstr(page.data, "<h1>"));
    ck_assert_msg(!because || strstr(page.data, because), "'%s' is not in %.900s", because, strstr(page.data, "<h1>"));
    lh_buf_clear(&page);
    lh_report_close(report);
}

START_TEST(test_a_headline_names_a_winner_only_where_there_is_one)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    for (size_t i = 0; i < sizeof headlines / sizeof *headlines; i++) {
        write_headline(&headlines[i], "a.h5");
        check_headline("a.h5", headlines[i].want, headlines[i].because);
    }
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

/* A curve of policies a and b over the budgets 5% and 10%, less being better. */
static void put_curve(lh_h5 *h5, const char *name, const float values[4])
{
    static const char *const policies[] = {"a", "b"};
    OK(lh_figure_write(
        &(lh_figure){.name = name,
                     .title = name,
                     .unit = "nats",
                     .view = LH_VIEW_CURVES,
                     .x = "budget",
                     .y = "policy",
                     .better = -1,
                     .dim_count = 2,
                     .dims = {{.name = "policy", .count = 2, .labels = policies},
                              {.name = "budget", .unit = "share of the prompt", .count = 2, .values = shares}},
                     .values = values},
        h5));
}

START_TEST(test_what_the_model_says_ranks_before_what_attention_loses)
{
    static const struct {
        float l2[4], kl[4], nll[4];
        const char *want;
    } cases[] = {{{1, 1, 2, 2}, {4, 4, 3, 3}, {1, 1, 2, 2}, "b loses least at a budget of 10%"},
                 {{1, 1, 2, 2}, {4, 3, 3, 3}, {4, 4, 3, 3}, "b loses least at a budget of 10%"}, /* the next measure */
                 {{1, 1, 2, 2}, {4, 3, 3, 3}, {4, 3, 3, 3}, "b loses least at a budget of 5%"},  /* the next budget */
                 {{1, 1, 2, 2}, {3, 3, 3, 3}, {3, 3, 3, 3}, "No difference between policies at any budget"}};
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_h5 *h5 = NULL;
        OK(lh_h5_create(&h5, "a.h5", &(lh_h5_header){"analysis", 1, "{}"}));
        put_curve(h5, "perturbation-l2", cases[i].l2);
        put_curve(h5, "answer-nll", cases[i].nll);
        put_curve(h5, "next-token-kl", cases[i].kl);
        OK(lh_h5_commit(h5));
        check_headline("a.h5", cases[i].want, NULL);
        lh_report *report = open_one("a.h5");
        ck_assert_str_eq(report->figures[0].figure->name, "next-token-kl");
        ck_assert_str_eq(report->figures[2].figure->name, "perturbation-l2");
        lh_report_close(report);
    }
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

START_TEST(test_cells_that_a_window_fills_are_marked)
{
    char folder[FOLDER_BYTES];
    lh_buf page = {0};
    headline h = headlines[1];
    folder_enter(folder);
    h.filled = 1;
    write_headline(&h, "a.h5");
    lh_report *report = open_one("a.h5");
    OK(lh_report_page(report, &page));
    ck_assert_int_eq(count_of(page.data, "<td class=\"filled\""), 4); /* two measures: ranking and numbers */
    ck_assert_int_eq(count_of(page.data, "<path class=\"mark hollow\" d=\"M"), 4); /* in two widths each */
    ck_assert_int_eq(count_of(page.data, "Hollow points: window fills the budget"), 2);
    ck_assert_ptr_nonnull(strstr(page.data, "\"filled\":[[0,0]]"));
    lh_buf_clear(&page);
    lh_report_close(report);
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

/* Files in the folder csv whose name begins with `start`. */
static int files_of(const char *start)
{
    int n = 0;
    DIR *list = opendir("csv");
    ck_assert_ptr_nonnull(list);
    for (struct dirent *e; (e = readdir(list));) n += strncmp(e->d_name, start, strlen(start)) == 0;
    closedir(list);
    return n;
}

START_TEST(test_analyses_of_one_name_keep_all_their_csv_files)
{
    static const char *const paths[] = {"a/n m.h5", "b/n m.h5", "a/n-m.h5", "b/n m-2.h5"};
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    ck_assert(mkdir("a", 0777) == 0 && mkdir("b", 0777) == 0);
    for (int i = 0; i < 4; i++) OK(sample_write(paths[i]));
    lh_report *report = NULL;
    OK(lh_report_open(&report, paths, 4));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) ck_assert_str_ne(report->sources[i].name, report->sources[k].name);
    ck_assert_str_eq(report->sources[1].name, "n m-2");
    OK(lh_report_csv(report, "csv"));
    ck_assert_int_eq(files_of("n-m"), 4 * 6);
    ck_assert_int_eq(access("csv/n-m-jaccard.csv", F_OK), 0); /* the first has the name without a number */
    lh_report_close(report);
    ck_assert_int_eq(system("rm -r csv a b"), 0);
    folder_leave(folder);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_text_is_neither_markup_nor_the_end_of_an_attribute,
                                  test_data_cannot_end_its_script,
                                  test_base64,
                                  test_values_have_three_digits_and_shares_are_percentages,
                                  test_a_view_takes_means_of_what_is_there,
                                  test_a_ranking_leaves_references_out,
                                  test_a_large_figure_shrinks_by_averages,
                                  test_every_figure_is_drawn,
                                  test_a_hostile_file_adds_no_markup_to_the_page,
                                  test_means_become_curves_over_budgets,
                                  test_scores_of_tasks_are_curves_and_a_table_for_each_length,
                                  test_answers_that_differ_are_beside_each_other,
                                  test_a_curve_runs_over_positions,
                                  test_a_curve_runs_over_ages,
                                  test_csv_has_a_row_for_each_value,
                                  test_analyses_of_one_name_keep_all_their_csv_files,
                                  test_a_headline_names_a_winner_only_where_there_is_one,
                                  test_what_the_model_says_ranks_before_what_attention_loses,
                                  test_cells_that_a_window_fills_are_marked,
                                  NULL};
    return suite_run("report", tests);
}
