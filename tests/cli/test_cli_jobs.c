/* The script of a Slurm cluster, with an srun that starts the program on this machine: what it asks for, and what it
 * does when a run would not fit. Lines begin with a command that does nothing, because the script is called by hand. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define JOB \
    "--version > version; export LONGHAUL=" LONGHAUL "; PATH=$PWD/bin:$PATH bash " SOURCE_DIR "/jobs/generate.slurm "

START_TEST(test_the_policy_of_a_job_sees_the_question)
{
    program_result r = {0};
    program_run(&r, 1, JOB "tiny.h5 book 'Who did it?' --budget 40 --max-new 4");
    program_exits(&r, 0);
    ck_assert_msg(!strstr(r.err.data, "warning"), "%s", r.err.data);
    program_run(&r, 1, "--version > version; grep -e '--scenario question-aware' srun.log");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_policy_of_a_job_sees_the_question, NULL};
    program_enter();
    tiny_write("tiny");
    program_file("book",
                 "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
                 "foolishness, it was the epoch of belief, it was the epoch of incredulity.\n");
    program_must(mkdir("bin", 0777) == 0, "a folder for srun");
    /* Its own options go, the program and its arguments stay. */
    program_file("bin/srun", "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\necho \"$@\" >srun.log\n"
                             "exec \"$@\"\n");
    program_must(chmod("bin/srun", 0777) == 0, "srun");
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli jobs", tests);
    program_leave();
    return code;
}
