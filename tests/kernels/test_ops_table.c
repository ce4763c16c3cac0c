#include <math.h>
#include <string.h>

#include "kernels/ops.h"
#include "suite.h"

START_TEST(test_every_backend_has_every_operation_and_is_found_by_its_name)
{
    int i = 0;
    for (const lh_ops *ops; (ops = lh_ops_at(i)); i++) {
        ck_assert_msg(lh_ops_check(ops) == LH_OK, "%s", lh_error_message());
        ck_assert_ptr_eq(lh_ops_find(ops->name), ops);
    }
    ck_assert_int_ge(i, 1);
    ck_assert_ptr_eq(lh_ops_at(0), &lh_ops_ref);
    ck_assert_ptr_null(lh_ops_at(-1));
    ck_assert_ptr_null(lh_ops_find("abacus"));
}
END_TEST

START_TEST(test_a_lacking_operation_is_named)
{
    lh_ops lame = lh_ops_ref;
    lame.name = "lame";
    lame.compact = NULL;
    ck_assert_int_eq(lh_ops_check(&lame), LH_EINTERNAL);
    ck_assert_str_eq(lh_error_message(), "backend 'lame' lacks the operation 'compact'");
    lame.embed = NULL;
    ck_assert_int_eq(lh_ops_check(&lame), LH_EINTERNAL);
    ck_assert_str_eq(lh_error_message(), "backend 'lame' lacks the operation 'embed'");
}
END_TEST

START_TEST(test_operations_have_names_and_summaries_of_their_own)
{
    int count = 0;
    for (; lh_op_name(count); count++) {
        ck_assert_int_gt((int)strlen(lh_op_summary(count)), 10);
        for (int i = 0; i < count; i++) ck_assert_str_ne(lh_op_name(i), lh_op_name(count));
    }
    ck_assert_int_eq(count, (int)((sizeof(lh_ops) - offsetof(lh_ops, embed)) / sizeof(void (*)(void))));
    ck_assert_ptr_null(lh_op_summary(count));
    ck_assert_ptr_null(lh_op_name(-1));
    ck_assert_ptr_null(lh_op_summary(-1));
}
END_TEST

START_TEST(test_the_key_of_a_score_keeps_the_order_of_numbers_with_nan_below)
{
    const float x[] = {NAN,    -INFINITY, -3.4e38f, -1.0f, -0.999999f, -1e-38f, -1e-45f, 0.0f,
                       1e-45f, 1e-38f,    0x1p-20f, 1.0f,  1.000001f,  3.4e38f, INFINITY};
    const int n = (int)(sizeof x / sizeof x[0]);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) ck_assert_int_eq(lh_score_key(x[i]) < lh_score_key(x[j]), i < j);
    }
    ck_assert_uint_eq(lh_score_key(-0.0f), lh_score_key(0.0f));
    ck_assert_uint_eq(lh_score_key(NAN), lh_score_key(-NAN));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_backend_has_every_operation_and_is_found_by_its_name,
                                  test_a_lacking_operation_is_named,
                                  test_operations_have_names_and_summaries_of_their_own,
                                  test_the_key_of_a_score_keeps_the_order_of_numbers_with_nan_below, NULL};
    return suite_run("kernels/table", tests);
}
