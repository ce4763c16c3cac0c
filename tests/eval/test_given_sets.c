/* What identifies the files of given keep sets: their names, whose they are, and every byte. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/temporary.h"
#include "lab/eval/keep_files.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* Of one policy for each folder. */
static uint64_t hash_of(char *one, char *other)
{
    lh_policy_choice choices[3] = {{.name = "full"}, {.name = "a", .given = one}, {.name = "b", .given = other}};
    const lh_policy_list list = {.at = choices, .n = other ? 3 : 2};
    lh_given_files files = {0};
    uint64_t hash = 0;
    OK(lh_given_files_find(&files, &list));
    OK(lh_given_files_hash(&files, &hash));
    lh_given_files_clear(&files);
    return hash;
}

static void enter_folder(void)
{
    static const char *const folders[] = {"one", "copy", "split", "rest"};
    char folder[TEMPORARY_BYTES];
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    ck_assert_int_eq(chdir(folder), 0);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(mkdir(folders[i], 0777), 0);
    put("one/x.h5", "first");
    put("one/y.h5", "second");
}

START_TEST(test_copies_are_the_same)
{
    enter_folder();
    const uint64_t hash = hash_of("one", NULL);
    put("copy/y.h5", "second"); /* later, and in another order */
    put("copy/x.h5", "first");
    ck_assert(hash_of("copy", NULL) == hash);
    ck_assert(hash_of("./copy/", NULL) == hash);
    ck_assert_int_eq(utimensat(AT_FDCWD, "one/x.h5", (struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    ck_assert(hash_of("one", NULL) == hash);
}
END_TEST

START_TEST(test_what_differs_is_seen)
{
    struct stat was;
    enter_folder();
    const uint64_t hash = hash_of("one", NULL);
    ck_assert_int_eq(stat("one/y.h5", &was), 0);
    put("one/y.h5", "secomd");
    ck_assert_int_eq(utimensat(AT_FDCWD, "one/y.h5", (struct timespec[2]){was.st_atim, was.st_mtim}, 0), 0);
    ck_assert(hash_of("one", NULL) != hash); /* same name, size and time */
    put("copy/x.h5", "second");
    put("copy/y.h5", "first");
    ck_assert(hash_of("copy", NULL) != hash);
    /* the same files, for other policies */
    put("one/y.h5", "second");
    put("split/x.h5", "first");
    put("rest/y.h5", "second");
    put("rest/z.h5", "third");
    const uint64_t divided = hash_of("split", "rest");
    put("split/y.h5", "second");
    unlink("rest/y.h5");
    ck_assert(hash_of("split", "rest") != divided);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_copies_are_the_same, test_what_differs_is_seen, NULL};
    return suite_run("given sets", tests);
}
