/* Where libraries are looked for, and in which order. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/library.h"
#include "folder.h"
#include "suite.h"

static const char name[] = "liblhprobe.so.1";
static char root[FOLDER_BYTES];

/* Makes the folders of root/path, and at its end a link to `target`. Returns the link's path. */
static const char *put(const char *path, const char *target)
{
    static char full[4][4096];
    static int turn;
    char *out = full[turn++ % 4];
    snprintf(out, sizeof full[0], "%s/%s", root, path);
    for (char *slash = out + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(out, 0700);
        *slash = '/';
    }
    ck_assert_int_eq(symlink(target, out), 0);
    return out;
}

/* variable = root/path, or `more` and that, separated by ':'. */
static void set(const char *variable, const char *more, const char *path)
{
    char value[4096];
    snprintf(value, sizeof value, "%s%s/%s", more, root, path);
    ck_assert_int_eq(setenv(variable, value, 1), 0);
}

static void begin(void)
{
    folder_enter(root);
    unsetenv("LONGHAUL_CUDA_LIBS");
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
    unsetenv("LD_LIBRARY_PATH");
    setenv("PATH", "/nowhere", 1);
}

static void end(void)
{
    setenv("PATH", "/usr/bin:/bin", 1);
    ck_assert_int_eq(system("rm -rf ./*"), 0);
    folder_leave(root);
}

/* It is found in the file `link`, and gone afterwards. */
static void found_in(const char *link)
{
    void *library = NULL;
    ck_assert_int_eq(lh_library_open(name, &library), LH_OK);
    ck_assert_str_eq(lh_library_file(library), link);
    dlclose(library);
}

START_TEST(test_places_are_asked_in_their_order)
{
    begin();
    put("bin/python3", "/bin/true");
    set("PATH", "/nowhere::", "bin");
    found_in(put("bin/../lib/python3.11/site-packages/nvidia/cublas/lib/liblhprobe.so.1", LH_PROBE));
    set("CUDA_PATH", "", "path");
    found_in(put("path/lib/liblhprobe.so.1", LH_PROBE));
    set("CUDA_HOME", "", "home");
    found_in(put("home/lib64/liblhprobe.so.1", LH_PROBE));
    set("LONGHAUL_CUDA_LIBS", "", "wheels");
    found_in(put("wheels/nvidia/cu13/lib/liblhprobe.so.1", LH_PROBE));
    set("LONGHAUL_CUDA_LIBS", "/nowhere:", "own");
    found_in(put("own/liblhprobe.so.1", LH_PROBE));
    end();
}
END_TEST

START_TEST(test_what_is_loaded_is_taken_before_other_files)
{
    begin();
    set("CUDA_HOME", "", "home");
    put("home/lib64/liblhprobe.so.1", LH_PROBE);
    void *loaded = dlopen(LH_PROBE, RTLD_NOW | RTLD_LOCAL), *library = NULL;
    ck_assert_ptr_nonnull(loaded);
    ck_assert_int_eq(lh_library_open(name, &library), LH_OK);
    ck_assert_ptr_eq(library, loaded);
    ck_assert_str_eq(lh_library_file(library), LH_PROBE);
    end();
}
END_TEST

START_TEST(test_a_library_that_is_missing_is_named_with_what_to_set)
{
    void *library = NULL;
    begin();
    ck_assert_int_eq(lh_library_open(name, &library), LH_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), name));
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "LONGHAUL_CUDA_LIBS"));
    end();
}
END_TEST

START_TEST(test_a_file_that_was_chosen_and_cannot_be_loaded_is_an_error_elsewhere_it_is_passed)
{
    void *library = NULL;
    begin();
    put("broken/liblhprobe.so.1", "/etc/passwd");
    put("home/lib/liblhprobe.so.1", LH_PROBE);
    set("CUDA_PATH", "", "home");
    set("CUDA_HOME", "", "broken");
    put("broken/lib64/liblhprobe.so.1", "/etc/passwd");
    ck_assert_int_eq(lh_library_open(name, &library), LH_OK);
    dlclose(library);
    set("LONGHAUL_CUDA_LIBS", "", "broken");
    check_message(lh_library_open(name, &library), LH_EUSAGE, "LONGHAUL_CUDA_LIBS");
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_places_are_asked_in_their_order, test_what_is_loaded_is_taken_before_other_files,
                                  test_a_library_that_is_missing_is_named_with_what_to_set,
                                  test_a_file_that_was_chosen_and_cannot_be_loaded_is_an_error_elsewhere_it_is_passed,
                                  NULL};
    return suite_run("library", tests);
}
