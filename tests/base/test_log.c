#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/temporary.h"
#include "base/version.h"
#include "suite.h"

/* What is said on stderr goes to a file, which is read back. */
static void said(char *out, size_t bytes)
{
    lseek(2, 0, SEEK_SET);
    ssize_t n = read(2, out, bytes - 1);
    ck_assert_int_ge(n, 0);
    out[n] = '\0';
    ck_assert_int_eq(ftruncate(2, 0), 0);
    lseek(2, 0, SEEK_SET);
}

static void capture(void)
{
    char path[TEMPORARY_BYTES];
    int fd = mkstemp(temporary_name(path, "/tmp"));
    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert_int_eq(dup2(fd, 2), 2);
    close(fd);
}

START_TEST(test_levels_choose_what_is_said)
{
    char text[512];
    capture();
    lh_info("loaded %d layers", 30);
    lh_debug("not this");
    lh_warn("w");
    lh_log(LH_LOG_ERROR, 0, "e");
    said(text, sizeof text);
    ck_assert_str_eq(text, "loaded 30 layers\nlonghaul: warning: w\nlonghaul: e\n");
    lh_log_set_level(LH_LOG_WARN);
    lh_info("not this");
    lh_warn("w");
    said(text, sizeof text);
    ck_assert_str_eq(text, "longhaul: warning: w\n");
    lh_log_set_level(LH_LOG_DEBUG);
    lh_debug("d");
    said(text, sizeof text);
    ck_assert_str_eq(text, "d\n");
}
END_TEST

START_TEST(test_only_rank_0_speaks_unless_all_are_asked)
{
    char text[512];
    capture();
    lh_log_set_rank(2, 3);
    lh_info("not this");
    lh_log(LH_LOG_INFO, 1, "here");
    said(text, sizeof text);
    ck_assert_str_eq(text, "[rank 2] here\n");
}
END_TEST

START_TEST(test_every_rank_writes_its_log_file)
{
    static const char *const jobs[][2] = {{NULL, ": one line\n"}, {"17", " job 17: one line\n"}};
    char folder[TEMPORARY_BYTES], pattern[96], path[96], text[64], host[64] = "", want[160];
    int year, month, day, hour, minute, second, n = 0;
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    snprintf(pattern, sizeof pattern, "%s/run.%%r.log", folder);
    snprintf(path, sizeof path, "%s/run.2.log", folder);
    capture();
    lh_log_set_rank(2, 3);
    gethostname(host, sizeof host - 1);
    lh_buf log = {0};
    for (int i = 0; i < 2; i++) {
        if (jobs[i][0]) setenv("SLURM_JOB_ID", jobs[i][0], 1);
        ck_assert_int_eq(lh_log_open(pattern), LH_OK);
        lh_info("one line");
        lh_log_close();
        lh_buf_clear(&log);
        ck_assert_int_eq(lh_file_read(&log, path, 1000), LH_OK);
        unlink(path);
        snprintf(want, sizeof want, " %s rank 2%s", host, jobs[i][1]);
        ck_assert_int_eq(
            sscanf(log.data, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute, &second, &n), 6);
        ck_assert_str_eq(log.data + n, want);
    }
    unsetenv("SLURM_JOB_ID");
    said(text, sizeof text);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(lh_log_open("/no/such/folder/x"), LH_EWRITE);
    lh_buf_clear(&log);
    rmdir(folder);
}
END_TEST

START_TEST(test_long_lines_are_cut_and_still_one_line)
{
    char text[8192], line[6000];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\0';
    capture();
    lh_info("%s", line);
    said(text, sizeof text);
    ck_assert_uint_le(strlen(text), 4096);
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}
END_TEST

START_TEST(test_a_line_does_not_control_the_terminal)
{
    char text[256];
    capture();
    lh_warn("no tensor '%s' of 中", "\x1b]0;x\x07\xc2\x9b"
                                    "2J\n");
    said(text, sizeof text);
    ck_assert_str_eq(text, "longhaul: warning: no tensor '?]0;x??2J?' of 中\n");
}
END_TEST

START_TEST(test_a_line_takes_the_place_of_a_bar)
{
    char text[512];
    capture();
    lh_log_bar("[##..] %d", 50);
    lh_info("line");
    lh_log_bar(NULL);
    said(text, sizeof text);
    ck_assert_str_eq(text, "\r\033[K[##..] 50\r\033[Kline\n");
}
END_TEST

/* Without a terminal there are 80 columns, of which the last one stays free. */
START_TEST(test_a_bar_loses_whole_fields_where_columns_are_missing)
{
    char text[512];
    capture();
    lh_log_bar("[########........] %s, %s, %s", "answered 1834/20000 requests (9%)", "12 requests/min", "148 min left");
    said(text, sizeof text);
    ck_assert_str_eq(text, "\r\033[K[########........] answered 1834/20000 requests (9%), 12 requests/min");
    capture();
    lh_log_bar("%090d, 1", 0);
    said(text, sizeof text);
    ck_assert_uint_eq(strlen(text), 4 + 79);
    lh_log_bar(NULL);
}
END_TEST

START_TEST(test_the_version_is_told)
{
    ck_assert_int_gt((int)strlen(lh_version()), 4);
    ck_assert_int_gt((int)strlen(lh_version_build()), 4);
    ck_assert_ptr_nonnull(lh_version_git());
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_levels_choose_what_is_said,
                                  test_only_rank_0_speaks_unless_all_are_asked,
                                  test_every_rank_writes_its_log_file,
                                  test_long_lines_are_cut_and_still_one_line,
                                  test_a_line_does_not_control_the_terminal,
                                  test_a_line_takes_the_place_of_a_bar,
                                  test_a_bar_loses_whole_fields_where_columns_are_missing,
                                  test_the_version_is_told,
                                  NULL};
    return suite_run("log", tests);
}
