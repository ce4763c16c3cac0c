#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/program.h"
#include "suite.h"

/* What goes wrong between ranks, seen from outside. Lines begin with a command that does nothing, because mpirun is
 * called by hand. */
#define BY_HAND "--version > version; "

static const char bound[] = "each rank is bound to ";

/* Open MPI binds one or two ranks to a core each unless told otherwise: what that leaves idle is said once, with
 * numbers. */
START_TEST(test_cores_that_the_launcher_leaves_idle_are_warned_of)
{
    static const char line[] =
        BY_HAND MPIEXEC " --bind-to %s -n 1 " LONGHAUL " generate -m m.h5 -p a -n 2 --device cpu %s";
    program_result r = {0};
    char numbers[64], ranks[64];
    cpu_set_t cores;
    ck_assert_int_eq(sched_getaffinity(0, sizeof cores, &cores), 0);
    int n = CPU_COUNT(&cores);
    snprintf(numbers, sizeof numbers, " of %d cores: mpirun --bind-to none", n);
    snprintf(ranks, sizeof ranks, "1 rank x %d thread%s\n", n, n == 1 ? "" : "s");
    program_run(&r, 1, line, "none", "");
    program_exits(&r, 0);
    ck_assert_ptr_null(strstr(r.err.data, bound));
    ck_assert_msg(strstr(r.err.data, ranks), "%s", r.err.data);
    program_run(&r, 1, line, "core", "--threads 1"); /* as many as it is bound to: meant */
    program_exits(&r, 0);
    ck_assert_ptr_null(strstr(r.err.data, bound));
    ck_assert_msg(strstr(r.err.data, "1 rank x 1 thread\n"), "%s", r.err.data);
    program_run(&r, 1, line, "core", "");
    program_exits(&r, 0);
    const char *said = strstr(r.err.data, bound);
    if (n > 4) ck_assert_ptr_nonnull(said); /* a core may be several threads of the processor */
    if (n == 2 && !said) ck_assert_msg(strstr(r.err.data, ranks), "%s", r.err.data);
    if (said) ck_assert_msg(strstr(said, numbers) && !strstr(said + 1, bound), "%s", r.err.data);
    program_clear(&r);
}
END_TEST

/* Ranks with two threads each, the last of them in this environment: what they say, and the warning. */
static void with_limit(program_result *r, int ranks, const char *environment, const char *warning)
{
    static const char generate[] = LONGHAUL " generate -m m.h5 --dtype bf16 --threads 2 -f long -n 6 --ignore-eos";
    program_run(r, 1, BY_HAND MPIEXEC " -n %d %s : -n 1 env %s %s", ranks - 1, generate, environment, generate);
    program_exits(r, 0);
    const char *said = strstr(r->err.data, "threads compute");
    ck_assert_msg(warning ? strstr(r->err.data, warning) != NULL : !said, "%s", r->err.data);
    ck_assert_msg(!said || !strstr(said + 1, "threads compute"), "more than one warning: %s", r->err.data);
}

START_TEST(test_a_team_that_openmp_keeps_small_on_one_rank_is_warned_of_and_changes_no_token)
{
    program_result free_team = {0}, r = {0};
    char rank[64];
    program_run(&r, 1, "--version > version; i=0; while [ $i -lt 40 ]; do echo \"Line $i.\"; i=$((i+1)); done > long");
    for (int ranks = 2; ranks <= 3; ranks++) {
        with_limit(&free_team, ranks, "OMP_DYNAMIC=true", NULL);
        with_limit(&r, ranks, "OMP_THREAD_LIMIT=1", ": 1 of 2 threads compute (OMP_THREAD_LIMIT=1)\n");
        ck_assert_str_eq(r.out.data, free_team.out.data);
        snprintf(rank, sizeof rank, "warning: rank %d on ", ranks - 1);
        ck_assert_msg(strstr(r.err.data, rank), "%s", r.err.data);
    }
    program_clear(&free_team);
    program_clear(&r);
}
END_TEST

