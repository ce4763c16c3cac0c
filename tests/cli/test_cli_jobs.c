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

#define JOB_LINE                                                                                  \
    "SLURM_JOB_ID=${SLURM_JOB_ID:-17} LONGHAUL=" LONGHAUL " PATH=$PWD/bin:$PATH bash " SOURCE_DIR \
    "/jobs/longhaul.sbatch "
#define JOB "--version > version; " JOB_LINE

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

/* What the plan would take for granted without them. */
START_TEST(test_a_job_that_does_not_fit_ends_before_it_starts)
{
    program_result r = {0};
    program_run(&r, 1, "--version > version; rm -f srun.log");
    program_run(&r, 1, JOB "tiny.h5 book 'Who did it?' --memory 4K");
    program_exits(&r, 5);
    program_says(&r, "the run does not fit");
    program_run(&r, 1, "--version > version; test -e srun.log");
    program_exits(&r, 1);
    program_run(&r, 1,
                JOB "tiny.h5 book 'Who did it?' --policy snapkv --window 16 --budget 40 -- --max-new 4 --seed 3");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "policy snapkv --window 16 --budget 40"));
    program_run(&r, 1, "--version > version; grep -e '--window 16 --budget 40 --max-new 4 --seed 3' srun.log");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* Ranks of other nodes have the memory of their own. */
START_TEST(test_a_job_on_several_nodes_counts_the_memory_of_each)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > version; export SLURM_NNODES=2 SLURM_NTASKS=2 SLURM_MEM_PER_NODE=1; " JOB_LINE
                "tiny.h5 book 'Who did it?' --budget 40 -- --max-new 4");
    program_exits(&r, 5);
    program_run(&r, 1,
                "--version > version; export SLURM_NNODES=2 SLURM_NTASKS=2 SLURM_MEM_PER_NODE=1024; " JOB_LINE
                "tiny.h5 book 'Who did it?' --budget 40 -- --max-new 4");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "fits in this memory: yes (1.00 GiB per rank)"), 1);
    program_clear(&r);
}
END_TEST

START_TEST(test_a_job_finds_the_program_or_says_where_it_may_be)
{
    static const char *const places[] = {"cp -s " LONGHAUL " bin/longhaul",
                                         "mkdir -p from/build && cp -s " LONGHAUL " from/build/longhaul"};
    static const char script[] =
        "mkdir -p from/jobs && cp " SOURCE_DIR "/jobs/* from/jobs && SLURM_JOB_ID=17 "
        "PATH=$PWD/bin:/usr/bin:/bin bash from/jobs/longhaul.sbatch tiny.h5 book 'Who did it?' "
        "--budget 40 -- --max-new 4";
    program_result r = {0};
    for (int i = 0; i < 2; i++) {
        program_run(&r, 1, "--version > version; %s && %s", places[i], script);
        program_exits(&r, 0);
        program_run(&r, 1, "--version > version; rm -rf bin/longhaul from; %s", script);
        program_exits(&r, 2);
        ck_assert_msg(strstr(r.err.data, "put longhaul on PATH, or submit with LONGHAUL="), "%s", r.err.data);
    }
    program_clear(&r);
}
END_TEST

/* As Slurm does: the job that was interrupted starts once more, with the state of its run. */
START_TEST(test_an_interrupted_job_is_queued_again_and_goes_on)
{
    static const char job[] =
        "--version > version; export SLURM_JOB_ID=17 SLURM_RESTART_COUNT=%d INTERRUPT=%d; " JOB_LINE
        "tiny.h5 book 'Who did it?' --budget 40 -- --max-new 1500 --ignore-eos";
    program_result r = {0};
    program_run(&r, 1, job, 0, 1);
    program_exits(&r, 75);
    ck_assert_msg(strstr(r.out.data, "scontrol requeue 17\n"), "%s", r.out.data);
    program_run(&r, 1, job, 1, 0);
    program_exits(&r, 0);
    ck_assert_ptr_null(strstr(r.out.data, "requeue"));
    ck_assert_msg(strstr(r.err.data, "the run continues after ") != NULL, "%s", r.err.data);
    program_run(&r, 1,
                "generate -m tiny.h5 -f book --question 'Who did it?' --scenario question-aware --budget 40 "
                "--max-new 1500 --ignore-eos > whole && cmp whole longhaul-17.answer.txt");
    program_exits(&r, 0);
    program_run(&r, 1, "--version > version; grep -c '\"prompt_tokens\"' longhaul-17.answer.json");
    ck_assert_str_eq(r.out.data, "1\n");
    program_run(&r, 1, "--version > version; ls longhaul-17-*.state.h5");
    program_exits(&r, 2); /* nothing is left of it */
    program_run(&r, 1, job, 5, 1);
    program_exits(&r, 75);
    ck_assert_ptr_null(strstr(r.out.data, "requeue"));
    program_clear(&r);
}
END_TEST

