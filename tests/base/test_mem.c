#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "suite.h"

START_TEST(test_memory_is_zeroed_and_never_null)
{
    unsigned char *p = NULL;
    ck_assert_int_eq(lh_calloc(&p, 1000, 3), LH_OK);
    for (int i = 0; i < 3000; i++) ck_assert_int_eq(p[i], 0);
    lh_free(p);
    p = NULL;
    ck_assert_int_eq(lh_calloc(&p, 0, 8), LH_OK);
    ck_assert_ptr_nonnull(p);
    lh_free(p);
    lh_free(NULL);
}
END_TEST

START_TEST(test_sizes_that_no_memory_holds_fail_and_leave_the_pointer)
{
    static const int64_t sizes[][2] = {
        {-1, 8}, {8, -1}, {INT64_MAX, 2}, {INT64_C(1) << 40, INT64_C(1) << 40}, {(INT64_C(1) << 62) + 1, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int here = 0;
        int *p = &here, *q = NULL;
        ck_assert_int_eq(lh_calloc(&p, sizes[i][0], sizes[i][1]), LH_ENOMEM);
        ck_assert_ptr_eq(p, &here);
        ck_assert_int_eq(lh_realloc(&q, sizes[i][0], sizes[i][1]), LH_ENOMEM);
        ck_assert_ptr_null(q);
    }
}
END_TEST

START_TEST(test_memory_that_is_not_there_is_said)
{
    ck_assert_int_eq(lh_mem_check("HDF5", INT64_C(4) << 20), LH_OK);
    ck_assert_int_eq(lh_mem_check("HDF5", INT64_C(1) << 60), LH_ENOMEM);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "HDF5 needs 1099511627776 MiB of memory"));
}
END_TEST

START_TEST(test_growing_keeps_what_was_there)
{
    int *p = NULL;
    for (int n = 1; n <= 4096; n *= 2) {
        ck_assert_int_eq(lh_realloc(&p, n, sizeof *p), LH_OK);
        p[n - 1] = n;
        for (int i = 1; i <= n; i *= 2) ck_assert_int_eq(p[i - 1], i);
    }
    lh_free(p);
}
END_TEST

START_TEST(test_strings_are_copied)
{
    char *a = NULL, *b = NULL, *c = NULL;
    ck_assert_int_eq(lh_strdup(&a, "budget"), LH_OK);
    ck_assert_int_eq(lh_strndup(&b, "budget", 3), LH_OK);
    ck_assert_int_eq(lh_asprintf(&c, "%s of %d", a, 256), LH_OK);
    ck_assert_str_eq(a, "budget");
    ck_assert_str_eq(b, "bud");
    ck_assert_str_eq(c, "budget of 256");
    lh_free(a);
    lh_free(b);
    lh_free(c);
}
END_TEST

START_TEST(test_a_buffer_holds_all_that_was_appended_and_a_nul)
{
    lh_buf buf = {0};
    char want[4096];
    int n = 0;
    for (int i = 0; i < 200; i++) {
        n += snprintf(want + n, sizeof want - (size_t)n, "%d,", i * i);
        ck_assert_int_eq(lh_buf_printf(&buf, "%d,", i * i), LH_OK);
        ck_assert_int_eq(buf.bytes, n);
        ck_assert_str_eq(buf.data, want);
    }
    ck_assert_int_eq(lh_buf_append(&buf, "a\0b", 3), LH_OK);
    ck_assert_int_eq(buf.bytes, n + 3);
    ck_assert_mem_eq(buf.data + n, "a\0b", 4);
    lh_buf_clear(&buf);
    ck_assert_ptr_null(buf.data);
    ck_assert_int_eq(lh_buf_append(&buf, "", 0), LH_OK);
    ck_assert_str_eq(buf.data, "");
    ck_assert_int_eq(lh_buf_puts(&buf, "again"), LH_OK);
    ck_assert_str_eq(buf.data, "again");
    lh_buf_clear(&buf);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_memory_is_zeroed_and_never_null,
                                  test_sizes_that_no_memory_holds_fail_and_leave_the_pointer,
                                  test_memory_that_is_not_there_is_said,
                                  test_growing_keeps_what_was_there,
                                  test_strings_are_copied,
                                  test_a_buffer_holds_all_that_was_appended_and_a_nul,
                                  NULL};
    return suite_run("mem", tests);
}
