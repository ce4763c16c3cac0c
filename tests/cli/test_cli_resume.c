/* An evaluation that is interrupted or killed replaces nothing, and the same command goes on with it. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define NEEDLE                                                                                                       \
    "eval needle -m tiny.h5 --haystack hay --length 200 --depth 0.1:0.9:30 --policy h2o,snapkv --budget 40 -n 3 -q " \
    "--deterministic --chat=off "
#define FIDELITY                                                                                                   \
    "eval fidelity -m tiny.h5 --text hay --length 60 --count 40 --policy h2o --budget 20 -n 8 -q --deterministic " \
    "--reconstruct --repeat-max 4 "
#define PPL                                                                                             \
    "eval ppl -m tiny.h5 --text hay --context 60,90 --score 30 --count 30 --policy h2o --budget 20 -q " \
    "--deterministic "
#define CHOICE "eval choice -m tiny.h5 --data c.jsonl --policy h2o --budget 20 -q --deterministic "

/* Runs the command in the background, sends `signal` to it when three prompts are in `kept`, and waits for its end. */
static void cut(program_result *r, int ranks, const char *command, const char *kept, const char *signal)
{
    program_run(r, ranks,
                "%s > shown & p=$!; "
                "while kill -0 $p && test $(cat %s 2>/dev/null | wc -l) -lt 4; do sleep 0.02; done; "
                "kill -%s $p; wait $p; exit $?",
                command, kept, signal);
}

/* The same bytes in both files. */
static void same(const char *a, const char *b)
{
    program_result r = {0};
    program_run(&r, 1, "--version > v && cmp %s %s", a, b);
    program_exits(&r, 0);
    program_clear(&r);
}

