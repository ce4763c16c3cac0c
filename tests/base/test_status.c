#include <check.h>
#include <pthread.h>
#include <string.h>

#include "base/status.h"
#include "suite.h"

static lh_status inner(const char *what)
{
    LH_FAIL(LH_EFILE, "cannot read '%s'", what);
    return LH_OK;
}

static lh_status middle(const char *what)
{
    LH_TRY(inner(what));
    return LH_OK;
}

static lh_status outer(const char *what)
{
    LH_TRY(middle(what));
    return LH_OK;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    return n;
}

START_TEST(test_the_message_is_the_causes_and_the_trace_the_way)
{
    ck_assert_int_eq(outer("m.h5"), LH_EFILE);
    ck_assert_str_eq(lh_error_message(), "cannot read 'm.h5'");
    ck_assert_int_eq(count(lh_error_trace(), "test_status.c:"), 3);
    ck_assert_int_eq(count(lh_error_trace(), " < "), 2);
    ck_assert_int_eq(inner("other"), LH_EFILE);
    ck_assert_str_eq(lh_error_message(), "cannot read 'other'");
    ck_assert_int_eq(count(lh_error_trace(), "test_status.c:"), 1);
    lh_error_clear();
    ck_assert_str_eq(lh_error_message(), "");
    ck_assert_str_eq(lh_error_trace(), "");
}
END_TEST

START_TEST(test_context_goes_before_the_message)
{
    ck_assert_int_eq(inner("m.h5"), LH_EFILE);
    ck_assert_int_eq(lh_fail_within(LH_EFILE, "rank %d on %s", 3, "node7"), LH_EFILE);
    ck_assert_str_eq(lh_error_message(), "rank 3 on node7: cannot read 'm.h5'");
}
END_TEST

START_TEST(test_a_message_may_quote_the_one_before)
{
    ck_assert_int_eq(inner("m.h5"), LH_EFILE);
    lh_fail(LH_EINPUT, __FILE__, __LINE__, "first: %s", lh_error_message());
    ck_assert_str_eq(lh_error_message(), "first: cannot read 'm.h5'");
    lh_fail_within(LH_EINPUT, "again (%s)", lh_error_message());
    ck_assert_str_eq(lh_error_message(), "again (first: cannot read 'm.h5'): first: cannot read 'm.h5'");
}
END_TEST

START_TEST(test_a_message_is_one_plain_line)
{
    inner("a\nb\x1b[31m\x7f\xc3\xa9");
    ck_assert_str_eq(lh_error_message(), "cannot read 'a?b?[31m?\xc3\xa9'");
    inner("\xc2\x9b"
          "31m\x9b\xe4\xb8"); /* C1's CSI, as UTF-8 and as a byte; a character that is cut off */
    ck_assert_str_eq(lh_error_message(), "cannot read '?31m?"
                                         "?'");
    inner("a\nb\x1b[31m\x7f\xc3\xa9");
    lh_fail_within(LH_EFILE, "c\td");
    ck_assert_str_eq(lh_error_message(), "c?d: cannot read 'a?b?[31m?\xc3\xa9'");
}
END_TEST

START_TEST(test_long_messages_and_traces_are_cut_not_overrun)
{
    char name[5000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    lh_status st = inner(name);
    ck_assert_int_eq((int)strlen(lh_error_message()), 2047);
    for (int i = 0; i < 1000; i++) st = lh_fail_trace(st, "/a/src/base/some_file.c", i);
    ck_assert(strlen(lh_error_trace()) < 1024);
    lh_fail_within(st, "%s", name);
    ck_assert_int_eq((int)strlen(lh_error_message()), 2047);
}
END_TEST

static void *other_thread(void *arg)
{
    ck_assert_str_eq(lh_error_message(), "");
    inner("thread");
    return arg;
}

START_TEST(test_messages_belong_to_their_thread)
{
    pthread_t thread;
    inner("main");
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_str_eq(lh_error_message(), "cannot read 'main'");
}
END_TEST

START_TEST(test_statuses_are_the_exit_codes_and_have_names)
{
    static const int codes[] = {0, 2, 3, 4, 5, 6, 7, 8, 75};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        ck_assert_str_ne(lh_status_name((lh_status)codes[i]), "unknown status");
    ck_assert_int_eq(LH_EINTERRUPTED, 75);
    ck_assert_str_eq(lh_status_name((lh_status)99), "unknown status");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_message_is_the_causes_and_the_trace_the_way,
                                  test_context_goes_before_the_message,
                                  test_a_message_may_quote_the_one_before,
                                  test_a_message_is_one_plain_line,
                                  test_long_messages_and_traces_are_cut_not_overrun,
                                  test_messages_belong_to_their_thread,
                                  test_statuses_are_the_exit_codes_and_have_names,
                                  NULL};
    return suite_run("status", tests);
}
