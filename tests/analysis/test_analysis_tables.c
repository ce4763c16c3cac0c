/* Tables of an analysis file come back as they were written, and those that do not fit together are refused by name. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "lab/analysis/tables.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static const lh_column columns[] = {{"policy", "", LH_COLUMN_LABEL},
                                    {"tokens", "tokens", LH_COLUMN_I64},
                                    {"exact", "share of 1", LH_COLUMN_F64},
                                    {"answer", "", LH_COLUMN_TEXT},
                                    {NULL, NULL, LH_COLUMN_TEXT}};

static void reopen(lh_h5 **h5)
{
    OK(lh_h5_commit(*h5));
    OK(lh_h5_open(h5, "a.h5", &(lh_h5_header){"analysis", 1, NULL}));
}

START_TEST(test_tables_come_back_in_the_order_of_their_columns)
{
    char folder[FOLDER_BYTES];
    lh_table table;
    lh_tables read;
    lh_h5 *h5 = NULL;
    lh_buf before = {0}, after = {0};
    folder_enter(folder);
    lh_table_init(&table, columns);
    OK(lh_table_add(&table, (lh_cell[]){{.text = "snapkv"}, {.number = 7}, {.value = 0.5}, {.text = "a, \"b\""}}));
    OK(lh_table_add(&table, (lh_cell[]){{.text = "full"}, {.number = -1}, {.value = (double)NAN}, {.text = ""}}));
    OK(lh_h5_create(&h5, "a.h5", &(lh_h5_header){"analysis", 1, "{}"}));
    OK(lh_table_h5(&table, h5, "/task/rows"));
    OK(lh_table_h5(&table, h5, "/task/means"));
    OK(lh_h5_put(h5, "/logits", &(lh_h5_shape){LH_F32, 1, {2}}, (float[]){1, 2})); /* no table */
    reopen(&h5);
    OK(lh_tables_read(&read, h5));
    ck_assert_int_eq(read.count, 2);
    ck_assert_str_eq(read.list[0].name, "task/means");
    ck_assert_str_eq(read.list[1].columns[2].unit, "share of 1");
    ck_assert_int_eq(lh_table_column_find(&read.list[1].table, "exact"), 2);
    OK(lh_table_csv(&table, &before));
    OK(lh_table_csv(&read.list[1].table, &after));
    ck_assert_str_eq(before.data, after.data);
    lh_tables_clear(&read);
    lh_table_clear(&table);
    lh_buf_clear(&before);
    lh_buf_clear(&after);
    lh_h5_close(h5);
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

START_TEST(test_columns_that_do_not_fit_are_refused_by_name)
{
    static const struct {
        const char *labels, *answers, *part;
        int32_t codes[2];
    } cases[] = {{"[\"a\"]", "[\"x\",\"y\"]", "label 1", {0, 1}},
                 {"[\"a\"]", "[\"x\",\"y\"]", "label -1", {-1, 0}},
                 {"{}", "[\"x\",\"y\"]", "no JSON array", {0, 0}},
                 {"[1]", "[\"x\",\"y\"]", "no text", {0, 0}},
                 {"[\"a\"]", "[\"x\"]", "'answer' has 1 rows", {0, 0}},
                 {"[\"a\"]", "[\"x\",null]", "item 1", {0, 0}},
                 {"[\"a\"]", "x", "'/t/answer'", {0, 0}}};
    char folder[FOLDER_BYTES];
    lh_tables read;
    folder_enter(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_h5 *h5 = NULL;
        OK(lh_h5_create(&h5, "a.h5", &(lh_h5_header){"analysis", 1, "{}"}));
        OK(lh_h5_put(h5, "/t/policy", &(lh_h5_shape){LH_I32, 1, {2}}, cases[i].codes));
        OK(lh_h5_put_string(h5, "/t/policy", "labels", cases[i].labels));
        OK(lh_h5_put_string(h5, "/t/policy", "unit", ""));
        OK(lh_h5_put_text(h5, "/t/answer", cases[i].answers, (int64_t)strlen(cases[i].answers)));
        OK(lh_h5_put_string(h5, "/t/answer", "unit", ""));
        OK(lh_h5_put_string(h5, "/t", "columns", "[\"policy\",7,\"no such\"]"));
        reopen(&h5);
        check_message(lh_tables_read(&read, h5), LH_EFILE, cases[i].part);
        lh_h5_close(h5);
    }
    unlink("a.h5");
    folder_leave(folder);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_tables_come_back_in_the_order_of_their_columns,
                                  test_columns_that_do_not_fit_are_refused_by_name, NULL};
    return suite_run("tables of an analysis", tests);
}
