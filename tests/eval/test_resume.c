/* The file of finished prompts: what is read back, what is dropped, and what is refused. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/temporary.h"
#include "lab/eval/resume.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static const lh_column columns[] = {{"policy", "", LH_COLUMN_LABEL},
                                    {"tokens", "tokens", LH_COLUMN_I64},
                                    {"share", "share of 1", LH_COLUMN_F64},
                                    {"answer", "", LH_COLUMN_TEXT},
                                    {NULL, NULL, LH_COLUMN_TEXT}};

static void enter_folder(void)
{
    char folder[TEMPORARY_BYTES];
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    ck_assert_int_eq(chdir(folder), 0);
}

static json_t *identity(const char *model, int length)
{
    return json_pack("{s:s, s:{s:i, s:s}}", "model", model, "options", "length", length, "needle", "{secret}");
}

static lh_status open_with(lh_resume **out, json_t *of)
{
    lh_status st = lh_resume_open(out, "o.csv", of);
    json_decref(of);
    return st;
}

static lh_comm *self(void)
{
    lh_comm *comm = NULL;
    OK(lh_comm_open_self(&comm));
    return comm;
}

static void add(lh_table *table, int64_t tokens, double share, const char *answer)
{
    OK(lh_table_add(table, (lh_cell[]){{.text = "snapkv"}, {.number = tokens}, {.value = share}, {.text = answer}}));
}

/* Two prompts with two rows in one table and one in the other. */
static void write_two(void)
{
    lh_resume *resume = NULL;
    lh_table a, b;
    lh_table *const tables[] = {&a, &b, NULL};
    int64_t finished = -1;
    lh_comm *comm = self();
    lh_table_init(&a, columns);
    lh_table_init(&b, columns);
    OK(open_with(&resume, identity("m", 7)));
    OK(lh_resume_begin(resume, comm, tables, &finished));
    ck_assert_int_eq(finished, 0);
    ck_assert(lh_file_exists("o.csv.resume")); /* empty: nothing is finished yet */
    for (int p = 0; p < 2; p++) {
        add(&a, INT64_C(1) << 60, 1.0 / 3, "a \"quoted\", long\nanswer, in Köln");
        add(&a, -p, (double)NAN, "");
        add(&b, p, 0.1, NULL);
        lh_resume_add(resume, tables);
    }
    ck_assert_int_eq(lh_resume_finished(resume), 2);
    lh_resume_close(resume);
    lh_table_clear(&a);
    lh_table_clear(&b);
    lh_comm_close(comm);
}

/* Opens the file of write_two as the same evaluation does: `finished` prompts, with all their rows. */
static void reads_back(int64_t finished)
{
    lh_resume *resume = NULL;
    lh_table a, b;
    lh_table *const tables[] = {&a, &b, NULL};
    int64_t n = -1;
    lh_comm *comm = self();
    lh_table_init(&a, columns);
    lh_table_init(&b, columns);
    OK(open_with(&resume, identity("m", 7)));
    OK(lh_resume_begin(resume, comm, tables, &n));
    ck_assert_int_eq(n, finished);
    ck_assert_int_eq(a.n, 2 * finished);
    ck_assert_int_eq(b.n, finished);
    for (int64_t p = 0; p < finished; p++) {
        const lh_cell *one = lh_table_row(&a, 2 * p), *two = lh_table_row(&a, 2 * p + 1);
        ck_assert_str_eq(one[0].text, "snapkv");
        ck_assert_int_eq(one[1].number, INT64_C(1) << 60);
        ck_assert(one[2].value == 1.0 / 3); /* every bit */
        ck_assert_str_eq(one[3].text, "a \"quoted\", long\nanswer, in Köln");
        ck_assert(two[1].number == -p && isnan(two[2].value));
        ck_assert_int_eq(lh_table_row(&b, p)[1].number, p);
    }
    lh_resume_close(resume);
    lh_table_clear(&a);
    lh_table_clear(&b);
    lh_comm_close(comm);
}

START_TEST(test_rows_come_back_with_every_bit)
{
    enter_folder();
    write_two();
    reads_back(2);
    reads_back(2); /* reading changes nothing */
}
END_TEST

/* A kill may cut the file at any byte: whole lines before it count, and what is appended then follows them. */
START_TEST(test_a_cut_line_is_dropped)
{
    lh_buf whole = {0};
    enter_folder();
    write_two();
    OK(lh_file_read(&whole, "o.csv.resume", 1 << 20));
    for (int64_t bytes = 0; bytes <= whole.bytes; bytes++) {
        int64_t lines = 0;
        for (int64_t i = 0; i < bytes; i++) lines += whole.data[i] == '\n';
        FILE *f = fopen("o.csv.resume", "w");
        ck_assert_uint_eq(fwrite(whole.data, 1, (size_t)bytes, f), (size_t)bytes);
        fclose(f);
        reads_back(lines > 0 ? lines - 1 : 0);
    }
    ck_assert_int_eq(truncate("o.csv.resume", (off_t)whole.bytes - 9), 0);
    lh_resume *resume = NULL;
    lh_table a, b;
    lh_table *const tables[] = {&a, &b, NULL};
    int64_t n;
    lh_comm *comm = self();
    lh_table_init(&a, columns);
    lh_table_init(&b, columns);
    OK(open_with(&resume, identity("m", 7)));
    OK(lh_resume_begin(resume, comm, tables, &n));
    add(&a, INT64_C(1) << 60, 1.0 / 3, "a \"quoted\", long\nanswer, in Köln");
    add(&a, -1, (double)NAN, "");
    add(&b, 1, 0.1, NULL);
    lh_resume_add(resume, tables);
    lh_resume_close(resume);
    lh_table_clear(&a);
    lh_table_clear(&b);
    lh_comm_close(comm);
    reads_back(2);
    lh_buf_clear(&whole);
}
END_TEST

