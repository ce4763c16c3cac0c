/* `report`: the page, tables and CSV files of analyses, on any number of ranks; and what it refuses. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/h5.h"
#include "cli/program.h"
#include "report/sample.h"
#include "suite.h"

static void setup(void)
{
    static const float logits[2] = {1, 2};
    lh_h5 *h5 = NULL;
    program_enter();
    program_must(lh_h5_create(&h5, "keep.h5", &(lh_h5_header){"keep-sets", 1, "{}"}) == LH_OK &&
                     lh_h5_put(h5, "/x", &(lh_h5_shape){LH_F32, 1, {2}}, logits) == LH_OK && lh_h5_commit(h5) == LH_OK,
                 "a file of another kind");
    program_must(sample_write("a.h5") == LH_OK && sample_write_hostile("hostile.h5") == LH_OK, "the samples");
    program_must(lh_h5_create(&h5, "logits.h5", &(lh_h5_header){"analysis", 1, "{}"}) == LH_OK &&
                     lh_h5_put(h5, "/logits", &(lh_h5_shape){LH_F32, 1, {2}}, logits) == LH_OK &&
                     lh_h5_commit(h5) == LH_OK,
                 "an analysis without figures");
}

START_TEST(test_a_page_holds_the_summary_and_every_figure)
{
    program_result r = {0};
    lh_buf page = {0};
    program_run(&r, 1, "report a.h5 hostile.h5 -o page.html --csv csv");
    program_exits(&r, 0);
    ck_assert_int_eq(r.out.bytes, 0);
    ck_assert_int_eq(lh_file_read(&page, "page.html", 1 << 24), LH_OK);
    ck_assert_ptr_nonnull(strstr(page.data, "<h1>ada-snapkv loses least at a budget of 10% in a, on 1 text</h1>"));
    ck_assert_ptr_nonnull(strstr(page.data, "It was written in 1813"));
    static const char *const names[] = {"attention-kept", "perturbation-l2", "jaccard",
                                        "head-budgets",   "kept-positions",  "entropy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char id[64], file[64];
        snprintf(id, sizeof id, "id=\"%s\"", names[i]);
        snprintf(file, sizeof file, "csv/a-%s.csv", names[i]);
        ck_assert_ptr_nonnull(strstr(page.data, id));
        ck_assert(lh_file_exists(file));
    }
    ck_assert_ptr_null(strstr(page.data, "http-equiv=\"refresh"));
    lh_buf_clear(&page);
    program_clear(&r);
}
END_TEST

START_TEST(test_ranks_make_the_same_page_once)
{
    program_result r = {0};
    program_run(&r, 1, "report a.h5 -o - > one.html");
    program_exits(&r, 0);
    for (int ranks = 2; ranks <= 3; ranks++) {
        program_run(&r, ranks, "report a.h5 -o many.html && cmp one.html many.html");
        program_exits(&r, 0);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_tables_for_papers_and_plots_for_terminals)
{
    program_result r = {0};
    program_run(&r, 1, "report a.h5 --format md");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "## "), 6);
    ck_assert_int_eq(program_lines(r.out.data, "| ada-snapkv"), 3); /* two curves, and a row of similarities */
    program_run(&r, 1, "report a.h5 --format tex -o a.tex --svg svg && grep -c toprule a.tex && ls svg | wc -l");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "12\n6\n");
    program_run(&r, 1, "info a.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "  oracle "), 5);
    ck_assert_ptr_nonnull(strstr(r.out.data, "█"));
    program_run(&r, 1, "info hostile.h5");
    program_exits(&r, 0);
    for (int64_t i = 0; i < r.out.bytes; i++) ck_assert((unsigned char)r.out.data[i] >= 0x20 || r.out.data[i] == '\n');
    program_run(&r, 1, "info logits.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_what_cannot_be_drawn_is_refused)
{
    program_refuses(1, 2, "nothing to draw", "report -o x.html");
    program_refuses(1, 2, "nothing to write", "report a.h5");
    program_refuses(1, 4, "'keep.h5'", "report keep.h5 -o x.html");
    program_refuses(2, 4, "neither figures nor tables", "report logits.h5 -o x.html");
    program_refuses(1, 4, "no-such.h5", "report no-such.h5 -o x.html");
    program_refuses(1, 6, "no/such/x.html", "report a.h5 -o no/such/x.html");
    program_refuses(1, 6, "'--csv'", "report a.h5 --csv no/such/folder");
    program_refuses(1, 6, "'--svg'", "report a.h5 --svg no/such/folder");
    program_refuses(1, 2, "a.h5", "report a.h5 -o a.h5");
    ck_assert(!lh_file_exists("x.html"));
}
END_TEST

START_TEST(test_a_name_that_promises_another_format_is_refused)
{
    program_result r = {0};
    static const char *const names[] = {"x.pdf", "x.svg", "x.csv", "x.json", "x.h5"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[64];
        snprintf(line, sizeof line, "report a.h5 -o %s", names[i]);
        program_refuses(1, 2, "'x.html'", line);
        ck_assert(!lh_file_exists(names[i]));
    }
    program_refuses(1, 2, "'--format md'", "report a.h5 -o x.md");
    program_refuses(1, 2, "'--format tex'", "report a.h5 -o x.tex");
    program_refuses(1, 2, "'--svg FOLDER'", "report a.h5 -o x.svg");
    program_refuses(1, 2, "'x.tex'", "report a.h5 --format tex -o x.pdf");
    program_refuses(1, 2, "'--format html'", "report a.h5 --format md -o x.HTML");
    program_run(&r, 1, "report a.h5 -o v1.2/x --csv v1.2");
    program_exits(&r, 6); /* a dot of a folder is no ending */
    program_run(&r, 1, "report a.h5 -o x --format md && test -s x");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_a_page_holds_the_summary_and_every_figure,      test_ranks_make_the_same_page_once,
        test_tables_for_papers_and_plots_for_terminals,      test_what_cannot_be_drawn_is_refused,
        test_a_name_that_promises_another_format_is_refused, NULL};
    setup();
    const int failed = suite_run("report", tests);
    program_leave();
    return failed;
}
