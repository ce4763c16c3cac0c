#include "mpi_check.h"
#include "base/temporary.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static const double TIMEOUT_S = 120;

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
int __lsan_do_recoverable_leak_check(void);
void __lsan_disable(void);
void __lsan_enable(void);
const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void);
const char *__asan_default_options(void);

/* MPI keeps much until the process ends, from its start on and from its first messages. */
static lh_status open_world(lh_comm **comm)
{
    __lsan_disable();
    lh_status st = lh_comm_open_world(comm, TIMEOUT_S);
    __lsan_enable();
    return st;
}

const char *__lsan_default_suppressions(void)
{
    return "leak:libmpi\nleak:libopen-pal\nleak:libopen-rte\nleak:libpmix\nleak:libhwloc\nleak:mca_\nleak:libevent\n";
}

const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}

/* What MPI_Finalize unloads cannot be told from a leak any more: look before it instead. */
const char *__asan_default_options(void)
{
    return "leak_check_at_exit=0";
}

static int leaked(void)
{
    return __lsan_do_recoverable_leak_check();
}
#else
static lh_status open_world(lh_comm **comm)
{
    return lh_comm_open_world(comm, TIMEOUT_S);
}

static int leaked(void)
{
    return 0;
}
#endif

/* A test program has one world and runs one test at a time. */
static struct {
    lh_comm *comm;
    int failed;
    char why[1024];
} now;

lh_comm *mt_comm(void)
{
    return now.comm;
}

int mt_rank(void)
{
    return lh_comm_rank(now.comm);
}

int mt_size(void)
{
    return lh_comm_size(now.comm);
}

void mt_record(int passed, const char *file, int line, const char *format, ...)
{
    if (passed || now.failed) return;
    const char *name = strrchr(file, '/');
    int n = snprintf(now.why, sizeof now.why, "%s:%d: ", name ? name + 1 : file, line);
    va_list ap;
    va_start(ap, format);
    vsnprintf(now.why + n, sizeof now.why - (size_t)n, format, ap);
    va_end(ap);
    now.failed = 1;
}

void mt_record_status(lh_status got, lh_status expected, const char *file, int line, const char *call)
{
    mt_record(got == expected, file, line, "%s gave '%s', not '%s'%s%s", call, lh_status_name(got),
              lh_status_name(expected), got == LH_OK ? "" : ": ", got == LH_OK ? "" : lh_error_message());
}

void mt_folder_make(char folder[MT_FOLDER_BYTES])
{
    if (mt_rank() == 0) {
        if (!mkdtemp(temporary_name(folder, "/tmp"))) abort();
    }
    mt_try(lh_comm_bcast(mt_comm(), 0, folder, MT_FOLDER_BYTES));
}

void mt_folder_remove(const char *folder)
{
    char command[128];
    mt_try(lh_comm_barrier(mt_comm()));
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (mt_rank() == 0 && system(command) != 0) mt_check(0, "cannot remove %s", folder);
}

void mt_finish(void)
{
    lh_status st = LH_OK;
    if (now.failed) st = lh_fail(LH_EINTERNAL, __FILE__, __LINE__, "%s", now.why);
    now.failed = 0;
    st = lh_comm_agree(now.comm, st);
    if (st != LH_OK) ck_abort_msg("%s", lh_error_message());
}

int mt_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed = 1;
    srunner_set_fork_status(runner, CK_NOFORK);
    if (open_world(&now.comm) != LH_OK) {
        fprintf(stderr, "%s\n", lh_error_message());
        srunner_free(runner);
        return LH_ECOMM;
    }
    lh_log_set_rank(mt_rank(), mt_size());
    srunner_run_all(runner, mt_rank() == 0 ? CK_NORMAL : CK_SILENT);
    failed = srunner_ntests_failed(runner) != 0;
    srunner_free(runner);
    failed |= leaked();
    lh_comm_close(now.comm);
    return failed;
}
