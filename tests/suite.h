/* suite.h - the main function of a serial Check program; every test runs in a child of its own. */
#ifndef LH_TESTS_SUITE_H
#define LH_TESTS_SUITE_H

#include <check.h>

/* Run the tests (ends with NULL); the exit status of the program. */
static inline int suite_run(const char *name, const TTest *const *tests)
{
    Suite *suite = suite_create(name);
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    for (; *tests; tests++) tcase_add_test(all, *tests);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
