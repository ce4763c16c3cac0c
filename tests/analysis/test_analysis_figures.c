/* Figures of an analysis: what is written is read back, and what does not fit together is refused by name. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "lab/analysis/figures.h"
#include "lab/analysis/summary.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static const char *const policies[] = {"snapkv", "h2o \"</script>\""};
static const double budgets[] = {0.005, 0.1, 0.5};
static const float values[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, NAN, 11};

static lh_figure some_figure(void)
{
    return (lh_figure){.name = "mass-kept",
                       .title = "Attention kept",
                       .about = "Share of the attention; more is better.",
                       .unit = "share of 1",
                       .view = LH_VIEW_CURVES,
                       .x = "budget",
                       .y = "policy",
                       .better = 1,
                       .dim_count = 3,
                       .dims = {{.name = "policy", .count = 2, .labels = policies},
                                {.name = "budget", .unit = "share of the prompt", .count = 3, .values = budgets},
                                {.name = "layer", .count = 2}},
                       .values = values};
}

static void create(lh_h5 **h5)
{
    OK(lh_h5_create(h5, "a.h5", &(lh_h5_header){"analysis", 1, "{}"}));
}

static void reopen(lh_h5 **h5)
{
    OK(lh_h5_commit(*h5));
    OK(lh_h5_check("a.h5"));
    OK(lh_h5_open(h5, "a.h5", &(lh_h5_header){"analysis", 1, NULL}));
}

START_TEST(test_a_figure_comes_back_as_it_was_written)
{
    char folder[FOLDER_BYTES];
    lh_figure figure = some_figure(), other = some_figure();
    lh_figures read;
    lh_h5 *h5 = NULL;
    folder_enter(folder);
    other.name = "a-map";
    other.view = LH_VIEW_HEATMAP;
    create(&h5);
    OK(lh_figure_write(&figure, h5));
    OK(lh_figure_write(&other, h5));
    OK(lh_h5_put(h5, "/table/values", &(lh_h5_shape){LH_F32, 1, {2}}, values)); /* no figure */
    reopen(&h5);
    OK(lh_figures_read(&read, h5));
    ck_assert_int_eq(read.count, 2);
    ck_assert_str_eq(read.list[1].name, "a-map"); /* as written, not by name */
    ck_assert_int_eq(read.list[1].view, LH_VIEW_HEATMAP);
    const lh_figure *back = &read.list[0];
    ck_assert_str_eq(back->title, figure.title);
    ck_assert_str_eq(back->about, figure.about);
    ck_assert_str_eq(back->unit, figure.unit);
    ck_assert_str_eq(back->source, ""); /* NULL when written */
    ck_assert(back->better == 1 && back->dim_count == 3 && lh_figure_count(back) == 12);
    ck_assert_str_eq(back->x, "budget");
    ck_assert_str_eq(back->y, "policy");
    ck_assert_str_eq(back->dims[0].labels[1], policies[1]);
    ck_assert(!back->dims[0].values && !back->dims[0].unit && !back->dims[2].labels && !back->dims[2].values);
    ck_assert_str_eq(back->dims[1].unit, "share of the prompt");
    ck_assert_mem_eq(back->dims[1].values, budgets, sizeof budgets);
    ck_assert_mem_eq(back->values, values, sizeof values);
    ck_assert_int_eq(lh_figure_dim_find(back, "layer"), 2);
    ck_assert_int_eq(lh_figure_dim_find(back, "head"), -1);
    lh_figures_clear(&read);
    lh_h5_close(h5);
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

