#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/output.h"
#include "folder.h"
#include "suite.h"

START_TEST(test_what_was_written_is_read)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    lh_buf text = {0};
    static char data[200000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * 31);
    ck_assert_int_eq(lh_file_write("a", data, sizeof data), LH_OK);
    ck_assert_int_eq(lh_buf_puts(&text, "before"), LH_OK);
    ck_assert_int_eq(lh_file_read(&text, "a", 1 << 20), LH_OK);
    ck_assert_int_eq(text.bytes, 6 + (int64_t)sizeof data);
    ck_assert_mem_eq(text.data + 6, data, sizeof data);
    lh_map map;
    ck_assert_int_eq(lh_map_open(&map, "a"), LH_OK);
    ck_assert_int_eq(map.bytes, (int64_t)sizeof data);
    ck_assert_mem_eq(map.data, data, sizeof data);
    lh_map_close(&map);
    lh_map_close(&map);
    lh_buf_clear(&text);
    unlink("a");
    folder_leave(folder);
}
END_TEST

/* 40 pages, then 3; who reads the rest gets zeros. */
START_TEST(test_a_mapping_outlives_its_file)
{
    char folder[FOLDER_BYTES];
    const int64_t page = sysconf(_SC_PAGESIZE), bytes = 40 * page;
    lh_map map, second;
    char *data = NULL;
    int64_t sum = 0;
    folder_enter(folder);
    ck_assert_int_eq(lh_calloc(&data, bytes, 1), LH_OK);
    memset(data, 7, (size_t)bytes);
    ck_assert_int_eq(lh_file_write("a", data, bytes), LH_OK);
    ck_assert_int_eq(lh_file_write("b", data, bytes), LH_OK);
    ck_assert_int_eq(lh_map_open(&map, "a"), LH_OK);
    ck_assert_int_eq(lh_map_open(&second, "b"), LH_OK);
    ck_assert_int_eq(lh_map_unchanged(&map), LH_OK);
    ck_assert_int_eq(truncate("a", 3 * page), 0);
    for (int64_t i = bytes; i-- > 0;) sum += map.data[i];
    ck_assert_int_eq(sum, 7 * 3 * page);
    check_message(lh_map_unchanged(&map), LH_EINPUT, "'a' changed while it was read, from ");
    ck_assert_int_eq(lh_map_unchanged(&second), LH_OK);
    ck_assert_mem_eq(second.data, data, (size_t)bytes);
    lh_map_close(&map);
    unlink("b");
    check_message(lh_map_unchanged(&second), LH_EINPUT, "'b' was moved or removed while it was read");
    lh_map_close(&second);
    lh_free(data);
    unlink("a");
    folder_leave(folder);
}
END_TEST

START_TEST(test_an_empty_file_is_empty_text)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    lh_buf text = {0};
    lh_map map;
    ck_assert_int_eq(lh_file_write("a", "", 0), LH_OK);
    ck_assert_int_eq(lh_file_read(&text, "a", 0), LH_OK);
    ck_assert_int_eq(text.bytes, 0);
    ck_assert_str_eq(text.data, "");
    check_message(lh_map_open(&map, "a"), LH_EINPUT, "'a' is empty");
    lh_buf_clear(&text);
    unlink("a");
    folder_leave(folder);
}
END_TEST

START_TEST(test_a_byte_order_mark_is_no_text)
{
    static const struct {
        const char *file, *text;
    } cases[] = {{"\357\273\277Köln", "before Köln"},
                 {"\357\273\277", "before "},
                 {"\357\273\277\357\273\277a", "before \357\273\277a"}, /* one of them */
                 {"a\357\273\277", "before a\357\273\277"},
                 {"\357\273", "before \357\273"}};
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf text = {0}, whole = {0};
        const int64_t bytes = (int64_t)strlen(cases[i].file);
        ck_assert_int_eq(lh_file_write("a", cases[i].file, bytes), LH_OK);
        ck_assert_int_eq(lh_buf_puts(&text, "before "), LH_OK);
        ck_assert_int_eq(lh_file_read(&text, "a", 100), LH_OK);
        ck_assert_str_eq(text.data, cases[i].text);
        ck_assert_int_eq(text.bytes, (int64_t)strlen(cases[i].text));
        ck_assert_int_eq(lh_file_read_regular(&whole, "a", 100), LH_OK);
        ck_assert_int_eq(whole.bytes, bytes);
        lh_buf_clear(&text);
        lh_buf_clear(&whole);
    }
    unlink("a");
    folder_leave(folder);
}
END_TEST

