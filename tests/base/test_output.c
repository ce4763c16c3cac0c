#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/destination.h"
#include "base/file.h"
#include "base/output.h"
#include "folder.h"
#include "suite.h"

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void holds(const char *path, const char *want)
{
    lh_buf text = {0};
    ck_assert_int_eq(lh_file_read(&text, path, 1000), LH_OK);
    ck_assert_str_eq(text.data, want);
    lh_buf_clear(&text);
}

/* The name of the partial file that process `pid` of this host, or of `host`, has for "r". */
static void partial_of(char out[256], const char *host, long pid)
{
    char *own = NULL;
    ck_assert_int_eq(lh_partial_name(&own, "r"), LH_OK);
    if (host) {
        snprintf(out, 256, "r.%s.%ld.partial", host, pid);
    } else {
        *strrchr(own, '.') = '\0';
        *strrchr(own, '.') = '\0';
        snprintf(out, 256, "%s.%ld.partial", own, pid);
    }
    lh_free(own);
}

/* A number that no process has. */
static long dead_process(void)
{
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    return pid;
}

START_TEST(test_a_result_appears_whole_or_not_at_all)
{
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    char *partial = NULL;
    ck_assert_int_eq(lh_file_write("r", "old", 3), LH_OK);
    ck_assert_int_eq(lh_partial_open(&partial, "r"), LH_OK);
    put(partial, "new");
    holds("r", "old");
    ck_assert_int_eq(lh_partial_commit("r"), LH_OK);
    ck_assert(!lh_file_exists(partial));
    holds("r", "new");
    check_message(lh_partial_commit("r"), LH_EWRITE, "has not claimed it");
    ck_assert_int_eq(lh_partial_claim("r", 1), LH_OK);
    lh_partial_drop("r");
    ck_assert(!lh_file_exists(partial));
    lh_free(partial);
    unlink("r");
    folder_leave(folder);
}
END_TEST

START_TEST(test_outputs_that_cannot_be_are_refused_before_the_work)
{
    char folder[FOLDER_BYTES], *partial = NULL;
    folder_enter(folder);
    mkdir("d", 0777);
    check_message(lh_partial_claim("d", 1), LH_EWRITE, "'d': it is a folder");
    check_message(lh_partial_claim("no/such/x", 1), LH_EWRITE,
                  "cannot write 'no/such/x': there is no folder 'no/such'");
    check_message(lh_partial_claim("x", INT64_C(1) << 60), LH_EWRITE, "no room for 'x'");
    ck_assert_int_eq(lh_partial_name(&partial, "x"), LH_OK);
    ck_assert(!lh_file_exists("x") && !lh_file_exists(partial));
    ck_assert_int_eq(lh_partial_claim("x", 1), LH_OK);
    ck_assert(!lh_file_exists("x") && lh_file_exists(partial));
    lh_partial_drop("x");
    check_message(lh_file_write("no/such/x", "1", 1), LH_EWRITE, "there is no folder 'no/such'");
    ck_assert_int_eq(symlink("no/target", "link"), 0); /* the folder that its target would be in */
    check_message(lh_partial_claim("link", 1), LH_EWRITE, "there is no folder './no'");
    unlink("link");
    check_message(lh_partial_claim("", 1), LH_EWRITE, "a file name");
    check_message(lh_file_claim("", 1), LH_EWRITE, "a file name");
    check_message(lh_partial_claim("-", 1), LH_EWRITE, "'-': only text");
    lh_free(partial);
    rmdir("d");
    folder_leave(folder);
}
END_TEST

START_TEST(test_a_device_is_never_replaced_by_a_file)
{
    char folder[FOLDER_BYTES];
    struct stat info;
    folder_enter(folder);
    ck_assert_int_eq(mkfifo("pipe", 0666), 0); /* as /dev/null, it is no regular file */
    check_message(lh_partial_claim("pipe", 1), LH_EWRITE, "'pipe': it is a device, a pipe or a socket");
    check_message(lh_file_write("pipe", "1", 1), LH_EWRITE, "'pipe'");
    ck_assert(stat("pipe", &info) == 0 && S_ISFIFO(info.st_mode));
    check_message(lh_partial_claim("/dev/stdout", 1), LH_EWRITE, "'/dev/stdout': it is a device");
    check_message(lh_partial_claim("/dev/null", 1), LH_EWRITE, "'/dev/null': it is a device");
    check_message(lh_partial_claim("/proc/self/fd/1", 1), LH_EWRITE, "it is a device");
    unlink("pipe");
    folder_leave(folder);
}
END_TEST

