/* Copies of a file for several hosts, each of which is a rank here. */
#include "engine/host_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "mpi_check.h"

static char folder[64], from[96], to[96];

/* A file of rank 0, and a name for the copy of each. */
static void open_folder(int64_t bytes)
{
    snprintf(folder, sizeof folder, "/tmp/lh-copy-XXXXXX");
    if (mt_rank() == 0) mt_check(mkdtemp(folder) != NULL, "cannot make '%s'", folder);
    mt_try(lh_comm_bcast(mt_comm(), 0, folder, sizeof folder));
    snprintf(from, sizeof from, "%s/from", folder);
    snprintf(to, sizeof to, "%s/to%d", folder, mt_rank());
    if (mt_rank() == 0) {
        FILE *f = fopen(from, "w");
        for (int64_t i = 0; f && i < bytes; i++) putc((int)(i * 7919 % 251), f);
        mt_check(f && fclose(f) == 0, "cannot write '%s'", from);
    }
    mt_try(lh_comm_barrier(mt_comm()));
}

static void close_folder(void)
{
    mt_try(lh_comm_barrier(mt_comm()));
    unlink(to);
    mt_try(lh_comm_barrier(mt_comm()));
    if (mt_rank() == 0) {
        unlink(from);
        mt_check(rmdir(folder) == 0, "something is left in '%s'", folder); /* such as a partial file */
    }
}

static void check_copy(int64_t bytes)
{
    lh_buf got = {0};
    mt_try(lh_file_read_regular(&got, to, bytes + 1));
    mt_check(got.bytes == bytes, "%lld bytes, not %lld", (long long)got.bytes, (long long)bytes);
    for (int64_t i = 0; i < got.bytes; i++)
        if ((unsigned char)got.data[i] != i * 7919 % 251) {
            mt_check(0, "byte %lld differs", (long long)i);
            break;
        }
    lh_buf_clear(&got);
}

START_TEST(test_every_host_has_the_file)
{
    static const int64_t sizes[] = {0, 1, 5, 4099, (64 << 20) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int has_one = mt_size() > 1 && mt_rank() == 1; /* and helps the others */
        open_folder(sizes[i]);
        mt_try(lh_host_copy_file(mt_comm(), from, sizes[i], has_one ? NULL : to));
        if (!has_one) check_copy(sizes[i]);
        close_folder();
    }
    mt_end();
}
END_TEST

START_TEST(test_no_host_has_half_of_it)
{
    const int last = mt_rank() == mt_size() - 1;
    open_folder(1000);
    mt_expect(lh_host_copy_file(mt_comm(), from, 1000, last ? "/none/to" : to), LH_EWRITE);
    mt_check(access(to, F_OK) != 0, "'%s' is there", to);
    mt_expect(lh_host_copy_file(mt_comm(), from, 1001, to), LH_EINPUT); /* it was cut off meanwhile */
    mt_expect(lh_host_copy_file(mt_comm(), last ? "/none" : from, 1000, to), LH_EINPUT);
    close_folder();
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host copy");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_every_host_has_the_file);
    tcase_add_test(tc, test_no_host_has_half_of_it);
    suite_add_tcase(suite, tc);
    return mt_run(suite);
}