/* A thread that waits gives its core away where others want it: not by time, but by what was opened for it. */
START_TEST(test_every_command_that_computes_counts_its_threads_and_keeps_them_from_spinning)
{
    static const struct {
        const char *command, *threads, *source;
    } cases[] = {
        {"generate -m m.h5 -p a -n 1", "--threads 2", "--threads"},
        {"trace -m m.h5 -p 'a longer text of some tokens' -n 2 --ignore-eos -o t.h5", "--threads 2", "--threads"},
        {"replay t.h5 --policy streaming --budget 50% --analyse mass", "--threads 2", "--threads"},
        {"bench operations append --quick --device cpu", "--threads 2", "--threads"},
        {"bench collectives all-reduce --quick --device cpu", "", "OMP_NUM_THREADS=1"},
        {"bench reading -m m.h5 --quick", "", "OMP_NUM_THREADS=1"},
        {"import --random tiny -o again.h5 --force", "", "OMP_NUM_THREADS=1"},
    };
    program_result r = {0};
    char waits[256], says[320];
    FILE *f = fopen("/proc/self/schedstat", "r");
    setenv("OMP_NUM_THREADS", "1", 1);
    unsetenv("OMP_WAIT_POLICY");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int several = *cases[i].threads != '\0';
        program_run(&r, 1, "%s %s -v", cases[i].command, cases[i].threads);
        program_exits(&r, 0);
        snprintf(waits, sizeof waits, "%s", several && f ? ", which sleep while other processes want the cores" : "");
        snprintf(says, sizeof says, "%s (%s)%s\n", several ? "2 threads" : "1 thread", cases[i].source, waits);
        ck_assert_msg(strstr(r.err.data, says), "%s: no '%s' in %s", cases[i].command, says, r.err.data);
    }
    if (f) fclose(f);
    program_clear(&r);
}
END_TEST

START_TEST(test_info_names_the_threads_of_every_rank_and_their_source)
{
    program_result r = {0};
    setenv("OMP_NUM_THREADS", "1", 1);
    program_run(&r, 2, "info --json");
    program_exits(&r, 0);
    const char *first = strstr(r.out.data, "\"threads\":1,\"threads_from\":\"");
    ck_assert_msg(first && strstr(first + 1, "\"threads\":1,\"threads_from\":\""), "%s", r.out.data);
    setenv("OMP_THREAD_LIMIT", "1", 1);
    unsetenv("OMP_NUM_THREADS");
    program_run(&r, 1, "info");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "    threads: 1\n"), "%s", r.out.data);
    program_clear(&r);
}
END_TEST

START_TEST(test_ranks_with_different_options_are_told_apart)
{
    program_result r = {0};
    program_run(&r, 1,
                BY_HAND MPIEXEC " -n 1 " LONGHAUL " generate -m m.h5 -p a -n 4 : -n 1 " LONGHAUL
                                " generate -m m.h5 -p a -n 5");
    program_exits(&r, 2);
    program_says(&r, "the options of rank 1");
    program_clear(&r);
}
END_TEST

/* `line` in folder a on rank 0 and in folder b on the others. */
static void in_two_folders(program_result *r, int others, const char *line)
{
    program_run(r, 1, BY_HAND MPIEXEC " -n 1 --wdir $PWD/a " LONGHAUL " %s : -n %d --wdir $PWD/b " LONGHAUL " %s", line,
                others, line);
}

START_TEST(test_ranks_with_different_files_are_told_apart)
{
    static const struct {
        const char *here, *there; /* made from: import */
    } models[] = {{"--seed 1", "--seed 2"}, {"--dtype f32", "--dtype bf16"}};
    program_result r = {0};
    program_run(&r, 1, "--version > version && rm -rf a b && mkdir a b");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        program_run(&r, 1,
                    "import --random tiny %s -o a/x.h5 --force -q && " LONGHAUL
                    " import --random tiny %s -o b/x.h5 --force -q",
                    models[i].here, models[i].there);
        program_exits(&r, 0);
        for (int others = 1; others <= 2; others++) {
            in_two_folders(&r, others, "generate -m x.h5 -p hello -n 5 --ignore-eos");
            program_exits(&r, 4);
            program_says(&r, "the contents of 'x.h5' of rank 1 on ");
            ck_assert_str_eq(r.out.data, "");
        }
    }
    program_run(&r, 1, "--version > version && cp m.h5 a/x.h5 && cp m.h5 b/x.h5");
    in_two_folders(&r, 1, "generate -m x.h5 -p hello -n 5 --ignore-eos -q");
    program_exits(&r, 0);
    program_run(&r, 1,
                "generate -m m.h5 -p 'One text' -n 1 --save-cache a/c.h5 -q && " LONGHAUL
                " generate -m m.h5 -p 'Two text' -n 1 --save-cache b/c.h5 -q");
    program_exits(&r, 0);
    in_two_folders(&r, 2, "generate -m x.h5 --load-cache c.h5 -n 5 --ignore-eos");
    program_exits(&r, 4);
    program_says(&r, "the contents of 'c.h5' of rank 1 on ");
    program_run(&r, 1, "--version > version && rm -r a b");
    program_clear(&r);
}
END_TEST

