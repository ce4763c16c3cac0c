/* Tables of comma-separated values: the fields that RFC 4180 says, and what it does not allow. */
#include "base/csv.h"

#include <string.h>

#include "suite.h"

/* The rows of TEXT as "a|b;c|d;". */
static lh_status rows_of_bytes(const char *text, int64_t bytes, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_csv csv;
    lh_csv_row row = {.n = 0};
    out->bytes = 0;
    lh_buf_puts(out, "");
    lh_csv_open(&csv, "t.csv", text, bytes);
    while ((st = lh_csv_next(&csv, &row)) == LH_OK && row.n > 0)
        for (int64_t i = 0; i < row.n; i++) {
            lh_buf_append(out, lh_csv_field(&row, i), lh_csv_bytes(&row, i));
            lh_buf_puts(out, i + 1 < row.n ? "|" : ";");
        }
    lh_csv_row_clear(&row);
    return st;
}

static lh_status rows_of(const char *text, lh_buf *out)
{
    return rows_of_bytes(text, (int64_t)strlen(text), out);
}

START_TEST(test_fields_are_those_of_the_table)
{
    static const struct {
        const char *text, *rows;
    } cases[] = {{"", ""},
                 {"a", "a;"},
                 {"a,b\nc,d\n", "a|b;c|d;"},
                 {"a,b\r\nc,d\r\n", "a|b;c|d;"},
                 {"\xEF\xBB\xBF"
                  "a\n\n\r\nb\n",
                  "a;b;"},
                 {",\n,,\n", "|;||;"},
                 {"\"a,b\",\"c\nd\",\"e\"\"f\"\n", "a,b|c\nd|e\"f;"},
                 {"\"\",\"\"\"\"\r\nx", "|\";x;"},
                 {"a \"b\" c, d \n", "a \"b\" c| d ;"},
                 {"a\rb\n", "a\rb;"},
                 {"\"a\"", "a;"},
                 {"a,", "a|;"}};
    lh_buf rows = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(rows_of(cases[i].text, &rows), LH_OK);
        ck_assert_str_eq(rows.data, cases[i].rows);
    }
    ck_assert_int_eq(rows_of_bytes("a\0b,c", 5, &rows), LH_OK);
    ck_assert(rows.bytes == 6 && memcmp(rows.data, "a\0b|c;", 6) == 0);
    lh_buf_clear(&rows);
}
END_TEST

START_TEST(test_lines_are_named)
{
    lh_buf rows = {0};
    ck_assert_int_eq(rows_of("a,b\n\"x\ny\",1\n\"z", &rows), LH_EINPUT);
    ck_assert_str_eq(lh_error_message(), "t.csv: the quotes that begin in line 4 do not end");
    ck_assert_int_eq(rows_of("a\n\"b\"c\n", &rows), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "line 2 has text after closing quotes"));
    lh_buf_clear(&rows);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_fields_are_those_of_the_table, test_lines_are_named, NULL};
    return suite_run("csv", tests);
}
