/* folder.h - a folder of its own for a test, and the check of an error message. */
#ifndef LH_TESTS_BASE_FOLDER_H
#define LH_TESTS_BASE_FOLDER_H

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/temporary.h"

enum { FOLDER_BYTES = TEMPORARY_BYTES };

/* Makes a folder and enters it. */
static inline void folder_enter(char folder[FOLDER_BYTES])
{
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    ck_assert_int_eq(chdir(folder), 0);
}

/* Leaves and removes it; fails when the test left files in it. */
static inline void folder_leave(const char *folder)
{
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* A call ended with `want`, and the message contains `part`. */
static inline void check_message(lh_status st, lh_status want, const char *part)
{
    ck_assert_int_eq(st, want);
    ck_assert_msg(strstr(lh_error_message(), part), "'%s' does not name %s", lh_error_message(), part);
}

#endif