/* An attribute that was changed behind the back of the seal: what reads weights does not see it, the probe does. */
START_TEST(test_a_file_is_probed_where_it_is_read)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > version && rm -rf a b && mkdir a b && cp m.h5 a/x.h5 && "
                "LC_ALL=C sed 's/longhaul 0/longhaul 9/' m.h5 > b/x.h5 && ! cmp -s m.h5 b/x.h5");
    program_exits(&r, 0);
    in_two_folders(&r, 1, "generate -m x.h5 -p hello -n 5");
    program_exits(&r, 4);
    program_says(&r, "rank 1 on ");
    program_says(&r, "'x.h5' is damaged: its attributes hash to");
    program_run(&r, 1, "--version > version && rm -r a b");
    program_clear(&r);
}
END_TEST

/* A copy of the program that says another commit, or another number where it was built outside a repository: of the
   same length, as it stands in the midst of the program. */
START_TEST(test_ranks_of_different_versions_are_told_apart)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > version; id=$(sed -n 's/^longhaul [^ ]* (\\([0-9a-f]*\\).*) (.*/\\1/p' version); "
                "id=${id:-0.2.0}; other=$(echo $id | tr 0-9a-f 1-9a-f0); id=$(echo $id | sed 's/[.]/[.]/g'); "
                "LC_ALL=C sed \"s/$id/$other/g\" " LONGHAUL
                " > other && chmod +x other && ./other --version > changed && ! cmp -s version changed");
    program_exits(&r, 0);
    program_run(&r, 1,
                BY_HAND MPIEXEC " -n 1 " LONGHAUL " generate -m m.h5 -p a -n 4 : -n 2 ./other generate -m m.h5 "
                                "-p a -n 4");
    program_exits(&r, 2);
    program_says(&r, "version and commit of longhaul of rank 1 on ");
    program_clear(&r);
}
END_TEST