/* A job number comes again, and so does a process number where there is no Slurm. */
START_TEST(test_a_state_belongs_to_its_own_document_alone)
{
    static const char job[] = "--version > version; export SLURM_JOB_ID=22 INTERRUPT=%d; " JOB_LINE
                              "tiny.h5 %s '%s' --budget 40 -- --max-new 1500 --ignore-eos";
    static const char *const others[][2] = {{"page", "Who did it?"}, {"book", "Why?"}};
    program_result r = {0};
    program_run(&r, 1, job, 1, "book", "Who did it?");
    program_exits(&r, 75);
    for (int i = 0; i < 2; i++) {
        program_run(&r, 1, job, 0, others[i][0], others[i][1]);
        program_exits(&r, 0);
        ck_assert_msg(!strstr(r.err.data, "the run continues after "), "%s", r.err.data);
    }
    program_run(&r, 1, job, 0, "book", "Who did it?");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "the run continues after ") != NULL, "%s", r.err.data);
    program_clear(&r);
}
END_TEST

START_TEST(test_a_document_that_is_missing_is_said_once)
{
    program_result r = {0};
    program_run(&r, 1, JOB "tiny.h5 none 'Who did it?' --budget 40");
    program_exits(&r, 3);
    program_says(&r, "cannot open 'none'");
    program_clear(&r);
}
END_TEST

START_TEST(test_a_job_that_slurm_does_not_queue_again_says_so)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > version; mkdir -p full; cp bin/srun full; printf '#!/bin/sh\\n[ $1 != requeue ]\\n' > "
                "full/scontrol; chmod +x full/scontrol; SLURM_JOB_ID=23 INTERRUPT=1 LONGHAUL=" LONGHAUL
                " PATH=$PWD/full:$PATH bash " SOURCE_DIR
                "/jobs/longhaul.sbatch tiny.h5 book 'Who did it?' --budget 40 -- --max-new 1500 --ignore-eos");
    program_exits(&r, 75);
    ck_assert_msg(strstr(r.err.data, "Slurm did not queue the job again: submit it again") != NULL, "%s", r.err.data);
    ck_assert_ptr_null(strstr(r.out.data, "the job is queued again"));
    program_clear(&r);
}
END_TEST

/* The original is found whatever its path is, and no file of another folder is sourced in its place. */
START_TEST(test_a_script_in_a_folder_with_blanks_finds_itself)
{
    static const char *const scripts[] = {"longhaul", "array", "eval", "trace"};
    program_result r = {0};
    program_run(&r, 1,
                "--version > version; mkdir -p 'my dir/my jobs' spool asks && cp " SOURCE_DIR
                "/jobs/* 'my dir/my jobs' && echo 'echo a planted ranks.sh runs; exit 9' > ranks.sh && "
                "cp bin/srun asks && printf '#!/bin/sh\\necho JobId=24 JobName=x\\necho \"   Command=$PWD/my dir/my "
                "jobs/$JOB.sbatch a/b.sbatch c\"\\n' > asks/scontrol && chmod +x asks/scontrol");
    program_exits(&r, 0);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        program_run(&r, 1,
                    "--version > version; cp " SOURCE_DIR "/jobs/%s.sbatch spool/slurm_script; JOB=%s SLURM_JOB_ID=24 "
                    "LONGHAUL=" LONGHAUL " PATH=$PWD/asks:$PATH bash spool/slurm_script",
                    scripts[i], scripts[i]);
        program_exits(&r, 2);
        ck_assert_msg(strstr(r.err.data, "error: usage: sbatch ") != NULL, "%s%s", r.out.data, r.err.data);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_a_job_that_goes_on_has_the_options_it_was_given)
{
    static const char job[] =
        "--version > version; export SLURM_JOB_ID=19 SLURM_RESTART_COUNT=%d INTERRUPT=%d; " JOB_LINE
        "tiny.h5 book 'Who did it?' --policy snapkv -b 40 --window=16 --dtype f32 --kv-dtype=f32 --deterministic "
        "--max-new 1500 -- --ignore-eos";
    program_result r = {0};
    program_run(&r, 1, job, 0, 1);
    program_exits(&r, 75);
    program_run(&r, 1, job, 1, 0);
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "the run continues after ") != NULL, "%s", r.err.data);
    program_run(&r, 1,
                "--version > version; grep -e '--resume longhaul-19-[0-9a-f]*.state.h5 --json-file "
                "longhaul-19.answer.json --prompt-file book --question Who did it? --scenario question-aware --policy "
                "snapkv -b 40 --window=16 --dtype f32 --kv-dtype=f32 "
                "--deterministic --max-new 1500 --ignore-eos' srun.log");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* The scripts look for themselves in a Slurm that may not answer. */