START_TEST(test_a_link_stays_and_its_target_is_replaced)
{
    char folder[FOLDER_BYTES];
    struct stat info;
    folder_enter(folder);
    mkdir("d", 0777);
    put("d/target", "old");
    ck_assert_int_eq(symlink("target", "d/second"), 0);
    ck_assert_int_eq(symlink("d/second", "first"), 0);
    ck_assert_int_eq(lh_file_write("first", "new", 3), LH_OK);
    ck_assert(lstat("first", &info) == 0 && S_ISLNK(info.st_mode));
    ck_assert(lstat("d/second", &info) == 0 && S_ISLNK(info.st_mode));
    holds("d/target", "new");
    unlink("d/target"); /* now they point to nothing */
    ck_assert_int_eq(lh_file_write("first", "again", 5), LH_OK);
    holds("d/target", "again");
    unlink("d/target"), unlink("d/second");
    ck_assert_int_eq(symlink("../first", "d/second"), 0);
    check_message(lh_file_write("first", "x", 1), LH_EWRITE, "'first': its symbolic links form a loop");
    unlink("d/second"), unlink("first"), rmdir("d");
    folder_leave(folder);
}
END_TEST

/* As the shell would: what is in the file already stays, and the link below /dev does. */
START_TEST(test_standard_output_is_written_to)
{
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"};
    char folder[FOLDER_BYTES];
    folder_enter(folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) { /* before one could be replaced */
        char *found = NULL;
        int stream = 0;
        if (strcmp(names[i], "link") == 0) ck_assert_int_eq(symlink("/dev/stdout", "link"), 0);
        ck_assert_int_eq(lh_destination_find(&found, &stream, names[i]), LH_OK);
        ck_assert_msg(stream, "'%s' would be replaced, at '%s'", names[i], found);
        lh_free(found);
    }
    int kept = dup(1), fd = open("said", O_RDWR | O_CREAT | O_TRUNC, 0666);
    ck_assert_int_eq(dup2(fd, 1), 1);
    ck_assert_int_eq(write(1, "a", 1), 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ck_assert_msg(lh_file_claim(names[i], 1) == LH_OK, "%s", lh_error_message());
        ck_assert_int_eq(lh_file_write(names[i], "b", 1), LH_OK);
        ck_assert_int_eq(write(1, "c", 1), 1);
    }
    dup2(kept, 1);
    close(kept), close(fd);
    holds("said", "abcbcbcbcbc");
    ck_assert_int_eq(lh_file_write("/dev/null", "x", 1), LH_OK);
    check_message(lh_file_write("/dev/full", "x", 1), LH_EWRITE, "'/dev/full': No space left");
    check_message(lh_file_write("/dev/no-such-device", "x", 1), LH_EWRITE, "/dev/no-such-device");
    unlink("said"), unlink("link");
    folder_leave(folder);
}
END_TEST

START_TEST(test_files_in_shared_memory_are_files)
{
    char path[64], *found;
    int stream;
    snprintf(path, sizeof path, "/dev/shm/longhaul-%d", getpid());
    ck_assert_int_eq(lh_destination_find(&found, &stream, path), LH_OK);
    ck_assert(!stream);
    ck_assert_str_eq(found, path);
    lh_free(found);
}
END_TEST

/* The parent writes "r"; another process is refused, and what the parent wrote is there afterwards. */
START_TEST(test_the_second_of_two_writers_is_refused)
{
    char folder[FOLDER_BYTES], owner[32], *partial = NULL;
    folder_enter(folder);
    snprintf(owner, sizeof owner, "process %d of this host", getpid());
    ck_assert_int_eq(lh_partial_claim("r", 1), LH_OK);
    for (int written = 0; written < 2; written++) { /* claimed only, and then with contents */
        pid_t pid = fork();
        if (pid == 0) {
            const int refused = lh_partial_claim("./r", 1) == LH_EWRITE && strstr(lh_error_message(), owner) &&
                                lh_file_write("r", "second", 6) == LH_EWRITE;
            lh_partial_drop("r");
            _exit(refused ? 0 : 1);
        }
        int status = 0;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert(!lh_file_exists("r"));
        if (written) break;
        ck_assert_int_eq(lh_partial_open(&partial, "r"), LH_OK);
        put(partial, "first");
    }
    ck_assert_int_eq(lh_partial_commit("r"), LH_OK);
    holds("r", "first");
    lh_free(partial);
    unlink("r");
    folder_leave(folder);
}
END_TEST