START_TEST(test_another_evaluation_is_refused_with_what_differs)
{
    lh_resume *resume = NULL;
    enter_folder();
    write_two();
    const struct {
        json_t *of;
        const char *part;
    } cases[] = {
        {identity("m", 8), "'--length' was 7 and is 8"},
        {identity("other", 7), "the model was \"m\" and is \"other\""},
        {json_pack("{s:s, s:{s:i}}", "model", "m", "options", "length", 7), "'--needle' was \"{secret}\" and is"},
        {json_pack("{s:s, s:{s:i, s:s, s:i}}", "model", "m", "options", "length", 7, "needle", "{secret}", "keys", 2),
         "'--keys' was none and is 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(open_with(&resume, cases[i].of), LH_EUSAGE);
        ck_assert_msg(strstr(lh_error_message(), cases[i].part), "%s", lh_error_message());
        ck_assert_ptr_nonnull(strstr(lh_error_message(), "o.csv.resume"));
    }
    reads_back(2);
}
END_TEST

/* Such as those of a program that measured less. */
START_TEST(test_rows_of_other_columns_are_refused)
{
    static const lh_column more[] = {{"policy", "", LH_COLUMN_LABEL},        {"tokens", "tokens", LH_COLUMN_I64},
                                     {"share", "share of 1", LH_COLUMN_F64}, {"best", "share of 1", LH_COLUMN_F64},
                                     {"answer", "", LH_COLUMN_TEXT},         {NULL, NULL, LH_COLUMN_TEXT}};
    lh_resume *resume = NULL;
    lh_table a, b;
    lh_table *const tables[] = {&a, &b, NULL};
    int64_t n;
    lh_comm *comm = self();
    enter_folder();
    write_two();
    lh_table_init(&a, more);
    lh_table_init(&b, columns);
    OK(open_with(&resume, identity("m", 7)));
    ck_assert_int_eq(lh_resume_begin(resume, comm, tables, &n), LH_EWRITE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "a row has other columns than the table"));
    lh_resume_close(resume);
    lh_table_clear(&a);
    lh_table_clear(&b);
    lh_comm_close(comm);
    reads_back(2);
}
END_TEST

START_TEST(test_a_file_of_somebody_else_is_left_alone)
{
    static const char *const texts[] = {"my notes\n", "{\"longhaul\": \"cache\"}\n", "notes without an end",
                                        "{\"longhaul\":\"unfinished evaluation\",\"schema\" broken\n"};
    lh_resume *resume = NULL;
    enter_folder();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lh_buf back = {0};
        FILE *f = fopen("o.csv.resume", "w");
        fputs(texts[i], f);
        fclose(f);
        ck_assert_int_eq(open_with(&resume, identity("m", 7)), LH_EWRITE);
        ck_assert_ptr_nonnull(strstr(lh_error_message(), "move it away"));
        OK(lh_file_read(&back, "o.csv.resume", 1 << 20));
        ck_assert_str_eq(back.data, texts[i]);
        lh_buf_clear(&back);
    }
}
END_TEST

START_TEST(test_what_is_done_is_removed)
{
    lh_resume *resume = NULL;
    enter_folder();
    write_two();
    OK(open_with(&resume, identity("m", 7)));
    lh_resume_remove(resume);
    lh_resume_close(resume);
    ck_assert(!lh_file_exists("o.csv.resume"));
}
END_TEST

START_TEST(test_a_second_run_is_refused_and_the_first_lives)
{
    lh_resume *first = NULL, *second = NULL;
    enter_folder();
    OK(open_with(&first, identity("m", 7)));
    ck_assert_int_eq(open_with(&second, identity("m", 7)), LH_EWRITE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'o.csv.resume': another evaluation that is running"));
    ck_assert(lh_file_exists("o.csv.resume"));
    lh_resume_close(first);
    ck_assert(!lh_file_exists("o.csv.resume")); /* nothing was kept */
    write_two();
    OK(open_with(&first, identity("m", 7)));
    ck_assert_int_eq(open_with(&second, identity("m", 7)), LH_EWRITE);
    lh_resume_close(first);
    reads_back(2);
}
END_TEST

static void append(const char *line)
{
    FILE *f = fopen("o.csv.resume", "a");
    fputs(line, f);
    fclose(f);
}

START_TEST(test_a_prompt_without_its_rows_is_not_finished)
{
    static const char *const lines[] = {"{\"prompt\":2}\n", "{\"prompt\":2,\"rows\":7}\n"};
    enter_folder();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        unlink("o.csv.resume");
        write_two();
        append(lines[i]);
        reads_back(2);
    }
    lh_resume *resume = NULL;
    lh_table a;
    lh_table *const tables[] = {&a, NULL};
    int64_t n;
    lh_comm *comm = self();
    lh_table_init(&a, columns);
    OK(open_with(&resume, identity("m", 7)));
    ck_assert_int_eq(lh_resume_begin(resume, comm, tables, &n), LH_EWRITE); /* rows of two tables */
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "is damaged: prompt 0 has rows of 2 tables, not 1"));
    lh_resume_close(resume);
    lh_table_clear(&a);
    lh_comm_close(comm);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rows_come_back_with_every_bit,
                                  test_a_cut_line_is_dropped,
                                  test_another_evaluation_is_refused_with_what_differs,
                                  test_rows_of_other_columns_are_refused,
                                  test_a_file_of_somebody_else_is_left_alone,
                                  test_what_is_done_is_removed,
                                  test_a_second_run_is_refused_and_the_first_lives,
                                  test_a_prompt_without_its_rows_is_not_finished,
                                  NULL};
    return suite_run("resume", tests);
}