START_TEST(test_a_job_needs_no_answer_of_scontrol)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > version; mkdir -p mute; cp bin/srun mute; printf '#!/bin/sh\\nexit 1\\n' > mute/scontrol; "
                "chmod +x mute/scontrol; SLURM_JOB_ID=20 LONGHAUL=" LONGHAUL " PATH=$PWD/mute:$PATH bash " SOURCE_DIR
                "/jobs/longhaul.sbatch tiny.h5 book 'Who did it?' --budget 40 --max-new 4");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* An output of an earlier batch is none of this one's. */
START_TEST(test_parts_that_cannot_be_joined_fail_the_job)
{
    program_result r = {0};
    program_file("requests.jsonl", "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":"
                                   "{\"model\":\"tiny\",\"prompt\":\"It was\",\"max_tokens\":2}}\n");
    program_file("mergeless", "#!/bin/sh\n[ $1 != merge ] || exit 6\nexec " LONGHAUL " \"$@\"\n");
    program_file("out.jsonl", "an older one\n");
    for (int fails = 0; fails < 2; fails++) {
        program_run(&r, 1,
                    "--version > version; chmod +x mergeless; printf '#!/bin/sh\\n' > bin/sleep; chmod +x bin/sleep; "
                    "SLURM_JOB_ID=21 LONGHAUL=%s PATH=$PWD/bin:$PATH bash " SOURCE_DIR
                    "/jobs/array.sbatch 1 out.jsonl -m tiny.h5 -i requests.jsonl; code=$?; rm bin/sleep; exit $code",
                    fails ? "$PWD/mergeless" : LONGHAUL);
        program_exits(&r, fails ? 6 : 0);
    }
    program_clear(&r);
}
END_TEST

/* An error of a request fails the job unless it may; a run that '--max-errors' has ended fails it in any case. */
START_TEST(test_a_job_may_allow_failed_requests)
{
    static const char job[] = "--version > version; rm -f few.jsonl*; JOB_ALLOW_FAILED=%d SLURM_JOB_ID=26 "
                              "LONGHAUL=" LONGHAUL " PATH=$PWD/bin:$PATH bash " SOURCE_DIR
                              "/jobs/array.sbatch 1 few.jsonl -m tiny.h5 -i some.jsonl -q --metrics few.%%j.prom %s";
    program_result r = {0};
    program_file("some.jsonl", "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":"
                               "{\"prompt\":\"It was\",\"max_tokens\":2}}\nno request\nnone either\n");
    program_run(&r, 1, job, 0, "");
    program_exits(&r, 1);
    program_run(&r, 1, job, 1, "");
    program_exits(&r, 0);
    program_run(&r, 1, "--version > version; grep -c . few.jsonl && ls few.26.0-of-1.prom");
    ck_assert_str_eq(r.out.data, "3\nfew.26.0-of-1.prom\n");
    program_run(&r, 1, job, 1, "--max-errors 0");
    program_exits(&r, 1);
    program_clear(&r);
}
END_TEST

/* A part whose output is gone is not an empty one; a part without a request has no output. */
START_TEST(test_a_part_that_is_lost_fails_the_array)
{
    static const char part[] =
        "--version > version; SLURM_JOB_ID=25 PART=%d LONGHAUL=" LONGHAUL " PATH=$PWD/bin:$PATH bash " SOURCE_DIR
        "/jobs/array.sbatch 3 parts.jsonl -m tiny.h5 -i two.jsonl -q";
    program_result r = {0};
    program_file("two.jsonl", "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":"
                              "{\"prompt\":\"It was\",\"max_tokens\":2}}\n"
                              "{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":"
                              "{\"prompt\":\"It was\",\"max_tokens\":2}}\n");
    for (int i = 0; i < 2; i++) {
        program_run(&r, 1, part, i);
        program_exits(&r, 0);
        ck_assert_msg(strstr(r.out.data, "is not done yet") != NULL, "%s", r.out.data);
    }
    rename("parts.jsonl.0-of-3", "away");
    program_run(&r, 1, part, 2);
    program_exits(&r, 3);
    ck_assert_msg(strstr(r.err.data, "'parts.jsonl.0-of-3' is gone, and had the lines of 1 requests") != NULL, "%s",
                  r.err.data);
    ck_assert(access("parts.jsonl", F_OK) != 0);
    rename("away", "parts.jsonl.0-of-3");
    program_run(&r, 1, part, 2);
    program_exits(&r, 0);
    program_run(&r, 1, "--version > version; grep -c custom_id parts.jsonl");
    ck_assert_str_eq(r.out.data, "2\n");
    /* parts of a smaller input are joined with no part of the grown one */
    program_run(&r, 1,
                "--version > version; sed 's/\"b\"/\"c\"/;s/\"a\"/\"d\"/' two.jsonl > more && cat more >> two.jsonl");
    program_run(&r, 1, part, 0);
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "part 1 of 3 is not done yet") != NULL, "%s", r.out.data);
    program_clear(&r);
}
END_TEST