/* Of several processes that begin together, one writes. Each tries until the one that has the output lets go. */
START_TEST(test_at_most_one_of_many_claims_at_a_time)
{
    enum { WRITERS = 6 };
    char folder[FOLDER_BYTES];
    pid_t pids[WRITERS];
    folder_enter(folder);
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        if (pids[i]) continue;
        for (int k = 0; k < 10; k++) {
            if (lh_partial_claim("r", 1) != LH_OK) continue;
            int fd = open("taken", O_CREAT | O_EXCL | O_WRONLY, 0666);
            if (fd < 0) _exit(2); /* another one has it, too */
            usleep(2000);
            unlink("taken");
            lh_partial_drop("r");
        }
        _exit(0);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    folder_leave(folder);
}
END_TEST

/* Of two that begin together one writes; the other is told who. */
START_TEST(test_one_of_two_that_begin_together_writes)
{
    char folder[FOLDER_BYTES], said;
    folder_enter(folder);
    for (int round = 0; round < 20; round++) {
        int begin[2], winners = 0;
        pid_t pids[2];
        ck_assert_int_eq(pipe(begin), 0);
        for (int i = 0; i < 2; i++) {
            pids[i] = fork();
            if (pids[i]) continue;
            close(begin[1]);
            ck_assert_int_eq(read(begin[0], &said, 1), 0);
            const int won = lh_partial_claim("r", 1) == LH_OK;
            if (!won && !strstr(lh_error_message(), "of this host writes it")) _exit(2);
            usleep(100000); /* the other one finds it */
            if (won) lh_partial_drop("r");
            _exit(won);
        }
        close(begin[1]);
        for (int i = 0; i < 2; i++) {
            int status = 0;
            ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
            ck_assert(WIFEXITED(status) && WEXITSTATUS(status) < 2);
            winners += WEXITSTATUS(status);
        }
        close(begin[0]);
        ck_assert_int_eq(winners, 1);
    }
    folder_leave(folder);
}
END_TEST

/* Its last change was so long before now. */
static void age(const char *path, int64_t seconds)
{
    const struct timespec then[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, then, 0), 0);
}

/* A process that has locked `name` until it is killed, as a claim locks its partial file. */
static pid_t holder_of(const char *name)
{
    int ready[2];
    char said;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct flock both = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(name, O_RDWR | O_CREAT, 0666);
        if (fd < 0 || fcntl(fd, F_OFD_SETLK, &both) != 0 || write(ready[1], "1", 1) != 1) _exit(1);
        pause();
        _exit(0);
    }
    ck_assert_int_eq(read(ready[0], &said, 1), 1);
    close(ready[0]), close(ready[1]);
    return pid;
}