START_TEST(test_bad_inputs_are_named)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    lh_buf text = {0};
    lh_map map;
    check_message(lh_file_read(&text, "no-such-file", 100), LH_EINPUT, "'no-such-file'");
    check_message(lh_map_open(&map, "no-such-file"), LH_EINPUT, "'no-such-file'");
    check_message(lh_map_open(&map, "/"), LH_EINPUT, "not a regular file");
    check_message(lh_file_read(&text, "/", 100), LH_EINPUT, "'/' is a folder");
    ck_assert_int_eq(lh_file_write("b", "12345", 5), LH_OK);
    check_message(lh_file_read(&text, "b", 4), LH_EINPUT, "larger than the limit of 4 bytes");
    lh_buf_clear(&text);
    ck_assert_int_eq(lh_file_read(&text, "b", 5), LH_OK);
    lh_buf_clear(&text);
    unlink("b");
    folder_leave(folder);
}
END_TEST

/* A pipe that nobody writes to would be waited for. */
START_TEST(test_pipes_and_devices_are_refused_where_a_file_is_wanted)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    lh_buf text = {0};
    lh_map map;
    json_t *json = NULL;
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    check_message(lh_file_read_regular(&text, "pipe", 100), LH_EINPUT, "'pipe' is a pipe");
    check_message(lh_map_open(&map, "pipe"), LH_EINPUT, "'pipe' is a pipe");
    check_message(lh_json_read(&json, "pipe", 100), LH_EINPUT, "'pipe' is a pipe");
    check_message(lh_file_read_regular(&text, "/dev/zero", 100), LH_EINPUT, "a device");
    check_message(lh_file_read_regular(&text, "no-such-file", 100), LH_EINPUT, "'no-such-file'");
    ck_assert_int_eq(lh_file_begins_with("pipe", "ab", 2), 0);
    ck_assert_int_eq(lh_file_write("c", "abc", 3), LH_OK);
    ck_assert(lh_file_begins_with("c", "ab", 2) && lh_file_begins_with("c", "abc", 3));
    ck_assert(!lh_file_begins_with("c", "b", 1) && !lh_file_begins_with("c", "abcd", 4));
    ck_assert_int_eq(lh_file_read_regular(&text, "c", 3), LH_OK);
    ck_assert_str_eq(text.data, "abc");
    lh_buf_clear(&text);
    unlink("pipe");
    unlink("c");
    folder_leave(folder);
}
END_TEST

START_TEST(test_paths_join_with_one_slash)
{
    char *a = NULL, *b = NULL;
    ck_assert_int_eq(lh_path_join(&a, "m", "config.json"), LH_OK);
    ck_assert_int_eq(lh_path_join(&b, "m/", "config.json"), LH_OK);
    ck_assert_str_eq(a, "m/config.json");
    ck_assert_str_eq(b, "m/config.json");
    ck_assert(lh_file_is_same("/dev/null", "/dev/../dev/null") && lh_file_is_same("no such", "no such"));
    ck_assert(!lh_file_is_same("/dev/null", "/dev/zero") && !lh_file_is_same("/dev/null", "no such"));
    ck_assert(lh_file_is_same("/tmp/no such", "/tmp/./no such") && !lh_file_is_same("/tmp/no such", "/dev/no such"));
    ck_assert(lh_file_is_in("/dev/null", "/dev/../dev") && !lh_file_is_in("/dev/null", "/tmp"));
    ck_assert(lh_file_is_folder("/") && lh_file_exists("/") && !lh_file_is_folder("/dev/null"));
    lh_free(a);
    lh_free(b);
}
END_TEST