/* With a program that says what it was asked. */
START_TEST(test_a_job_with_gpus_asks_for_them)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > version; export SLURM_GPUS_PER_TASK=1 SLURM_NNODES=2 SLURM_NTASKS=8; SLURM_JOB_ID=18 "
                "LONGHAUL=bin/echoes "
                "PATH=$PWD/bin:$PATH bash " SOURCE_DIR "/jobs/longhaul.sbatch m.h5 book 'Who did it?' --budget 40");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "plan -m m.h5 --context 1 --tp 8 --device cuda --budget 40"), "%s", r.out.data);
    program_run(&r, 1, "--version > version; grep -e '--device cuda --resume longhaul-18-' longhaul-18.answer.txt");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* jobs/common.sh with a cmake that only says what it was asked: a build folder of another checkout is made anew. */
START_TEST(test_a_moved_checkout_is_configured_anew)
{
    static const char script[] =
        "--version > version; rm -rf moved && mkdir -p moved/jobs moved/build moved/bin && cp " SOURCE_DIR
        "/jobs/common.sh moved/jobs && printf '#!/bin/sh\\necho \"$@\" >> said\\n' > moved/bin/cmake && "
        "chmod +x moved/bin/cmake && cd moved && %s && "
        "PATH=$PWD/bin:$PATH bash -euc '. jobs/common.sh; build release build longhaul' && cat said";
    static const struct {
        const char *prepare;
        int fresh;
    } cases[] = {
        {"true", 0},
        {"printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\\nCMAKE_CACHEFILE_DIR:INTERNAL=%s/build\\n' $PWD $PWD > "
         "build/CMakeCache.txt",
         0},
        {"printf 'CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\\nCMAKE_CACHEFILE_DIR:INTERNAL=/elsewhere/build\\n' "
         "> build/CMakeCache.txt",
         1}};
    program_result r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run(&r, 1, script, cases[i].prepare);
        program_exits(&r, 0);
        ck_assert_msg((strstr(r.out.data, "--fresh") != NULL) == cases[i].fresh, "case %d: %s", (int)i, r.out.data);
    }
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_policy_of_a_job_sees_the_question,
                                  test_a_job_that_does_not_fit_ends_before_it_starts,
                                  test_a_job_on_several_nodes_counts_the_memory_of_each,
                                  test_a_job_finds_the_program_or_says_where_it_may_be,
                                  test_an_interrupted_job_is_queued_again_and_goes_on,
                                  test_a_state_belongs_to_its_own_document_alone,
                                  test_a_document_that_is_missing_is_said_once,
                                  test_a_job_that_slurm_does_not_queue_again_says_so,
                                  test_a_script_in_a_folder_with_blanks_finds_itself,
                                  test_a_part_that_is_lost_fails_the_array,
                                  test_a_job_may_allow_failed_requests,
                                  test_a_job_that_goes_on_has_the_options_it_was_given,
                                  test_a_job_needs_no_answer_of_scontrol,
                                  test_parts_that_cannot_be_joined_fail_the_job,
                                  test_a_job_with_gpus_asks_for_them,
                                  test_a_moved_checkout_is_configured_anew,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    program_file("book",
                 "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
                 "foolishness, it was the epoch of belief, it was the epoch of incredulity.\n");
    program_file("page", "It was the season of light, it was the season of darkness, it was the spring of hope.\n");
    program_must(mkdir("bin", 0777) == 0, "a folder for srun");
    /* Its own options go, the program and its arguments stay. */
    program_file("bin/srun", "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\necho \"$@\" >srun.log\n"
                             "if [ \"${INTERRUPT:-0}\" = 1 ]; then\n\"$@\" &\np=$!\n"
                             "while kill -0 $p && ! ls longhaul-$SLURM_JOB_ID-*.state.h5; do sleep 0.01; done "
                             ">/dev/null 2>&1\nkill -USR1 $p\nwait $p\nexit $?\nfi\nexec \"$@\"\n");
    program_file("bin/scontrol", "#!/bin/sh\necho scontrol \"$@\"\n");
    program_file("bin/echoes", "#!/bin/sh\nif [ $1 = tokenize ]; then echo 1; else echo \"$@\"; fi\n");
    program_must(chmod("bin/srun", 0777) == 0 && chmod("bin/scontrol", 0777) == 0 && chmod("bin/echoes", 0777) == 0,
                 "the programs of Slurm");
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli jobs", tests);
    program_leave();
    return code;
}