static void end_holder(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* Neither process numbers, which come again, nor clocks, which change, say whether a claim lasts. */
START_TEST(test_a_claim_lasts_as_long_as_its_lock)
{
    char folder[FOLDER_BYTES], name[256];
    folder_enter(folder);
    const long numbers[] = {getpid(), dead_process(), getppid()};
    for (int k = 0; k < 3; k++) {
        partial_of(name, NULL, numbers[k]);
        put(name, "half");
        age(name, 86400);
        const pid_t pid = holder_of(name);
        check_message(lh_partial_claim("r", 1), LH_EWRITE, "of this host writes it, into ");
        lh_partial_drop("r");
        holds(name, "half");
        end_holder(pid);
        ck_assert_int_eq(lh_file_write("r", "new", 3), LH_OK);
        holds("r", "new");
        ck_assert(!lh_file_exists(name));
        unlink("r");
    }
    partial_of(name, "elsewhere", 7); /* file systems of a cluster show locks of other hosts, too */
    put(name, "");
    const pid_t pid = holder_of(name);
    check_message(lh_partial_claim("r", 1), LH_EWRITE, "process 7 of host elsewhere writes it, into ");
    end_holder(pid);
    unlink(name);
    folder_leave(folder);
}
END_TEST

START_TEST(test_what_a_killed_run_left_is_removed_and_in_nobodys_way)
{
    char folder[FOLDER_BYTES], name[256];
    folder_enter(folder);
    for (int contents = 0; contents < 2; contents++) {
        partial_of(name, NULL, dead_process());
        put(name, contents ? "half" : "");
        ck_assert_int_eq(lh_file_write("r", "new", 3), LH_OK);
        ck_assert(!lh_file_exists(name));
    }
    partial_of(name, "elsewhere", 7);
    put(name, "half");
    check_message(lh_partial_claim("r", 1), LH_EWRITE,
                  "process 7 of host elsewhere writes it; if it has ended, delete");
    holds(name, "half");
    put(name, "");
    check_message(lh_partial_claim_alone("r"), LH_EWRITE, "if it has ended, delete");
    ck_assert_int_eq(lh_file_write("r", "new", 3), LH_OK); /* with a warning */
    unlink(name);
    put("r.partial", "a file of the user");
    put("r.x.elsewhere.7.partial", "of the output 'r.x'");
    put("r.elsewhere.7-xyz.partial", "of the user");
    ck_assert_int_eq(lh_file_write("r", "newer", 5), LH_OK);
    holds("r.partial", "a file of the user");
    unlink("r.partial"), unlink("r.x.elsewhere.7.partial"), unlink("r.elsewhere.7-xyz.partial"), unlink("r");
    folder_leave(folder);
}
END_TEST

/* A link with the name of the partial file would lead the output elsewhere. */
START_TEST(test_a_link_in_the_place_of_the_partial_file_is_not_followed)
{
    char folder[FOLDER_BYTES], *partial = NULL;
    struct stat info;
    folder_enter(folder);
    put("victim", "precious");
    ck_assert_int_eq(lh_partial_name(&partial, "r"), LH_OK);
    for (int hard = 0; hard < 2; hard++) {
        ck_assert_int_eq(hard ? link("victim", partial) : symlink("victim", partial), 0);
        ck_assert_int_eq(lh_file_write("r", "new", 3), LH_OK);
        ck_assert(lstat("r", &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1);
        holds("r", "new");
        holds("victim", "precious");
        unlink(partial), unlink("r");
    }
    unlink("victim");
    lh_free(partial);
    folder_leave(folder);
}
END_TEST

/* The user may have deleted a partial file, and another run claimed the output by one of the same name. */
START_TEST(test_a_run_touches_its_own_partial_file_only)
{
    char folder[FOLDER_BYTES], *partial = NULL;
    folder_enter(folder);
    for (int commits = 0; commits < 2; commits++) {
        ck_assert_int_eq(lh_partial_open(&partial, "r"), LH_OK);
        ck_assert_int_eq(unlink(partial), 0);
        put(partial, "of another run");
        if (commits) check_message(lh_partial_commit("r"), LH_EWRITE, "it was removed or replaced");
        lh_partial_drop("r");
        holds(partial, "of another run");
        ck_assert(!lh_file_exists("r"));
        unlink(partial);
        lh_free(partial);
    }
    folder_leave(folder);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_result_appears_whole_or_not_at_all,
                                  test_outputs_that_cannot_be_are_refused_before_the_work,
                                  test_a_device_is_never_replaced_by_a_file,
                                  test_a_link_stays_and_its_target_is_replaced,
                                  test_standard_output_is_written_to,
                                  test_files_in_shared_memory_are_files,
                                  test_the_second_of_two_writers_is_refused,
                                  test_at_most_one_of_many_claims_at_a_time,
                                  test_one_of_two_that_begin_together_writes,
                                  test_a_claim_lasts_as_long_as_its_lock,
                                  test_what_a_killed_run_left_is_removed_and_in_nobodys_way,
                                  test_a_run_touches_its_own_partial_file_only,
                                  test_a_link_in_the_place_of_the_partial_file_is_not_followed,
                                  NULL};
    return suite_run("output", tests);
}