START_TEST(test_a_folder_is_listed_as_a_shell_does_whatever_the_case)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    static const char *const files[] = {"b.md", "a.txt",    "B.TXT",  "é.Md",   ".txt",
                                        "txt",  "a.txt.h5", "c.text", "._a.txt"};
    static const char *const endings[] = {".txt", ".md", NULL};
    static const char *const found[] = {"./B.TXT", "./a.txt", "./b.md", "./é.Md"};
    static const char *const left[] = {"./a.txt.h5", "./c.text", "./d.txt", "./gone.md", "./txt"};
    lh_paths paths = {0}, others = {0};
    ck_assert_int_eq(mkdir("d.txt", 0777) | mkdir("below", 0777) | symlink("nothing", "gone.md"), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) ck_assert_int_eq(lh_file_write(files[i], "", 0), LH_OK);
    ck_assert_int_eq(lh_folder_list(&paths, &others, ".", endings), LH_OK);
    ck_assert_int_eq(paths.n, 4);
    for (int64_t i = 0; i < paths.n; i++) ck_assert_str_eq(paths.at[i], found[i]);
    ck_assert_int_eq(others.n, 5);
    for (int64_t i = 0; i < others.n; i++) ck_assert_str_eq(others.at[i], left[i]);
    lh_paths_clear(&paths);
    lh_paths_clear(&others);
    ck_assert_int_eq(rmdir("d.txt") | rmdir("below") | unlink("gone.md"), 0);
    ck_assert_int_eq(lh_folder_list(&paths, NULL, "no such", endings), LH_EINPUT);
    ck_assert_str_eq(lh_error_message(), "cannot read the folder 'no such': No such file or directory");
    lh_paths_clear(&paths);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(files[i]);
    folder_leave(folder);
}
END_TEST

START_TEST(test_what_tests_leave_goes_with_their_program)
{
    static const char *const places[] = {"/tmp", TEMPORARY_MEMORY};
    int names[2], status = 0;
    char folder[2][TEMPORARY_BYTES];
    ck_assert_int_eq(pipe(names), 0);
    pid_t program = fork();
    if (program == 0) {
        unsetenv(TEMPORARY_OWNER);
        temporary_own();
        for (int i = 0; i < 2; i++)
            if (!mkdtemp(temporary_name(folder[i], places[i])) || chdir(folder[i]) || mkdir("deep", 0777)) _exit(1);
        if (write(names[1], folder, sizeof folder) != (ssize_t)sizeof folder) _exit(1);
        pid_t test = fork();
        if (test == 0) raise(SIGKILL); /* as a test that crashes */
        waitpid(test, &status, 0);
        exit(0);
    }
    ck_assert_int_eq(waitpid(program, &status, 0), program);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(read(names[0], folder, sizeof folder), sizeof folder);
    for (int i = 0; i < 2; i++) ck_assert(!lh_file_exists(folder[i]));
}
END_TEST

static int is_h5(const void *self, const char *name)
{
    static const char *const endings[] = {".h5", NULL};
    return self == NULL && lh_name_ends_with(name, endings);
}

START_TEST(test_a_folder_is_cleaned_of_its_own_files_alone)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    ck_assert_int_eq(mkdir("own", 0777) | mkdir("own/d.h5", 0777) | symlink("own", "link"), 0);
    ck_assert_int_eq(lh_file_write("a.h5", "a", 1) | lh_file_write("own/a.h5", "a", 1), LH_OK);
    ck_assert_int_eq(lh_file_write("own/b", "b", 1) | symlink("../a.h5", "own/c.h5"), 0);
    lh_folder_clean("link", is_h5, NULL);
    ck_assert(lh_file_exists("own/a.h5"));
    lh_folder_clean("own", is_h5, NULL);
    ck_assert(!lh_file_exists("own/a.h5") && lh_file_exists("own/b") && lh_file_exists("own/c.h5"));
    ck_assert(lh_file_exists("a.h5") && lh_file_is_folder("own/d.h5"));
    ck_assert_int_eq(unlink("own/b") | unlink("own/c.h5") | rmdir("own/d.h5") | unlink("link") | unlink("a.h5"), 0);
    lh_folder_clean("own", is_h5, NULL); /* empty, it goes */
    lh_folder_clean("own", is_h5, NULL); /* nothing happens */
    ck_assert(!lh_file_exists("own"));
    folder_leave(folder);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_what_was_written_is_read,
                                  test_a_mapping_outlives_its_file,
                                  test_an_empty_file_is_empty_text,
                                  test_a_byte_order_mark_is_no_text,
                                  test_bad_inputs_are_named,
                                  test_pipes_and_devices_are_refused_where_a_file_is_wanted,
                                  test_paths_join_with_one_slash,
                                  test_a_folder_is_listed_as_a_shell_does_whatever_the_case,
                                  test_a_folder_is_cleaned_of_its_own_files_alone,
                                  test_what_tests_leave_goes_with_their_program,
                                  NULL};
    return suite_run("file", tests);
}