/* Where ranks have to choose alike to the last bit, they must compute alike. */
START_TEST(test_ranks_of_different_instruction_sets_do_not_share_a_mixture)
{
    static const char mixed[] =
        BY_HAND MPIEXEC " -n 1 " LONGHAUL " generate -m %s -p a -n 2 --device cpu %s : -n 1 env "
                        "LONGHAUL_CPU_ISA=generic " LONGHAUL " generate -m %s -p a -n 2 --device cpu %s";
    static const char says[] = "instruction set of rank 1 on ";
    program_result r = {0};
    program_run(&r, 1, "info > info && ! grep -q 'cpu_instructions: generic' info");
    if (r.code) { /* there is only one */
        program_clear(&r);
        return;
    }
    program_run(&r, 1, "import " SOURCE_DIR "/tests/engine/families/mixtral -o mixture.h5 -q");
    program_exits(&r, 0);
    program_run(&r, 1, mixed, "mixture.h5", "", "mixture.h5", "");
    program_exits(&r, 2);
    program_says(&r, says);
    program_says(&r, "a mixture of experts needs one instruction set on all ranks: set LONGHAUL_CPU_ISA to the lowest");
    program_run(&r, 1, mixed, "m.h5", "--deterministic", "m.h5", "--deterministic");
    program_exits(&r, 2);
    program_says(&r, says);
    program_run(&r, 1, mixed, "m.h5", "", "m.h5", "");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* Who fails first must not take the launcher's end to the one that speaks. */
START_TEST(test_rank_0_speaks_when_all_ranks_fail_at_the_start)
{
    program_result r = {0};
    program_run(&r, 1,
                BY_HAND MPIEXEC " -n 1 sh -c 'sleep 1.5; exec " LONGHAUL
                                " generate -m m.h5 -p a --alpha 2' : -n 2 " LONGHAUL
                                " generate -m m.h5 -p a --alpha 2");
    program_exits(&r, 2);
    program_says(&r, "longhaul: '--alpha' needs a budget");
    program_clear(&r);
}
END_TEST

START_TEST(test_a_rank_that_fails_alone_at_the_start_says_so)
{
    program_result r = {0};
    program_run(&r, 1,
                BY_HAND MPIEXEC " -n 1 " LONGHAUL " generate -m m.h5 -p a : -n 1 " LONGHAUL
                                " generate -m m.h5 -p a --bogus");
    program_exits(&r, 2);
    program_says(&r, "longhaul: [rank 1] unknown option '--bogus'");
    program_run(&r, 2, "generate -m m.h5 -p a -n 1 --log-file 'logs.%%r/run'"); /* there is a folder for rank 0 only */
    program_exits(&r, 6);
    program_says(&r, "longhaul: [rank 1] cannot open log file");
    program_clear(&r);
}
END_TEST

/* Rank 1 is killed in the middle of an answer of a minute. */
START_TEST(test_a_rank_that_dies_ends_the_run)
{
    program_result r = {0};
    program_run(&r, 1,
                BY_HAND MPIEXEC " -n 2 " LONGHAUL " generate -m m.h5 -p a -n 100000 --ignore-eos > shown & p=$!; "
                                "sleep 3; read one two rest < /proc/$p/task/$p/children; echo $one $two > ranks; "
                                "kill -KILL $two; wait $p");
    ck_assert_int_ne(r.code, 0);
    ck_assert_int_ne(r.code, 75);
    program_run(&r, 1, BY_HAND "sleep 1; read one two < ranks; grep generate /proc/$one/cmdline /proc/$two/cmdline");
    ck_assert_int_ne(r.code, 0); /* nobody is left */
    program_clear(&r);
}
END_TEST

/* As srun starts ranks without PMIx: rank 0 says so, in place of what MPI would say, and all end. */
START_TEST(test_ranks_that_cannot_find_each_other_are_told)
{
    program_result r = {0};
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    setenv("SLURM_PROCID", "0", 1);
    program_refuses(1, 7, "srun started 2 ranks that cannot find each other", "generate -m m.h5 -p a");
    setenv("SLURM_PROCID", "1", 1);
    program_run(&r, 1, "generate -m m.h5 -p a");
    program_exits(&r, 7);
    ck_assert_str_eq(r.out.data, "");
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    setenv("SLURM_PROCID", "0", 1);
    program_run(&r, 1, "generate -m m.h5 -p a -n 1 -q");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_commands_on_files_work_once)
{
    program_result r = {0};
    program_run(&r, 2, "info m.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "kind: checkpoint"), 1);
    program_run(&r, 3, "verify m.h5");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "m.h5 is whole"), 1);
    program_run(&r, 2, "import --random tiny -o twice.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "verify twice.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_every_rank_writes_its_log)
{
    program_result r = {0};
    program_run(&r, 2,
                "generate -m m.h5 -p a -n 2 --ignore-eos --log-file 'run.%%r.log' > shown && test -s run.0.log -a -e "
                "run.1.log");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_team_that_openmp_keeps_small_on_one_rank_is_warned_of_and_changes_no_token,
                                  test_every_command_that_computes_counts_its_threads_and_keeps_them_from_spinning,
                                  test_info_names_the_threads_of_every_rank_and_their_source,
                                  test_ranks_with_different_options_are_told_apart,
                                  test_ranks_with_different_files_are_told_apart,
                                  test_a_file_is_probed_where_it_is_read,
                                  test_ranks_of_different_versions_are_told_apart,
                                  test_ranks_of_different_instruction_sets_do_not_share_a_mixture,
                                  test_rank_0_speaks_when_all_ranks_fail_at_the_start,
                                  test_a_rank_that_fails_alone_at_the_start_says_so,
                                  test_a_rank_that_dies_ends_the_run,
                                  test_ranks_that_cannot_find_each_other_are_told,
                                  test_commands_on_files_work_once,
                                  test_every_rank_writes_its_log,
                                  test_cores_that_the_launcher_leaves_idle_are_warned_of,
                                  NULL};
    program_enter();
    program_result r = {0};
    program_run(&r, 1, "import --random tiny -o m.h5 -q && mkdir logs.0");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli ranks", tests);
    program_leave();
    return code;
}
