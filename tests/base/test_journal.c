/* Journals: one writer, whole lines, torn ends; and what differs between the run of a file and another one. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/identity.h"
#include "base/journal.h"
#include "folder.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static int64_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? info.st_size : -1;
}

START_TEST(test_one_process_writes_and_others_see_it)
{
    char folder[FOLDER_BYTES];
    lh_journal first, second;
    int locked = 0;
    folder_enter(folder);
    OK(lh_journal_open(&first, "j"));
    ck_assert_int_eq(lh_journal_is_locked("j"), 0);
    OK(lh_journal_lock(&first, "nobody", &locked));
    ck_assert(locked && lh_journal_is_locked("j") == 1);
    OK(lh_journal_open(&second, "j"));
    ck_assert_int_eq(lh_journal_lock(&second, "another run", &locked), LH_EWRITE);
    ck_assert_str_eq(lh_error_message(), "cannot write 'j': another run writes it, name another output");
    lh_journal_remove_empty(&second); /* it was closed: the file belongs to the first */
    ck_assert_int_eq(size_of("j"), 0);
    OK(lh_journal_open(&second, "j"));
    lh_journal_remove_empty(&first);
    lh_journal_close(&first);
    OK(lh_journal_lock(&second, "nobody", &locked)); /* the file was removed after its opening: it is created again */
    ck_assert_int_eq(size_of("j"), 0);
    OK(lh_journal_check_name(&second));
    rename("j", "k");
    put("j", "notes");
    ck_assert_int_eq(lh_journal_check_name(&second), LH_EWRITE);
    lh_journal_remove(&second);
    ck_assert_int_eq(size_of("j"), 5); /* another file has the name */
    lh_journal_close(&second);
    ck_assert_int_eq(lh_journal_open(&first, "."), LH_EWRITE);
    ck_assert_int_eq(lh_journal_is_locked("none"), -1);
    unlink("j");
    unlink("k");
    folder_leave(folder);
}
END_TEST

/* Accepts lines that begin with 'a', and counts them. */
static lh_status count_line(void *self, const char *text, int64_t bytes, int *accepted)
{
    *accepted = bytes > 0 && *text == 'a';
    *(int *)self += *accepted;
    return LH_OK;
}

START_TEST(test_whole_lines_are_read_up_to_the_first_that_is_none)
{
    static const struct {
        const char *text;
        int lines;
        int64_t bytes;
    } cases[] = {{"", 0, 0},          {"a", 0, 0},     {"a\n", 1, 2}, {"a1\na22\na3", 2, 7},
                 {"a\nb\na\n", 1, 2}, {"\na\n", 0, 0}, {"b\n", 0, 0}, {"a\n\n", 1, 2}};
    char folder[FOLDER_BYTES];
    lh_journal j;
    folder_enter(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int lines = 0;
        int64_t bytes = -1;
        const lh_journal_reader reader = {&lines, count_line};
        OK(lh_journal_read_lines(&reader, cases[i].text, (int64_t)strlen(cases[i].text), &bytes));
        ck_assert_msg(lines == cases[i].lines && bytes == cases[i].bytes, "case %d: %d, %d", (int)i, lines, (int)bytes);
        put("j", cases[i].text); /* a run that goes on appends after the whole lines */
        OK(lh_journal_open(&j, "j"));
        OK(lh_journal_cut(&j, bytes));
        OK(lh_journal_append(&j, "a9\n", 3));
        OK(lh_journal_sync(&j));
        ck_assert_int_eq(size_of("j"), bytes + 3);
        char last[3];
        OK(lh_journal_read(&j, bytes, last, 3));
        ck_assert_int_eq(memcmp(last, "a9\n", 3), 0);
        ck_assert_int_eq(lh_journal_read(&j, bytes + 1, last, 3), LH_EWRITE);
        lh_journal_close(&j);
    }
    unlink("j");
    folder_leave(folder);
}
END_TEST

START_TEST(test_the_first_difference_of_two_runs_is_named)
{
    static const struct {
        const char *was, *is, *name, *old, *now; /* name NULL: the same run */
    } cases[] = {
        {"{\"m\":1,\"p\":{\"a\":0.2}}", "{\"p\":{\"a\":0.2},\"m\":1}", NULL, NULL, NULL},
        {"{\"x\":0.333333333}", "{\"x\":0.33333333333333331}", NULL, NULL, NULL}, /* 9 digits, as the file has them */
        {"{\"m\":1,\"p\":{\"a\":0.3}}", "{\"m\":1,\"p\":{\"a\":0.2}}", "p.a", "0.3", "0.2"},
        {"{\"m\":1}", "{\"m\":2,\"n\":2}", "m", "1", "2"}, /* the order of the second */
        {"{}", "{\"m\":null}", "m", "none", "null"},
        {"{\"m\":1,\"o\":{\"k\":[1]}}", "{\"m\":1,\"o\":{}}", "o.k", "[1]", "none"},
        {"{\"p\":{\"a\":1}}", "{\"p\":7}", "p", "{\"a\":1}", "7"},
        {"{\"t\":\"\"}", "{\"t\":\"ääääääääääääääääääääääääääääääääääää\"}", "t", "\"\"",
         "\"äääääääääääääääääääääääääääää…"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_identity_difference d;
        json_t *was = json_loads(cases[i].was, 0, NULL), *is = json_loads(cases[i].is, 0, NULL);
        ck_assert(was && is);
        ck_assert_int_eq(lh_identity_differs(was, is, 9, &d), cases[i].name != NULL);
        if (cases[i].name) {
            ck_assert_str_eq(d.name, cases[i].name);
            ck_assert_str_eq(d.was, cases[i].old);
            ck_assert_str_eq(d.is, cases[i].now);
        }
        ck_assert_int_eq(lh_identity_differs(NULL, is, 9, &d), json_object_size(is) > 0);
        json_decref(was);
        json_decref(is);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_one_process_writes_and_others_see_it,
                                  test_whole_lines_are_read_up_to_the_first_that_is_none,
                                  test_the_first_difference_of_two_runs_is_named, NULL};
    return suite_run("journal", tests);
}
