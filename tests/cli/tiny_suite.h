/* tiny_suite.h - the main function of tests that run the tiny model (tiny.h) on one short text. */
#ifndef LH_TESTS_CLI_TINY_SUITE_H
#define LH_TESTS_CLI_TINY_SUITE_H

#include <stdio.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

/* As suite_run, in a folder of its own with tiny.h5 and 300 bytes of sentences in `text`. */
static inline int tiny_suite_run(const char *name, const TTest *const *tests)
{
    program_result r = {0};
    lh_buf text = {0};
    program_enter();
    tiny_write("tiny");
    tiny_sentences(&text);
    text.data[300] = 0;
    program_file("text", text.data);
    lh_buf_clear(&text);
    program_run(&r, 1, "import tiny -o tiny.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run(name, tests);
    program_leave();
    return code;
}

#endif
