#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "suite.h"

static int code_of(lh_status code, lh_status later, int own)
{
    int how = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        lh_exit_code_for_others(code);
        lh_exit_code_for_others(later);
        exit(own);
    }
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

START_TEST(test_a_library_that_ends_the_process_does_not_end_it_with_1)
{
    ck_assert_int_eq(code_of(LH_ECOMM, LH_ENOMEM, 1), LH_ENOMEM);
    ck_assert_int_eq(code_of(LH_ENOMEM, LH_OK, 1), 1);
    ck_assert_int_eq(code_of(LH_ENOMEM, LH_ENOMEM, 0), 0);
    ck_assert_int_eq(code_of(LH_ENOMEM, LH_ENOMEM, 3), 3);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_library_that_ends_the_process_does_not_end_it_with_1, NULL};
    return suite_run("exit code", tests);
}