START_TEST(test_an_interrupt_replaces_nothing_and_the_same_command_goes_on)
{
    program_result r = {0};
    program_run(&r, 1, NEEDLE "--csv whole.csv --answers whole.txt > whole");
    program_exits(&r, 0);
    for (int ranks = 1; ranks <= 4; ranks++) {
        program_file("o.csv", "good results\n");
        program_file("o.txt", "good answers\n");
        cut(&r, ranks, NEEDLE "--csv o.csv --answers o.txt", "o.txt.resume", "USR1");
        program_exits(&r, 75);
        ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted after "), 1);
        program_run(&r, 1,
                    "--version > v && cat o.csv o.txt && grep -c . shown && test $(wc -l < o.txt.resume) -lt 61");
        program_exits(&r, 0);
        ck_assert_int_eq(strncmp(r.out.data, "good results\ngood answers\n", 26), 0);
        program_run(&r, ranks % 4 + 1, NEEDLE "--csv o.csv --answers o.txt > shown"); /* on other ranks */
        program_exits(&r, 0);
        same("o.csv", "whole.csv");
        same("o.txt", "whole.txt");
        same("shown", "whole");
        program_run(&r, 1, "--version > v; ls o.*.resume *.partial");
        ck_assert_str_eq(r.out.data, "");
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_an_interrupt_before_the_first_prompt_keeps_nothing_and_says_so)
{
    program_result r = {0};
    for (int ranks = 1; ranks <= 2; ranks++) {
        program_run(&r, ranks,
                    "%s --length 700 -n 200 --threads 1 --csv n.csv > shown & p=$!; "
                    "until test -e n.csv.resume || ! kill -0 $p; do :; done; kill -USR1 $p; wait $p; exit $?",
                    NEEDLE);
        program_exits(&r, 75);
        ck_assert_msg(strstr(r.err.data, "no file was replaced; none is kept"), "%s", r.err.data);
        program_run(&r, 1, "--version > v; ls n.csv*");
        ck_assert_str_eq(r.out.data, "");
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_a_killed_run_goes_on)
{
    static const char *const commands[] = {NEEDLE, FIDELITY, PPL, CHOICE};
    program_result r = {0};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[512];
        program_run(&r, 1, "%s --csv whole.csv --answers whole.txt > whole", commands[i]);
        program_exits(&r, 0);
        program_run(&r, 1, "--version > v; rm -f o.csv o.txt o.h5");
        snprintf(line, sizeof line, "%s --csv o.csv --answers o.txt -o o.h5", commands[i]);
        for (int times = 0; times < 2; times++) {
            cut(&r, 1, line, "o.h5.resume", "KILL");
            program_exits(&r, 128 + 9);
            program_run(&r, 1, "--version > v; ls o.csv o.txt o.h5 2>&1 | grep -v cannot");
            ck_assert_str_eq(r.out.data, "");
        }
        program_run(&r, 1, "%s > shown", line);
        program_exits(&r, 0);
        same("o.csv", "whole.csv");
        same("o.txt", "whole.txt");
        same("shown", "whole");
        program_run(&r, 1, "verify o.h5 -q && rm o.csv o.txt o.h5");
        program_exits(&r, 0);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_what_was_kept_is_not_used_for_something_else)
{
    program_result r = {0};
    cut(&r, 1, NEEDLE "--csv o.csv", "o.csv.resume", "INT");
    program_exits(&r, 75);
    program_run(&r, 1, "--version > v && cp o.csv.resume before");
    static const struct {
        const char *part, *line;
    } cases[] = {
        {"'--depth' was \"0.1:0.9:30\" and is \"0.5\"", NEEDLE "--csv o.csv --depth 0.5"},
        {"'--policy' was", NEEDLE "--csv o.csv --policy h2o"},
        {"the data was", "eval needle -m tiny.h5 --haystack other --length 200 --depth 0.1:0.9:30 --policy h2o,snapkv "
                         "--budget 40 -n 3 -q --deterministic --chat=off --csv o.csv"},
        {"the model was", "eval needle -m other.h5 --haystack hay --length 200 --depth 0.1:0.9:30 --policy h2o,snapkv "
                          "--budget 40 -n 3 -q --deterministic --chat=off --csv o.csv"},
        {"the task was", FIDELITY "--csv o.csv"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) program_refuses(1, 2, cases[i].part, cases[i].line);
    program_refuses(2, 2, "'--depth' was", NEEDLE "--csv o.csv --depth 0.5");
    same("o.csv.resume", "before");
    program_run(&r, 1, NEEDLE "--depth 0.5 --csv new.csv > shown"); /* other outputs are free */
    program_exits(&r, 0);
    program_run(&r, 1, NEEDLE "--csv o.csv --json --threads 1 --together 1 --log-file log > shown");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* Everything was computed, and one output could not be written: the next run only writes. */
START_TEST(test_what_could_not_be_written_is_written_by_the_next_run)
{
    program_result r = {0};
    json_error_t error;
    for (int ranks = 1; ranks <= 4; ranks++) {
        program_run(&r, ranks, NEEDLE "--csv /dev/full --answers a.csv -o a.h5 --depth 0.5 --json > shown");
        program_exits(&r, 6);
        program_says(&r, "cannot write '/dev/full'");
        json_t *o = json_load_file("shown", 0, &error);
        ck_assert_msg(json_array_size(json_object_get(o, "prompts")) == 6, "%s", error.text);
        json_decref(o);
        program_run(&r, 1, "verify a.h5 -q && test -s a.csv && test $(wc -l < a.h5.resume) = 3");
        program_exits(&r, 0);
        program_run(&r, ranks, NEEDLE "--csv a2.csv --answers a.csv -o a.h5 --depth 0.5 --json > again");
        program_exits(&r, 0);
        same("shown", "again");
        program_run(&r, 1, "--version > v; ls a.h5.resume; rm a2.csv a.csv a.h5");
        ck_assert_str_eq(r.out.data, "");
    }
    program_clear(&r);
}
END_TEST

static void write_haystack(void)
{
    lh_buf hay = {0};
    tiny_sentences(&hay);
    program_file("hay", hay.data);
    hay.data[0] = 's';
    program_file("other", hay.data);
    hay.bytes = 0;
    for (int i = 0; i < 80; i++)
        program_must(lh_buf_printf(&hay,
                                   "{\"question\": \"What is number %d, and what comes after it?\", \"choices\": "
                                   "[\"one\", \"two\", \"many\"], \"answer\": %d}\n",
                                   i, i % 3) == LH_OK,
                     "memory");
    program_file("c.jsonl", hay.data);
    lh_buf_clear(&hay);
}

int main(void)
{
    const TTest *const tests[] = {test_an_interrupt_replaces_nothing_and_the_same_command_goes_on,
                                  test_an_interrupt_before_the_first_prompt_keeps_nothing_and_says_so,
                                  test_a_killed_run_goes_on,
                                  test_what_was_kept_is_not_used_for_something_else,
                                  test_what_could_not_be_written_is_written_by_the_next_run,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    write_haystack();
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q && " LONGHAUL " import tiny -o other.h5 --dtype bf16 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli resume", tests);
    program_leave();
    return code;
}