START_TEST(test_a_file_without_figures_has_none)
{
    char folder[FOLDER_BYTES];
    lh_figures read;
    lh_h5 *h5 = NULL;
    folder_enter(folder);
    create(&h5);
    OK(lh_h5_put(h5, "/logits", &(lh_h5_shape){LH_F32, 1, {2}}, values));
    reopen(&h5);
    OK(lh_figures_read(&read, h5));
    ck_assert_int_eq(read.count, 0);
    lh_figures_clear(&read);
    lh_h5_close(h5);
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

/* Each breaks one member, and `part` is what the message says of it. */
typedef struct broken {
    void (*breaks)(lh_figure *figure);
    const char *part;
} broken;

static void name_leaves_the_folder(lh_figure *f)
{
    f->name = "../x";
}
static void axis_is_unknown(lh_figure *f)
{
    f->x = "head";
}
static void axis_is_missing(lh_figure *f)
{
    f->x = "";
}
static void axes_are_equal(lh_figure *f)
{
    f->y = f->x;
}
static void view_is_unknown(lh_figure *f)
{
    f->view = LH_VIEWS;
}
static void dimension_is_empty(lh_figure *f)
{
    f->dims[1].count = 0;
}
static void names_are_equal(lh_figure *f)
{
    f->dims[2].name = "policy";
}
static void points_are_not_finite(lh_figure *f)
{
    static const double bad[] = {1, 2, INFINITY};
    f->dims[1].values = bad;
}
static void points_have_both(lh_figure *f)
{
    f->dims[0].values = budgets;
}
static void better_is_unknown(lh_figure *f)
{
    f->better = 2;
}

START_TEST(test_what_could_not_be_read_back_is_not_written)
{
    static const broken cases[] = {{name_leaves_the_folder, "'../x'"},
                                   {axis_is_unknown, "'head'"},
                                   {axis_is_missing, "needs x"},
                                   {axes_are_equal, "both its axes"},
                                   {view_is_unknown, "view"},
                                   {dimension_is_empty, "'budget'"},
                                   {names_are_equal, "'policy'"},
                                   {points_are_not_finite, "not finite"},
                                   {points_have_both, "labels and values"},
                                   {better_is_unknown, "'better'"}};
    char folder[FOLDER_BYTES];
    lh_h5 *h5 = NULL;
    folder_enter(folder);
    create(&h5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_figure figure = some_figure();
        cases[i].breaks(&figure);
        check_message(lh_figure_write(&figure, h5), LH_EWRITE, cases[i].part);
    }
    lh_h5_close(h5);
    folder_leave(folder);
}
END_TEST

/* A group as a foreign program might write it: `dims` and `view` as given, values [2, 3]. */
static void put_foreign(lh_h5 *h5, const char *dims, const char *view)
{
    OK(lh_h5_put(h5, "/figures/odd/values", &(lh_h5_shape){LH_F32, 2, {2, 3}}, values));
    if (dims) OK(lh_h5_put_text(h5, "/figures/odd/dims", dims, (int64_t)strlen(dims)));
    OK(lh_h5_put_string(h5, "/figures/odd", "view", view));
    OK(lh_h5_put_string(h5, "/figures/odd", "x", "b"));
}

START_TEST(test_foreign_figures_that_do_not_fit_are_refused_by_name)
{
    static const struct {
        const char *dims, *view, *part;
    } cases[] = {
        {NULL, "curves", "dims"},
        {"{", "curves", "list of 2"},
        {"[{\"name\":\"a\",\"count\":2}]", "curves", "list of 2"},
        {"[{\"name\":\"a\",\"count\":2},{\"count\":3}]", "curves", "no name"},
        {"[{\"name\":\"a\",\"count\":2},{\"name\":\"b\",\"count\":4}]", "curves", "'b'"},
        {"[{\"name\":\"a\",\"count\":2},{\"name\":\"b\"}]", "curves", "'b'"},
        {"[{\"name\":\"a\",\"count\":2,\"labels\":[\"one\"]},{\"name\":\"b\",\"count\":3}]", "curves", "'a'"},
        {"[{\"name\":\"a\",\"count\":2,\"labels\":[\"one\",2]},{\"name\":\"b\",\"count\":3}]", "curves", "no text"},
        {"[{\"name\":\"a\",\"count\":2,\"values\":[1,null]},{\"name\":\"b\",\"count\":3}]", "curves", "no number"},
        {"[{\"name\":\"a\",\"count\":2,\"values\":7},{\"name\":\"b\",\"count\":3}]", "curves", "'a'"},
        {"[{\"name\":\"a\",\"count\":2,\"labels\":[\"1\",\"2\"],\"values\":[1,2]},{\"name\":\"b\",\"count\":3}]",
         "curves", "'a'"},
        {"[{\"name\":\"a\",\"count\":2},{\"name\":\"a\",\"count\":3}]", "curves", "two dimensions"},
        {"[{\"name\":\"a\",\"count\":2},{\"name\":\"c\",\"count\":3}]", "curves", "axis 'b'"},
        {"[{\"name\":\"a\",\"count\":2},{\"name\":\"b\",\"count\":3}]", "pie", "view"},
        {"[{\"name\":\"a\",\"count\":2},{\"name\":\"b\",\"count\":3}]", "heatmap", "x and y"}};
    char folder[FOLDER_BYTES];
    lh_figures read;
    folder_enter(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_h5 *h5 = NULL;
        create(&h5);
        put_foreign(h5, cases[i].dims, cases[i].view);
        reopen(&h5);
        check_message(lh_figures_read(&read, h5), LH_EFILE, cases[i].part);
        ck_assert_msg(strstr(lh_error_message(), "odd"), "%s", lh_error_message());
        ck_assert(read.count == 0 && !read.list);
        lh_h5_close(h5);
    }
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

START_TEST(test_a_summary_is_a_json_object)
{
    char folder[FOLDER_BYTES];
    lh_h5 *h5 = NULL;
    json_t *summary = json_pack("{s:s}", "command", "longhaul replay t.h5"), *read = NULL;
    folder_enter(folder);
    create(&h5);
    OK(lh_summary_write(summary, h5));
    reopen(&h5);
    OK(lh_summary_read(&read, h5));
    ck_assert(json_equal(summary, read));
    json_decref(summary);
    json_decref(read);
    lh_h5_close(h5);
    create(&h5);
    OK(lh_h5_put(h5, "/logits", &(lh_h5_shape){LH_F32, 1, {2}}, values));
    reopen(&h5);
    OK(lh_summary_read(&read, h5)); /* none */
    ck_assert_uint_eq(json_object_size(read), 0);
    json_decref(read);
    lh_h5_close(h5);
    create(&h5);
    OK(lh_h5_put_text(h5, "/summary", "[1]", 3));
    reopen(&h5);
    check_message(lh_summary_read(&read, h5), LH_EFILE, "'/summary' of 'a.h5'");
    lh_h5_close(h5);
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_figure_comes_back_as_it_was_written,
                                  test_a_file_without_figures_has_none,
                                  test_what_could_not_be_read_back_is_not_written,
                                  test_foreign_figures_that_do_not_fit_are_refused_by_name,
                                  test_a_summary_is_a_json_object,
                                  NULL};
    return suite_run("figures of an analysis", tests);
}
